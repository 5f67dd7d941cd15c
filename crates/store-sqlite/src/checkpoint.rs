//! The checkpointer: a thread that copies committed pages from the write-ahead log into the database file, so that no commit
//! waits for it. The log is reused only when all of it has been copied, and with a busy writer the thread never gets that
//! far; so it copies nearly all, makes that durable, and asks the writer to copy the rest between two batches.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use rusqlite::config::DbConfig;
use rusqlite::hooks::Wal;
use rusqlite::{Connection, ErrorCode, ffi};
use taskqueue_store::writer_figures::WriterFigures;

use crate::ownership::Ownership;

/// Pages (4 KiB each) that are added to the log before they are copied. A page that many commits change is copied once: the
/// larger, the less is copied, and the longer the log that a start after a crash has to read.
const COPIED_PAGES: i32 = 8_192;
/// Pages that may be left for the writer to copy between two batches: some milliseconds.
const REST_PAGES: i32 = 2_000;
/// How often the thread copies in a row to get there. Each time leaves what was committed meanwhile. If that is never little,
/// the writer is faster than the thread and must do its part, or the log would grow without end.
const MAX_COPIES: u32 = 8;

/// The writer's handle to the checkpointer.
pub(crate) struct Checkpointer {
    log_pages: Arc<AtomicI32>,
    /// How many there were when the thread was last woken; 0 after the log was begun anew.
    woken_at: i32,
    wake: Option<SyncSender<()>>,
    rest_requested: Arc<AtomicBool>,
    /// Locked while the thread copies and syncs.
    running: Arc<Mutex<()>>,
    ownership: Arc<Ownership>,
    figures: Arc<WriterFigures>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpointer {
    /// Starts the thread on a connection that is already open: one that is opened later could find another file under the
    /// same name, and SQLite deletes the log of an empty file.
    pub(crate) fn start(connection: Connection, ownership: Arc<Ownership>) -> std::io::Result<Self> {
        let (wake, woken) = sync_channel(1);
        let rest_requested = Arc::new(AtomicBool::new(false));
        let (running, log_pages) = (Arc::default(), Arc::new(AtomicI32::new(0)));
        let (requested, lock) = (Arc::clone(&rest_requested), Arc::clone(&running));
        let (pages, owner) = (Arc::clone(&log_pages), Arc::clone(&ownership));
        let figures = Arc::<WriterFigures>::default();
        let counted = Arc::clone(&figures);
        let thread = std::thread::Builder::new().name("checkpointer".into()).spawn(move || {
            while woken.recv().is_ok() {
                let _running = lock_running(&lock);
                requested.store(copy_most(&connection, &owner, &pages, &counted), Ordering::Relaxed);
            }
        })?;
        let (wake, thread) = (Some(wake), Some(thread));
        Ok(Self { log_pages, woken_at: 0, wake, rest_requested, running, ownership, figures, thread })
    }

    /// Counts what the commits of the writer's connection add to the log.
    pub(crate) fn watch(&self, writer: &mut Connection) -> rusqlite::Result<()> {
        let log_pages = Arc::clone(&self.log_pages);
        writer.wal_hook(Some(move |_: &mut Wal, pages: i32| {
            log_pages.store(pages, Ordering::Relaxed);
            Ok(())
        }))
    }

    /// What its thread counts, and the writer with it.
    pub(crate) fn figures(&self) -> Arc<WriterFigures> {
        Arc::clone(&self.figures)
    }

    /// Pages in the log, as of the last commit.
    pub(crate) fn log_pages(&self) -> i32 {
        self.log_pages.load(Ordering::Relaxed)
    }

    /// Waits for a running checkpoint and prevents new ones while the guard is held. SQLite refuses a second checkpoint at
    /// once, whatever the busy timeout is.
    pub(crate) fn pause(&self) -> MutexGuard<'_, ()> {
        lock_running(&self.running)
    }

    /// Called by the writer after each commit. Copies the rest of the log if that was requested.
    pub(crate) fn committed(&mut self, writer: &Connection) {
        self.copy_rest(writer);
        let pages = self.log_pages();
        if pages < self.woken_at {
            self.woken_at = 0;
        }
        if pages - self.woken_at >= COPIED_PAGES {
            self.woken_at = pages;
            // If the channel is full, the thread has been woken already.
            let _ = self.wake.as_ref().map(|wake| wake.try_send(()));
        }
    }

    /// Not while the thread works: the log may be begun anew only when what the thread copied has been synced.
    fn copy_rest(&self, writer: &Connection) {
        if !self.rest_requested.load(Ordering::Relaxed) {
            return;
        }
        if let Ok(_running) = self.running.try_lock() {
            self.rest_requested.store(false, Ordering::Relaxed);
            run(writer, &self.ownership, Mode::Passive);
        }
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.wake = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn lock_running(running: &Mutex<()>) -> MutexGuard<'_, ()> {
    running.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How a checkpoint treats readers of an older state.
#[derive(Clone, Copy)]
pub(crate) enum Mode {
    /// Leaves to a later one what they need.
    Passive,
    /// Waits for them up to the busy timeout.
    Full,
    /// The same, and empties the log.
    Truncate,
}

/// What a checkpoint found: pages in the log when it began, and how many of them are copied now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Copied {
    was_busy: bool,
    pages: i32,
    copied: i32,
}

impl Copied {
    /// Whether the whole log was copied.
    pub(crate) fn is_whole(self) -> bool {
        !self.was_busy && self.pages == self.copied
    }
}

/// Every checkpoint of an opened store. After a failure that leaves open what is on the disk there are no more of them:
/// SQLite never copies again what it has counted as copied, and a later one would give the log free.
pub(crate) fn run(connection: &Connection, ownership: &Ownership, mode: Mode) -> Option<Copied> {
    if ownership.copying_failed() {
        return None;
    }
    let statement = match mode {
        Mode::Passive => "PRAGMA wal_checkpoint(PASSIVE)",
        Mode::Full => "PRAGMA wal_checkpoint(FULL)",
        Mode::Truncate => "PRAGMA wal_checkpoint(TRUNCATE)",
    };
    let done = connection.query_row(statement, [], |row| {
        Ok(Copied { was_busy: row.get::<_, i32>(0)? != 0, pages: row.get(1)?, copied: row.get(2)? })
    });
    done.inspect_err(|error| match is_harmless(error) {
        true => tracing::warn!(%error, "a checkpoint failed; the pages stay in the log for the next one"),
        false => ownership.give_up_copying(error),
    })
    .ok()
}

/// Whether a failed checkpoint counted nothing as copied and no sync failed: a full disk or quota, a lock, memory.
fn is_harmless(error: &rusqlite::Error) -> bool {
    let Some(error) = error.sqlite_error() else { return false };
    let is_wait =
        matches!(error.code, ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::OperationInterrupted);
    is_wait || matches!(error.extended_code, ffi::SQLITE_FULL | ffi::SQLITE_IOERR_WRITE | ffi::SQLITE_NOMEM)
}

/// The end of a file in good order: moves the whole log into it, and lets this connection remove the log when it is closed.
pub(crate) fn empty_log(connection: &Connection, ownership: &Ownership) {
    let moved = run(connection, ownership, Mode::Truncate).is_some_and(|copied| !copied.was_busy);
    let removable = moved && connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false).is_ok();
    if !removable {
        tracing::warn!("the log could not be moved into the database; the next start does it");
    }
}

/// Copies and syncs until little is left of both for the writer. Returns whether the writer shall do the rest.
fn copy_most(connection: &Connection, ownership: &Ownership, log_pages: &AtomicI32, figures: &WriterFigures) -> bool {
    let mut before = 0;
    for copies in 1..=MAX_COPIES {
        let Some(done) = run(connection, ownership, Mode::Passive).filter(|done| !done.was_busy) else { return false };
        // SQLite itself syncs only when it has copied all: otherwise the writer would wait for everything that is not yet on disk.
        let begun_at = Instant::now();
        if !ownership.sync_database() {
            return false;
        }
        figures.synced(begun_at.elapsed());
        // What was committed meanwhile is not among the pages that the checkpoint found.
        let rest = log_pages.load(Ordering::Relaxed).max(done.pages) - done.copied;
        match next_step(rest, done.copied > before, copies) {
            Next::Copy => before = done.copied,
            Next::Request => return true,
            Next::Leave => return false,
        }
    }
    false
}

/// What the thread does after a copy.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Copy,
    /// The writer copies the rest.
    Request,
    /// A reader of an older state needs the rest: the writer could not copy it either.
    Leave,
}

fn next_step(rest: i32, made_progress: bool, copies: u32) -> Next {
    match rest {
        ..REST_PAGES => Next::Request,
        _ if !made_progress => Next::Leave,
        _ if copies < MAX_COPIES => Next::Copy,
        _ => Next::Request,
    }
}

#[cfg(test)]
#[path = "checkpoint_tests.rs"]
mod tests;

//! The checkpointer: a thread that copies committed pages from the write-ahead log into the database file, so that no commit
//! waits for it. The log is reused only when all of it has been copied, and with a busy writer the thread never gets that
//! far; so it copies nearly all, makes that durable, and asks the writer to copy the rest between two batches.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Instant;

use parking_lot::{Mutex, MutexGuard};
use rusqlite::config::DbConfig;
use rusqlite::hooks::Wal;
use rusqlite::{Connection, ErrorCode, ffi};
use taskqueue_store::writers::WriterFigures;

use crate::ownership::Ownership;

/// Pages (4 KiB each) that are added to the log before they are copied. A page that many commits change is copied once: the
/// larger, the less is copied, and the longer the log that a start after a crash has to read.
const COPIED_PAGES: i32 = 8_192;
/// Commits after which they are copied although they are fewer: those of one client. Nearly every commit changes the same pages again,
/// and SQLite passes by all that it has indexed of a page, in 4,096 pages of the log, before it adds one.
const COPIED_COMMITS: u32 = 256;
/// Pages that may be left for the writer to copy between two batches: some milliseconds.
const REST_PAGES: i32 = 2_000;
/// The number of times that the thread copies in a row to get there. Each time leaves what was committed meanwhile. If that is
/// never little, the writer is faster than the thread and must do its part, or the log would grow without end.
const MAX_COPIES: u32 = 8;

/// The writer's handle to the checkpointer.
pub(crate) struct Checkpointer {
    log_pages: Arc<AtomicI32>,
    /// The number of pages when the thread was last woken; 0 after the log was begun anew.
    woken_at: i32,
    /// Commits since then that wrote, and the pages after the last of them.
    commits: (u32, i32),
    wake: Option<SyncSender<()>>,
    rest_requested: Arc<AtomicBool>,
    /// Locked while the thread copies and syncs.
    running: Arc<Mutex<()>>,
    ownership: Arc<Ownership>,
    /// What its thread counts, and the writer with it.
    pub(crate) figures: Arc<WriterFigures>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpointer {
    /// Starts the thread on a connection that is already open: one that is opened later could find another file under the
    /// same name, and SQLite deletes the log of an empty file.
    pub(crate) fn start(connection: Connection, ownership: Arc<Ownership>) -> std::io::Result<Self> {
        let (wake, woken) = sync_channel(1);
        let rest_requested = Arc::new(AtomicBool::new(false));
        let (running, log_pages) = (Arc::<Mutex<()>>::default(), Arc::new(AtomicI32::new(0)));
        let (requested, lock) = (Arc::clone(&rest_requested), Arc::clone(&running));
        let (pages, owner) = (Arc::clone(&log_pages), Arc::clone(&ownership));
        let figures = Arc::<WriterFigures>::default();
        let counted = Arc::clone(&figures);
        let thread = std::thread::Builder::new().name("checkpointer".into()).spawn(move || {
            while woken.recv().is_ok() {
                let _running = lock.lock();
                requested.store(copy_most(&connection, &owner, &pages, &counted), Ordering::Relaxed);
            }
        })?;
        let (wake, thread) = (Some(wake), Some(thread));
        Ok(Self { log_pages, woken_at: 0, commits: (0, 0), wake, rest_requested, running, ownership, figures, thread })
    }

    /// Counts what the commits of the writer's connection add to the log.
    pub(crate) fn watch(&self, writer: &mut Connection) -> rusqlite::Result<()> {
        let log_pages = Arc::clone(&self.log_pages);
        writer.wal_hook(Some(move |_: &mut Wal, pages: i32| {
            log_pages.store(pages, Ordering::Relaxed);
            Ok(())
        }))
    }

    /// Pages in the log, as of the last commit.
    pub(crate) fn log_pages(&self) -> i32 {
        self.log_pages.load(Ordering::Relaxed)
    }

    /// Waits for a running checkpoint and prevents new ones while the guard is held. SQLite refuses a second checkpoint at
    /// once, whatever the busy timeout is.
    pub(crate) fn pause(&self) -> MutexGuard<'_, ()> {
        self.running.lock()
    }

    /// Called by the writer after each commit. Copies the rest of the log if that was requested.
    pub(crate) fn committed(&mut self, writer: &Connection) {
        // Not while the thread works: the log may be begun anew only when what the thread copied has been synced.
        if self.rest_requested.load(Ordering::Relaxed)
            && let Some(_running) = self.running.try_lock()
        {
            self.rest_requested.store(false, Ordering::Relaxed);
            run(writer, &self.ownership, PASSIVE);
        }
        let pages = self.log_pages();
        if pages < self.woken_at {
            (self.woken_at, self.commits.0) = (0, 0);
        }
        self.commits = (self.commits.0 + u32::from(pages != self.commits.1), pages);
        if pages - self.woken_at >= COPIED_PAGES || self.commits.0 >= COPIED_COMMITS {
            (self.woken_at, self.commits.0) = (pages, 0);
            // If the channel is full, the thread has been woken already.
            let _ = self.wake.as_ref().map(|wake| wake.try_send(()));
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

/// A checkpoint that leaves to a later one what readers of an older state need.
const PASSIVE: &str = "PRAGMA wal_checkpoint(PASSIVE)";
/// A checkpoint that waits for readers of an older state up to the busy timeout.
pub(crate) const FULL: &str = "PRAGMA wal_checkpoint(FULL)";
/// A checkpoint that waits as [`FULL`] does, and empties the log.
const TRUNCATE: &str = "PRAGMA wal_checkpoint(TRUNCATE)";

/// The result of a checkpoint: pages in the log when it began, and how many of them are copied now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CheckpointResult {
    was_busy: bool,
    pages: i32,
    copied: i32,
}

impl CheckpointResult {
    /// Returns whether the whole log was copied.
    pub(crate) fn is_whole(self) -> bool {
        !self.was_busy && self.pages == self.copied
    }
}

/// Every checkpoint of an opened store. After a failure that leaves open what is on the disk there are no more of them:
/// SQLite never copies again what it has counted as copied, and a later one would give the log free.
pub(crate) fn run(connection: &Connection, ownership: &Ownership, statement: &str) -> Option<CheckpointResult> {
    if ownership.copying_failed() {
        return None;
    }
    let done = connection.query_row(statement, [], |row| {
        Ok(CheckpointResult { was_busy: row.get::<_, i32>(0)? != 0, pages: row.get(1)?, copied: row.get(2)? })
    });
    done.inspect_err(|error| match is_harmless(error) {
        true => tracing::warn!(%error, "a checkpoint failed; the pages stay in the log for the next one"),
        false => ownership.give_up_copying(error),
    })
    .ok()
}

/// Returns whether a failed checkpoint counted nothing as copied and no sync failed: a full disk or quota, a lock, memory.
fn is_harmless(error: &rusqlite::Error) -> bool {
    let Some(error) = error.sqlite_error() else { return false };
    let is_wait =
        matches!(error.code, ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::OperationInterrupted);
    is_wait || matches!(error.extended_code, ffi::SQLITE_FULL | ffi::SQLITE_IOERR_WRITE | ffi::SQLITE_NOMEM)
}

/// The end of a file in good order: moves the whole log into it, and lets this connection remove the log when it is closed.
pub(crate) fn empty_log(connection: &Connection, ownership: &Ownership) {
    let moved = run(connection, ownership, TRUNCATE).is_some_and(|copied| !copied.was_busy);
    let removable = moved && connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false).is_ok();
    if !removable {
        tracing::warn!("the log could not be moved into the database; the next start does it");
    }
}

/// Copies and syncs until little is left of both for the writer. Returns whether the writer shall do the rest.
fn copy_most(connection: &Connection, ownership: &Ownership, log_pages: &AtomicI32, figures: &WriterFigures) -> bool {
    let mut before = 0;
    for copies in 1..=MAX_COPIES {
        let Some(done) = run(connection, ownership, PASSIVE).filter(|done| !done.was_busy) else {
            return false;
        };
        // SQLite itself syncs only when it has copied all: otherwise the writer would wait for everything that is not yet on disk.
        let begun_at = Instant::now();
        if !ownership.sync_database() {
            return false;
        }
        figures.synced(begun_at.elapsed());
        // What was committed meanwhile is not among the pages that the checkpoint found.
        let rest = log_pages.load(Ordering::Relaxed).max(done.pages) - done.copied;
        match next_step(rest, done.copied > before, copies) {
            NextStep::Copy => before = done.copied,
            NextStep::Request => return true,
            NextStep::Leave => return false,
        }
    }
    false
}

/// The next step of the thread after a copy.
#[derive(Debug, PartialEq, Eq)]
enum NextStep {
    Copy,
    /// The writer copies the rest.
    Request,
    /// A reader of an older state needs the rest: the writer could not copy it either.
    Leave,
}

fn next_step(rest: i32, made_progress: bool, copies: u32) -> NextStep {
    match rest {
        ..REST_PAGES => NextStep::Request,
        _ if !made_progress => NextStep::Leave,
        _ if copies < MAX_COPIES => NextStep::Copy,
        _ => NextStep::Request,
    }
}

/// Checkpoints that fail, and what is left for the writer.
#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::path::Path;
    use std::time::{Duration, Instant};

    use tempfile::TempDir;

    use super::*;
    use crate::open;
    use crate::ownership::{DatabaseFile, path_of};

    /// A file with a table, its writer and its checkpointer.
    fn opened() -> (Checkpointer, Connection, Arc<Ownership>, TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let ownership = Arc::new(Ownership::take(&folder.path().join("tasks.db")).unwrap());
        let mut writer = open::writer(ownership.path()).unwrap();
        writer.execute_batch("CREATE TABLE numbers (number)").unwrap();
        let connection = open::checkpointer(ownership.path()).unwrap();
        let checkpointer = Checkpointer::start(connection, Arc::clone(&ownership)).unwrap();
        checkpointer.watch(&mut writer).unwrap();
        writer.execute_batch("INSERT INTO numbers VALUES (1)").unwrap();
        (checkpointer, writer, ownership, folder)
    }

    /// Cuts off the log, so that reading it fails (`SQLITE_IOERR_SHORT_READ`).
    fn cut_log(path: &Path) {
        OpenOptions::new().write(true).open(path_of(path, DatabaseFile::Log)).unwrap().set_len(100).unwrap();
    }

    #[test]
    fn a_checkpoint_of_the_thread_that_fails_is_the_last_one() {
        let (checkpointer, writer, ownership, _folder) = opened();
        cut_log(ownership.path());
        checkpointer.wake.as_ref().unwrap().send(()).unwrap();
        let begun = Instant::now();
        while !ownership.copying_failed() {
            assert!(begun.elapsed() < Duration::from_secs(20), "the failure has no consequence");
            std::thread::yield_now();
        }
        for mode in [PASSIVE, FULL, TRUNCATE] {
            assert_eq!(run(&writer, &ownership, mode), None);
        }
        drop(checkpointer.pause());
        assert!(!checkpointer.rest_requested.load(Ordering::Relaxed));
    }

    #[test]
    fn a_checkpoint_of_the_writer_that_fails_is_the_last_one() {
        let (mut checkpointer, writer, ownership, _folder) = opened();
        checkpointer.committed(&writer);
        assert!(!ownership.copying_failed(), "nothing was requested");
        cut_log(ownership.path());
        checkpointer.rest_requested.store(true, Ordering::Relaxed);
        checkpointer.committed(&writer);
        assert!(ownership.copying_failed());
        assert_eq!(run(&writer, &ownership, PASSIVE), None);
    }

    #[test]
    fn the_writer_copies_nothing_while_the_thread_does() {
        let (mut checkpointer, writer, ownership, _folder) = opened();
        checkpointer.rest_requested.store(true, Ordering::Relaxed);
        let running = Arc::clone(&checkpointer.running);
        let paused = running.lock();
        cut_log(ownership.path());
        checkpointer.committed(&writer);
        assert!(!ownership.copying_failed(), "it would have failed");
        drop(paused);
        checkpointer.committed(&writer);
        assert!(ownership.copying_failed(), "the request is still there");
    }

    #[test]
    fn only_what_counted_nothing_as_copied_is_tried_again() {
        for (code, harmless) in [
            (ffi::SQLITE_BUSY, true),
            (ffi::SQLITE_FULL, true),
            (ffi::SQLITE_IOERR_WRITE, true),
            (ffi::SQLITE_IOERR, false),
            (ffi::SQLITE_IOERR_FSYNC, false),
            (ffi::SQLITE_IOERR_SHORT_READ, false),
            (ffi::SQLITE_CORRUPT, false),
        ] {
            let error = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
            assert_eq!(is_harmless(&error), harmless, "{code}");
        }
    }

    #[test]
    fn the_log_stays_when_the_last_connection_is_closed_unless_it_was_emptied() {
        let (checkpointer, writer, ownership, _folder) = opened();
        let log = path_of(ownership.path(), DatabaseFile::Log);
        drop((checkpointer, writer));
        assert!(std::fs::metadata(&log).unwrap().len() > 0);
        let writer = open::writer(ownership.path()).unwrap();
        assert_eq!(writer.query_row("SELECT number FROM numbers", [], |row| row.get(0)), Ok(1));
        empty_log(&writer, &ownership);
        drop(writer);
        assert!(!log.exists());
    }

    #[test]
    fn the_writer_is_asked_for_little_and_for_more_only_if_it_outruns_the_thread() {
        assert_eq!(next_step(0, false, 1), NextStep::Request);
        assert_eq!(next_step(REST_PAGES - 1, true, 1), NextStep::Request);
        assert_eq!(next_step(REST_PAGES, true, 1), NextStep::Copy);
        assert_eq!(next_step(100 * REST_PAGES, true, MAX_COPIES - 1), NextStep::Copy);
        assert_eq!(next_step(REST_PAGES, true, MAX_COPIES), NextStep::Request);
        assert_eq!(next_step(REST_PAGES, false, 1), NextStep::Leave, "a reader needs it");
    }
}

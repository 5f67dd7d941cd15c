//! The checkpointer: a thread that copies committed pages from the write-ahead log into the database file, so that no commit
//! waits for it. The log is reused only when all of it has been copied, and with a busy writer the thread never gets that
//! far; so it copies nearly all, makes that durable, and asks the writer to copy the rest between two batches.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rusqlite::Connection;
use rusqlite::hooks::Wal;

use crate::ownership::Ownership;

/// Pages (4 KiB each) that are added to the log before they are copied. A page that many commits change is copied once: the
/// larger, the less is copied, and the longer the log that a start after a crash has to read.
const COPIED_PAGES: i32 = 8_192;
/// How often the thread copies in a row. Each time leaves what was committed meanwhile, which is less each time.
const COPIES: u32 = 2;

/// The writer's handle to the checkpointer.
pub(crate) struct Checkpointer {
    log_pages: Arc<AtomicI32>,
    /// How many there were when the thread was last woken; 0 after the log was begun anew.
    woken_at: i32,
    wake: Option<SyncSender<()>>,
    rest_requested: Arc<AtomicBool>,
    /// Locked during a checkpoint of the thread.
    running: Arc<Mutex<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpointer {
    /// Starts the thread on a connection that is already open: one that is opened later could find another file under the
    /// same name, and SQLite deletes the log of an empty file.
    pub(crate) fn start(connection: Connection, ownership: Arc<Ownership>) -> std::io::Result<Self> {
        let (wake, woken) = sync_channel(1);
        let rest_requested = Arc::new(AtomicBool::new(false));
        let running = Arc::default();
        let (requested, lock) = (Arc::clone(&rest_requested), Arc::clone(&running));
        let thread = std::thread::Builder::new().name("checkpointer".into()).spawn(move || {
            while woken.recv().is_ok() {
                let _running = lock_running(&lock);
                requested.store(copy_most(&connection, &ownership), Ordering::Relaxed);
            }
        })?;
        let log_pages = Arc::default();
        Ok(Self { log_pages, woken_at: 0, wake: Some(wake), rest_requested, running, thread: Some(thread) })
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
        lock_running(&self.running)
    }

    /// Called by the writer after each commit. Copies the rest of the log if that was requested.
    pub(crate) fn committed(&mut self, writer: &Connection) {
        if self.rest_requested.swap(false, Ordering::Relaxed) {
            checkpoint(writer);
        }
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

/// Copies and syncs, so that little is left of both for the writer. Returns whether the writer shall do the rest.
fn copy_most(connection: &Connection, ownership: &Ownership) -> bool {
    // SQLite itself syncs only when it has copied all: otherwise the writer would wait for everything that is not yet on disk.
    let copy = |_| checkpoint(connection) && ownership.sync_database();
    (0..COPIES).all(copy)
}

/// Copies what can be copied without waiting for readers. Returns whether it could.
fn checkpoint(connection: &Connection) -> bool {
    let done = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
    // A failed checkpoint loses nothing: the pages stay in the log for the next one.
    done.inspect_err(|error| tracing::warn!(%error, "a checkpoint failed")).is_ok()
}

//! The checkpointer: a thread that copies committed pages from the write-ahead log into the database file, so that no commit
//! waits for it. The log is reused only when all of it has been copied, and with a busy writer the thread never gets that
//! far; so from time to time it asks the writer to copy the rest between two batches.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rusqlite::Connection;

/// Commits between two checkpoints. A batch writes some tens of pages, so the log stays at some MiB.
const CHECKPOINT_COMMITS: u32 = 32;
/// Pages in the log (4 KiB each) above which the writer is asked to copy the rest.
const MAX_LOG_PAGES: i64 = 2_000;

/// The writer's handle to the checkpointer.
pub(crate) struct Checkpointer {
    commits: u32,
    wake: Option<SyncSender<()>>,
    rest_requested: Arc<AtomicBool>,
    /// Locked during a checkpoint of the thread.
    running: Arc<Mutex<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpointer {
    /// Starts the thread on a connection that is already open: one that is opened later could find another file under the
    /// same name, and SQLite deletes the log of an empty file.
    pub(crate) fn start(connection: Connection) -> std::io::Result<Self> {
        let (wake, woken) = sync_channel(1);
        let rest_requested = Arc::new(AtomicBool::new(false));
        let running = Arc::default();
        let (requested, lock) = (Arc::clone(&rest_requested), Arc::clone(&running));
        let thread = std::thread::Builder::new()
            .name("checkpointer".into())
            .spawn(move || run(&connection, &woken, &requested, &lock))?;
        Ok(Self { commits: 0, wake: Some(wake), rest_requested, running, thread: Some(thread) })
    }

    /// Waits for a running checkpoint and prevents new ones while the guard is held. SQLite refuses a second checkpoint at
    /// once, whatever the busy timeout is.
    pub(crate) fn pause(&self) -> MutexGuard<'_, ()> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Called by the writer after each commit. Copies the rest of the log if that was requested.
    pub(crate) fn committed(&mut self, writer: &Connection) {
        if self.rest_requested.swap(false, Ordering::Relaxed) {
            checkpoint(writer);
        }
        self.commits += 1;
        if self.commits >= CHECKPOINT_COMMITS {
            self.commits = 0;
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

fn run(connection: &Connection, woken: &Receiver<()>, rest_requested: &AtomicBool, running: &Mutex<()>) {
    while woken.recv().is_ok() {
        let _running = running.lock().unwrap_or_else(PoisonError::into_inner);
        if checkpoint(connection).is_some_and(|pages| pages > MAX_LOG_PAGES) {
            rest_requested.store(true, Ordering::Relaxed);
        }
    }
}

/// Copies what can be copied without waiting for readers. Returns the number of pages in the log.
fn checkpoint(connection: &Connection) -> Option<i64> {
    let pages = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get(1));
    // A failed checkpoint loses nothing: the pages stay in the log for the next one.
    pages.inspect_err(|error| tracing::warn!(%error, "a checkpoint failed")).ok()
}

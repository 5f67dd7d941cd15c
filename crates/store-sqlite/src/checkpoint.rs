//! The checkpointer: a thread that moves committed pages from the write-ahead log into the database file, so that no
//! commit has to wait for it. It cannot quite catch up with a busy writer, and the log starts over only when all of it
//! has been moved; so from time to time it asks the writer to move the small rest between two batches.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rusqlite::Connection;

/// Commits between two looks at the log. A batch writes some tens of pages, so the log stays at some MiB.
const COMMITS: u32 = 32;
/// Pages in the log (4 KiB each) from which on it is worth starting it over.
const LOG_PAGES: i64 = 2_000;

/// The writer's handle to the checkpointer.
pub(crate) struct Checkpointer {
    commits: u32,
    wake: Option<SyncSender<()>>,
    rest_wanted: Arc<AtomicBool>,
    /// Held during a checkpoint of the thread.
    running: Arc<Mutex<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpointer {
    /// Starts the thread on its own connection. It is open already: a connection that is opened later could meet another
    /// file under the same name, and SQLite deletes the log beside an empty one.
    pub(crate) fn start(connection: Connection) -> std::io::Result<Self> {
        let (wake, woken) = sync_channel(1);
        let rest_wanted = Arc::new(AtomicBool::new(false));
        let running = Arc::default();
        let (wanted, guard) = (Arc::clone(&rest_wanted), Arc::clone(&running));
        let thread = std::thread::Builder::new()
            .name("checkpointer".into())
            .spawn(move || run(&connection, &woken, &wanted, &guard))?;
        Ok(Self { commits: 0, wake: Some(wake), rest_wanted, running, thread: Some(thread) })
    }

    /// Waits for a checkpoint that is running, and lets none begin while the guard is held. SQLite refuses a second
    /// checkpoint at once, whatever the busy timeout is.
    pub(crate) fn pause(&self) -> MutexGuard<'_, ()> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a commit of the writer, which moves the rest of the log if it was asked to.
    pub(crate) fn committed(&mut self, writer: &Connection) {
        if self.rest_wanted.swap(false, Ordering::Relaxed) {
            checkpoint(writer);
        }
        self.commits += 1;
        if self.commits >= COMMITS {
            self.commits = 0;
            // A full channel means that it has been woken already.
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

fn run(connection: &Connection, woken: &Receiver<()>, rest_wanted: &AtomicBool, running: &Mutex<()>) {
    while woken.recv().is_ok() {
        let _running = running.lock().unwrap_or_else(PoisonError::into_inner);
        if checkpoint(connection).is_some_and(|pages| pages > LOG_PAGES) {
            rest_wanted.store(true, Ordering::Relaxed);
        }
    }
}

/// Moves what can be moved without waiting for anybody; the pages in the log.
fn checkpoint(connection: &Connection) -> Option<i64> {
    let pages = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get(1));
    // A failed checkpoint loses nothing: the log keeps what it has, and the next one tries again.
    pages.inspect_err(|error| tracing::warn!(%error, "a checkpoint failed")).ok()
}

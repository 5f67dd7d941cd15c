//! The readers: a few threads, each with a read-only connection, so that no query runs on an async thread. Short reads
//! and long ones have lanes of their own: a scan over a million tasks never makes a `get` wait.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::{Connection, InterruptHandle};
use taskqueue_store::StoreError;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;

use crate::failure::failed;
use crate::open;

/// Reads waiting in one lane; more are refused as busy.
const WAITING: usize = 1_024;
/// Threads for reads that take microseconds.
const SHORT_THREADS: usize = 1;
/// Threads for lists and for whatever looks at every task.
const LONG_THREADS: usize = 2;
/// How long a read may wait for a thread (decisions.md section 4).
const PATIENCE: Duration = Duration::from_secs(5);

/// Steps of SQLite's machine between two looks whether somebody still waits: a fraction of a millisecond.
const WATCH_STEPS: i32 = 20_000;

type Work = Box<dyn FnOnce(&mut Connection) + Send>;

/// How long a read takes.
#[derive(Clone, Copy)]
pub(crate) enum Lane {
    /// A few rows by key.
    Short,
    /// A page, or a look at every task.
    Long,
}

/// The handle to the reading threads; they end when it is closed or dropped.
pub(crate) struct Readers {
    /// Nothing once closed.
    lanes: RwLock<Option<Lanes>>,
    threads: Mutex<Vec<(InterruptHandle, JoinHandle<()>)>>,
}

struct Lanes {
    short: Sender<Work>,
    long: Sender<Work>,
}

impl Readers {
    /// Starts the threads.
    pub(crate) fn start(path: &Path) -> rusqlite::Result<Self> {
        let (short, short_work) = channel(WAITING);
        let (long, long_work) = channel(WAITING);
        let mut handles = Vec::new();
        for (work, threads, name) in [(short_work, SHORT_THREADS, "short-reader"), (long_work, LONG_THREADS, "reader")]
        {
            let work = Arc::new(Mutex::new(work));
            for _ in 0..threads {
                let (connection, work) = (open::reader(path)?, Arc::clone(&work));
                let interrupt = connection.get_interrupt_handle();
                let thread = std::thread::Builder::new().name(name.into()).spawn(move || run(connection, &work));
                handles.push((interrupt, thread.map_err(|_| rusqlite::Error::UnwindingPanic)?));
            }
        }
        Ok(Self { lanes: RwLock::new(Some(Lanes { short, long })), threads: Mutex::new(handles) })
    }

    /// Takes no more reads, cuts off those under way and closes the connections.
    pub(crate) fn close(&self) {
        drop(self.lanes.write().unwrap_or_else(PoisonError::into_inner).take());
        for (interrupt, thread) in std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner)) {
            interrupt.interrupt();
            // A thread that ended by a panic is gone as well.
            let _ = thread.join();
        }
    }

    fn send(&self, lane: Lane, work: Work) -> Result<(), StoreError> {
        let lanes = self.lanes.read().unwrap_or_else(PoisonError::into_inner);
        let lanes = lanes.as_ref().ok_or(StoreError::Unavailable)?;
        let sender = match lane {
            Lane::Short => &lanes.short,
            Lane::Long => &lanes.long,
        };
        sender.try_send(work).map_err(|_| StoreError::Busy)
    }

    /// Runs a read on a thread of the lane, in one snapshot of the database.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        lane: Lane,
        doing: &'static str,
        read: impl FnOnce(&Connection) -> Result<T, ReadError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (answer, answered) = oneshot::channel();
        // Ends a read that nobody waits for any more: the timeout below, or a caller that went away.
        let waiting = Arc::new(());
        let abandoned = Arc::downgrade(&waiting);
        let work: Work = Box::new(move |connection| {
            if answer.is_closed() {
                return;
            }
            let watched = match lane {
                Lane::Short => Ok(()),
                Lane::Long => connection.progress_handler(WATCH_STEPS, Some(move || abandoned.strong_count() == 0)),
            };
            let read = watched.map_err(ReadError::from).and_then(|()| in_snapshot(connection, read));
            let _ = answer.send(read);
        });
        self.send(lane, work)?;
        let answered = tokio::time::timeout(patience(lane), answered).await;
        drop(waiting);
        match answered {
            Ok(Ok(Ok(value))) => Ok(value),
            Ok(Ok(Err(ReadError::Refused(error)))) => Err(error),
            Ok(Ok(Err(ReadError::Failed(error)))) => Err(failed(doing, &error)),
            Ok(Err(_)) => Err(StoreError::Unavailable),
            Err(_) => Err(StoreError::Busy),
        }
    }
}

/// A long read may run longer than it may wait; no request takes more than 30 seconds in all.
fn patience(lane: Lane) -> Duration {
    match lane {
        Lane::Short => PATIENCE,
        Lane::Long => PATIENCE * 5,
    }
}

/// Why a read gave nothing.
pub(crate) enum ReadError {
    /// A rule says no.
    Refused(StoreError),
    /// The database failed.
    Failed(rusqlite::Error),
}

impl From<rusqlite::Error> for ReadError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Failed(error)
    }
}

impl From<StoreError> for ReadError {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

fn in_snapshot<T>(
    connection: &Connection,
    read: impl FnOnce(&Connection) -> Result<T, ReadError>,
) -> Result<T, ReadError> {
    let snapshot = connection.unchecked_transaction()?;
    let value = read(&snapshot);
    snapshot.finish()?;
    value
}

fn run(mut connection: Connection, work: &Mutex<Receiver<Work>>) {
    loop {
        // One thread waits for work, the others for their turn to wait.
        let next = work.lock().unwrap_or_else(PoisonError::into_inner).blocking_recv();
        match next {
            // A panic costs its caller the answer, not the others their thread.
            Some(work) => drop(catch_unwind(AssertUnwindSafe(|| work(&mut connection)))),
            None => return,
        }
    }
}

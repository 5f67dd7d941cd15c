//! The readers: a few threads, each with a read-only connection, so that no query runs on an async thread. Short reads
//! and long ones have lanes of their own: a scan over a million tasks never makes a `get` wait.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::Connection;
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

type Work = Box<dyn FnOnce(&Connection) + Send>;

/// How long a read takes.
#[derive(Clone, Copy)]
pub(crate) enum Lane {
    /// A few rows by key.
    Short,
    /// A page, or a look at every task.
    Long,
}

/// The handle to the reading threads; they end when it is dropped.
pub(crate) struct Readers {
    short: Sender<Work>,
    long: Sender<Work>,
}

impl Readers {
    /// Starts the threads.
    pub(crate) fn start(path: &Path) -> rusqlite::Result<Self> {
        let (short, short_work) = channel(WAITING);
        let (long, long_work) = channel(WAITING);
        for (work, threads, name) in [(short_work, SHORT_THREADS, "short-reader"), (long_work, LONG_THREADS, "reader")]
        {
            let work = Arc::new(Mutex::new(work));
            for _ in 0..threads {
                let (connection, work) = (open::reader(path)?, Arc::clone(&work));
                let thread = std::thread::Builder::new().name(name.into()).spawn(move || run(&connection, &work));
                thread.map_err(|_| rusqlite::Error::UnwindingPanic)?;
            }
        }
        Ok(Self { short, long })
    }

    /// Runs a read on a thread of the lane, in one snapshot of the database.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        lane: Lane,
        doing: &'static str,
        read: impl FnOnce(&Connection) -> Result<T, ReadError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (answer, answered) = oneshot::channel();
        let work: Work = Box::new(move |connection| {
            if !answer.is_closed() {
                let _ = answer.send(in_snapshot(connection, read));
            }
        });
        let sender = match lane {
            Lane::Short => &self.short,
            Lane::Long => &self.long,
        };
        sender.try_send(work).map_err(|_| StoreError::Busy)?;
        match tokio::time::timeout(patience(lane), answered).await {
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

fn run(connection: &Connection, work: &Mutex<Receiver<Work>>) {
    loop {
        // One thread waits for work, the others for their turn to wait.
        let next = work.lock().unwrap_or_else(PoisonError::into_inner).blocking_recv();
        match next {
            Some(work) => work(connection),
            None => return,
        }
    }
}

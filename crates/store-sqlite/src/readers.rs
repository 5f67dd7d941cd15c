//! The readers: threads with read-only connections, so that no query runs on an async thread. Reads whose cost is bounded
//! have a few threads that serve them one after the other; every other read has a thread and a snapshot of its own, and
//! they take turns (`LongReads`): a look at a million tasks never makes a `get`, a plain page or a small count wait.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::{Connection, InterruptHandle};
use taskqueue_store::StoreError;
use taskqueue_store::long_reads::{ActiveRead, LongReads, StopReason};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;

use crate::failure::failed;
use crate::long_reader::LongReader;
use crate::open;
use crate::ownership::Ownership;
use crate::snapshot::Snapshot;

/// Reads waiting in one lane; more are refused as busy.
const WAITING: usize = 1_024;
/// Threads for reads that take microseconds.
const SHORT_THREADS: usize = 1;
/// Threads for plain pages: at most 16 MiB that an index leads to.
const PAGE_THREADS: usize = 2;
/// How long a short read may take, its wait for the thread included (docs/reference/http-api.md §12).
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a page may take: a cold disk may need a while for 16 MiB. No request takes more than 30 seconds in all.
const PAGE_PATIENCE: Duration = Duration::from_secs(25);

/// How many of their threads stay when there is nothing to do.
const LONG_KEPT: usize = 2;

type Work = Box<dyn FnOnce(&mut Connection) + Send>;

/// How long a read takes.
#[derive(Clone, Copy)]
pub(crate) enum Lane {
    /// A few rows by key.
    Short,
    /// A page that begins at a place of an index and takes every row.
    Page,
    /// Anything that may look at every task.
    Long,
}

/// The handle to the reading threads; they end when it is closed or dropped.
pub(crate) struct Readers {
    /// Nothing once closed.
    lanes: RwLock<Option<Lanes>>,
    threads: Mutex<Vec<(InterruptHandle, JoinHandle<()>)>>,
    long: LongReads<LongReader>,
}

struct Lanes {
    short: Sender<Work>,
    page: Sender<Work>,
}

impl Readers {
    /// Starts the threads of the bounded reads.
    pub(crate) fn start(ownership: &Arc<Ownership>, long_reads: usize) -> rusqlite::Result<Self> {
        let (short, short_work) = channel(WAITING);
        let (page, page_work) = channel(WAITING);
        let mut handles = Vec::new();
        for (work, threads, name) in [(short_work, SHORT_THREADS, "short-reader"), (page_work, PAGE_THREADS, "reader")]
        {
            let work = Arc::new(Mutex::new(work));
            for _ in 0..threads {
                let (connection, work) = (open::reader(ownership.path())?, Arc::clone(&work));
                let interrupt = connection.get_interrupt_handle();
                let thread = std::thread::Builder::new().name(name.into()).spawn(move || run(connection, &work));
                handles.push((interrupt, thread.map_err(|_| rusqlite::Error::UnwindingPanic)?));
            }
        }
        // The store gives the file up when its threads have closed their connections, not when they have ended.
        let ownership = Arc::downgrade(ownership);
        let long = LongReads::new(long_reads, LONG_KEPT, move || LongReader::new(ownership.clone()), |_| ());
        Ok(Self { lanes: RwLock::new(Some(Lanes { short, page })), threads: Mutex::new(handles), long })
    }

    /// Takes no more reads, cuts off those under way and closes the connections.
    pub(crate) fn close(&self) {
        self.long.stop();
        drop(self.lanes.write().unwrap_or_else(PoisonError::into_inner).take());
        for (interrupt, thread) in std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner)) {
            interrupt.interrupt();
            // A thread that ended by a panic is gone as well.
            let _ = thread.join();
        }
        self.long.close();
    }

    /// How many reads that may take long are under way.
    pub(crate) fn long_reads_under_way(&self) -> usize {
        self.long.under_way()
    }

    /// Runs a read on a thread of the lane, in one snapshot of the database.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        lane: Lane,
        doing: &'static str,
        read: impl FnOnce(&Snapshot<'_>) -> Result<T, ReadError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let answer = match lane {
            Lane::Long => self.long.run(|reader, active| reader.read(active, read)).await?,
            Lane::Short | Lane::Page => self.bounded(lane, read).await?,
        };
        answer.map_err(|error| error.into_store_error(doing))
    }

    async fn bounded<T: Send + 'static>(
        &self,
        lane: Lane,
        read: impl FnOnce(&Snapshot<'_>) -> Result<T, ReadError> + Send + 'static,
    ) -> Result<Result<T, ReadError>, StoreError> {
        let (answer, answered) = oneshot::channel();
        let work: Work = Box::new(move |connection| {
            if !answer.is_closed() {
                let _ = answer.send(in_snapshot(connection, None, read));
            }
        });
        self.send(lane, work)?;
        let patience = if matches!(lane, Lane::Short) { PATIENCE } else { PAGE_PATIENCE };
        match tokio::time::timeout(patience, answered).await {
            Ok(answered) => answered.map_err(|_| StoreError::Unavailable),
            Err(_) => Err(StoreError::Busy),
        }
    }

    fn send(&self, lane: Lane, work: Work) -> Result<(), StoreError> {
        let lanes = self.lanes.read().unwrap_or_else(PoisonError::into_inner);
        let lanes = lanes.as_ref().ok_or(StoreError::Unavailable)?;
        let sender = if matches!(lane, Lane::Short) { &lanes.short } else { &lanes.page };
        sender.try_send(work).map_err(|_| StoreError::Busy)
    }
}

/// Why a read gave nothing.
pub(crate) enum ReadError {
    /// A rule says no.
    Refused(StoreError),
    /// It was not to go on.
    Stopped(StopReason),
    /// The database failed.
    Failed(rusqlite::Error),
}

impl ReadError {
    /// What the caller may know; the rest is logged.
    pub(crate) fn into_store_error(self, doing: &'static str) -> StoreError {
        match self {
            Self::Refused(error) => error,
            Self::Stopped(stopped) => stopped.into(),
            Self::Failed(error) => failed(doing, &error),
        }
    }
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

impl From<StopReason> for ReadError {
    fn from(stopped: StopReason) -> Self {
        Self::Stopped(stopped)
    }
}

/// Runs a read in one moment of the database.
pub(crate) fn in_snapshot<T>(
    connection: &Connection,
    active: Option<&ActiveRead>,
    read: impl FnOnce(&Snapshot<'_>) -> Result<T, ReadError>,
) -> Result<T, ReadError> {
    let transaction = connection.unchecked_transaction()?;
    let value = read(&Snapshot { connection: &transaction, active });
    transaction.finish()?;
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

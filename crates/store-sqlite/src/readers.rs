//! Reads, on threads with read-only connections, so that no query runs on an async thread. A few threads serve the reads of
//! bounded cost one after the other. Every other read has its own thread and snapshot, scheduled by `LongReads`, so that a
//! scan of a million tasks does not delay a `get`, a plain page or a small count.

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

/// Reads that may wait in one lane; more are refused as busy.
const MAX_WAITING: usize = 1_024;
/// Threads for reads that take microseconds.
const SHORT_THREADS: usize = 1;
/// Threads for plain pages of at most 16 MiB.
const PAGE_THREADS: usize = 2;
/// How long a short read may take, its wait for the thread included (docs/reference/http-api.md §12).
const READ_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a page may take: a cold disk needs time for 16 MiB. The storage has 30 seconds in all.
const PAGE_TIMEOUT: Duration = Duration::from_secs(25);

/// How many threads of long reads stay when idle.
const IDLE_LONG_READERS: usize = 2;

type Work = Box<dyn FnOnce(&mut Connection) + Send>;

/// The cost of a read.
#[derive(Clone, Copy)]
pub(crate) enum Lane {
    /// A few rows by key.
    Short,
    /// A page that an index leads to, without a filter.
    Page,
    /// May scan every task.
    Long,
}

/// The reader threads.
pub(crate) struct Readers {
    /// `None` once closed.
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
        let (short, short_work) = channel(MAX_WAITING);
        let (page, page_work) = channel(MAX_WAITING);
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
        // A weak reference: the store releases the file when the threads have closed their connections, not when they end.
        let ownership = Arc::downgrade(ownership);
        let long = LongReads::new(long_reads, IDLE_LONG_READERS, move || LongReader::new(ownership.clone()), |_| ());
        Ok(Self { lanes: RwLock::new(Some(Lanes { short, page })), threads: Mutex::new(handles), long })
    }

    /// Refuses new reads, interrupts running ones and closes the connections.
    pub(crate) fn close(&self) {
        self.long.stop();
        drop(self.lanes.write().unwrap_or_else(PoisonError::into_inner).take());
        for (interrupt, thread) in std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner)) {
            interrupt.interrupt();
            // A thread that panicked has ended too.
            let _ = thread.join();
        }
        self.long.close();
    }

    pub(crate) fn long_reads_under_way(&self) -> usize {
        self.long.count()
    }

    /// Runs a read on a thread of the lane, in one snapshot of the database.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        lane: Lane,
        doing: &'static str,
        read: impl FnOnce(&Snapshot<'_>) -> Result<T, ReadError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let answer = match lane {
            Lane::Long => self.long.run(|reader, active| reader.run(active, read)).await?,
            Lane::Short | Lane::Page => self.read_bounded(lane, read).await?,
        };
        answer.map_err(|error| error.into_store_error(doing))
    }

    async fn read_bounded<T: Send + 'static>(
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
        let limit = if matches!(lane, Lane::Short) { READ_TIMEOUT } else { PAGE_TIMEOUT };
        match tokio::time::timeout(limit, answered).await {
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

pub(crate) enum ReadError {
    Refused(StoreError),
    Stopped(StopReason),
    Failed(rusqlite::Error),
}

impl ReadError {
    /// What the caller may know. The rest is logged.
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

/// Runs a read in one transaction.
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
        // One thread waits for work, the others for the lock.
        let next = work.lock().unwrap_or_else(PoisonError::into_inner).blocking_recv();
        match next {
            // After a panic the caller gets no answer, and the thread continues.
            Some(work) => drop(catch_unwind(AssertUnwindSafe(|| work(&mut connection)))),
            None => return,
        }
    }
}

//! Reads, on threads with read-only connections, so that no query runs on an async thread. A few threads serve the reads of
//! bounded cost one after the other. Every other read has its own thread and snapshot, scheduled by `LongReads`, so that a
//! scan of a million tasks does not delay a `get`, a plain page or a small count.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use rusqlite::{Connection, InterruptHandle};
use taskqueue_core::QueueName;
use taskqueue_store::long_reads::{ActiveRead, LongReads};
use taskqueue_store::{QueueKey, StoreError, StoreResult};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;

use crate::open;
use crate::ownership::Ownership;
use crate::queries::{Read, Snapshot, in_snapshot};

/// Reads that may wait in one lane; more are refused as busy.
const MAX_WAITING: usize = 1_024;
/// Threads for reads that take microseconds.
const SHORT_THREADS: usize = 1;
/// Threads for plain pages of at most 16 MiB.
const PAGE_THREADS: usize = 2;
/// The time that a short read may take, its wait for the thread included (docs/reference/http-api.md §12).
const READ_TIMEOUT: Duration = Duration::from_secs(5);
/// The time that a page may take: a cold disk needs time for 16 MiB. The storage has 30 seconds in all.
const PAGE_TIMEOUT: Duration = Duration::from_secs(25);

/// Steps of SQLite's virtual machine between two calls: a fraction of a millisecond.
const PROGRESS_STEPS: i32 = 20_000;
/// Threads of long reads that stay when idle.
const IDLE_LONG_READERS: usize = 2;

/// Short reads that share a snapshot at most, so that none of them makes it old.
const SHORT_TOGETHER: usize = 32;

type Work = Box<dyn FnOnce(&Snapshot<'_>) + Send>;

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
    /// Threads of bounded reads that read now.
    in_use: Arc<AtomicUsize>,
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
        let (mut handles, in_use) = (Vec::new(), Arc::<AtomicUsize>::default());
        // A page is long enough for a snapshot of its own, and another thread may take the next one.
        let lanes =
            [(short_work, SHORT_THREADS, SHORT_TOGETHER, "short-reader"), (page_work, PAGE_THREADS, 1, "reader")];
        for (work, threads, together, name) in lanes {
            let work = Arc::new(Mutex::new(work));
            for _ in 0..threads {
                let (connection, work) = (open::reader(ownership.path())?, Arc::clone(&work));
                let interrupt = connection.get_interrupt_handle();
                let in_use = Arc::clone(&in_use);
                let read = move || run(&connection, &work, together, &in_use);
                let thread = std::thread::Builder::new().name(name.into()).spawn(read);
                handles.push((interrupt, thread.map_err(|_| rusqlite::Error::UnwindingPanic)?));
            }
        }
        // A weak reference: the store releases the file when the threads have closed their connections, not when they end.
        let ownership = Arc::downgrade(ownership);
        let make = move || LongReader { ownership: ownership.clone(), connection: None };
        let long = LongReads::new(long_reads, IDLE_LONG_READERS, make, |_| ());
        Ok(Self { lanes: RwLock::new(Some(Lanes { short, page })), threads: Mutex::new(handles), long, in_use })
    }

    /// Refuses new reads, interrupts running ones and closes the connections.
    pub(crate) fn close(&self) {
        self.long.stop();
        drop(self.lanes.write().take());
        for (interrupt, thread) in std::mem::take(&mut *self.threads.lock()) {
            interrupt.interrupt();
            // A thread that panicked has ended too.
            let _ = thread.join();
        }
        self.long.close();
    }

    /// Threads of bounded reads that read now, and all of them.
    pub(crate) fn in_use_and_all(&self) -> (usize, usize) {
        (self.in_use.load(Ordering::Relaxed), SHORT_THREADS + PAGE_THREADS)
    }

    pub(crate) fn long_reads_under_way(&self) -> usize {
        self.long.count()
    }

    /// Runs a read on a thread of the lane, in one snapshot of the database.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        lane: Lane,
        doing: &'static str,
        read: impl FnOnce(&Snapshot<'_>) -> Read<T> + Send + 'static,
    ) -> StoreResult<T> {
        let answer = match lane {
            Lane::Long => self.long.run(|reader, active| reader.run(active, read)).await?,
            Lane::Short | Lane::Page => {
                let (answer, answered) = oneshot::channel();
                let work: Work = Box::new(move |file| {
                    if !answer.is_closed() {
                        let _ = answer.send(read(file));
                    }
                });
                self.send(lane, work)?;
                let limit = if matches!(lane, Lane::Short) { READ_TIMEOUT } else { PAGE_TIMEOUT };
                let answered = tokio::time::timeout(limit, answered).await.map_err(|_| StoreError::Busy)?;
                answered.map_err(|_| StoreError::Unavailable)?
            }
        };
        answer.map_err(|error| error.into_store_error(doing))
    }

    /// Returns the key of a queue that must exist.
    pub(crate) async fn find_queue(&self, name: &QueueName) -> StoreResult<QueueKey> {
        let name = name.clone();
        self.read(Lane::Short, "finding a queue", move |file: &Snapshot<'_>| file.existing_queue(&name)).await
    }

    /// Runs a read on a thread of the lane, and again as a long read if it gives up there because it has too much to do.
    pub(crate) async fn read_or_long<T, R>(
        &self,
        lane: Lane,
        doing: &'static str,
        read: impl Fn() -> R,
    ) -> StoreResult<T>
    where
        T: Send + 'static,
        R: FnOnce(&Snapshot<'_>) -> Read<Option<T>> + Send + 'static,
    {
        let answer = match self.read(lane, doing, read()).await? {
            None if !matches!(lane, Lane::Long) => self.read(Lane::Long, doing, read()).await?,
            answer => answer,
        };
        answer.ok_or(StoreError::Broken("a long read has given up"))
    }

    fn send(&self, lane: Lane, work: Work) -> StoreResult<()> {
        let lanes = self.lanes.read();
        let lanes = lanes.as_ref().ok_or(StoreError::Unavailable)?;
        let sender = if matches!(lane, Lane::Short) { &lanes.short } else { &lanes.page };
        sender.try_send(work).map_err(|_| StoreError::Busy)
    }
}

/// Serves the reads of a lane until it is closed. What waits when a thread becomes free is read in one snapshot, up to
/// `together` reads. The snapshot begins after they were submitted, so that each sees what its caller knows to be there.
fn run(connection: &Connection, work: &Mutex<Receiver<Work>>, together: usize, in_use: &AtomicUsize) {
    let mut taken = Vec::with_capacity(together);
    while take(work, together, &mut taken) {
        in_use.fetch_add(1, Ordering::Relaxed);
        let read_all = |file: &Snapshot<'_>| {
            for read in taken.drain(..) {
                // After a panic the caller gets no answer, and the thread continues.
                drop(catch_unwind(AssertUnwindSafe(|| read(file))));
            }
            Ok(())
        };
        if let Err(error) = in_snapshot(connection, None, read_all) {
            error.into_store_error("beginning to read");
        }
        // Without a snapshot there is no answer.
        taken.clear();
        in_use.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Waits for a read, and takes it with what waits behind it. False when the lane is closed.
fn take(work: &Mutex<Receiver<Work>>, together: usize, taken: &mut Vec<Work>) -> bool {
    // One thread waits for work, the others for the lock.
    let mut work = work.lock();
    taken.extend(work.blocking_recv());
    while !taken.is_empty() && taken.len() < together {
        match work.try_recv() {
            Ok(read) => taken.push(read),
            Err(_) => break,
        }
    }
    !taken.is_empty()
}

/// A thread for long reads, with a connection of its own. A read yields to others between rows (`queries.rs`); within a statement
/// that finds no rows, SQLite's progress handler does it.
struct LongReader {
    ownership: Weak<Ownership>,
    /// Opened by the first read.
    connection: Option<Connection>,
}

impl LongReader {
    fn run<T>(&mut self, active: &Arc<ActiveRead>, read: impl FnOnce(&Snapshot<'_>) -> Read<T>) -> Read<T> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => none.insert(connect(&self.ownership)?),
        };
        let watched = Arc::clone(active);
        connection.progress_handler(PROGRESS_STEPS, Some(move || watched.yield_if_due().is_err()))?;
        let answer = in_snapshot(connection, Some(active), read);
        connection.progress_handler(0, None::<fn() -> bool>)?;
        // The error of an interrupted statement does not tell the reason.
        match active.stopped() {
            Some(stopped) => Err(StoreError::from(stopped).into()),
            None => answer,
        }
    }
}

/// Opens the file, unless its path now leads to another one: SQLite deletes the log of an empty file.
fn connect(ownership: &Weak<Ownership>) -> Read<Connection> {
    match ownership.upgrade() {
        Some(ownership) if ownership.is_intact() => Ok(open::long_reader(ownership.path())?),
        _ => Err(StoreError::Unavailable.into()),
    }
}

/// Which snapshot a read sees, when several wait for the same thread.
#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::path::Path;
    use std::pin::{Pin, pin};
    use std::sync::Arc;
    use std::sync::mpsc::channel;
    use std::task::Poll;

    use rusqlite::Connection;
    use tokio::runtime::Builder;

    use super::*;
    use crate::{migrate, open, reads};

    fn queues(file: &Snapshot<'_>) -> usize {
        reads::list_queue_keys(file).map_or(usize::MAX, |queues| queues.len())
    }

    fn add_queue(path: &Path, name: &str) {
        Connection::open(path).unwrap().execute("INSERT INTO queues (name) VALUES (?1)", [name]).unwrap();
    }

    fn readers(path: &Path) -> Readers {
        std::fs::File::create(path).unwrap();
        migrate::migrate(&mut open::writer(path).unwrap(), path).unwrap();
        Readers::start(&Arc::new(Ownership::take(path).unwrap()), 1).unwrap()
    }

    /// Puts a read into the queue.
    async fn submit(mut read: Pin<&mut impl Future>) {
        assert!(poll_fn(|context| Poll::Ready(read.as_mut().poll(context).is_pending())).await);
    }

    #[test]
    fn short_reads_that_wait_share_a_snapshot_which_is_not_older_than_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tasks.db");
        let readers = readers(&path);
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        let (free, wait_until_free) = channel::<()>();
        let (begun, has_begun) = channel::<()>();
        let blocked = readers.read(Lane::Short, "waiting", move |file| {
            begun.send(()).unwrap();
            let before = queues(file);
            wait_until_free.recv().unwrap();
            Ok((before, queues(file)))
        });
        let written = path.clone();
        let first = readers.read(Lane::Short, "counting", move |file| {
            let before = queues(file);
            add_queue(&written, "b");
            Ok((before, queues(file)))
        });
        let second = readers.read(Lane::Short, "counting", |file| Ok(queues(file)));
        let answers = runtime.block_on(async {
            let (mut blocked, mut first, mut second) = (pin!(blocked), pin!(first), pin!(second));
            submit(blocked.as_mut()).await;
            has_begun.recv().unwrap();
            add_queue(&path, "a");
            submit(first.as_mut()).await;
            submit(second.as_mut()).await;
            free.send(()).unwrap();
            tokio::join!(blocked, first, second)
        });
        assert_eq!(answers.0, Ok((0, 0)), "a snapshot of one moment");
        assert_eq!(answers.1, Ok((1, 1)), "what was there when it was taken");
        assert_eq!(answers.2, Ok(1), "the same moment");
        let after = runtime.block_on(readers.read(Lane::Short, "counting", |file| Ok(queues(file))));
        assert_eq!(after, Ok(2), "asked for after the commit");
        readers.close();
    }

    #[test]
    fn a_read_that_panics_takes_no_other_read_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let readers = readers(&folder.path().join("tasks.db"));
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        let panics = readers.read(Lane::Short, "panicking", |_: &Snapshot<'_>| -> Read<()> { panic!("on purpose") });
        let others = readers.read(Lane::Short, "counting", |file| Ok(queues(file)));
        let answers = runtime.block_on(async { tokio::join!(panics, others) });
        assert_eq!(answers, (Err(StoreError::Unavailable), Ok(0)));
        assert_eq!(runtime.block_on(readers.read(Lane::Short, "counting", |file| Ok(queues(file)))), Ok(0));
        readers.close();
    }
}

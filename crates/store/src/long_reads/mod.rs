//! Reads that may scan every task. They run on their own threads, never on an async thread, and share the cores in time
//! slices. Used by both backends. See docs/decisions/0016.
//!
//! The threads start on demand and end when idle. Each runs one read at a time and keeps a state (a connection) between them.

mod scheduler;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
pub use scheduler::{ActiveRead, CallerGuard, ReadScheduler, ScheduledRead, StopReason};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, timeout_at};

use crate::submission::permit;
use crate::{StoreError, StoreResult};

/// How long a read may take in all, below the 30 seconds that the storage has.
const READ_TIMEOUT: Duration = Duration::from_secs(25);

/// The long reads of a store. `R` is the state of a thread: its connection.
pub struct LongReads<R: 'static> {
    threads: Arc<ThreadPool<R>>,
    scheduler: Arc<ReadScheduler>,
    permits: Arc<Semaphore>,
    after_answer: fn(&mut R),
}

impl<R: 'static> LongReads<R> {
    /// Runs at most `max_reads` at a time, each on a thread whose state `make` creates there; `max_idle` threads stay when idle.
    /// `after_answer` is called after the answer of a read was sent.
    pub fn new(
        max_reads: usize,
        max_idle: usize,
        make: impl Fn() -> R + Send + Sync + 'static,
        after_answer: fn(&mut R),
    ) -> Self {
        let state = PoolState { threads: 0, idle: Vec::new(), last_id: 0, closed: false };
        let (make, state) = (Box::new(make), Mutex::new(state));
        let threads = Arc::new(ThreadPool { max_idle, make, state, ended: Condvar::new() });
        let permits = Arc::new(Semaphore::new(max_reads));
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self { threads, scheduler: ReadScheduler::new(cores), permits, after_answer }
    }

    /// Runs a read on a thread and waits for its answer. The read must call [`ActiveRead::yield_if_due`] while it computes.
    /// It is stopped when this future is dropped.
    pub async fn run<T: Send + 'static>(
        &self,
        read: impl FnOnce(&mut R, &Arc<ActiveRead>) -> T + Send + 'static,
    ) -> StoreResult<T> {
        let end = Instant::now() + READ_TIMEOUT;
        let permit = permit(&self.permits).await?;
        let (caller, scheduled) = self.scheduler.add(end.saturating_duration_since(Instant::now()));
        let (answer, answered) = oneshot::channel();
        let after_answer = self.after_answer;
        let work = Box::new(move |state: &mut R| {
            let _ = answer.send(scheduled.begin().map(|active| read(state, &Arc::new(active))));
            after_answer(state);
        });
        self.threads.run(work, permit)?;
        let answered = timeout_at(end, answered).await;
        drop(caller);
        match answered {
            Ok(Ok(answer)) => answer.map_err(StoreError::from),
            // The thread panicked.
            Ok(Err(_)) => Err(StoreError::Unavailable),
            Err(_) => Err(StoreError::Busy),
        }
    }

    /// The number of reads that have not ended.
    pub fn count(&self) -> usize {
        self.scheduler.count()
    }

    /// Refuses new reads and stops running ones, without waiting for them.
    pub fn stop(&self) {
        self.permits.close();
        self.scheduler.close();
        self.threads.stop();
    }

    /// Stops, and waits until every thread has dropped its state.
    pub fn close(&self) {
        self.stop();
        self.threads.join();
    }
}

impl<R: 'static> Drop for LongReads<R> {
    fn drop(&mut self) {
        self.stop();
    }
}

/// How long a thread beyond `max_idle` waits for more work.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5);

type Work<R> = Box<dyn FnOnce(&mut R) + Send>;

/// Work and its permit, which is released when the thread can take more work.
type WorkItem<R> = (Work<R>, OwnedSemaphorePermit);

/// The next work of an idle thread; `None` ends it.
type Next<R> = Option<WorkItem<R>>;

/// The permits limit the number of threads.
struct ThreadPool<R> {
    max_idle: usize,
    make: Box<dyn Fn() -> R + Send + Sync>,
    state: Mutex<PoolState<R>>,
    ended: Condvar,
}

struct PoolState<R> {
    threads: usize,
    /// Idle threads by id. The last one was used last.
    idle: Vec<(u64, Sender<Next<R>>)>,
    last_id: u64,
    closed: bool,
}

impl<R: 'static> ThreadPool<R> {
    /// Runs work on an idle thread, or on a new one.
    fn run(self: &Arc<Self>, work: Work<R>, permit: OwnedSemaphorePermit) -> StoreResult<()> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(StoreError::Unavailable);
        }
        if let Some((_, thread)) = state.idle.pop() {
            // It is running: a thread removes itself from the list before it ends.
            return thread.send(Some((work, permit))).map_err(|_| StoreError::Unavailable);
        }
        let (pool, builder) = (Arc::clone(self), std::thread::Builder::new().name("long-reader".into()));
        match builder.spawn(move || pool.run_thread((work, permit))) {
            Ok(_) => {
                state.threads += 1;
                Ok(())
            }
            // The system cannot start another thread now.
            Err(_) => Err(StoreError::Busy),
        }
    }

    /// Refuses new work. Idle threads end at once, the others after their work.
    fn stop(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        for (_, thread) in state.idle.drain(..) {
            let _ = thread.send(None);
        }
    }

    /// Waits until every thread has ended, after `stop`.
    fn join(&self) {
        let mut state = self.state.lock();
        while state.threads > 0 {
            self.ended.wait(&mut state);
        }
    }

    fn run_thread(&self, first: WorkItem<R>) {
        let mut own = (self.make)();
        let (sender, receiver) = channel();
        let mut item = Some(first);
        while let Some((work, permit)) = item {
            // After a panic the caller gets no answer, and the state may be inconsistent: it is replaced.
            if catch_unwind(AssertUnwindSafe(|| work(&mut own))).is_err() {
                own = (self.make)();
            }
            item = self.next(&sender, &receiver, permit);
        }
        drop(own);
        self.state.lock().threads -= 1;
        self.ended.notify_all();
    }

    fn next(&self, sender: &Sender<Next<R>>, receiver: &Receiver<Next<R>>, permit: OwnedSemaphorePermit) -> Next<R> {
        let id = {
            let mut state = self.state.lock();
            if state.closed {
                return None;
            }
            state.last_id += 1;
            let id = state.last_id;
            state.idle.push((id, sender.clone()));
            id
        };
        drop(permit);
        loop {
            match receiver.recv_timeout(IDLE_TIMEOUT) {
                Ok(next) => return next,
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {}
            }
            let mut state = self.state.lock();
            // A thread that is no longer on the list is about to receive work.
            if let Some(index) = state.idle.iter().position(|(idle, _)| *idle == id)
                && state.idle.len() > self.max_idle
            {
                state.idle.remove(index);
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests;

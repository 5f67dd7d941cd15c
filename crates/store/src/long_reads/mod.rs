//! Reads that may scan every task. They run on their own threads, never on an async thread, and share the cores in time
//! slices. Used by both backends. See docs/decisions/0016.

mod scheduler;
mod thread_pool;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, oneshot};
use tokio::time::{Instant, timeout_at};

use crate::submission::permit;
use crate::{StoreError, StoreResult};
pub use scheduler::{ActiveRead, CallerGuard, ReadScheduler, ScheduledRead, StopReason};
use thread_pool::ThreadPool;

/// How long a read may take in all, below the 30 seconds that the storage has.
const READ_TIMEOUT: Duration = Duration::from_secs(25);

/// The long reads of a store. `R` is the state of a thread: its connection.
pub struct LongReads<R: 'static> {
    threads: ThreadPool<R>,
    scheduler: Arc<ReadScheduler>,
    permits: Arc<Semaphore>,
    after_answer: fn(&mut R),
}

impl<R: 'static> LongReads<R> {
    /// Runs at most `max_reads` at a time, each on a thread whose state `make` creates; `max_idle` threads stay when idle.
    /// `after_answer` is called after the answer of a read was sent.
    pub fn new(
        max_reads: usize,
        max_idle: usize,
        make: impl Fn() -> R + Send + Sync + 'static,
        after_answer: fn(&mut R),
    ) -> Self {
        let threads = ThreadPool::new("long-reader", max_idle, make);
        let permits = Arc::new(Semaphore::new(max_reads));
        Self { threads, scheduler: ReadScheduler::with_all_cores(), permits, after_answer }
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

#[cfg(test)]
mod tests;

//! Reads that may compute for long, on threads of their own: none of them runs on an async thread, and none keeps the
//! others from their turn. Both backends run their long reads here; how they read is their own affair.
//! See docs/decisions/0016.

mod scheduler;
mod slots;
mod thread_pool;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

use crate::StoreError;
pub use scheduler::{ActiveRead, CallerGuard, ReadScheduler, ScheduledRead, StopReason};
use thread_pool::ThreadPool;

/// How long a read may wait for a thread (docs/reference/http-api.md §12).
const PLACE_PATIENCE: Duration = Duration::from_secs(5);
/// How long a read may take in all, so that no request takes more than 30 seconds.
const PATIENCE: Duration = Duration::from_secs(25);

/// The threads of the long reads of a store. `R` is what each thread owns: its connection.
pub struct LongReads<R: 'static> {
    threads: ThreadPool<R>,
    scheduler: Arc<ReadScheduler>,
    places: Arc<Semaphore>,
    after: fn(&mut R),
}

impl<R: 'static> LongReads<R> {
    /// At most `most` reads at a time, each on a thread that makes what it owns with `make`; `kept` threads stay when
    /// there is nothing to do. `after` is called when the answer of a read has been given.
    pub fn new(most: usize, kept: usize, make: impl Fn() -> R + Send + Sync + 'static, after: fn(&mut R)) -> Self {
        let threads = ThreadPool::new("long-reader", kept, make);
        Self { threads, scheduler: ReadScheduler::of_this_machine(), places: Arc::new(Semaphore::new(most)), after }
    }

    /// Runs a read when there is a thread for it, and waits for what it gives. The read must call [`ActiveRead::yield_if_due`] while it
    /// computes. It is stopped when this future is dropped.
    pub async fn run<T: Send + 'static>(
        &self,
        read: impl FnOnce(&mut R, &Arc<ActiveRead>) -> T + Send + 'static,
    ) -> Result<T, StoreError> {
        let end = Instant::now() + PATIENCE;
        let place = match timeout(PLACE_PATIENCE, Arc::clone(&self.places).acquire_owned()).await {
            Ok(place) => place.map_err(|_| StoreError::Unavailable)?,
            Err(_) => return Err(StoreError::Busy),
        };
        let (caller, ready) = self.scheduler.read(end.saturating_duration_since(Instant::now()));
        let (answer, answered) = oneshot::channel();
        let after = self.after;
        let work = Box::new(move |own: &mut R| {
            let _ = answer.send(ready.begin().map(|turn| read(own, &Arc::new(turn))));
            after(own);
        });
        self.threads.run(work, place)?;
        let answered = timeout_at(end, answered).await;
        drop(caller);
        match answered {
            Ok(Ok(answer)) => answer.map_err(StoreError::from),
            // The thread panicked.
            Ok(Err(_)) => Err(StoreError::Unavailable),
            Err(_) => Err(StoreError::Busy),
        }
    }

    /// How many reads are under way.
    pub fn under_way(&self) -> usize {
        self.scheduler.under_way()
    }

    /// Takes no more reads and stops those under way. Returns without waiting for them.
    pub fn stop(&self) {
        self.places.close();
        self.scheduler.close();
        self.threads.stop();
    }

    /// The same, and returns when every thread has let go of what it owned.
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

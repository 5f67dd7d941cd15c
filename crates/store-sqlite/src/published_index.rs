//! The claim index between batches, visible to every thread: a claim that finds nothing is answered by the thread that
//! received it. Passing it to the writer and back costs several times as much as the lookup. Nothing is changed here.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use taskqueue_core::ids::QueueName;
use taskqueue_core::lease;
use taskqueue_core::sparse::KEYS_MAX;
use taskqueue_core::status::Statuses;
use taskqueue_store::clock::Clock;
use taskqueue_store::command::Sought;
use taskqueue_store::transaction::TaskKey;

use crate::claim_index::ClaimIndex;

/// How long a read waits for the end of a batch. A large bulk update takes longer; then the read finds its tasks otherwise.
const LIVING_TIMEOUT: Duration = Duration::from_millis(200);

/// A read that wants to know which tasks are pending or running.
struct LivingRequest {
    queue: QueueName,
    statuses: Statuses,
    answer: SyncSender<Option<Vec<TaskKey>>>,
}

/// The writer withdraws the index before it begins a transaction. It publishes it again after the commit or, after a
/// failure, when it has been read again from the file. So a reader sees everything that is committed and nothing else, and "no
/// task" is true at that moment. The lock orders withdrawals, publications and lookups, which gives two more guarantees:
///
/// - **A client that knows of a task finds it.** The index is withdrawn when the answer to a creation is released, and every
///   index that is published later holds the task. A lookup after that answer sees such an index, or none, and then the
///   claim goes to the writer.
/// - **No wake-up is lost.** A waiter registers, then looks up; the writer withdraws the index, then counts the waiters. If
///   the lookup saw the index of before a batch, then registration and lookup came before the withdrawal: the writer
///   counts this waiter and wakes it if the batch made something claimable. It does so while the index is withdrawn, so
///   the lookup that follows sees a later index, or none. A waiter that the writer did not count registered after the
///   withdrawal, and its first lookup sees a later index too, or none.
///
/// A lookup does not check whether the path still leads to our file: that asks the file system, which may block, and no async
/// thread must block. The writer checks at each batch, the lease scan of every second included, and publishes nothing if
/// the file was replaced.
pub(crate) struct PublishedIndex {
    /// `None` while the writer executes a batch, and after a storage error. The lock is held for one lookup or one move,
    /// never for a transaction.
    index: RwLock<Option<ClaimIndex>>,
    /// Reads that wait for the end of a batch.
    living_requests: Mutex<Vec<LivingRequest>>,
    clock: Arc<dyn Clock>,
    sleeps_credited: AtomicU64,
    credit_seconds: i64,
}

impl PublishedIndex {
    /// Publishes an index that is what the file holds.
    pub(crate) fn new(index: ClaimIndex, clock: Arc<dyn Clock>, credit_seconds: i64) -> Self {
        let sleeps_credited = AtomicU64::new(clock.times_found_ahead());
        Self {
            index: RwLock::new(Some(index)),
            living_requests: Mutex::default(),
            clock,
            sleeps_credited,
            credit_seconds,
        }
    }

    /// Takes the index back for the writer, if it is published.
    pub(crate) fn withdraw(&self) -> Option<ClaimIndex> {
        self.index.write().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Publishes an index that is what the file holds, and answers the reads that wait for one: under load the next batch
    /// begins so soon that they would hardly ever see it.
    pub(crate) fn publish(&self, index: ClaimIndex) {
        let mut published = self.index.write().unwrap_or_else(PoisonError::into_inner);
        let requests = std::mem::take(&mut *self.living_requests());
        for LivingRequest { queue, statuses, answer } in requests {
            // A read that has given up takes no answer.
            let _ = answer.try_send(index.living(&queue, statuses, KEYS_MAX));
        }
        *published = Some(index);
    }

    fn living_requests(&self) -> MutexGuard<'_, Vec<LivingRequest>> {
        self.living_requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The keys of the tasks of a queue that are pending or running, as of a moment during this call. Nothing if there are more
    /// than [`KEYS_MAX`], which would hold up the writer for longer than about a millisecond, if there is no such queue, or if the writer is busy for too long. Waits; not for async threads.
    pub(crate) fn living(&self, queue: &QueueName, statuses: Statuses) -> Option<Vec<TaskKey>> {
        let lookup = || {
            let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
            index.as_ref().map(|index| index.living(queue, statuses, KEYS_MAX))
        };
        if let Some(keys) = lookup() {
            return keys;
        }
        let (answer, answered) = sync_channel(1);
        self.living_requests().push(LivingRequest { queue: queue.clone(), statuses, answer });
        // The index may have been published just before the request was there.
        lookup().unwrap_or_else(|| answered.recv_timeout(LIVING_TIMEOUT).ok().flatten())
    }

    /// Whether claims certainly find nothing.
    pub(crate) fn finds_nothing<'a>(&self, sought: impl Into<Sought<'a>>) -> bool {
        // An async thread must not wait, so an index that is being moved counts as withdrawn.
        let Ok(index) = self.index.try_read() else { return false };
        index.as_ref().is_some_and(|index| index.finds_nothing(sought.into()) && !self.had_outage(index))
    }

    /// Whether leases are to be extended before anything else: then a claim that finds nothing goes to the writer too.
    pub(crate) fn had_outage(&self, index: &ClaimIndex) -> bool {
        let out = |last| lease::is_longer_than_outage(last, self.clock.now());
        let slept = self.sleeps_credited() != self.clock.times_found_ahead();
        self.credit_seconds > 0 && index.last_scan_at.is_some_and(|last| slept || out(last))
    }

    /// How often the machine's clock had been found ahead when that was last counted as an outage.
    pub(crate) fn sleeps_credited(&self) -> u64 {
        self.sleeps_credited.load(Ordering::Relaxed)
    }

    /// The index counts all that were found until then as outages.
    pub(crate) fn credit_sleeps(&self, times_found_ahead: u64) {
        self.sleeps_credited.store(times_found_ahead, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use taskqueue_core::time::Timestamp;
    use taskqueue_store::clock::ManualClock;
    use taskqueue_store::conformance::commands::{claim, queue};
    use taskqueue_store::transaction::QueueKey;

    use super::*;

    #[test]
    fn a_poisoned_lock_sends_claims_to_the_writer_and_does_not_stop_it() {
        let clock = Arc::new(ManualClock::new(Timestamp::from_micros(0)));
        let mut index = ClaimIndex::default();
        index.add_queue(queue("q"), QueueKey(1));
        let published = PublishedIndex::new(index, clock, 90);
        let empty_claim = claim("q", "default", 1);
        assert!(published.finds_nothing(&empty_claim));
        let poisoned = std::thread::scope(|scope| {
            let panicking = scope.spawn(|| {
                let _index = published.index.write();
                panic!("while the index is locked");
            });
            panicking.join()
        });
        assert!(poisoned.is_err() && published.index.is_poisoned());
        assert!(!published.finds_nothing(&empty_claim));
        let index = published.withdraw().unwrap();
        published.publish(index);
        assert!(published.withdraw().is_some());
    }
}

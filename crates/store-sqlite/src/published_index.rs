//! The claim index between batches, visible to every thread: a claim that finds nothing is answered by the thread that
//! received it. Passing it to the writer and back costs several times as much as the lookup. Nothing is changed here.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant};

use taskqueue_core::{Timestamp, lease};
use taskqueue_store::clock::Clock;
use taskqueue_store::command::ClaimTarget;

use crate::claim_index::ClaimIndex;

/// The time that a read waits for the end of a batch. A large bulk update takes longer; then the read finds its tasks otherwise, or
/// says nothing about them.
pub(crate) const LOOK_TIMEOUT: Duration = Duration::from_millis(200);

/// A look at the index that a read wants at the end of a batch.
struct AwaitedLook {
    /// Dead when the read has got its answer otherwise, or has given up.
    wanted: Weak<()>,
    answer: Box<dyn FnOnce(&ClaimIndex) + Send>,
}

impl AwaitedLook {
    fn is_wanted(&self) -> bool {
        self.wanted.strong_count() > 0
    }
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
    /// Boxed, because it moves with every batch.
    index: RwLock<Option<Box<ClaimIndex>>>,
    /// Reads that wait for the end of a batch.
    looks: Mutex<Vec<AwaitedLook>>,
    clock: Arc<dyn Clock>,
    /// The number of commits that have begun.
    commits: AtomicU64,
    sleeps_credited: AtomicU64,
    credit_seconds: i64,
}

impl PublishedIndex {
    /// Publishes an index that is what the file holds.
    pub(crate) fn new(index: ClaimIndex, clock: Arc<dyn Clock>, credit_seconds: i64) -> Self {
        let sleeps_credited = AtomicU64::new(clock.times_found_ahead());
        let (index, commits) = (RwLock::new(Some(Box::new(index))), AtomicU64::new(0));
        Self { index, looks: Mutex::default(), clock, commits, sleeps_credited, credit_seconds }
    }

    /// Takes the index back for the writer, if it is published.
    pub(crate) fn withdraw(&self) -> Option<Box<ClaimIndex>> {
        self.index.write().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Publishes an index that is what the file holds, and answers the reads that wait for one: under load the next batch
    /// begins so soon that they would hardly ever see it.
    pub(crate) fn publish(&self, index: Box<ClaimIndex>) {
        let mut published = self.index.write().unwrap_or_else(PoisonError::into_inner);
        let looks = std::mem::take(&mut *self.looks());
        looks.into_iter().filter(AwaitedLook::is_wanted).for_each(|look| (look.answer)(&index));
        *published = Some(index);
    }

    fn looks(&self) -> MutexGuard<'_, Vec<AwaitedLook>> {
        self.looks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the index as it is at a moment during this call. `None` if the writer is busy for too long. Must be quick, about a
    /// millisecond: the writer waits for it. Waits; not for async threads.
    pub(crate) fn look<T: Send + 'static>(&self, look: impl Fn(&ClaimIndex) -> T + Send + Sync + 'static) -> Option<T> {
        self.look_until(Instant::now() + LOOK_TIMEOUT, look)
    }

    /// Looks at the index as `look` does, with a deadline.
    pub(crate) fn look_until<T: Send + 'static>(
        &self,
        until: Instant,
        look: impl Fn(&ClaimIndex) -> T + Send + Sync + 'static,
    ) -> Option<T> {
        let look = Arc::new(look);
        let at_once = || self.index.read().unwrap_or_else(PoisonError::into_inner).as_deref().map(&*look);
        if let Some(seen) = at_once() {
            return Some(seen);
        }
        let ((sender, answered), asked) = (sync_channel(1), Arc::clone(&look));
        let answer = Box::new(move |index: &ClaimIndex| {
            // A read that has given up takes no answer.
            let _ = sender.try_send(asked(index));
        });
        let wanting = Arc::new(());
        let mut looks = self.looks();
        // While the storage fails, nobody answers.
        looks.retain(AwaitedLook::is_wanted);
        looks.push(AwaitedLook { wanted: Arc::downgrade(&wanting), answer });
        drop(looks);
        // The index may have been published just before the request was there.
        at_once().or_else(|| answered.recv_timeout(until.saturating_duration_since(Instant::now())).ok())
    }

    /// The time of the service.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// A commit begins. The index is withdrawn then.
    pub(crate) fn commit_begins(&self) {
        self.commits.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns how many commits have begun.
    pub(crate) fn commits_begun(&self) -> u64 {
        self.commits.load(Ordering::SeqCst)
    }

    /// Returns whether claims certainly find nothing.
    pub(crate) fn finds_nothing<'a>(&self, sought: impl Into<ClaimTarget<'a>>) -> bool {
        // An async thread must not wait, so an index that is being moved counts as withdrawn.
        let Ok(index) = self.index.try_read() else { return false };
        let nothing = |index: &ClaimIndex| index.finds_nothing(sought.into(), || self.clock.now());
        index.as_deref().is_some_and(|index| nothing(index) && !self.had_outage(index))
    }

    /// Returns whether an upkeep certainly has nothing to do.
    pub(crate) fn has_no_upkeep(&self) -> bool {
        let Ok(index) = self.index.try_read() else { return false };
        index.as_deref().is_some_and(|index| index.has_no_upkeep(self.clock.now()) && !self.had_outage(index))
    }

    /// Returns whether leases are to be extended before anything else: then a claim that finds nothing and an upkeep without work
    /// go to the writer too.
    pub(crate) fn had_outage(&self, index: &ClaimIndex) -> bool {
        let out = |last| lease::is_longer_than_outage(last, self.clock.now());
        let slept = self.sleeps_credited() != self.clock.times_found_ahead();
        self.credit_seconds > 0 && index.last_scan_at.is_some_and(|last| slept || out(last))
    }

    /// Returns how often the machine's clock had been found ahead when that was last counted as an outage.
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
    use taskqueue_store::conformance::ManualClock;
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

    fn published() -> PublishedIndex {
        let clock = Arc::new(ManualClock::new(Timestamp::from_micros(0)));
        let mut index = ClaimIndex::default();
        index.add_queue(queue("q"), QueueKey(1));
        PublishedIndex::new(index, clock, 90)
    }

    fn later() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[test]
    fn a_look_during_a_batch_sees_what_is_published_after_it() {
        let published = published();
        let mut index = published.withdraw().unwrap();
        let seen = std::thread::scope(|scope| {
            let look = scope.spawn(|| published.look_until(later(), |index| index.queue(&queue("r"))));
            while published.looks().is_empty() {
                std::thread::yield_now();
            }
            index.add_queue(queue("r"), QueueKey(2));
            published.publish(index);
            look.join().unwrap()
        });
        assert_eq!(seen, Some(Some(QueueKey(2))));
    }

    #[test]
    fn looks_that_were_given_up_are_not_kept() {
        let published = published();
        let index = published.withdraw().unwrap();
        for _ in 0..3 {
            assert_eq!(published.look_until(Instant::now(), |_| panic!("nobody waits for it")), None::<()>);
            assert_eq!(published.looks().len(), 1, "only the last one");
        }
        published.publish(index);
        assert!(published.looks().is_empty());
        assert_eq!(published.look_until(Instant::now(), |_| 5), Some(5), "what is published is seen at once");
    }
}

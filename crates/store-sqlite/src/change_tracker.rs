//! Which tasks the writer changes while a read looks at a snapshot: what a plan or a list of found tasks does not know of.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use taskqueue_store::bulk::REDECIDED;
use taskqueue_store::bulk_action::{ChangeRecord, FoundTask};
use taskqueue_store::transaction::{QueueKey, TaskKey};

/// Tasks that a tracker records at most; with more of them a new plan is made. About 3 MiB.
const RECORDED: usize = 65_536;

/// The tasks that a transaction has created, changed or deleted.
#[derive(Default)]
pub(crate) struct ChangedTasks {
    keys: Vec<(QueueKey, TaskKey)>,
    too_many: bool,
}

impl ChangedTasks {
    const UNKNOWN: Self = Self { keys: Vec::new(), too_many: true };

    pub(crate) fn add(&mut self, queue: QueueKey, key: TaskKey) {
        if self.too_many || self.keys.len() >= RECORDED {
            *self = Self::UNKNOWN;
        } else {
            self.keys.push((queue, key));
        }
    }

    /// Returns those of the keys that may be among them.
    pub(crate) fn among(&self, keys: &HashSet<TaskKey>) -> HashSet<TaskKey> {
        match self.too_many {
            true => keys.clone(),
            false => self.keys.iter().map(|(_, key)| *key).filter(|key| keys.contains(key)).collect(),
        }
    }
}

/// Records what changes in one queue, from before a snapshot on.
#[derive(Debug)]
pub(crate) struct ChangeTracker {
    queue: QueueKey,
    recorded: Mutex<RecordedKeys>,
}

#[derive(Debug, Default)]
struct RecordedKeys {
    keys: BTreeSet<TaskKey>,
    too_many: bool,
}

impl ChangeTracker {
    fn recorded(&self) -> MutexGuard<'_, RecordedKeys> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record(&self, changed: &ChangedTasks) {
        let mut recorded = self.recorded();
        recorded.too_many |= changed.too_many;
        recorded.keys.extend(changed.keys.iter().filter(|(queue, _)| *queue == self.queue).map(|(_, key)| key));
        recorded.too_many |= recorded.keys.len() > RECORDED;
        if recorded.too_many {
            recorded.keys.clear();
        }
    }

    /// Returns what was recorded since this was last called; nothing if that is too much.
    pub(crate) fn take(&self) -> Option<Vec<TaskKey>> {
        let mut recorded = self.recorded();
        (!recorded.too_many).then(|| std::mem::take(&mut recorded.keys).into_iter().collect())
    }

    /// Returns whether so little was recorded that the write can decide it again.
    pub(crate) fn is_few(&self) -> bool {
        let recorded = self.recorded();
        !recorded.too_many && recorded.keys.len() <= REDECIDED
    }
}

/// For bulk actions, whose tasks are done one portion after the other.
impl ChangeRecord for ChangeTracker {
    fn may_have_changed(&self, key: TaskKey) -> bool {
        let recorded = self.recorded();
        recorded.too_many || recorded.keys.contains(&key)
    }

    fn forget(&self, tasks: &[FoundTask]) {
        let mut recorded = self.recorded();
        for task in tasks {
            recorded.keys.remove(&task.key);
        }
    }
}

/// The trackers of the plans that are being made or written, and of the bulk actions under way.
#[derive(Default)]
pub(crate) struct ChangeTrackers(Mutex<Vec<Weak<ChangeTracker>>>);

impl ChangeTrackers {
    /// Tracks a queue from now on, until the tracker is dropped. A snapshot that is taken later sees everything that is not
    /// recorded: the writer records what it changed right after the commit.
    pub(crate) fn add(&self, queue: QueueKey) -> Arc<ChangeTracker> {
        let tracker = Arc::new(ChangeTracker { queue, recorded: Mutex::default() });
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&tracker));
        tracker
    }

    /// A transaction was committed that changed these.
    pub(crate) fn record(&self, changed: &ChangedTasks) {
        let mut trackers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        trackers.retain(|tracker| tracker.upgrade().inspect(|tracker| tracker.record(changed)).is_some());
    }

    /// It is not known what was changed.
    pub(crate) fn invalidate(&self) {
        self.record(&ChangedTasks::UNKNOWN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(keys: impl IntoIterator<Item = (i64, i64)>) -> ChangedTasks {
        let mut changed = ChangedTasks::default();
        keys.into_iter().for_each(|(queue, key)| changed.add(QueueKey(queue), TaskKey(key)));
        changed
    }

    #[test]
    fn a_tracker_records_what_changes_in_its_queue_once() {
        let trackers = ChangeTrackers::default();
        let tracker = trackers.add(QueueKey(1));
        trackers.record(&changed([(1, 5), (2, 6), (1, 4), (1, 5)]));
        assert!(tracker.is_few());
        assert_eq!(tracker.take(), Some(vec![TaskKey(4), TaskKey(5)]));
        assert_eq!(tracker.take(), Some(vec![]));
        trackers.record(&changed([(1, 5)]));
        assert_eq!(tracker.take(), Some(vec![TaskKey(5)]));
    }

    #[test]
    fn a_write_decides_few_tasks_again_and_not_more() {
        let trackers = ChangeTrackers::default();
        let tracker = trackers.add(QueueKey(1));
        trackers.record(&changed((0..REDECIDED as i64).map(|key| (1, key))));
        assert!(tracker.is_few());
        trackers.record(&changed([(1, -1)]));
        assert!(!tracker.is_few());
        assert_eq!(tracker.take().unwrap().len(), REDECIDED + 1);
    }

    #[test]
    fn more_than_is_recorded_makes_a_new_plan_necessary() {
        let trackers = ChangeTrackers::default();
        let tracker = trackers.add(QueueKey(1));
        trackers.record(&changed((0..=RECORDED as i64).map(|key| (2, key))));
        assert_eq!((tracker.take(), tracker.is_few()), (None, false), "of any queue: it is not known which");
        let tracker = trackers.add(QueueKey(1));
        trackers.record(&changed((0..RECORDED as i64).map(|key| (1, key))));
        trackers.record(&changed([(1, -1)]));
        assert_eq!(tracker.take(), None);
        let tracker = trackers.add(QueueKey(1));
        trackers.invalidate();
        assert_eq!(tracker.take(), None);
    }

    #[test]
    fn a_tracker_that_is_dropped_costs_nothing_any_more() {
        let trackers = ChangeTrackers::default();
        drop(trackers.add(QueueKey(1)));
        trackers.record(&ChangedTasks::default());
        assert_eq!(trackers.0.lock().unwrap().len(), 0);
    }
}

//! Which tasks the writer changes while a read looks at a snapshot: what a plan or a list of found tasks does not know of.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use taskqueue_store::bulk::REDECIDED;
use taskqueue_store::bulk_action::{ChangeRecord, FoundTask};
use taskqueue_store::transaction::{QueueKey, TaskKey};

/// Tasks that a tracker records at most; with more of them a new plan is made. About 3 MiB.
const RECORDED: usize = 65_536;

/// The tasks that a transaction has created, changed or deleted; `None` if there are too many.
pub(crate) struct ChangedTasks(Option<Vec<(QueueKey, TaskKey)>>);

impl Default for ChangedTasks {
    fn default() -> Self {
        Self(Some(Vec::new()))
    }
}

impl ChangedTasks {
    pub(crate) fn add(&mut self, queue: QueueKey, key: TaskKey) {
        match &mut self.0 {
            Some(keys) if keys.len() < RECORDED => keys.push((queue, key)),
            _ => self.0 = None,
        }
    }

    /// Returns those of the keys that may be among them.
    pub(crate) fn among(&self, keys: &HashSet<TaskKey>) -> HashSet<TaskKey> {
        match &self.0 {
            None => keys.clone(),
            Some(changed) => changed.iter().map(|(_, key)| *key).filter(|key| keys.contains(key)).collect(),
        }
    }
}

/// Records what changes in one queue, from before a snapshot on.
#[derive(Debug)]
pub(crate) struct ChangeTracker {
    queue: QueueKey,
    /// `None` if there were too many.
    recorded: Mutex<Option<BTreeSet<TaskKey>>>,
}

impl ChangeTracker {
    fn record(&self, changed: &ChangedTasks) {
        let mut recorded = self.recorded.lock();
        let all = recorded.take().zip(changed.0.as_ref()).map(|(mut keys, changed)| {
            keys.extend(changed.iter().filter(|(queue, _)| *queue == self.queue).map(|(_, key)| key));
            keys
        });
        *recorded = all.filter(|keys| keys.len() <= RECORDED);
    }

    /// Returns what was recorded since this was last called; nothing if that is too much.
    pub(crate) fn take(&self) -> Option<Vec<TaskKey>> {
        self.recorded.lock().as_mut().map(|keys| std::mem::take(keys).into_iter().collect())
    }

    /// Returns whether so little was recorded that the write can decide it again.
    pub(crate) fn is_few(&self) -> bool {
        self.recorded.lock().as_ref().is_some_and(|keys| keys.len() <= REDECIDED)
    }
}

/// For bulk actions, whose tasks are done one portion after the other.
impl ChangeRecord for ChangeTracker {
    fn may_have_changed(&self, key: TaskKey) -> bool {
        self.recorded.lock().as_ref().is_none_or(|keys| keys.contains(&key))
    }

    fn forget(&self, tasks: &[FoundTask]) {
        if let Some(keys) = &mut *self.recorded.lock() {
            for task in tasks {
                keys.remove(&task.key);
            }
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
        let tracker = Arc::new(ChangeTracker { queue, recorded: Mutex::new(Some(BTreeSet::new())) });
        self.0.lock().push(Arc::downgrade(&tracker));
        tracker
    }

    /// A transaction was committed that changed these.
    pub(crate) fn record(&self, changed: &ChangedTasks) {
        let mut trackers = self.0.lock();
        trackers.retain(|tracker| tracker.upgrade().inspect(|tracker| tracker.record(changed)).is_some());
    }

    /// It is not known what was changed.
    pub(crate) fn invalidate(&self) {
        self.record(&ChangedTasks(None));
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
        assert_eq!(trackers.0.lock().len(), 0);
    }
}

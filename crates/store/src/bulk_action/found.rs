//! The tasks that a bulk action has found and not done yet: a bounded number of keys, lowest first, and from where on to look for
//! more.

use std::collections::{BinaryHeap, HashSet, VecDeque};
use std::fmt::Debug;
use std::sync::Arc;

use taskqueue_core::task::TaskHead;

use crate::transaction::{QueueKey, TaskKey};

/// Tasks that are found at a time: 4 MiB.
pub const FOUND_MAX: usize = 262_144;

/// A task that was selected when it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FoundTask {
    pub key: TaskKey,
    /// The version of its row, by which the storage knows later whether it has changed. 0 if the storage records changes.
    pub version: u32,
}

/// What has become of a found task.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "some hundred at a time, and most of them are heads")]
pub enum Now {
    /// It is as it was found.
    Unchanged(TaskHead),
    /// It may have changed.
    Changed,
    /// Another transaction or an earlier command of this one holds it.
    Held,
}

/// What changed since tasks were found, for a storage that records it.
pub trait ChangeRecord: Debug + Send + Sync {
    fn may_have_changed(&self, key: TaskKey) -> bool;
    /// These tasks do not matter any more.
    fn forget(&self, tasks: &[FoundTask]);
}

/// Keys above `after`, up to and including `until`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRange {
    pub after: TaskKey,
    pub until: TaskKey,
}

/// Collects selected tasks, whatever order they come in: how many there are, and those with the lowest keys.
#[derive(Debug)]
pub struct Collector {
    most: usize,
    matched: u64,
    last: Option<TaskKey>,
    lowest: BinaryHeap<FoundTask>,
}

impl Collector {
    pub fn up_to(most: usize) -> Self {
        Self { most, matched: 0, last: None, lowest: BinaryHeap::new() }
    }

    pub fn add(&mut self, task: FoundTask) {
        self.matched += 1;
        self.last = self.last.max(Some(task.key));
        if self.lowest.len() < self.most {
            self.lowest.push(task);
        } else if let Some(mut highest) = self.lowest.peek_mut().filter(|highest| task < **highest) {
            *highest = task;
        }
    }

    /// Whether later tasks in the order of keys would only be counted.
    pub fn is_full(&self) -> bool {
        self.lowest.len() >= self.most
    }

    pub fn finish(self, queue: QueueKey, changes: Option<Arc<dyn ChangeRecord>>) -> FoundTasks {
        let tasks = VecDeque::from(self.lowest.into_sorted_vec());
        let found_until = tasks.back().map(|task| task.key);
        let until = self.last;
        let (blocked, has_changed) = (Vec::new(), false);
        FoundTasks { queue, matched: self.matched, changes, tasks, blocked, has_changed, found_until, until }
    }
}

/// The found tasks of one snapshot.
#[derive(Debug)]
pub struct FoundTasks {
    pub queue: QueueKey,
    /// How many tasks were selected.
    pub matched: u64,
    pub changes: Option<Arc<dyn ChangeRecord>>,
    tasks: VecDeque<FoundTask>,
    /// Those that can be done only after others of them.
    blocked: Vec<FoundTask>,
    /// Whether anything was changed since the blocked ones were tried.
    has_changed: bool,
    /// The highest key that was found.
    found_until: Option<TaskKey>,
    /// The highest key that was selected.
    until: Option<TaskKey>,
}

impl FoundTasks {
    /// The next tasks; none when all are done, or blocked for good. Behind the last one the blocked ones come again, the other way
    /// round: a chain whose tasks were created in either order is done in the second turn at the latest.
    pub(super) fn next(&mut self, most: usize) -> Vec<FoundTask> {
        if self.tasks.is_empty() && std::mem::take(&mut self.has_changed) {
            self.tasks = std::mem::take(&mut self.blocked).into_iter().rev().collect();
        }
        self.tasks.drain(..most.min(self.tasks.len())).collect()
    }

    /// Where the tasks are that were counted and not found.
    pub(super) fn rest(&self) -> Option<KeyRange> {
        let (after, until) = (self.found_until?, self.until?);
        (after < until).then_some(KeyRange { after, until })
    }

    /// Goes on with tasks that were found in the rest.
    pub(super) fn replace(&mut self, next: Self) {
        let until = self.until;
        // If none was found, the rest was looked through.
        let found_until = next.found_until.or(until);
        *self = Self { found_until, until, ..next };
    }

    /// Nothing was done about these tasks.
    pub(super) fn put_back(&mut self, tasks: Vec<FoundTask>) {
        tasks.into_iter().rev().for_each(|task| self.tasks.push_front(task));
    }

    /// These tasks are done, except `left` and `blocked`; so many of them were changed.
    pub(super) fn done(&mut self, tasks: &[FoundTask], left: Vec<FoundTask>, blocked: Vec<FoundTask>, changed: u64) {
        if let Some(changes) = &self.changes {
            let kept: HashSet<FoundTask> = left.iter().chain(&blocked).copied().collect();
            let done: Vec<FoundTask> = tasks.iter().filter(|task| !kept.contains(task)).copied().collect();
            changes.forget(&done);
        }
        self.put_back(left);
        self.blocked.extend(blocked);
        self.has_changed |= changed > 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(key: i64) -> FoundTask {
        FoundTask { key: TaskKey(key), version: 0 }
    }

    fn collected(most: usize, keys: impl IntoIterator<Item = i64>) -> FoundTasks {
        let mut collector = Collector::up_to(most);
        keys.into_iter().for_each(|key| collector.add(found(key)));
        collector.finish(QueueKey(1), None)
    }

    fn keys(tasks: Vec<FoundTask>) -> Vec<i64> {
        tasks.into_iter().map(|task| task.key.0).collect()
    }

    #[test]
    fn the_lowest_keys_are_found_and_all_tasks_are_counted() {
        let mut tasks = collected(3, [9, 2, 7, 4, 8, 1]);
        assert_eq!(tasks.matched, 6);
        assert_eq!(tasks.rest(), Some(KeyRange { after: TaskKey(4), until: TaskKey(9) }));
        assert_eq!((keys(tasks.next(2)), keys(tasks.next(2)), keys(tasks.next(2))), (vec![1, 2], vec![4], vec![]));
        assert_eq!(collected(3, [3, 2, 1]).rest(), None);
        assert_eq!((collected(3, []).rest(), collected(3, []).matched), (None, 0));
    }

    #[test]
    fn what_is_left_comes_first_again() {
        let mut tasks = collected(9, 1..=5);
        let portion = tasks.next(3);
        tasks.done(&portion, vec![found(2)], vec![], 2);
        assert_eq!(keys(tasks.next(9)), [2, 4, 5]);
        tasks.put_back(vec![found(4), found(5)]);
        assert_eq!(keys(tasks.next(9)), [4, 5]);
    }

    #[test]
    fn what_is_blocked_comes_again_at_the_end_as_long_as_something_changes() {
        let mut tasks = collected(9, 1..=4);
        let portion = tasks.next(3);
        tasks.done(&portion, vec![], vec![found(1), found(2)], 1);
        let portion = tasks.next(3);
        assert_eq!(keys(portion.clone()), [4]);
        tasks.done(&portion, vec![], vec![], 1);
        let portion = tasks.next(3);
        assert_eq!(keys(portion.clone()), [2, 1]);
        tasks.done(&portion, vec![], vec![found(1)], 1);
        let portion = tasks.next(3);
        assert_eq!(keys(portion.clone()), [1]);
        tasks.done(&portion, vec![], portion.clone(), 0);
        assert!(tasks.next(3).is_empty(), "it stays blocked");
    }

    #[test]
    fn the_rest_is_looked_through_once() {
        let mut tasks = collected(2, [1, 2, 3, 4, 5]);
        tasks.replace(collected(2, [3, 4]));
        assert_eq!(tasks.rest(), Some(KeyRange { after: TaskKey(4), until: TaskKey(5) }));
        tasks.replace(collected(2, []));
        assert_eq!(tasks.rest(), None);
        let mut tasks = collected(2, [1, 2, 9]);
        tasks.replace(collected(2, [3]));
        assert_eq!(tasks.rest(), Some(KeyRange { after: TaskKey(3), until: TaskKey(9) }), "others may have come since");
    }
}

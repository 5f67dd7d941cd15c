//! The tasks that a bulk action has found and not done yet: a bounded number of keys, lowest first, and from where on to look for
//! more.

use std::collections::{BTreeSet, BinaryHeap, HashSet, VecDeque};
use std::fmt::Debug;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use taskqueue_core::{TaskHead, TaskId};

use crate::command::PortionOutcome;
use crate::{QueueKey, TaskKey};

/// Tasks that are found at a time: 4 MiB.
pub const FOUND_MAX: usize = 262_144;

/// A task that was selected when it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FoundTask {
    pub key: TaskKey,
    /// The version of its row, by which the storage knows later whether it has changed. If the storage records changes, 0 or
    /// [`FoundTask::UNRECORDED`].
    pub version: u32,
}

impl FoundTask {
    /// It was found before the record of changes began.
    pub const UNRECORDED: u32 = 1;
}

/// The state of a found task.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "some hundred at a time, and most of them are heads")]
pub enum FoundState {
    /// It is as it was found.
    Unchanged(TaskHead),
    /// It may have changed.
    Changed,
    /// Another transaction holds it.
    Held,
}

impl FoundState {
    pub(crate) fn head(&self) -> Option<&TaskHead> {
        match self {
            Self::Unchanged(head) => Some(head),
            Self::Changed | Self::Held => None,
        }
    }
}

/// A record of the changes since tasks were found, for a storage that records it.
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

    /// Returns whether later tasks in the order of keys would only be counted.
    pub fn is_full(&self) -> bool {
        self.lowest.len() >= self.most
    }

    pub fn finish(self, queue: QueueKey, changes: Option<Arc<dyn ChangeRecord>>) -> FoundTasks {
        let tasks = VecDeque::from(self.lowest.into_sorted_vec());
        let found_until = tasks.back().map(|task| task.key);
        let until = self.last;
        let (blocked, has_earlier) = (BlockedTasks::default(), false);
        FoundTasks { queue, matched: self.matched, changes, tasks, blocked, has_earlier, found_until, until }
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
    blocked: BlockedTasks,
    /// True if some of the blocked ones were found in an earlier snapshot.
    has_earlier: bool,
    /// The highest key that was found.
    found_until: Option<TaskKey>,
    /// The highest key that was selected.
    until: Option<TaskKey>,
}

impl FoundTasks {
    /// The next tasks; none when all are done, or blocked for good. First those that were blocked by what is done now. After all
    /// were looked at once, those come with them that wait for them: a chain is followed from its beginning, whatever order its
    /// tasks were created in.
    pub(super) fn next(&mut self, most: usize) -> Vec<FoundTask> {
        let mut freed = self.blocked.take_freed(most);
        let others: Vec<FoundTask> = self.tasks.drain(..self.tasks.len().min(most - freed.len())).collect();
        self.blocked.take_behind(&mut freed, most - others.len());
        let is_recorded = !self.has_earlier || self.changes.is_none();
        let again =
            |task: FoundTask| if is_recorded { task } else { FoundTask { version: FoundTask::UNRECORDED, ..task } };
        freed.iter().map(|task| again(task.found)).chain(others).collect()
    }

    /// Where the tasks are that were counted and not found.
    pub(super) fn rest(&self) -> Option<KeyRange> {
        let (after, until) = (self.found_until?, self.until?);
        (after < until).then_some(KeyRange { after, until })
    }

    /// Goes on with tasks that were found in the rest. Those that are still blocked may wait for them.
    pub(super) fn replace(&mut self, next: Self) {
        let until = self.until;
        // If none was found, the rest was looked through.
        let found_until = next.found_until.or(until);
        *self = Self { found_until, until, blocked: std::mem::take(&mut self.blocked), has_earlier: true, ..next };
    }

    /// Nothing was done about these tasks.
    pub(super) fn put_back(&mut self, tasks: Vec<FoundTask>) {
        tasks.into_iter().rev().for_each(|task| self.tasks.push_front(task));
    }

    /// This became of these tasks.
    pub(super) fn done(&mut self, tasks: &[FoundTask], PortionOutcome { left, blocked, requeued, .. }: PortionOutcome) {
        if let Some(changes) = &self.changes {
            let kept: HashSet<FoundTask> = blocked.iter().map(|task| task.found).chain(left.iter().copied()).collect();
            let done: Vec<FoundTask> = tasks.iter().filter(|task| !kept.contains(task)).copied().collect();
            changes.forget(&done);
        }
        self.put_back(left);
        blocked.into_iter().for_each(|task| self.blocked.add(task));
        requeued.into_iter().for_each(|id| self.blocked.free(id));
    }
}

/// So many are kept: about 9 MiB. Others are left to the next request.
const BLOCKED_MAX: usize = 262_144;

/// A mark of an id. If two ids have the same, a task may be looked at once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Mark(u32);

impl Mark {
    fn of(id: TaskId) -> Self {
        Self(BuildHasherDefault::<DefaultHasher>::default().hash_one(id) as u32)
    }
}

/// A found task that would be requeued in vain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlockedTask {
    /// One that must be requeued before.
    dependency: Mark,
    found: FoundTask,
    id: Mark,
}

impl BlockedTask {
    pub(crate) fn new(found: FoundTask, id: TaskId, dependency: TaskId) -> Self {
        Self { dependency: Mark::of(dependency), found, id: Mark::of(id) }
    }
}

/// Which of the failed dependencies of a task is waited for. Any of them may be the last one that is requeued. The one with the
/// lowest mark is as good as one by chance: of a thousand, seven or eight are waited for in the mean.
pub(crate) fn waited_for(failed: &[TaskId]) -> Option<TaskId> {
    failed.iter().copied().min_by_key(|id| Mark::of(*id))
}

/// How far those that wait for a requeued task were given out. One that comes back is not given out again.
#[derive(Clone, Copy, Debug)]
struct Freed {
    dependency: Mark,
    given_until: TaskKey,
}

#[derive(Debug, Default)]
pub(super) struct BlockedTasks {
    waiting: BTreeSet<BlockedTask>,
    freed: VecDeque<Freed>,
}

impl BlockedTasks {
    pub(super) fn add(&mut self, task: BlockedTask) {
        if self.waiting.len() < BLOCKED_MAX {
            self.waiting.insert(task);
        }
    }

    /// This task was requeued.
    pub(super) fn free(&mut self, id: TaskId) {
        let (dependency, given_until) = (Mark::of(id), TaskKey(i64::MIN));
        if self.first_behind(dependency, given_until).is_some() {
            self.freed.push_back(Freed { dependency, given_until });
        }
    }

    /// Tasks that wait for one that was requeued.
    pub(super) fn take_freed(&mut self, most: usize) -> Vec<BlockedTask> {
        let mut taken = Vec::new();
        while taken.len() < most
            && let Some(Freed { dependency, given_until }) = self.freed.pop_front()
        {
            if let Some(task) = self.first_behind(dependency, given_until) {
                self.freed.push_front(Freed { dependency, given_until: task.found.key });
                self.waiting.remove(&task);
                taken.push(task);
            }
        }
        taken
    }

    /// Adds tasks that wait for these, and for those, and so on, the nearest first: their turn may come in the same portion.
    pub(super) fn take_behind(&mut self, tasks: &mut Vec<BlockedTask>, most: usize) {
        let mut place = 0;
        while tasks.len() < most
            && let Some(dependency) = tasks.get(place).map(|task| task.id)
        {
            match self.first_behind(dependency, TaskKey(i64::MIN)) {
                Some(task) => {
                    self.waiting.remove(&task);
                    tasks.push(task);
                }
                None => place += 1,
            }
        }
    }

    fn first_behind(&self, dependency: Mark, after: TaskKey) -> Option<BlockedTask> {
        let key = TaskKey(after.0.saturating_add(1));
        let first = BlockedTask { dependency, found: FoundTask { key, version: 0 }, id: Mark(0) };
        self.waiting.range(first..).next().copied().filter(|task| task.dependency == dependency)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use taskqueue_core::ids::TaskId;

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
        tasks.done(&portion, PortionOutcome { left: vec![found(2)], changed: 2, ..PortionOutcome::default() });
        assert_eq!(keys(tasks.next(9)), [2, 4, 5]);
        tasks.put_back(vec![found(4), found(5)]);
        assert_eq!(keys(tasks.next(9)), [4, 5]);
    }

    fn id(key: i64) -> TaskId {
        let mut bytes = [0; 9];
        bytes[..8].copy_from_slice(&key.to_be_bytes());
        TaskId::from_bytes(bytes)
    }

    /// Requeues tasks that wait for others, by their places in `keys`. Gives how many were done, how many were
    /// looked at, and in how many portions.
    /// As in a portion, what is blocked by one behind it in the same portion is tried again.
    fn requeue(tasks: &mut FoundTasks, keys: &[i64], waits_for: impl Fn(usize) -> Vec<usize>) -> [usize; 3] {
        let places: HashMap<i64, usize> = keys.iter().copied().zip(0..).collect();
        let (mut done, mut looked_at, mut portions) = (HashSet::new(), 0, 0);
        loop {
            let portion = tasks.next(100);
            if portion.is_empty() {
                return [done.len(), looked_at, portions];
            }
            let (mut acted, mut turns) = (PortionOutcome::default(), portion.iter().copied().collect::<VecDeque<_>>());
            let mut blocked = HashMap::<TaskId, Vec<FoundTask>>::new();
            while let Some(task) = turns.pop_front() {
                let place = places[&task.key.0];
                let waits = waits_for(place).into_iter().filter(|other| !done.contains(other));
                let failed: Vec<TaskId> = waits.map(|other| id(keys[other])).collect();
                looked_at += 1;
                if let Some(dependency) = waited_for(&failed) {
                    blocked.entry(dependency).or_default().push(task);
                    continue;
                }
                assert!(done.insert(place), "once");
                acted.requeued.push(id(task.key.0));
                turns.extend(blocked.remove(&id(task.key.0)).unwrap_or_default());
            }
            for (dependency, task) in
                blocked.into_iter().flat_map(|(id, tasks)| tasks.into_iter().map(move |task| (id, task)))
            {
                acted.blocked.push(BlockedTask::new(task, id(task.key.0), dependency));
            }
            portions += 1;
            tasks.done(&portion, acted);
        }
    }

    const LENGTH: usize = 1_009;

    /// The keys of a chain that was created in no order: squares modulo a prime.
    fn mixed_keys() -> Vec<i64> {
        (0..LENGTH as i64).map(|place| (place * place % 1_009) * 4_096 + place).collect()
    }

    #[test]
    fn a_chain_in_whatever_order_is_looked_at_twice() {
        let (forward, backward) = ((0..LENGTH as i64).collect(), (0..LENGTH as i64).rev().collect());
        for keys in [forward, backward, mixed_keys()] {
            let mut tasks = collected(LENGTH, keys.iter().copied());
            let [done, looked_at, portions] =
                requeue(&mut tasks, &keys, |place| place.checked_sub(1).into_iter().collect());
            assert_eq!(done, LENGTH);
            assert!(looked_at <= 3 * LENGTH && portions <= 30, "{looked_at} in {portions}");
        }
    }

    #[test]
    fn tasks_that_wait_for_many_are_looked_at_a_few_times() {
        let keys = mixed_keys();
        for window in [2, 10, 100] {
            let mut tasks = collected(LENGTH, keys.iter().copied());
            let before = |place: usize| (place.saturating_sub(window)..place).collect();
            let [done, looked_at, portions] = requeue(&mut tasks, &keys, before);
            assert_eq!(done, LENGTH);
            assert!(looked_at <= 12 * LENGTH && portions <= 100, "{window}: {looked_at} in {portions}");
        }
    }

    #[test]
    fn what_waits_in_a_circle_or_for_another_task_stays_blocked() {
        let keys: Vec<i64> = (0..6).collect();
        let waits = [vec![], vec![0], vec![3], vec![2, 0], vec![5], vec![]];
        let mut tasks = collected(9, 0..5);
        assert_eq!(requeue(&mut tasks, &keys, |place| waits[place].clone()), [2, 5, 1]);
    }

    #[test]
    fn what_is_blocked_is_kept_for_what_is_found_later() {
        let keys: Vec<i64> = (0..9).rev().collect();
        let mut tasks = collected(3, 0..9);
        let chain = |place: usize| place.checked_sub(1).into_iter().collect();
        assert_eq!(requeue(&mut tasks, &keys, chain), [0, 3, 1]);
        tasks.replace(collected(9, 3..9));
        assert_eq!(requeue(&mut tasks, &keys, chain)[0], 9);
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

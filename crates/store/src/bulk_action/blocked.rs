//! Found tasks that would be requeued in vain as long as something that they wait for has failed. Each is kept with one such
//! dependency, and comes again when that was requeued; not before, however many others are.

use std::collections::{BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use taskqueue_core::ids::TaskId;

use super::found::FoundTask;
use crate::transaction::TaskKey;

/// So many are kept: about 9 MiB. Others are left to the next request.
const BLOCKED_MAX: usize = 262_144;

/// What is kept of an id. If two ids have the same, a task may be looked at once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Mark(u32);

impl Mark {
    fn of(id: TaskId) -> Self {
        let mut hasher = DefaultHasher::new();
        id.hash(&mut hasher);
        Self(hasher.finish() as u32)
    }
}

/// A found task that would be requeued in vain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlockedTask {
    /// One that must be requeued before.
    dependency: Mark,
    key: TaskKey,
    version: u32,
    id: Mark,
}

impl BlockedTask {
    pub(crate) fn new(found: FoundTask, id: TaskId, dependency: TaskId) -> Self {
        let FoundTask { key, version } = found;
        Self { dependency: Mark::of(dependency), key, version, id: Mark::of(id) }
    }

    pub(super) fn found(&self) -> FoundTask {
        FoundTask { key: self.key, version: self.version }
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
                self.freed.push_front(Freed { dependency, given_until: task.key });
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
        let first = BlockedTask { dependency, key, version: 0, id: Mark(0) };
        self.waiting.range(first..).next().copied().filter(|task| task.dependency == dependency)
    }
}

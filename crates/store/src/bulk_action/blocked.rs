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
    /// Whether there is no other one.
    is_last: bool,
}

impl BlockedTask {
    /// Nothing if no dependency has failed. If several have, any of them may be the last one that is requeued. The one with the
    /// lowest mark is as good as one by chance: of a thousand, seven or eight are tried in the mean.
    pub(crate) fn new(found: FoundTask, id: TaskId, failed: &[TaskId]) -> Option<Self> {
        let dependency = failed.iter().copied().map(Mark::of).min()?;
        let FoundTask { key, version } = found;
        Some(Self { dependency, key, version, id: Mark::of(id), is_last: failed.len() == 1 })
    }

    pub(super) fn found(&self) -> FoundTask {
        FoundTask { key: self.key, version: self.version }
    }
}

/// How far those that wait for a task were given out. One that comes back is not given out again.
#[derive(Clone, Copy, Debug)]
struct Given {
    dependency: Mark,
    until: Option<TaskKey>,
}

#[derive(Debug, Default)]
pub(super) struct BlockedTasks {
    waiting: BTreeSet<BlockedTask>,
    /// Those for whose dependents it may be the turn.
    freed: VecDeque<Given>,
}

impl BlockedTasks {
    pub(super) fn add(&mut self, task: BlockedTask) {
        if self.waiting.len() < BLOCKED_MAX {
            self.waiting.insert(task);
        }
    }

    /// This task was requeued.
    pub(super) fn free(&mut self, id: TaskId) {
        let given = Given { dependency: Mark::of(id), until: None };
        if first_behind(&self.waiting, given, false).is_some() {
            self.freed.push_back(given);
        }
    }

    /// The next tasks whose turn it may be. Behind each of them come those that wait for it alone: it is requeued before their turn,
    /// in the same portion.
    pub(super) fn next(&mut self, most: usize) -> Vec<FoundTask> {
        let (mut next, mut expected) = (Vec::new(), Vec::new());
        while next.len() < most {
            let is_expected = !expected.is_empty();
            let Some(given) = expected.last_mut().or(self.freed.front_mut()) else { break };
            match first_behind(&self.waiting, *given, is_expected) {
                Some(task) => {
                    given.until = Some(task.key);
                    self.waiting.remove(&task);
                    next.push(task.found());
                    expected.push(Given { dependency: task.id, until: None });
                }
                None if is_expected => drop(expected.pop()),
                None => drop(self.freed.pop_front()),
            }
        }
        next
    }
}

/// The next one that waits for a task; with `alone`, of those that wait for no other one.
fn first_behind(waiting: &BTreeSet<BlockedTask>, given: Given, alone: bool) -> Option<BlockedTask> {
    let Given { dependency, until } = given;
    let key = TaskKey(until.map_or(i64::MIN, |until| until.0.saturating_add(1)));
    let first = BlockedTask { dependency, key, version: 0, id: Mark(0), is_last: false };
    let behind = waiting.range(first..).take_while(|task| task.dependency == dependency);
    behind.copied().find(|task| task.is_last || !alone)
}

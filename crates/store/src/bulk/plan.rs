//! The plan of a bulk update: which tasks match, and what changes of each. 16 bytes for each task that changes and 8 for each
//! that matches and stays as it is.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use taskqueue_core::refusal::Refusal;
use taskqueue_core::task::Task;
use taskqueue_core::update::{Effect, Update};

use crate::StoreResult;
use crate::command::BulkUpdate;
use crate::transaction::{QueueKey, TaskKey};
use crate::weight::BulkWeight;

/// The decision about one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decided {
    /// It does not match, is running, or was deleted.
    Skipped,
    /// It matches and stays as it is.
    Unchanged,
    /// It matches and changes.
    Changes(Effect),
}

/// The plan of a bulk update, as of a snapshot.
#[derive(Debug)]
pub struct Plan {
    queue: QueueKey,
    /// Sorted by key.
    changes: Vec<(TaskKey, Effect)>,
    /// Sorted by key.
    unchanged: Vec<TaskKey>,
    /// Later decisions about some tasks, which count instead.
    again: BTreeMap<TaskKey, Decided>,
    weight: BulkWeight,
}

impl Plan {
    pub fn queue(&self) -> QueueKey {
        self.queue
    }

    /// How many tasks match and are not running.
    pub fn matched(&self) -> u64 {
        let first = self.changes.len() + self.unchanged.len();
        let replaced = self.again.keys().filter(|key| self.matched_at_first(**key)).count();
        let matching = self.again.values().filter(|decided| **decided != Decided::Skipped).count();
        (first - replaced + matching) as u64
    }

    fn matched_at_first(&self, key: TaskKey) -> bool {
        self.changes.binary_search_by_key(&key, |change| change.0).is_ok() || self.unchanged.binary_search(&key).is_ok()
    }

    /// The tasks that change, each once.
    pub fn changes(&self) -> impl Iterator<Item = (TaskKey, Effect)> {
        let first = self.changes.iter().filter(|(key, _)| !self.again.contains_key(key)).copied();
        let again = self.again.iter().filter_map(|(key, decided)| match decided {
            Decided::Changes(effect) => Some((*key, *effect)),
            Decided::Skipped | Decided::Unchanged => None,
        });
        first.chain(again)
    }

    /// The tasks that match and stay as they are, each once.
    pub fn unchanged(&self) -> impl Iterator<Item = TaskKey> {
        let first = self.unchanged.iter().filter(|key| !self.again.contains_key(key));
        let again = self.again.iter().filter(|(_, decided)| **decided == Decided::Unchanged).map(|(key, _)| key);
        first.chain(again).copied()
    }

    /// Decides again about these tasks; `found` are those of them that exist.
    pub fn decide_again(
        &mut self,
        bulk: &BulkUpdate,
        keys: &[TaskKey],
        found: &[(TaskKey, Task)],
    ) -> Result<(), Refusal> {
        let weighed: Vec<bool> = found.iter().map(|(key, _)| self.has_change(*key)).collect();
        self.again.extend(keys.iter().map(|key| (*key, Decided::Skipped)));
        for ((key, task), was_weighed) in found.iter().zip(weighed) {
            if bulk.selects(&task.view()) {
                let decided = decide(&bulk.update, task)?;
                if matches!(decided, Decided::Changes(_)) && !was_weighed {
                    self.weight.add(&bulk.update, task);
                }
                self.again.insert(*key, decided);
            }
        }
        self.weight.check()
    }

    /// Returns whether it was decided before that this task changes.
    fn has_change(&self, key: TaskKey) -> bool {
        let at_first = || self.changes.binary_search_by_key(&key, |change| change.0).is_ok();
        self.again.get(&key).map_or_else(at_first, |decided| matches!(decided, Decided::Changes(_)))
    }
}

fn decide(update: &Update, task: &Task) -> Result<Decided, Refusal> {
    Ok(update.effect(task)?.map_or(Decided::Unchanged, Decided::Changes))
}

/// Makes a plan, task by task.
pub struct Planner<'a> {
    update: &'a Update,
    plan: Plan,
    refusal: Option<Refusal>,
}

impl<'a> Planner<'a> {
    pub fn new(queue: QueueKey, update: &'a Update) -> Self {
        let (changes, unchanged, again) = (Vec::new(), Vec::new(), BTreeMap::new());
        let plan = Plan { queue, changes, unchanged, again, weight: BulkWeight::default() };
        Self { update, plan, refusal: None }
    }

    /// Decides about a task that matches and is not running. One refusal is enough, and too much weight is one.
    pub fn decide(&mut self, key: TaskKey, task: &Task) -> ControlFlow<()> {
        self.refusal = match decide(self.update, task) {
            Ok(Decided::Changes(effect)) => {
                self.plan.changes.push((key, effect));
                self.plan.weight.add(self.update, task);
                self.plan.weight.check().err()
            }
            Ok(_) => {
                self.plan.unchanged.push(key);
                None
            }
            Err(refusal) => Some(refusal),
        };
        if self.refusal.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// The plan, or the refusal.
    pub fn finish(mut self) -> StoreResult<Plan> {
        if let Some(refusal) = self.refusal {
            return Err(refusal.into());
        }
        self.plan.changes.sort_unstable_by_key(|change| change.0);
        self.plan.unchanged.sort_unstable();
        Ok(self.plan)
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;

//! Bulk updates in two steps, the same on every backend. The first one reads every task of the queue in a snapshot, outside
//! the writer, and makes a plan: which tasks match, and what changes of each. It takes 16 bytes for each task that changes and 8 for
//! each that matches and stays as it is. The second step runs in the writer: what changed since the snapshot is decided again, then
//! the plan is saved, all in one transaction. Why: docs/decisions/0017. The order of the steps is in `steps.rs`.

mod steps;

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;

pub(crate) use steps::PLANS;
pub use steps::{BulkSteps, Gate, Limit, Outdated, Planned, PlannedWrite, REDECIDED, SharedPlan, update_tasks};
use taskqueue_core::update::{Documents, Effect};
use taskqueue_core::{Refusal, Task, TaskHead, Update};

use crate::command::{BulkUpdate, UpdateTasks, Updated};
use crate::execute::Execution;
use crate::transaction::{BatchTransaction, Queue, QueueKey, TaskKey};
use crate::weight::BulkWeight;
use crate::{StoreError, StoreResult};

/// Whole tasks that are loaded at a time: 16 MiB, should each be as large as it may be.
pub(crate) const LOADED_AT_ONCE: usize = 8;
/// Heads that are loaded and saved at a time: some hundred kilobytes, and some megabytes if each has as many dependencies as it
/// may.
const SAVED_AT_ONCE: usize = 250;
/// Bytes of JSON that merge patches apply to at a time, and that they produce. One task more may begin below it, and it may
/// be a large one.
const MERGED_AT_ONCE: usize = 4 * 1_048_576;

impl<T: BatchTransaction> Execution<'_, T> {
    /// Both steps in one transaction, for a storage that cannot tell what changed since a snapshot.
    pub(crate) fn update_tasks(&mut self, UpdateTasks { bulk }: &UpdateTasks) -> StoreResult<Updated> {
        let limit = Limit::of_one_step();
        let queue = self.existing_queue(&bulk.queue)?;
        let mut planner = Planner::new(queue.key, &bulk.update);
        self.tx.visit_matching(queue, bulk, &limit, &mut |key, task| planner.decide(key, task))?;
        self.save_plan(queue, bulk, &planner.finish()?, &limit)
    }

    /// The second step. [`StoreError::Busy`] if the plan is outdated, which is then marked and nothing was saved; and when the
    /// limit is over: then the transaction must be undone.
    pub(crate) fn write_plan(&mut self, bulk: &BulkUpdate, write: &PlannedWrite<T::Snapshot>) -> StoreResult<Updated> {
        let PlannedWrite { plan, limit, gate } = write;
        let mut planned = plan.lock();
        // An earlier attempt may have marked it, and have been undone.
        planned.outdated = None;
        let queue = self.existing_queue(&bulk.queue)?;
        if queue.key != planned.plan.queue {
            planned.outdated = Some(Outdated::QueueReplaced);
            return Err(StoreError::Busy);
        }
        let Some(since) = self.tx.changed_since(&planned)? else {
            planned.outdated = Some(Outdated::TooManyChanges);
            return Err(StoreError::Busy);
        };
        // Before anything is saved: a refusal leaves every task untouched.
        for keys in since.chunks(LOADED_AT_ONCE) {
            planned.plan.decide_again(bulk, keys, &self.tx.load_existing(queue, keys)?)?;
        }
        gate.pass_within_write();
        self.save_plan(queue, bulk, &planned.plan, limit)
    }

    fn save_plan(&mut self, queue: Queue<'_>, bulk: &BulkUpdate, plan: &Plan, limit: &Limit) -> StoreResult<Updated> {
        let (now, update) = (self.tx.now(), &bulk.update);
        let (mut changes, mut updated, mut planned) = (plan.changes(), 0, 0);
        loop {
            let effects = next_effects(&mut changes, update);
            if effects.is_empty() {
                // Those that do not exist any more were deleted since.
                return Ok(Updated { matched: plan.matched() - (planned - updated), updated });
            }
            if limit.is_over() {
                return Err(StoreError::Busy);
            }
            planned += effects.len() as u64;
            let keys: Vec<TaskKey> = effects.keys().copied().collect();
            let heads = self.tx.load_heads(&keys)?;
            for heads in heads.chunk_by(loaded_together(update)) {
                // What the patches make of the JSON, which is the one that the plan has seen.
                let mut merged: HashMap<TaskKey, Documents> = HashMap::new();
                if update.has_patches() {
                    let keys: Vec<TaskKey> = heads.iter().map(|(key, _)| *key).collect();
                    let documents = self.tx.load_documents(&keys)?;
                    merged.extend(documents.into_iter().map(|(key, before)| (key, update.documents_after(&before))));
                }
                for (key, before) in heads {
                    let Some(effect) = effects.get(key) else { continue };
                    // One that waits for one of those before it may have changed.
                    let is_settled = self.after_commit.settled.contains(key);
                    let again = is_settled.then(|| self.tx.load_head(*key)).transpose()?;
                    let before = again.as_ref().unwrap_or(before);
                    let after = update.updated_head(before, *effect, now);
                    self.tx.save_effect(queue.key, *key, (before, &after), update, *effect, merged.get(key))?;
                    self.after_commit.updated(queue.name, before, &after);
                    if update.changes_waiting() {
                        // It holds the queue alone, so that nothing of it is busy.
                        let found = self.look_up(queue.key, Some(*key), &after.scheduling.dependencies)?;
                        self.save_looked_up(queue, *key, &before.scheduling.dependencies, &after, &found)?;
                    }
                    updated += 1;
                }
            }
        }
    }
}

/// The next tasks to be saved. A backend may keep what is saved of them in memory.
fn next_effects(changes: &mut impl Iterator<Item = (TaskKey, Effect)>, update: &Update) -> BTreeMap<TaskKey, Effect> {
    let (mut effects, mut bytes) = (BTreeMap::new(), 0);
    while effects.len() < SAVED_AT_ONCE && bytes < MERGED_AT_ONCE {
        let Some((key, effect)) = changes.next() else { break };
        bytes += if update.has_patches() { effect.definition_bytes as usize } else { 0 };
        effects.insert(key, effect);
    }
    effects
}

/// Returns whether the JSON of a task is loaded together with that of the one before it, for `chunk_by`.
fn loaded_together(update: &Update) -> impl FnMut(&(TaskKey, TaskHead), &(TaskKey, TaskHead)) -> bool {
    let (has_patches, mut bytes) = (update.has_patches(), 0);
    move |(_, before), _| {
        bytes += if has_patches { before.definition_bytes } else { 0 };
        let fits = bytes < MERGED_AT_ONCE;
        bytes = if fits { bytes } else { 0 };
        fits
    }
}

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
    pub queue: QueueKey,
    /// Sorted by key.
    changes: Vec<(TaskKey, Effect)>,
    /// Sorted by key.
    unchanged: Vec<TaskKey>,
    /// Later decisions about some tasks, which count instead.
    again: BTreeMap<TaskKey, Decided>,
    weight: BulkWeight,
}

impl Plan {
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
            if bulk.selection.matches(&task.view()) {
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
mod tests {
    use taskqueue_core::definition::Routes;
    use taskqueue_core::ids::TaskId;
    use taskqueue_core::json::JsonObject;
    use taskqueue_core::limits::TASK_DATA_BYTES;
    use taskqueue_core::task::Lifecycle;
    use taskqueue_core::time::Timestamp;

    use super::*;

    fn patch() -> Update {
        Update { args_patch: Some(JsonObject::empty()), ..Update::default() }
    }

    fn effect(bytes: usize) -> Effect {
        Effect { definition_bytes: bytes as u32, args: true, metadata: false, result: false }
    }

    fn head(bytes: usize) -> TaskHead {
        TaskHead {
            id: TaskId::parse("t_abcdefghijkl").unwrap(),
            priority: 0,
            max_attempts: 3,
            routes: Routes::default(),
            scheduling: Default::default(),
            definition_bytes: bytes,
            progress_bytes: 0,
            lifecycle: Lifecycle::created(Timestamp::from_micros(1), 1),
        }
    }

    /// The sizes of all portions of tasks that become so large.
    fn saved(update: &Update, sizes: &[usize]) -> Vec<usize> {
        let mut changes = sizes.iter().zip(0..).map(|(bytes, key)| (TaskKey(key), effect(*bytes)));
        let portions = std::iter::from_fn(|| Some(next_effects(&mut changes, update).len()));
        portions.take_while(|tasks| *tasks > 0).collect()
    }

    /// The sizes of all portions of tasks that are so large.
    fn loaded(update: &Update, sizes: &[usize]) -> Vec<usize> {
        let heads: Vec<_> = sizes.iter().zip(0..).map(|(bytes, key)| (TaskKey(key), head(*bytes))).collect();
        heads.chunk_by(loaded_together(update)).map(<[_]>::len).collect()
    }

    #[test]
    fn small_tasks_are_saved_250_at_a_time_and_loaded_together() {
        let small = vec![100; 600];
        for update in [patch(), Update::default()] {
            assert_eq!(saved(&update, &small), [250, 250, 100]);
            assert_eq!(loaded(&update, &small[..250]), [250]);
        }
    }

    #[test]
    fn large_tasks_with_patches_are_few_at_a_time() {
        let large = vec![TASK_DATA_BYTES; 10];
        assert_eq!(saved(&patch(), &large), [4, 4, 2]);
        assert_eq!(loaded(&patch(), &large), [4, 4, 2]);
        assert_eq!(saved(&Update::default(), &large), [10], "their JSON is not loaded");
        assert_eq!(loaded(&Update::default(), &large), [10]);
        let mixed = [1, TASK_DATA_BYTES, 4 * TASK_DATA_BYTES, 1, 1];
        assert_eq!((saved(&patch(), &mixed), loaded(&patch(), &mixed)), (vec![3, 2], vec![3, 2]));
        assert_eq!((saved(&patch(), &[]), loaded(&patch(), &[])), (vec![], vec![]));
    }
}

#[cfg(test)]
#[path = "bulk/plan_tests.rs"]
mod plan_tests;

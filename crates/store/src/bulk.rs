//! Bulk updates in two steps, the same on every backend. The first one looks at every task of the queue in a snapshot, beside
//! the writer, and makes a plan. The second one runs in the writer: what changed since the snapshot is decided again, then the
//! plan is saved, all in one transaction. Why: docs/decisions/0017.

mod plan;
mod steps;

pub use plan::{Plan, Planner};
pub use steps::{Bulk, Gate, Limit, Planned, REDECIDED, SharedPlan, TwoSteps, planned};

use std::collections::BTreeMap;

use taskqueue_core::update::Effect;

use crate::StoreError;
use crate::claimable::Claimable;
use crate::command::{Answer, BulkUpdate};
use crate::execute::existing_queue;
use crate::transaction::{Queue, TaskKey, Transaction};

/// Heads that are loaded and saved at a time: some hundred kilobytes.
const SAVED_AT_ONCE: usize = 1_000;
/// Whole tasks that are loaded at a time: 16 MiB, should each be as large as it may be.
const LOADED_AT_ONCE: usize = 8;

/// Both steps in one transaction, for a storage that cannot tell what changed since a snapshot.
pub(crate) fn in_one_step<T: Transaction>(
    tx: &mut T,
    bulk: &BulkUpdate,
    claimable: &mut Claimable,
) -> Result<Answer, StoreError> {
    let limit = Limit::of_one_step();
    let queue = existing_queue(tx, &bulk.queue)?;
    let mut planner = Planner::new(queue.key, &bulk.update);
    tx.visit_matching(queue, &bulk.filter, &limit, &mut |key, task| planner.decide(key, task))?;
    save(tx, queue, bulk, &planner.finish()?, &limit, claimable)
}

/// The second step. `since` are the keys of the tasks of the queue that were created, changed or deleted since the plan's
/// snapshot, except that deleted ones that were to change may be missing; others among them do no harm.
/// [`StoreError::Busy`] when the limit is over: the transaction must be undone.
pub fn write<T: Transaction>(
    tx: &mut T,
    bulk: &BulkUpdate,
    plan: &mut Plan,
    since: &[TaskKey],
    limit: &Limit,
    claimable: &mut Claimable,
) -> Result<Answer, StoreError> {
    let queue = existing_queue(tx, &bulk.queue)?;
    if queue.key != plan.queue() {
        return Err(StoreError::Busy);
    }
    // Before anything is saved: a refusal leaves every task untouched.
    for keys in since.chunks(LOADED_AT_ONCE) {
        plan.decide_again(bulk, keys, &tx.load_existing(queue, keys)?)?;
    }
    save(tx, queue, bulk, plan, limit, claimable)
}

fn save<T: Transaction>(
    tx: &mut T,
    queue: Queue<'_>,
    bulk: &BulkUpdate,
    plan: &Plan,
    limit: &Limit,
    claimable: &mut Claimable,
) -> Result<Answer, StoreError> {
    let (now, update) = (tx.now(), &bulk.update);
    let (mut changes, mut updated, mut planned) = (plan.changes(), 0, 0);
    loop {
        let effects: BTreeMap<TaskKey, Effect> = changes.by_ref().take(SAVED_AT_ONCE).collect();
        if effects.is_empty() {
            // Those that do not exist any more were deleted since.
            return Ok(Answer::Updated { matched: plan.matched() - (planned - updated), updated });
        }
        if limit.is_over() {
            return Err(StoreError::Busy);
        }
        planned += effects.len() as u64;
        let keys: Vec<TaskKey> = effects.keys().copied().collect();
        for (key, before) in tx.load_heads(&keys)? {
            let Some(effect) = effects.get(&key) else { continue };
            let after = update.updated_head(&before, *effect, now);
            tx.save_effect(queue.key, key, (&before, &after), update, *effect)?;
            claimable.updated(queue.name, &before, &after.routes);
            updated += 1;
        }
    }
}

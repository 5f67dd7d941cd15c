//! Bulk updates in two steps, the same on every backend. The first one reads every task of the queue in a snapshot, outside
//! the writer, and makes a plan. The second one runs in the writer: what changed since the snapshot is decided again, then the
//! plan is saved, all in one transaction. Why: docs/decisions/0017.

mod plan;
mod portions;
mod steps;

pub use plan::{Plan, Planner};
pub use steps::{BulkSteps, BulkUpdates, Gate, Limit, Outdated, Planned, PlannedWrite, REDECIDED, SharedPlan, planned};

use std::collections::HashMap;

use taskqueue_core::task::TaskHead;
use taskqueue_core::update::{Documents, Update};

use crate::StoreError;
use crate::after_commit::AfterCommit;
use crate::command::{BulkUpdate, Updated};
use crate::execute::{existing_queue, look_again};
use crate::transaction::{BatchTransaction, Queue, TaskKey};

use portions::{loaded_together, next_effects};

/// Whole tasks that are loaded at a time: 16 MiB, should each be as large as it may be.
const LOADED_AT_ONCE: usize = 8;

/// Both steps in one transaction, for a storage that cannot tell what changed since a snapshot.
pub(crate) fn in_one_step<T: BatchTransaction>(
    tx: &mut T,
    bulk: &BulkUpdate,
    after_commit: &mut AfterCommit,
) -> Result<Updated, StoreError> {
    let limit = Limit::of_one_step();
    let queue = existing_queue(tx, &bulk.queue)?;
    let mut planner = Planner::new(queue.key, &bulk.update);
    tx.visit_matching(queue, bulk, &limit, &mut |key, task| planner.decide(key, task))?;
    save(tx, queue, bulk, &planner.finish()?, &limit, after_commit)
}

/// The second step. [`StoreError::Busy`] if the plan is outdated, which is then marked and nothing was saved; and when the
/// limit is over: then the transaction must be undone.
pub(crate) fn write<T: BatchTransaction>(
    tx: &mut T,
    bulk: &BulkUpdate,
    PlannedWrite { plan, limit, gate }: &PlannedWrite<T::Snapshot>,
    after_commit: &mut AfterCommit,
) -> Result<Updated, StoreError> {
    let mut planned = planned(plan);
    // An earlier attempt may have marked it, and have been undone.
    planned.outdated = None;
    let queue = existing_queue(tx, &bulk.queue)?;
    if queue.key != planned.plan.queue() {
        planned.outdated = Some(Outdated::QueueReplaced);
        return Err(StoreError::Busy);
    }
    let Some(since) = tx.changed_since(&planned)? else {
        planned.outdated = Some(Outdated::TooManyChanges);
        return Err(StoreError::Busy);
    };
    // Before anything is saved: a refusal leaves every task untouched.
    for keys in since.chunks(LOADED_AT_ONCE) {
        planned.plan.decide_again(bulk, keys, &tx.load_existing(queue, keys)?)?;
    }
    gate.pass_within_write();
    save(tx, queue, bulk, &planned.plan, limit, after_commit)
}

fn save<T: BatchTransaction>(
    tx: &mut T,
    queue: Queue<'_>,
    bulk: &BulkUpdate,
    plan: &Plan,
    limit: &Limit,
    after_commit: &mut AfterCommit,
) -> Result<Updated, StoreError> {
    let (now, update) = (tx.now(), &bulk.update);
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
        let heads = tx.load_heads(&keys)?;
        for heads in heads.chunk_by(loaded_together(update)) {
            let merged = merge(tx, heads, update)?;
            for (key, before) in heads {
                let Some(effect) = effects.get(key) else { continue };
                let again;
                let before = match after_commit.has_settled(*key) {
                    true => {
                        // It waits for one of those before it.
                        again = tx.load_head(*key)?;
                        &again
                    }
                    false => before,
                };
                let after = update.updated_head(before, *effect, now);
                tx.save_effect(queue.key, *key, (before, &after), update, *effect, merged.get(key))?;
                after_commit.updated(queue.name, before, &after);
                if update.changes_waiting() {
                    look_again(tx, queue, *key, &before.scheduling.dependencies, &after, after_commit)?;
                }
                updated += 1;
            }
        }
    }
}

/// What the patches make of the JSON of these tasks; nothing without patches. The JSON is the one that the plan has seen.
fn merge<T: BatchTransaction>(
    tx: &mut T,
    heads: &[(TaskKey, TaskHead)],
    update: &Update,
) -> Result<HashMap<TaskKey, Documents>, StoreError> {
    if !update.has_patches() {
        return Ok(HashMap::new());
    }
    let keys: Vec<TaskKey> = heads.iter().map(|(key, _)| *key).collect();
    let documents = tx.load_documents(&keys)?;
    Ok(documents.into_iter().map(|(key, before)| (key, update.documents_after(&before))).collect())
}

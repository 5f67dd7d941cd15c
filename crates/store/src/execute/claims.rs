//! Claims: a new run gets the first task of its route that there is room for, a used one its own again.

use taskqueue_core::ids::{Route, RunId};
use taskqueue_core::json::JsonObject;
use taskqueue_core::lease;
use taskqueue_core::lifecycle::{self, Claimant, LeaseChange};
use taskqueue_core::refusal::Refusal;
use taskqueue_core::settings::RunningTasks;
use taskqueue_core::task::{ActiveRun, Lifecycle};
use taskqueue_core::time::Timestamp;

use super::dependents::settle_left;
use super::{Executed, existing_queue};
use crate::StoreError;
use crate::after_commit::AfterCommit;
use crate::command::{Claim, Claimed};
use crate::transaction::{Queue, RunUse, TaskKey, Transaction};

/// What the claims of a command have in common.
#[derive(Clone, Copy)]
pub(super) struct Claims<'a> {
    pub(super) queue: Queue<'a>,
    pub(super) route: &'a Route,
    pub(super) worker: Option<&'a JsonObject>,
}

pub(super) fn claim<T: Transaction>(
    tx: &mut T,
    command: &Claim,
    after_commit: &mut AfterCommit,
) -> Executed<Option<Box<Claimed>>> {
    let queue = existing_queue(tx, &command.queue)?;
    let claims = Claims { queue, route: &command.route, worker: command.worker.as_ref() };
    match tx.find_run(command.run_id)? {
        RunUse::New if claim_room(tx, claims)? == Some(0) => Ok(None),
        RunUse::New => claim_first(tx, claims, command.run_id, |_| true, after_commit),
        used => active_claim(tx, claims, command.run_id, used)?.load(tx, claims, command.run_id).map(Some),
    }
}

/// How many more tasks may be claimed; nothing if there is no limit.
pub(super) fn claim_room<T: Transaction>(tx: &mut T, Claims { queue, route, .. }: Claims<'_>) -> Executed<Option<u64>> {
    let Some(settings) = tx.load_settings(queue.key)? else { return Ok(None) };
    let is_counted = settings.limits_claims() && !settings.paused;
    let running = if is_counted { tx.count_running(queue.key, route)? } else { RunningTasks::default() };
    Ok(settings.room(route, running))
}

/// Claims the first pending task for a new run, unless it does not fit into the answer.
pub(super) fn claim_first<T: Transaction>(
    tx: &mut T,
    Claims { queue, route, worker }: Claims<'_>,
    run_id: RunId,
    fits: impl FnOnce(&Claimed) -> bool,
    after_commit: &mut AfterCommit,
) -> Executed<Option<Box<Claimed>>> {
    let Some(key) = first_claimable(tx, queue, route, after_commit)? else { return Ok(None) };
    let mut task = tx.load_task(queue, key)?;
    let (before, claimant) = (task.head(), Claimant { route, run_id, worker });
    let claimed = lifecycle::claim(&before, &task.outcome, claimant, tx.now());
    let Ok(LeaseChange { change, lease_expires_at }) = claimed else {
        return Err(StoreError::Broken("a task that is not pending was offered to a claim"));
    };
    change.apply_to_outcome(&mut task.outcome);
    task.lifecycle = change.lifecycle.clone();
    let claimed = Box::new(Claimed { task, run_id, lease_expires_at });
    if !fits(&claimed) {
        return Ok(None);
    }
    tx.save_change(queue.key, key, &before, &change)?;
    after_commit.done.routes(&before.routes);
    after_commit.record(queue.key, &before.lifecycle, &change.lifecycle);
    Ok(Some(claimed))
}

/// The first task in the order. Before there is none, dependents that a completion has left to the upkeep are settled: who completed
/// what they waited for finds them.
fn first_claimable<T: Transaction>(
    tx: &mut T,
    queue: Queue<'_>,
    route: &Route,
    after_commit: &mut AfterCommit,
) -> Executed<Option<TaskKey>> {
    match tx.first_pending(queue.key, route)? {
        None if settle_left(tx, Some(queue), after_commit)?.0 > 0 => tx.first_pending(queue.key, route),
        first => Ok(first),
    }
}

/// A claim with a run id that was used before: the same task for the same queue and route, as long as its lease holds. What it
/// says of its worker does not matter any more.
pub(super) fn active_claim<T: Transaction>(
    tx: &mut T,
    Claims { queue, route, .. }: Claims<'_>,
    run_id: RunId,
    used: RunUse,
) -> Executed<ActiveClaim> {
    let RunUse::Active(owner, key) = used else { return Err(Refusal::StaleRun { run_id }.into()) };
    let Lifecycle { run, last_route, .. } = tx.load_head(key)?.lifecycle;
    // Another server may have ended the run after the run id was found.
    let active = run.filter(|run| run.run_id == run_id && lease::run_over(run, tx.now()).is_none());
    let Some(ActiveRun { lease_expires_at, .. }) = active else { return Err(Refusal::StaleRun { run_id }.into()) };
    if owner != queue.key || last_route.as_ref() != Some(route) {
        return Err(Refusal::RunIdConflict { run_id }.into());
    }
    Ok(ActiveClaim { key, lease_expires_at })
}

/// A task that a run has.
pub(super) struct ActiveClaim {
    key: TaskKey,
    lease_expires_at: Timestamp,
}

impl ActiveClaim {
    pub(super) fn load<T: Transaction>(self, tx: &mut T, claims: Claims<'_>, run_id: RunId) -> Executed<Box<Claimed>> {
        let Self { key, lease_expires_at } = self;
        Ok(Box::new(Claimed { task: tx.load_task(claims.queue, key)?, run_id, lease_expires_at }))
    }
}

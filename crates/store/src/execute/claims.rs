//! Claims: a new run gets the first task of its route that there is room for, a used one its own again.

use taskqueue_core::ids::{Route, RunId};
use taskqueue_core::json::JsonObject;
use taskqueue_core::lease;
use taskqueue_core::lifecycle::{self, Claimant, LeaseChange};
use taskqueue_core::refusal::Refusal;
use taskqueue_core::settings::RunningTasks;
use taskqueue_core::task::{ActiveRun, Lifecycle};
use taskqueue_core::time::Timestamp;

use super::Execution;
use crate::command::{Claim, Claimed};
use crate::transaction::{BatchTransaction, Queue, RunUse, TaskKey};
use crate::{StoreError, StoreResult};

/// The common part of the claims of a command.
#[derive(Clone, Copy)]
pub(super) struct Claims<'a> {
    pub(super) queue: Queue<'a>,
    pub(super) route: &'a Route,
    pub(super) worker: Option<&'a JsonObject>,
}

/// A task that a run has.
pub(super) struct ActiveClaim {
    run_id: RunId,
    key: TaskKey,
    lease_expires_at: Timestamp,
}

impl<T: BatchTransaction> Execution<'_, T> {
    pub(crate) fn claim(&mut self, command: &Claim) -> StoreResult<Option<Box<Claimed>>> {
        let queue = self.existing_queue(&command.queue)?;
        let claims = Claims { queue, route: &command.route, worker: command.worker.as_ref() };
        match self.tx.find_run(command.run_id)? {
            RunUse::New if self.claim_room(claims)? == Some(0) => Ok(None),
            RunUse::New => self.claim_first(claims, command.run_id, |_| true),
            used => {
                let active = self.active_claim(claims, command.run_id, used)?;
                self.load_active(queue, active).map(Some)
            }
        }
    }

    /// How many more tasks may be claimed; nothing if there is no limit.
    pub(super) fn claim_room(&mut self, Claims { queue, route, .. }: Claims<'_>) -> StoreResult<Option<u64>> {
        let Some(settings) = self.tx.load_settings(queue.key)? else { return Ok(None) };
        let is_counted = settings.limits_claims() && !settings.paused;
        let running = if is_counted { self.tx.count_running(queue.key, route)? } else { RunningTasks::default() };
        Ok(settings.room(route, running))
    }

    /// Claims the first pending task for a new run, unless it does not fit into the answer.
    pub(super) fn claim_first(
        &mut self,
        Claims { queue, route, worker }: Claims<'_>,
        run_id: RunId,
        fits: impl FnOnce(&Claimed) -> bool,
    ) -> StoreResult<Option<Box<Claimed>>> {
        let Some(key) = self.first_claimable(queue, route)? else { return Ok(None) };
        let mut task = self.tx.load_task(queue, key)?;
        let (before, claimant) = (task.head(), Claimant { route, run_id, worker });
        let claimed = lifecycle::claim(&before, &task.outcome, claimant, self.tx.now());
        let Ok(LeaseChange { change, lease_expires_at }) = claimed else {
            return Err(StoreError::Broken("a task that is not pending was offered to a claim"));
        };
        change.apply_to_outcome(&mut task.outcome);
        task.lifecycle = change.lifecycle.clone();
        let claimed = Box::new(Claimed { task, run_id, lease_expires_at });
        if !fits(&claimed) {
            return Ok(None);
        }
        self.tx.save_change(queue.key, key, &before, &change)?;
        self.after_commit.done.routes(&before.routes);
        self.after_commit.record(queue.key, &before.lifecycle, &change.lifecycle);
        Ok(Some(claimed))
    }

    /// The first task in the order. Before there is none, dependents that a completion has left to the upkeep are settled: who
    /// completed what they waited for finds them.
    fn first_claimable(&mut self, queue: Queue<'_>, route: &Route) -> StoreResult<Option<TaskKey>> {
        match self.tx.first_pending(queue.key, route)? {
            None if self.settle_left(Some(queue))?.0 > 0 => self.tx.first_pending(queue.key, route),
            first => Ok(first),
        }
    }

    /// A claim with a run id that was used before: the same task for the same queue and route, as long as its lease holds. What it
    /// says of its worker does not matter any more.
    pub(super) fn active_claim(
        &mut self,
        Claims { queue, route, .. }: Claims<'_>,
        run_id: RunId,
        used: RunUse,
    ) -> StoreResult<ActiveClaim> {
        let RunUse::Active(owner, key) = used else { return Err(Refusal::StaleRun { run_id }.into()) };
        let Lifecycle { run, last_route, .. } = self.tx.load_head(key)?.lifecycle;
        // Another server may have ended the run after the run id was found.
        let active = run.filter(|run| run.run_id == run_id && lease::run_over(run, self.tx.now()).is_none());
        let Some(ActiveRun { lease_expires_at, .. }) = active else { return Err(Refusal::StaleRun { run_id }.into()) };
        if owner != queue.key || last_route.as_ref() != Some(route) {
            return Err(Refusal::RunIdConflict { run_id }.into());
        }
        Ok(ActiveClaim { run_id, key, lease_expires_at })
    }

    pub(super) fn load_active(&mut self, queue: Queue<'_>, active: ActiveClaim) -> StoreResult<Box<Claimed>> {
        let ActiveClaim { run_id, key, lease_expires_at } = active;
        Ok(Box::new(Claimed { task: self.tx.load_task(queue, key)?, run_id, lease_expires_at }))
    }
}

//! The state machine: what each action does to a task in each state (api-v2.md section 3, decisions.md section 8).
//! A plain function of the task, the action, the time and the next place in the pending order. Nothing is written here.

use crate::definition::check_stored_size;
use crate::ids::{Route, RunId};
use crate::json::JsonObject;
use crate::lease;
use crate::refusal::Refusal;
use crate::task::{ActiveRun, Failure, FinishedRun, LastError, Lifecycle, RunEnd, Status, TaskHead};
use crate::time::Timestamp;

/// What can be done to a task.
#[derive(Clone, Debug)]
pub enum Action {
    /// A worker takes the task. Choosing it (route, priority, order) comes before.
    Claim {
        /// What the worker claims for.
        route: Route,
        /// The claimant's token.
        run_id: RunId,
    },
    /// The owner is alive.
    Heartbeat {
        /// The claimant's token.
        run_id: RunId,
    },
    /// The owner is done.
    Complete {
        /// The claimant's token.
        run_id: RunId,
        /// Replaces the result of the task.
        result: JsonObject,
    },
    /// The owner failed.
    Fail {
        /// The claimant's token.
        run_id: RunId,
        failure: Failure,
    },
    /// The owner gives the task back, uncharged.
    Unclaim {
        /// The claimant's token.
        run_id: RunId,
    },
    /// The lease scan looks at the task.
    Expire,
    /// A client takes the task out.
    Cancel,
    /// A client starts the task over.
    Requeue,
    /// A client deletes the task.
    Delete,
}

/// What to write. The definition never changes by an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The whole new lifecycle.
    pub lifecycle: Lifecycle,
    /// The new result, if it is replaced.
    pub result: Option<JsonObject>,
    /// What happens to the last error.
    pub last_error: ErrorChange,
}

/// What an action does to the last error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorChange {
    /// Nothing.
    Keep,
    /// Forgets it.
    Clear,
    /// Records another one.
    Set(LastError),
}

/// The verdict on an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Write this and acknowledge.
    Change(Change),
    /// Acknowledge; there is nothing to write.
    Unchanged,
    /// Remove the task and acknowledge.
    Delete,
    /// Refuse; there is nothing to write.
    Refuse(Refusal),
    /// The lease had ended before the report came: write the expiry, then refuse.
    Expire(Change, Refusal),
}

/// Decides about `action`. `pending_seq` is the next place in the pending order; it is used up exactly when the
/// new lifecycle holds it.
pub fn decide(task: &TaskHead, action: &Action, now: Timestamp, pending_seq: i64) -> Decision {
    use Action as A;
    use Status::{Cancelled, Failed, Pending, Running, Succeeded};
    let updated_at = task.lifecycle.updated_at;
    let lease_now = lease::time_of_leases(now, updated_at);
    let step = Step { task, lifecycle: &task.lifecycle, now: now.max(updated_at), lease_now, pending_seq };
    match (task.lifecycle.status, action) {
        (Pending, A::Claim { route, run_id }) => step.claim(route, *run_id),
        (Running | Succeeded | Failed | Cancelled, A::Claim { .. }) => step.state_conflict(),

        (_, A::Heartbeat { run_id }) => step.of_run(*run_id, None, |run| step.heartbeat(run)),
        (_, A::Complete { run_id, result }) => {
            step.of_run(*run_id, Some(RunEnd::Complete), |run| step.complete(run, result))
        }
        (_, A::Fail { run_id, failure }) => {
            step.of_run(*run_id, Some(RunEnd::Fail), |run| Decision::Change(step.fail(run, RunEnd::Fail, failure)))
        }
        (_, A::Unclaim { run_id }) => step.of_run(*run_id, Some(RunEnd::Unclaim), |run| step.unclaim(run)),

        (Running, A::Expire) => step.expire_if_over(),
        (Pending | Succeeded | Failed | Cancelled, A::Expire) => Decision::Unchanged,

        (Pending | Running, A::Cancel) => step.cancel(),
        (Cancelled, A::Cancel) => Decision::Unchanged,
        (Succeeded | Failed, A::Cancel) => step.state_conflict(),

        (Pending | Failed | Cancelled, A::Requeue) => step.requeue(),
        (Running | Succeeded, A::Requeue) => step.state_conflict(),

        (Running, A::Delete) => Decision::Refuse(Refusal::TaskRunning { task_id: task.id }),
        (Pending | Succeeded | Failed | Cancelled, A::Delete) => Decision::Delete,
    }
}

/// One decision under way: the task as it is, and the time and place that it may get. `now` never lies before the
/// task's last change, so that the timestamps of a task are monotone whatever the clock does. Leases go by `lease_now`.
struct Step<'a> {
    task: &'a TaskHead,
    lifecycle: &'a Lifecycle,
    now: Timestamp,
    lease_now: Timestamp,
    pending_seq: i64,
}

impl Step<'_> {
    /// The rule of section 8 for heartbeat and terminal actions: the active run acts; the latest finished run may
    /// repeat what ended it; everybody else is stale.
    fn of_run(&self, run_id: RunId, repeats: Option<RunEnd>, act: impl FnOnce(ActiveRun) -> Decision) -> Decision {
        if let Some(run) = self.lifecycle.run.filter(|run| run.run_id == run_id) {
            if lease::is_over(run.lease_expires_at, self.lease_now) {
                let end = RunEnd::HeartbeatExpired;
                return Decision::Expire(self.expire(run), Refusal::RunFinalized { end });
            }
            return act(run);
        }
        match self.lifecycle.finished_run {
            Some(finished) if finished.run_id == run_id && repeats == Some(finished.end) => Decision::Unchanged,
            Some(finished) if finished.run_id == run_id => {
                Decision::Refuse(Refusal::RunFinalized { end: finished.end })
            }
            _ => Decision::Refuse(Refusal::StaleRun { run_id }),
        }
    }

    fn claim(&self, route: &Route, run_id: RunId) -> Decision {
        let run = ActiveRun { run_id, lease_expires_at: lease::from(self.lease_now) };
        write(Lifecycle {
            status: Status::Running,
            attempt: self.lifecycle.attempt.saturating_add(1),
            last_route: Some(route.clone()),
            started_at: Some(self.now),
            finished_at: None,
            updated_at: self.now,
            run: Some(run),
            ..self.lifecycle.clone()
        })
    }

    /// Renews the lease and touches nothing that a client can see; a longer promise is kept.
    fn heartbeat(&self, run: ActiveRun) -> Decision {
        let lease_expires_at = run.lease_expires_at.max(lease::from(self.lease_now));
        write(Lifecycle { run: Some(ActiveRun { lease_expires_at, ..run }), ..self.lifecycle.clone() })
    }

    fn complete(&self, run: ActiveRun, result: &JsonObject) -> Decision {
        if let Err(refusal) = check_stored_size(self.task.definition_bytes, result) {
            return Decision::Refuse(refusal);
        }
        let lifecycle = self.ended(run, RunEnd::Complete, Status::Succeeded);
        Decision::Change(Change { lifecycle, result: Some(result.clone()), last_error: ErrorChange::Keep })
    }

    /// Records the failure; the attempt was charged when it was claimed.
    fn fail(&self, run: ActiveRun, end: RunEnd, failure: &Failure) -> Change {
        let attempt = self.lifecycle.attempt;
        let retry = attempt < self.task.max_attempts;
        let lifecycle = self.ended(run, end, if retry { Status::Pending } else { Status::Failed });
        let error = LastError { failure: failure.clone(), occurred_at: self.now, attempt, run_id: run.run_id };
        Change { lifecycle, result: None, last_error: ErrorChange::Set(error) }
    }

    fn unclaim(&self, run: ActiveRun) -> Decision {
        let attempt = self.lifecycle.attempt.saturating_sub(1).max(0);
        write(Lifecycle { attempt, ..self.ended(run, RunEnd::Unclaim, Status::Pending) })
    }

    fn expire_if_over(&self) -> Decision {
        match self.lifecycle.run {
            Some(run) if lease::is_over(run.lease_expires_at, self.lease_now) => Decision::Change(self.expire(run)),
            _ => Decision::Unchanged,
        }
    }

    fn expire(&self, run: ActiveRun) -> Change {
        self.fail(run, RunEnd::HeartbeatExpired, &lease::expiry_failure())
    }

    fn cancel(&self) -> Decision {
        match self.lifecycle.run {
            Some(run) => write(self.ended(run, RunEnd::Cancel, Status::Cancelled)),
            None => write(Lifecycle { status: Status::Cancelled, updated_at: self.now, ..self.lifecycle.clone() }),
        }
    }

    fn requeue(&self) -> Decision {
        let lifecycle = Lifecycle {
            status: Status::Pending,
            attempt: 0,
            pending_seq: self.pending_seq,
            updated_at: self.now,
            ..self.lifecycle.clone()
        };
        Decision::Change(Change { lifecycle, result: None, last_error: ErrorChange::Clear })
    }

    /// The lifecycle after the end of `run`. A task that is pending again goes behind every task of its priority.
    fn ended(&self, run: ActiveRun, end: RunEnd, status: Status) -> Lifecycle {
        let back = status == Status::Pending;
        Lifecycle {
            status,
            pending_seq: if back { self.pending_seq } else { self.lifecycle.pending_seq },
            finished_at: Some(self.now),
            updated_at: self.now,
            run: None,
            finished_run: Some(FinishedRun { run_id: run.run_id, end }),
            ..self.lifecycle.clone()
        }
    }

    fn state_conflict(&self) -> Decision {
        Decision::Refuse(Refusal::TaskStateConflict { task_id: self.task.id, status: self.lifecycle.status })
    }
}

fn write(lifecycle: Lifecycle) -> Decision {
    Decision::Change(Change { lifecycle, result: None, last_error: ErrorChange::Keep })
}

#[cfg(test)]
#[path = "lifecycle_tests.rs"]
mod tests;

//! The state machine: what a claim, a report of a run, an action of a client and an expired lease do to a task in each status
//! (docs/reference/task-life.md). Plain functions of the task, the time and the next place in the pending
//! order, which is used up exactly when the new lifecycle holds it. Nothing is written here.

use std::time::Duration;

use crate::definition::check_stored_size;
use crate::dependency::{DependencyState, FailedDependency};
use crate::ids::{Route, RunId, TaskId};
use crate::json::JsonObject;
use crate::lease;
use crate::refusal::{Refusal, Transition};
use crate::scheduling::{OnDependencyFailure, Scheduling};
use crate::task::{
    ActiveRun, Failure, FinishedRun, LastError, LastRun, Lifecycle, Outcome, Progress, RunEnd, Status, TaskHead,
};
use crate::time::Timestamp;

/// An action of a client on a task. Updates are in `update.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskAction {
    Cancel,
    Requeue,
}

/// Who claims a task.
#[derive(Clone, Copy, Debug)]
pub struct Claimant<'a> {
    pub route: &'a Route,
    pub run_id: RunId,
    /// Its words about itself, if any.
    pub worker: Option<&'a JsonObject>,
}

/// How the owner of a task ends its run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunReport {
    Complete {
        result: JsonObject,
    },
    Fail {
        failure: Failure,
        /// True if the task may be tried again while its budget lasts. Running it again may not help, and its worker knows.
        retry: bool,
        /// How long it waits then, instead of what the task itself says.
        retry_after: Option<Duration>,
    },
    /// Gives the task back, uncharged.
    Unclaim {
        /// How long it waits before it can be claimed again.
        delay: Option<Duration>,
    },
}

impl RunReport {
    /// The end of the run that it makes.
    pub fn end(&self) -> RunEnd {
        match self {
            Self::Complete { .. } => RunEnd::Complete,
            Self::Fail { .. } => RunEnd::Fail,
            Self::Unclaim { .. } => RunEnd::Unclaim,
        }
    }

    /// Returns the bytes of its texts.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Complete { result } => result.as_str().len(),
            Self::Fail { failure, .. } => failure.bytes(),
            Self::Unclaim { .. } => 0,
        }
    }
}

/// A change to write. The definition never changes here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub lifecycle: Lifecycle,
    /// The new result, if it is replaced.
    pub result: Option<JsonObject>,
    pub last_error: ErrorChange,
    pub last_run: LastRunChange,
    pub progress: ProgressChange,
}

impl Change {
    /// A change that leaves the outcome as it is.
    pub fn of_lifecycle(lifecycle: Lifecycle) -> Self {
        let (last_error, last_run, progress) = (ErrorChange::Keep, LastRunChange::Keep, ProgressChange::Keep);
        Self { lifecycle, result: None, last_error, last_run, progress }
    }

    /// The head of a task after this change.
    pub fn head_after(&self, before: &TaskHead) -> TaskHead {
        let progress_bytes = match &self.progress {
            ProgressChange::Keep => before.progress_bytes,
            ProgressChange::Clear => 0,
            ProgressChange::Set(progress) => progress.value.as_str().len(),
        };
        TaskHead { lifecycle: self.lifecycle.clone(), progress_bytes, ..before.clone() }
    }

    /// Returns whether the outcome stays as it is.
    pub fn keeps_outcome(&self) -> bool {
        self.result.is_none()
            && self.last_error == ErrorChange::Keep
            && self.last_run == LastRunChange::Keep
            && self.progress == ProgressChange::Keep
    }

    pub fn apply_to_outcome(&self, outcome: &mut Outcome) {
        if let Some(result) = &self.result {
            outcome.result = result.clone();
        }
        self.last_error.apply(&mut outcome.last_error);
        self.last_run.apply(&mut outcome.last_run);
        self.progress.apply(&mut outcome.progress);
    }
}

/// A change of a part of the outcome that a task may lack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartChange<T> {
    Keep,
    Clear,
    Set(T),
}

pub type ErrorChange = PartChange<LastError>;
pub type LastRunChange = PartChange<LastRun>;
pub type ProgressChange = PartChange<Progress>;

impl<T: Clone> PartChange<T> {
    /// The change after which a task that has no such part has this one, if any.
    pub fn to(part: Option<&T>) -> Self {
        part.cloned().map_or(Self::Keep, Self::Set)
    }

    pub fn apply(&self, part: &mut Option<T>) {
        match self {
            Self::Keep => {}
            Self::Clear => *part = None,
            Self::Set(new) => *part = Some(new.clone()),
        }
    }
}

/// A change that grants or renews a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseChange {
    pub change: Change,
    pub lease_expires_at: Timestamp,
}

/// Why a report of a run is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRefusal {
    pub refusal: Refusal,
    /// The lease had ended before the report came: this is written first.
    pub expiry: Option<Box<Change>>,
}

impl From<Refusal> for RunRefusal {
    fn from(refusal: Refusal) -> Self {
        Self { refusal, expiry: None }
    }
}

/// A report of how far a run is.
#[derive(Clone, Copy, Debug)]
pub struct NewProgress<'a> {
    pub value: &'a JsonObject,
    /// The size of the task's result, which counts towards the stored size, too.
    pub result_bytes: usize,
}

/// A worker takes a pending task. Choosing it (route, priority, order) comes before. `outcome` is what the task has.
pub fn claim(task: &TaskHead, outcome: &Outcome, by: Claimant<'_>, now: Timestamp) -> Result<LeaseChange, Refusal> {
    let transition = TaskTransition::new(task, now, task.lifecycle.pending_seq);
    match task.lifecycle.status {
        Status::Pending => Ok(transition.claim(outcome, by)),
        Status::Running | Status::Succeeded | Status::Failed | Status::Cancelled => {
            Err(transition.state_conflict(Transition::Claim))
        }
    }
}

/// The owner of a task is alive, and may say how far it is.
pub fn heartbeat(
    task: &TaskHead,
    run_id: RunId,
    progress: Option<NewProgress<'_>>,
    now: Timestamp,
    pending_seq: i64,
) -> Result<LeaseChange, RunRefusal> {
    let transition = TaskTransition::new(task, now, pending_seq);
    let mut renewed = transition.heartbeat(transition.active_run(run_id)?);
    if let Some(progress) = progress {
        renewed.change.progress = transition.progress(progress)?;
    }
    Ok(renewed)
}

/// The owner of a task says how far it is. This renews no lease, and touches nothing else that a client can see.
pub fn report_progress(
    task: &TaskHead,
    run_id: RunId,
    progress: NewProgress<'_>,
    now: Timestamp,
    pending_seq: i64,
) -> Result<Change, RunRefusal> {
    let transition = TaskTransition::new(task, now, pending_seq);
    transition.active_run(run_id)?;
    let progress = transition.progress(progress)?;
    Ok(Change { progress, ..Change::of_lifecycle(task.lifecycle.clone()) })
}

/// The owner of a task ends its run. No change for the latest finished run if it repeats what ended it.
pub fn report_run(
    task: &TaskHead,
    run_id: RunId,
    report: &RunReport,
    now: Timestamp,
    pending_seq: i64,
) -> Result<Option<Change>, RunRefusal> {
    let transition = TaskTransition::new(task, now, pending_seq);
    let is_active = task.lifecycle.run.is_some_and(|run| run.run_id == run_id);
    if !is_active && task.lifecycle.finished_run == Some(FinishedRun { run_id, end: report.end() }) {
        return Ok(None);
    }
    let run = transition.active_run(run_id)?;
    Ok(Some(match report {
        RunReport::Complete { result } => transition.complete(run, result)?,
        RunReport::Fail { failure, retry, retry_after } => {
            transition.fail(run, RunEnd::Fail, failure, *retry, *retry_after)
        }
        RunReport::Unclaim { delay } => transition.unclaim(run, *delay),
    }))
}

/// The change for a task whose lease is over, or whose run was active for as long as it may be.
pub fn expire(task: &TaskHead, now: Timestamp, pending_seq: i64) -> Option<Change> {
    let transition = TaskTransition::new(task, now, pending_seq);
    let run = task.lifecycle.run?;
    lease::run_over(&run, transition.lease_now).map(|end| transition.expire(run, end))
}

/// The change for a task after some of its dependencies have changed: how many are unmet now. A pending task that does not wait
/// for what cannot succeed any more is cancelled because of `failed`. Nothing else that a client can see changes.
pub fn settle_dependencies(
    task: &TaskHead,
    unmet: u32,
    failed: Option<FailedDependency>,
    now: Timestamp,
) -> Option<Change> {
    let transition = TaskTransition::new(task, now, task.lifecycle.pending_seq);
    let cancels = task.scheduling.on_dependency_failure == OnDependencyFailure::Cancel;
    let settled = Lifecycle { unmet, ..task.lifecycle.clone() };
    match (task.lifecycle.status, failed) {
        (Status::Pending, Some(failed)) if cancels => {
            let lifecycle = Lifecycle { status: Status::Cancelled, updated_at: transition.now, ..settled };
            let (attempt, failure) = (lifecycle.attempt, failed.failure());
            let error = LastError { failure, occurred_at: transition.now, attempt, run_id: None };
            Some(Change { last_error: ErrorChange::Set(error), ..Change::of_lifecycle(lifecycle) })
        }
        _ => (unmet != task.lifecycle.unmet).then(|| Change::of_lifecycle(settled)),
    }
}

/// Returns whether a task that was running and has this life now may wait for something that failed meanwhile, and is to be
/// cancelled then. While it was running that did not matter.
pub fn may_have_failed_dependency(scheduling: &Scheduling, after: &Lifecycle) -> bool {
    let cancels = scheduling.on_dependency_failure == OnDependencyFailure::Cancel;
    after.status == Status::Pending && after.unmet > 0 && cancels
}

/// Because of which of these a task that is requeued would be cancelled again at once. Not because of itself: it is pending then.
pub fn requeued_in_vain_by(task: &TaskHead, dependencies: &[(TaskId, DependencyState)]) -> Vec<TaskId> {
    let cancels = task.scheduling.on_dependency_failure == OnDependencyFailure::Cancel;
    let failed = dependencies.iter().filter(|(id, state)| cancels && *id != task.id && state.has_failed());
    failed.map(|(id, _)| *id).collect()
}

/// A client acts on a task. No change for a task that is cancelled already.
pub fn act(task: &TaskHead, action: TaskAction, now: Timestamp, pending_seq: i64) -> Result<Option<Change>, Refusal> {
    use Status::{Cancelled, Failed, Pending, Running, Succeeded};
    let transition = TaskTransition::new(task, now, pending_seq);
    match (task.lifecycle.status, action) {
        (Pending | Running, TaskAction::Cancel) => Ok(Some(transition.cancel())),
        (Cancelled, TaskAction::Cancel) => Ok(None),
        (Succeeded | Failed, TaskAction::Cancel) => Err(transition.state_conflict(Transition::Cancel)),

        (Pending | Failed | Cancelled, TaskAction::Requeue) => Ok(Some(transition.requeue())),
        (Running | Succeeded, TaskAction::Requeue) => Err(transition.state_conflict(Transition::Requeue)),
    }
}

/// Returns whether a client may delete a task.
pub fn check_deletion(task: &TaskHead) -> Result<(), Refusal> {
    match task.lifecycle.status {
        Status::Running => Err(Refusal::TaskRunning { task_id: task.id }),
        Status::Pending | Status::Succeeded | Status::Failed | Status::Cancelled => Ok(()),
    }
}

/// A transition of a task: the task as it is, the time, and the place in the pending order that it may get. `now` never lies
/// before the task's last change, so that the timestamps of a task are monotone whatever the clock does. Leases go by
/// `lease_now`.
struct TaskTransition<'a> {
    task: &'a TaskHead,
    lifecycle: &'a Lifecycle,
    now: Timestamp,
    lease_now: Timestamp,
    pending_seq: i64,
}

impl<'a> TaskTransition<'a> {
    fn new(task: &'a TaskHead, now: Timestamp, pending_seq: i64) -> Self {
        let lifecycle = &task.lifecycle;
        let lease_now = lease::lease_time(now, lifecycle.updated_at);
        Self { task, lifecycle, now: now.max(lifecycle.updated_at), lease_now, pending_seq }
    }

    /// The rule of docs/reference/task-life.md §7 for heartbeats and reports: the active run acts; the latest finished
    /// run may repeat what ended it; every other run is stale.
    fn active_run(&self, run_id: RunId) -> Result<ActiveRun, RunRefusal> {
        let Some(run) = self.lifecycle.run.filter(|run| run.run_id == run_id) else {
            let finished = self.lifecycle.finished_run.filter(|finished| finished.run_id == run_id);
            let refusal = finished.map_or(Refusal::StaleRun { run_id }, |run| Refusal::RunFinalized { end: run.end });
            return Err(refusal.into());
        };
        match lease::run_over(&run, self.lease_now) {
            None => Ok(run),
            Some(end) => Err(RunRefusal {
                refusal: Refusal::RunFinalized { end },
                expiry: Some(Box::new(self.expire(run, end))),
            }),
        }
    }

    /// A claim that says nothing of its worker removes what an earlier one said, and writes nothing if there is nothing. The
    /// progress of an earlier run goes, too, and the time before which the task could not be claimed.
    fn claim(&self, outcome: &Outcome, Claimant { route, run_id, worker }: Claimant<'_>) -> LeaseChange {
        let lease_expires_at = lease::from(self.lease_now);
        let times_out_at = self.task.scheduling.run_limit().map(|limit| self.lease_now.plus(limit));
        let attempt = self.lifecycle.attempt.saturating_add(1);
        let last_run = match (worker, &outcome.last_run) {
            (Some(worker), _) => LastRunChange::Set(LastRun { attempt, worker: worker.clone() }),
            (None, Some(_)) => LastRunChange::Clear,
            (None, None) => LastRunChange::Keep,
        };
        let lifecycle = Lifecycle {
            status: Status::Running,
            attempt,
            last_route: Some(route.clone()),
            started_at: Some(self.now),
            finished_at: None,
            updated_at: self.now,
            run: Some(ActiveRun { run_id, lease_expires_at, times_out_at }),
            not_before: None,
            ..self.lifecycle.clone()
        };
        let progress = if outcome.progress.is_some() { ProgressChange::Clear } else { ProgressChange::Keep };
        LeaseChange { change: Change { last_run, progress, ..Change::of_lifecycle(lifecycle) }, lease_expires_at }
    }

    fn progress(&self, NewProgress { value, result_bytes }: NewProgress<'_>) -> Result<ProgressChange, Refusal> {
        check_stored_size(self.task.definition_bytes, result_bytes, value.as_str().len())?;
        let progress = Progress { value: value.clone(), updated_at: self.now, attempt: self.lifecycle.attempt };
        Ok(ProgressChange::Set(progress))
    }

    /// Renews the lease and touches nothing that a client can see. A lease that is longer already stays as it is.
    fn heartbeat(&self, run: ActiveRun) -> LeaseChange {
        let lease_expires_at = run.lease_expires_at.max(lease::from(self.lease_now));
        let run = Some(ActiveRun { lease_expires_at, ..run });
        LeaseChange { change: Change::of_lifecycle(Lifecycle { run, ..self.lifecycle.clone() }), lease_expires_at }
    }

    fn complete(&self, run: ActiveRun, result: &JsonObject) -> Result<Change, Refusal> {
        check_stored_size(self.task.definition_bytes, result.as_str().len(), self.task.progress_bytes)?;
        let lifecycle = self.ended(run, RunEnd::Complete, Status::Succeeded);
        Ok(Change { result: Some(result.clone()), ..Change::of_lifecycle(lifecycle) })
    }

    /// Records the failure; the attempt was charged when it was claimed. The next one may have to wait.
    fn fail(
        &self,
        run: ActiveRun,
        end: RunEnd,
        failure: &Failure,
        may_retry: bool,
        retry_after: Option<Duration>,
    ) -> Change {
        let attempt = self.lifecycle.attempt;
        let retry = may_retry && attempt < self.task.max_attempts;
        let ended = self.ended(run, end, if retry { Status::Pending } else { Status::Failed });
        let own_delay = || self.task.scheduling.retry_delay.map(|delay| delay.after_attempt(attempt));
        let delay = if retry { retry_after.or_else(own_delay) } else { None };
        let lifecycle = Lifecycle { not_before: self.delayed_by(delay), ..ended };
        let error = LastError { failure: failure.clone(), occurred_at: self.now, attempt, run_id: Some(run.run_id) };
        Change { last_error: ErrorChange::Set(error), ..Change::of_lifecycle(lifecycle) }
    }

    fn unclaim(&self, run: ActiveRun, delay: Option<Duration>) -> Change {
        let attempt = self.lifecycle.attempt.saturating_sub(1).max(0);
        let ended = self.ended(run, RunEnd::Unclaim, Status::Pending);
        Change::of_lifecycle(Lifecycle { attempt, not_before: self.delayed_by(delay), ..ended })
    }

    /// A delay of nothing delays nothing, and is not shown.
    fn delayed_by(&self, delay: Option<Duration>) -> Option<Timestamp> {
        delay.filter(|delay| !delay.is_zero()).map(|delay| self.now.plus(delay))
    }

    fn expire(&self, run: ActiveRun, end: RunEnd) -> Change {
        let failure = match end {
            RunEnd::Timeout => lease::timeout_failure(self.task.scheduling.run_limit()),
            _ => lease::expiry_failure(),
        };
        self.fail(run, end, &failure, true, None)
    }

    fn cancel(&self) -> Change {
        Change::of_lifecycle(match self.lifecycle.run {
            Some(run) => self.ended(run, RunEnd::Cancel, Status::Cancelled),
            None => Lifecycle { status: Status::Cancelled, updated_at: self.now, ..self.lifecycle.clone() },
        })
    }

    fn requeue(&self) -> Change {
        let lifecycle = Lifecycle {
            status: Status::Pending,
            attempt: 0,
            pending_seq: self.pending_seq,
            updated_at: self.now,
            not_before: None,
            archived: false,
            ..self.lifecycle.clone()
        };
        Change { last_error: ErrorChange::Clear, ..Change::of_lifecycle(lifecycle) }
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

    fn state_conflict(&self, transition: Transition) -> Refusal {
        Refusal::TaskStateConflict { task_id: self.task.id, status: self.lifecycle.status, transition }
    }
}

#[cfg(test)]
#[path = "lifecycle_tests.rs"]
mod tests;

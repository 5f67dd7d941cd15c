//! Runs: a claim gives a new one the first task of its route that there is room for, and a used one its own again; its owner says
//! that it is alive, how far it is, what it prints, how it ended.
//!
//! Also commands of several items: each item is decided as if it had come alone, one after the other, and a refused item leaves the
//! others alone. Any other error is one of the whole command. [`StoreError::Busy`] comes before the first change: what
//! another transaction may hold is looked at first.

use std::collections::{BTreeSet, HashSet};

use taskqueue_core::lifecycle::{self, Claimant, LeaseChange, NewProgress, RunRefusal, RunReport};
use taskqueue_core::output::{self, NewOutput};
use taskqueue_core::task::ActiveRun;
use taskqueue_core::{JsonObject, Lifecycle, Refusal, Route, RunId, RunningTasks, TaskHead, TaskId, Timestamp, lease};

use super::{Creation, Execution};
use crate::command::{
    AddOutput, Claim, ClaimTasks, Claimed, ClaimedItem, ClaimedItems, CreateTasks, Heartbeat, Items, NewTask,
    ReportProgress, ReportRun, ReportRuns, RunAction,
};
use crate::transaction::{BatchTransaction, Needed, Queue, RunUse, TaskKey};
use crate::{StoreError, StoreResult};

/// The task of a run that says something, as it is before.
struct RunTask<'a> {
    queue: Queue<'a>,
    key: TaskKey,
    run_id: RunId,
    before: TaskHead,
}

/// The common part of the claims of a command.
#[derive(Clone, Copy)]
struct Claims<'a> {
    queue: Queue<'a>,
    route: &'a Route,
    worker: Option<&'a JsonObject>,
}

/// The task that a run has, and the end of its lease.
type ActiveClaim = (TaskKey, Timestamp);

impl<T: BatchTransaction> Execution<'_, T> {
    pub(crate) fn heartbeat(&mut self, command: &Heartbeat) -> StoreResult<Timestamp> {
        let queue = self.existing_queue(&command.queue)?;
        let run = self.load_run(queue, command.id, command.run_id)?;
        self.renew(&run, command.progress.as_ref())
    }

    /// The task of a run that says something.
    fn load_run<'q>(&mut self, queue: Queue<'q>, id: TaskId, run_id: RunId) -> StoreResult<RunTask<'q>> {
        let key = self.existing_task(queue, id)?;
        Ok(RunTask { queue, key, run_id, before: self.tx.load_head(key)? })
    }

    fn renew(&mut self, run: &RunTask<'_>, progress: Option<&JsonObject>) -> StoreResult<Timestamp> {
        let RunTask { queue, key, run_id, before } = run;
        let progress = progress.map(|value| self.new_progress(*key, value)).transpose()?;
        match lifecycle::heartbeat(before, *run_id, progress, self.tx.now(), self.tx.next_pending_seq()) {
            Ok(LeaseChange { change, lease_expires_at }) => {
                self.tx.save_change(queue.key, *key, before, &change)?;
                Ok(lease_expires_at)
            }
            Err(refused) => Err(self.refuse_run(run, refused)?),
        }
    }

    fn new_progress<'a>(&mut self, key: TaskKey, value: &'a JsonObject) -> StoreResult<NewProgress<'a>> {
        Ok(NewProgress { value, result_bytes: self.tx.load_result_bytes(key)? })
    }

    pub(crate) fn report_progress(&mut self, command: &ReportProgress) -> StoreResult<()> {
        let queue = self.existing_queue(&command.queue)?;
        let run = self.load_run(queue, command.id, command.run_id)?;
        self.record_progress(&run, &command.progress)
    }

    fn record_progress(&mut self, run: &RunTask<'_>, progress: &JsonObject) -> StoreResult<()> {
        let RunTask { queue, key, run_id, before } = run;
        let progress = self.new_progress(*key, progress)?;
        match lifecycle::report_progress(before, *run_id, progress, self.tx.now(), self.tx.next_pending_seq()) {
            Ok(change) => self.tx.save_change(queue.key, *key, before, &change),
            Err(refused) => Err(self.refuse_run(run, refused)?),
        }
    }

    pub(crate) fn report_run(&mut self, command: &ReportRun) -> StoreResult<()> {
        let queue = self.existing_queue(&command.queue)?;
        let run = self.load_run(queue, command.id, command.run_id)?;
        self.end_run(&run, &command.report)
    }

    fn end_run(&mut self, run: &RunTask<'_>, report: &RunReport) -> StoreResult<()> {
        let RunTask { queue, key, run_id, before } = run;
        match lifecycle::report_run(before, *run_id, report, self.tx.now(), self.tx.next_pending_seq()) {
            Ok(None) => Ok(()),
            Ok(Some(change)) => self.save_change((*queue).into(), *key, before, &change),
            Err(refused) => Err(self.refuse_run(run, refused)?),
        }
    }

    /// The refusal, after the expiry was saved that goes with it.
    fn refuse_run(&mut self, run: &RunTask<'_>, refused: RunRefusal) -> StoreResult<StoreError> {
        if let Some(expiry) = refused.expiry {
            self.save_change(run.queue.into(), run.key, &run.before, &expiry)?;
        }
        Ok(refused.refusal.into())
    }

    /// Keeps what a run prints. Nothing of the task changes by it.
    pub(crate) fn add_output(&mut self, command: &AddOutput) -> StoreResult<()> {
        let queue = self.existing_queue(&command.queue)?;
        let key = self.existing_task(queue, command.id)?;
        let head = self.tx.load_head(key)?;
        let kept = self.tx.load_output(key)?;
        let new = NewOutput { run_id: command.run_id, offset: command.offset, text: &command.text };
        if let Some(change) = output::add(&head, kept.as_ref(), new, command.most_bytes)? {
            self.tx.save_output(queue.key, key, &change)?;
            self.after_commit.claimable.printed_runs.push(command.run_id);
        }
        Ok(())
    }

    pub(crate) fn claim(&mut self, command: &Claim) -> ClaimedItem {
        let queue = self.existing_queue(&command.queue)?;
        let claims = Claims { queue, route: &command.route, worker: command.worker.as_ref() };
        match self.tx.find_run(command.run_id)? {
            RunUse::New if self.claim_room(claims)? == Some(0) => Ok(None),
            RunUse::New => self.claim_first(claims, command.run_id, |_| true),
            used => {
                let active = self.active_claim(claims, command.run_id, used)?;
                self.load_active(queue, command.run_id, active).map(Some)
            }
        }
    }

    /// How many more tasks may be claimed; nothing if there is no limit.
    fn claim_room(&mut self, Claims { queue, route, .. }: Claims<'_>) -> StoreResult<Option<u64>> {
        let Some(settings) = self.tx.load_settings(queue.key)? else { return Ok(None) };
        let is_counted = settings.limits_claims() && !settings.paused;
        let running = if is_counted { self.tx.count_running(queue.key, route)? } else { RunningTasks::default() };
        Ok(settings.room(route, running))
    }

    /// Claims the first pending task for a new run, unless it does not fit into the answer.
    fn claim_first(&mut self, claims: Claims<'_>, run_id: RunId, fits: impl FnOnce(&Claimed) -> bool) -> ClaimedItem {
        let Claims { queue, route, worker } = claims;
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
    fn active_claim(&mut self, claims: Claims<'_>, run_id: RunId, used: RunUse) -> StoreResult<ActiveClaim> {
        let RunUse::Active(owner, key) = used else { return Err(Refusal::StaleRun { run_id }.into()) };
        let Lifecycle { run, last_route, .. } = self.tx.load_head(key)?.lifecycle;
        // Another server may have ended the run after the run id was found.
        let active = run.filter(|run| run.run_id == run_id && lease::run_over(run, self.tx.now()).is_none());
        let Some(ActiveRun { lease_expires_at, .. }) = active else { return Err(Refusal::StaleRun { run_id }.into()) };
        if owner != claims.queue.key || last_route.as_ref() != Some(claims.route) {
            return Err(Refusal::RunIdConflict { run_id }.into());
        }
        Ok((key, lease_expires_at))
    }

    fn load_active(&mut self, queue: Queue<'_>, run_id: RunId, active: ActiveClaim) -> StoreResult<Box<Claimed>> {
        let (key, lease_expires_at) = active;
        Ok(Box::new(Claimed { task: self.tx.load_task(queue, key)?, run_id, lease_expires_at }))
    }

    pub(crate) fn create_tasks(&mut self, CreateTasks { queue, tasks }: &CreateTasks) -> StoreResult<Items<bool>> {
        let queue = self.existing_queue(queue)?;
        self.tx.prepare(queue.key, Needed::Tasks(tasks.iter().map(|(id, _)| *id).collect()))?;
        let dependencies = |(_, new): &'_ (_, Box<NewTask>)| new.definition.scheduling.dependencies.clone();
        if tasks.iter().any(|task| !dependencies(task).is_empty()) {
            let all: BTreeSet<TaskId> = tasks.iter().flat_map(|task| dependencies(task).as_slice().to_vec()).collect();
            self.tx.prepare(queue.key, Needed::Dependencies(all.into_iter().collect()))?;
        }
        let mut items = Vec::with_capacity(tasks.len());
        for (id, new) in tasks.iter() {
            let created = self.create(queue, *id, new);
            items.push(item(created.map(|creation| matches!(creation, Creation::New(_))))?);
        }
        Ok(items)
    }

    pub(crate) fn report_runs(&mut self, command: &ReportRuns) -> StoreResult<Items<Option<Timestamp>>> {
        let (queue, reports) = (self.existing_queue(&command.queue)?, &command.reports);
        self.tx.prepare(queue.key, Needed::Tasks(reports.iter().map(|report| report.task_id).collect()))?;
        let mut items = Vec::with_capacity(reports.len());
        for report in reports.iter() {
            // The rest is written in another transaction (`portions.rs`).
            if self.after_commit.done.is_full() && !items.is_empty() {
                break;
            }
            let run = self.load_run(queue, report.task_id, report.run_id);
            let done = run.and_then(|run| match &report.action {
                RunAction::Heartbeat { progress } => self.renew(&run, progress.as_ref()).map(Some),
                RunAction::Progress { progress } => self.record_progress(&run, progress).map(|()| None),
                RunAction::End(report) => self.end_run(&run, report).map(|()| None),
            });
            items.push(item(done)?);
        }
        Ok(items)
    }

    /// Used run ids come first: a repeated command gets all tasks again that it got before, and what is left of the bytes is for
    /// new ones. Neither changes what is answered to the other. A run whose task does not fit is busy and never without a task:
    /// its claimant would go on with another run id.
    pub(crate) fn claim_tasks(&mut self, command: &ClaimTasks) -> StoreResult<ClaimedItems> {
        let queue = self.existing_queue(&command.queue)?;
        let claims = Claims { queue, route: &command.route, worker: command.worker.as_ref() };
        let mut bytes = AnswerBytes { command, left: Some(command.most_bytes), is_empty: true };
        let uses =
            command.run_ids.iter().map(|run_id| self.tx.find_run(*run_id)).collect::<StoreResult<Vec<RunUse>>>()?;
        let new = uses.iter().filter(|usage| **usage == RunUse::New).count();
        let room = if new > 0 { self.claim_room(claims)? } else { None };
        let wanted = room.map_or(new, |room| new.min(usize::try_from(room).unwrap_or(usize::MAX)));
        let mut most = if wanted > 0 { self.tx.prepare(queue.key, Needed::Pending(claims.route, wanted))? } else { 0 };
        self.tx.prepare(queue.key, Needed::Runs(&uses))?;
        let mut items = Vec::with_capacity(uses.len());
        for (run_id, usage) in command.run_ids.iter().zip(&uses) {
            items.push(match usage {
                RunUse::New => Ok(None),
                used => self.repeated(claims, *run_id, *used, &mut bytes)?,
            });
        }
        let mut claimed_runs = HashSet::new();
        for (place, ((run_id, usage), answer)) in command.run_ids.iter().zip(&uses).zip(&mut items).enumerate() {
            if *usage != RunUse::New {
                continue;
            }
            if claimed_runs.contains(run_id) {
                let used = self.tx.find_run(*run_id)?;
                *answer = self.repeated(claims, *run_id, used, &mut bytes)?;
            } else if most > 0 {
                let worker = command.worker_of(place);
                let claims = Claims { worker: worker.as_ref(), ..claims };
                let claimed = self.claim_first(claims, *run_id, |claimed| bytes.take(claimed))?;
                claimed_runs.extend(claimed.as_ref().map(|claimed| claimed.run_id));
                // If it did not fit, the next one in the order is this one again.
                most = if claimed.is_some() && !self.after_commit.done.is_full() { most - 1 } else { 0 };
                *answer = Ok(claimed);
            }
        }
        Ok(items)
    }

    fn repeated(
        &mut self,
        claims: Claims<'_>,
        run_id: RunId,
        used: RunUse,
        bytes: &mut AnswerBytes<'_>,
    ) -> StoreResult<ClaimedItem> {
        let active = match item(self.active_claim(claims, run_id, used))? {
            Ok(active) => active,
            Err(refusal) => return Ok(Err(refusal.into())),
        };
        // Once one did not fit, the others are not even loaded.
        if bytes.left.is_none() {
            return Ok(Err(StoreError::Busy));
        }
        let claimed = self.load_active(claims.queue, run_id, active)?;
        Ok(if bytes.take(&claimed) { Ok(Some(claimed)) } else { Err(StoreError::Busy) })
    }
}

/// The bytes that claimed tasks may still take of the answer.
struct AnswerBytes<'a> {
    command: &'a ClaimTasks,
    /// Nothing once a task did not fit: smaller ones behind it are not claimed before it.
    left: Option<usize>,
    is_empty: bool,
}

impl AnswerBytes<'_> {
    /// Returns whether a task fits. The first one always does.
    fn take(&mut self, claimed: &Claimed) -> bool {
        let bytes = (self.command.measure)(claimed);
        let fits = self.left.and_then(|left| left.checked_sub(bytes));
        self.left = if self.is_empty { Some(fits.unwrap_or(0)) } else { fits };
        self.is_empty = false;
        self.left.is_some()
    }
}

/// The outcome of an item, if the command can go on.
fn item<A>(executed: StoreResult<A>) -> StoreResult<Result<A, Refusal>> {
    match executed {
        Ok(answer) => Ok(Ok(answer)),
        Err(StoreError::Refused(refusal)) => Ok(Err(refusal)),
        Err(error) => Err(error),
    }
}

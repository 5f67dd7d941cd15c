//! Commands of several items: each item is decided as if it had come alone, one after the other, and a refused item leaves the
//! others alone. Any other error is one of the whole command. [`StoreError::Busy`] comes before the first change: what
//! another transaction may hold is looked at first.

use std::collections::{BTreeSet, HashSet};

use taskqueue_core::ids::{RunId, TaskId};
use taskqueue_core::refusal::Refusal;
use taskqueue_core::time::Timestamp;

use super::claims::Claims;
use super::{Creation, Execution};
use crate::command::{ClaimTasks, Claimed, ClaimedItems, CreateTasks, Items, NewTask, ReportRuns, RunAction};
use crate::transaction::{BatchTransaction, Needed, RunUse};
use crate::{StoreError, StoreResult};

impl<T: BatchTransaction> Execution<'_, T> {
    pub(crate) fn create_tasks(&mut self, CreateTasks { queue, tasks }: &CreateTasks) -> StoreResult<Items<bool>> {
        let queue = self.existing_queue(queue)?;
        self.tx.prepare(queue.key, Needed::Tasks(tasks.iter().map(|(id, _)| *id).collect()))?;
        let dependencies = |(_, new): &'_ (_, Box<NewTask>)| new.definition.scheduling.dependencies.clone();
        if tasks.iter().any(|task| !dependencies(task).is_empty()) {
            let all: BTreeSet<TaskId> = tasks.iter().flat_map(|task| dependencies(task).as_slice().to_vec()).collect();
            self.tx.prepare(queue.key, Needed::Dependencies(all.into_iter().collect()))?;
        }
        let mut items = Vec::with_capacity(tasks.len());
        for (id, new) in tasks {
            let created = self.create(queue, *id, new);
            items.push(item(created.map(|creation| matches!(creation, Creation::New(_))))?);
        }
        Ok(items)
    }

    pub(crate) fn report_runs(
        &mut self,
        ReportRuns { queue, reports }: &ReportRuns,
    ) -> StoreResult<Items<Option<Timestamp>>> {
        let queue = self.existing_queue(queue)?;
        self.tx.prepare(queue.key, Needed::Tasks(reports.iter().map(|report| report.id).collect()))?;
        let mut items = Vec::with_capacity(reports.len());
        for report in reports {
            // The rest is written in another transaction (`portions.rs`).
            if self.after_commit.done.is_full() && !items.is_empty() {
                break;
            }
            let (id, run_id) = (report.id, report.run_id);
            let done = match &report.action {
                RunAction::Heartbeat { progress } => self.renew(queue, id, run_id, progress.as_ref()).map(Some),
                RunAction::Progress { progress } => self.record_progress(queue, id, run_id, progress).map(|()| None),
                RunAction::Report(report) => self.end_run(queue, id, run_id, report).map(|()| None),
            };
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
    ) -> StoreResult<StoreResult<Option<Box<Claimed>>>> {
        let active = match item(self.active_claim(claims, run_id, used))? {
            Ok(active) => active,
            Err(refusal) => return Ok(Err(refusal.into())),
        };
        // Once one did not fit, the others are not even loaded.
        if bytes.left.is_none() {
            return Ok(Err(StoreError::Busy));
        }
        let claimed = self.load_active(claims.queue, active)?;
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

//! Commands of several items: each item is decided as if it had come alone, one after the other, and a refused item leaves the
//! others alone. Any other error is one of the whole command, which then has to be undone as a whole.

use taskqueue_core::ids::{RunId, TaskId};
use taskqueue_core::refusal::Refusal;
use taskqueue_core::time::Timestamp;

use super::{Executed, claim, create_task, existing_queue, heartbeat, report_run};
use crate::StoreError;
use crate::claimable::Claimable;
use crate::command::{
    Claim, ClaimTasks, Claimed, CreateTask, CreateTasks, Heartbeat, Items, NewTask, ReportRun, ReportRuns, RunAction,
};
use crate::transaction::Transaction;

pub(super) fn create_tasks<T: Transaction>(
    tx: &mut T,
    CreateTasks { queue, tasks }: &CreateTasks,
    claimable: &mut Claimable,
) -> Executed<Items<bool>> {
    existing_queue(tx, queue)?;
    let create = |(id, new): &(TaskId, Box<NewTask>)| {
        let command = CreateTask { queue: queue.clone(), id: *id, new: new.clone() };
        item(create_task(tx, &command, claimable).map(|created| created.created))
    };
    tasks.iter().map(create).collect()
}

pub(super) fn claim_tasks<T: Transaction>(tx: &mut T, command: &ClaimTasks) -> Executed<Items<Option<Box<Claimed>>>> {
    let ClaimTasks { queue, route, run_ids, worker, .. } = command;
    existing_queue(tx, queue)?;
    let claim = |run_id: &RunId| {
        let command = Claim { queue: queue.clone(), route: route.clone(), run_id: *run_id, worker: worker.clone() };
        item(claim(tx, &command))
    };
    run_ids.iter().map(claim).collect()
}

pub(super) fn report_runs<T: Transaction>(
    tx: &mut T,
    ReportRuns { queue, reports }: &ReportRuns,
    claimable: &mut Claimable,
) -> Executed<Items<Option<Timestamp>>> {
    existing_queue(tx, queue)?;
    let mut items = Vec::with_capacity(reports.len());
    for report in reports {
        let (queue, id, run_id) = (queue.clone(), report.id, report.run_id);
        let done = match &report.action {
            RunAction::Heartbeat => heartbeat(tx, &Heartbeat { queue, id, run_id }, claimable).map(Some),
            RunAction::Report(report) => {
                report_run(tx, &ReportRun { queue, id, run_id, report: report.clone() }, claimable).map(|()| None)
            }
        };
        items.push(item(done)?);
    }
    Ok(items)
}

/// The outcome of an item, if the command can go on.
fn item<A>(executed: Executed<A>) -> Executed<Result<A, Refusal>> {
    match executed {
        Ok(answer) => Ok(Ok(answer)),
        Err(StoreError::Refused(refusal)) => Ok(Err(refusal)),
        Err(error) => Err(error),
    }
}

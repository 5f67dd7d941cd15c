//! Batches: many creations, claims or reports in one request, or in as many as their number and size need, one after the other.
//! Only for a server that has [`BATCH`](taskqueue_api::capabilities::BATCH).

use std::collections::HashSet;

use reqwest::Method;
use taskqueue_api::batch::{
    BatchWriter, ClaimTasksRequest, ClaimedTasks, CreateTasksRequest, CreatedTasks, ReportRunsRequest, ReportedRuns,
    RunItem,
};
use taskqueue_api::error::{Code, Error as ErrorAnswer};
use taskqueue_api::object_reader::Unreadable;
use taskqueue_api::run::Claim;
use taskqueue_api::task::Creation;
use taskqueue_api::{ErrorCode, paths};
use taskqueue_core::ids::{QueueName, Route, RunId, TaskId};
use taskqueue_core::json::{JsonObject, Value};
use taskqueue_core::limits::BATCH_ITEMS;
use taskqueue_core::time::Timestamp;

use super::{AFTER_CLAIM, AFTER_REPORT};
use crate::call::{Call, queue_path};
use crate::client::Client;
use crate::error::{BatchAnswer, Error, Waited};

/// The largest answer that is read, if it holds no tasks: room for a long error in one item, and for a usual one in all.
const ANSWER_FRAME_BYTES: usize = 1_048_576;
const ANSWER_ITEM_BYTES: usize = 8 * 1024;

/// The outcome of a task that was to be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateOutcome {
    /// The answered request created it.
    Created,
    /// It existed with the same definition. An earlier try of the same call, whose answer was lost, may have created it.
    Existing,
}

/// Claims of the next tasks for a route, one for each of several runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchClaimRequest {
    pub route: Route,
    /// All different, and never used before.
    pub run_ids: Vec<RunId>,
    /// Who claims, as in [`ClaimRequest::worker`](crate::ClaimRequest::worker): the same for all of them.
    pub worker: Option<JsonObject>,
    /// What differs for each of them, in their order: a merge patch of what is the same; or nothing. Servers that do not know this
    /// refuse the request with 422.
    pub workers: Vec<JsonObject>,
    /// How long the server is asked to wait until there is a task for one of them. Not for more than 1,000 runs, which need several
    /// requests.
    pub wait_seconds: Option<u32>,
}

impl BatchClaimRequest {
    /// Claims that say nothing of the worker and do not wait.
    pub fn new(route: Route, run_ids: Vec<RunId>) -> Self {
        Self { route, run_ids, worker: None, workers: Vec::new(), wait_seconds: None }
    }
}

impl Client {
    /// Makes sure that these tasks exist, as [`Client::create_task`] does for one. Each request is repeated like a single
    /// creation.
    pub async fn create_tasks<T>(&self, queue: &QueueName, tasks: &[(TaskId, T)]) -> BatchAnswer<CreateOutcome>
    where
        for<'t> &'t T: Into<Creation>,
    {
        let mut answer = BatchAnswer::with_room_for(tasks.len());
        let push = |body: &mut BatchWriter, (id, new): &(TaskId, T)| body.push_task(*id, &new.into());
        while let Some((body, asked)) = next_part(tasks, &mut answer, CreateTasksRequest::writer, push) {
            let ids: Vec<TaskId> = asked.iter().map(|(id, _)| *id).collect();
            let call = Call::creation(queue_path(paths::BATCH_CREATE, queue));
            let call = batch_call(Call { method: Method::POST, ..call }, body, ids.len());
            let created = self.ask(call, |value| CreatedTasks::read(value, &ids)).await;
            let outcome = |created| if created { CreateOutcome::Created } else { CreateOutcome::Existing };
            let outcomes = created.map(|items| items.into_iter().map(|item| item.map(outcome)).collect());
            answer.add(ids.len(), tasks.len(), outcomes);
        }
        answer
    }

    /// Claims a task for each of the runs, as [`Client::claim`] does for one: the task with its lease; or nothing, when no task
    /// is left for the route, or when the answer would have become too large.
    pub async fn claim_tasks(&self, queue: &QueueName, request: &BatchClaimRequest) -> BatchAnswer<Option<Claim>> {
        let BatchClaimRequest { route, run_ids, worker, workers, wait_seconds } = request;
        let mut answer = BatchAnswer::with_room_for(run_ids.len());
        let wait_seconds = wait_seconds.filter(|_| run_ids.len() <= BATCH_ITEMS);
        // One for each run, or none at all.
        let mut workers = workers.chunks(BATCH_ITEMS);
        for run_ids in run_ids.chunks(BATCH_ITEMS) {
            let path = queue_path(paths::BATCH_CLAIM, queue);
            let body = Some(ClaimTasksRequest::encode(route, run_ids, worker.as_ref(), workers.next().unwrap_or(&[])));
            let call = Call { body, ..Call::post("claim tasks", path, AFTER_CLAIM) };
            let claims =
                self.wait(call, wait_seconds, |answer| answer.read(&[200], |value| read_claims(value, run_ids)));
            let claims = claims.await.map(|Waited { value, wait_applied }| {
                answer.wait_applied = wait_applied;
                value
            });
            answer.add(run_ids.len(), request.run_ids.len(), claims);
            if answer.items.len() == request.run_ids.len() {
                break;
            }
        }
        answer
    }

    /// Reports about several runs, each as the single call does; a heartbeat gives the new end of its lease. No request is
    /// repeated here: that is the worker's decision, and repeating a report that was done has no second effect.
    pub async fn report_runs(&self, queue: &QueueName, reports: &[RunItem]) -> BatchAnswer<Option<Timestamp>> {
        let mut answer = BatchAnswer::with_room_for(reports.len());
        let (writer, push) = (ReportRunsRequest::writer, BatchWriter::push_report);
        while let Some((body, asked)) = next_part(reports, &mut answer, writer, push) {
            let call = Call::post("report runs", queue_path(paths::BATCH_REPORT, queue), AFTER_REPORT);
            let call = batch_call(call, body, asked.len());
            let reported = self.ask(call, |value| ReportedRuns::read(value, asked)).await;
            answer.add(asked.len(), reports.len(), reported);
        }
        answer
    }
}

/// The body of the next request, and its items: as many as fit of those that have no outcome yet. One that fits into no request gets
/// its outcome at once. Bodies are made one at a time, so that only one is in memory.
fn next_part<'a, I, T>(
    items: &'a [I],
    answer: &mut BatchAnswer<T>,
    writer: fn() -> BatchWriter,
    mut push: impl FnMut(&mut BatchWriter, &I) -> bool,
) -> Option<(Vec<u8>, &'a [I])> {
    loop {
        let left = &items[answer.items.len()..];
        let mut body = writer();
        let fitting = left.iter().take_while(|item| push(&mut body, item)).count();
        if fitting > 0 {
            return Some((body.end(), &left[..fitting]));
        }
        if left.is_empty() {
            return None;
        }
        answer.items.push(Err(too_large()));
    }
}

/// A call whose answer holds no tasks.
fn batch_call(call: Call, body: Vec<u8>, items: usize) -> Call {
    Call { body: Some(body), answer_bytes: ANSWER_FRAME_BYTES + items * ANSWER_ITEM_BYTES, ..call }
}

/// The error of an item that is too large for a single request, too, as the server would have given it.
fn too_large() -> Error {
    let (code, details) = (ErrorCode::RequestTooLarge, JsonObject::empty());
    let message = "send less: the item is larger than a request may be".to_owned();
    Error::Api { status: code.status(), code: Code::Known(code), message, details, retry_after: None }
}

/// A server that gives one task to two runs is not believed: both would do the work.
fn read_claims(value: &Value<'_>, run_ids: &[RunId]) -> Result<Vec<Result<Option<Claim>, ErrorAnswer>>, Unreadable> {
    let claims = ClaimedTasks::read(value, run_ids)?;
    let mut tasks = HashSet::new();
    let is_distinct = claims.iter().flatten().flatten().all(|claim| tasks.insert(claim.task.id));
    if is_distinct { Ok(claims) } else { Err(Unreadable("it gives one task to two runs".to_owned())) }
}

//! The worker protocol: claim, heartbeat and the ends of a run; and the observations of workers. Only a claim may be repeated by the
//! client, and only if asked to; when to repeat a report is the worker's decision, because it has to keep its lease meanwhile.

use reqwest::Method;
use taskqueue_api::lists::{Count, GroupPage, Page};
use taskqueue_api::paths;
use taskqueue_api::run::{
    self, Claim, CompleteRequest, FailRequest, HeartbeatRequest, Lease, ProgressRequest, UnclaimRequest,
};
use taskqueue_api::worker::{TelemetryRequest, read_observation};
use taskqueue_core::ids::{QueueName, Route, RunId, TaskId, WorkerId};
use taskqueue_core::json::JsonObject;
use taskqueue_core::lifecycle::RunReport;
use taskqueue_core::observation::{Observation, Report};
use taskqueue_core::task::Failure;
use taskqueue_core::time::Timestamp;

use crate::answer::Answer;
use crate::call::{Call, queue_path, task_path};
use crate::client::Client;
use crate::error::Error;
use crate::query::{GroupQuery, Selection, Walk, WorkerQuery, WorkerSelection};

pub(super) const AFTER_CLAIM: &str = "claim again with the same run id: it gives the same task, and no second one";
const AFTER_PROGRESS: &str = "report the present progress: each report replaces the one before";
const AFTER_HEARTBEAT: &str = "send another heartbeat with the same run id";
pub(super) const AFTER_REPORT: &str = "repeat the report with the same run id: a repetition has no second effect, and run_finalized means \
     that the run ended in another way";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRequest {
    route: Route,
    run_id: RunId,
    worker: Option<JsonObject>,
    wait_seconds: Option<u32>,
    retrying: bool,
}

impl ClaimRequest {
    /// The next task for `route`, to be owned by the run `run_id`, which was never used before.
    pub fn new(route: Route, run_id: RunId) -> Self {
        Self { route, run_id, worker: None, wait_seconds: None, retrying: false }
    }

    /// Says who claims, at most 4 KiB: the task shows it as `last_run`. A server without
    /// [`RUN_INFO`](taskqueue_api::capabilities::RUN_INFO) refuses such a claim.
    #[must_use]
    pub fn by_worker(self, worker: JsonObject) -> Self {
        Self { worker: Some(worker), ..self }
    }

    /// Asks the server to wait so long for a task if there is none. A server may wait less or not at all:
    /// [`ClaimAnswer::wait_applied`] tells.
    #[must_use]
    pub fn waiting(self, seconds: u32) -> Self {
        Self { wait_seconds: Some(seconds), ..self }
    }

    /// Lets the client repeat the claim, as it repeats reads. That is safe as long as the run id is used for this claim
    /// alone: a repetition gives the task that an earlier try has claimed.
    #[must_use]
    pub fn retrying(self) -> Self {
        Self { retrying: true, ..self }
    }
}

/// The answer to a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimAnswer {
    /// The task with its lease; `None` when no task is pending for the route.
    pub claim: Option<Claim>,
    /// The wait in seconds that the server agreed to; `None` if the answer does not name one.
    pub wait_applied: Option<u32>,
}

/// The answer to a heartbeat that was asked to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeartbeatAnswer {
    /// The end of the lease as it was renewed when the heartbeat came, by the server's clock.
    pub lease_expires_at: Timestamp,
    /// The wait in seconds that the server agreed to; `None` if the answer came without a wait. Then pause before the next
    /// heartbeat.
    pub wait_applied: Option<u32>,
}

fn heartbeat_call(queue: &QueueName, id: TaskId, run_id: RunId) -> Call {
    let path = task_path(paths::HEARTBEAT, queue, id);
    let call = Call::change("renew the lease", Method::POST, path, AFTER_HEARTBEAT);
    call.body(&HeartbeatRequest { run_id, progress: None })
}

impl Client {
    /// Claims the next task.
    pub async fn claim(&self, queue: &QueueName, request: &ClaimRequest) -> Result<ClaimAnswer, Error> {
        let ClaimRequest { route, run_id, worker, wait_seconds, retrying } = request;
        let path = queue_path(paths::CLAIM, queue);
        let body = run::ClaimRequest { route: route.clone(), run_id: *run_id, worker: worker.clone() };
        let call = Call::change("claim a task", Method::POST, path, AFTER_CLAIM).body(&body);
        let call = Call { is_repeatable: *retrying, wait_seconds: *wait_seconds, ..call };
        self.perform(call, |answer| {
            let claim = match answer.status {
                204 => None,
                _ => Some(answer.read(&[200], |value| Claim::read(value, *run_id))?),
            };
            Ok(ClaimAnswer { claim, wait_applied: answer.wait_applied })
        })
        .await
    }

    /// Renews the lease of a run; gives its new end, by the server's clock.
    pub async fn heartbeat(&self, queue: &QueueName, id: TaskId, run_id: RunId) -> Result<Timestamp, Error> {
        self.perform(heartbeat_call(queue, id, run_id), |answer| answer.read(&[200], Lease::read)).await
    }

    /// Renews the lease of a run and asks the server to hold the answer for so long, or until the run is over, which is then
    /// an error at once ([`ErrorCode::RunFinalized`](crate::ErrorCode::RunFinalized),
    /// [`ErrorCode::StaleRun`](crate::ErrorCode::StaleRun)). A server may hold it for less time or not at all:
    /// [`HeartbeatAnswer::wait_applied`] tells. Like every heartbeat it is not repeated here, and repeating it is safe.
    pub async fn heartbeat_waiting(
        &self,
        queue: &QueueName,
        id: TaskId,
        run_id: RunId,
        seconds: u32,
    ) -> Result<HeartbeatAnswer, Error> {
        let call = heartbeat_call(queue, id, run_id);
        let call = Call { wait_seconds: Some(seconds), ..call };
        self.perform(call, |answer| {
            let lease_expires_at = answer.read(&[200], Lease::read)?;
            Ok(HeartbeatAnswer { lease_expires_at, wait_applied: answer.wait_applied })
        })
        .await
    }

    /// Says how far a run is, which replaces what it said before. Only for a server that has
    /// [`PROGRESS`](taskqueue_api::capabilities::PROGRESS). It is not repeated here: a late repetition would replace what was
    /// said since.
    pub async fn report_progress(
        &self,
        queue: &QueueName,
        id: TaskId,
        run_id: RunId,
        progress: &JsonObject,
    ) -> Result<(), Error> {
        let path = task_path(paths::PROGRESS, queue, id);
        let call = Call::change("report the progress", Method::POST, path, AFTER_PROGRESS);
        self.perform(call.body(&ProgressRequest { run_id, progress: progress.clone() }), Answer::no_content).await
    }

    /// Ends a run with a result.
    pub async fn complete(
        &self,
        queue: &QueueName,
        id: TaskId,
        run_id: RunId,
        result: &JsonObject,
    ) -> Result<(), Error> {
        self.report_run(queue, id, run_id, &RunReport::Complete { result: result.clone() }).await
    }

    /// Ends a run with a failure, which is charged. Without `retry` the task has failed at once, whatever is left of its
    /// budget.
    pub async fn fail(
        &self,
        queue: &QueueName,
        id: TaskId,
        run_id: RunId,
        failure: &Failure,
        retry: bool,
    ) -> Result<(), Error> {
        let report = RunReport::Fail { failure: failure.clone(), retry, retry_after: None };
        self.report_run(queue, id, run_id, &report).await
    }

    /// Gives a task back uncharged.
    pub async fn unclaim(&self, queue: &QueueName, id: TaskId, run_id: RunId) -> Result<(), Error> {
        self.report_run(queue, id, run_id, &RunReport::Unclaim { delay: None }).await
    }

    /// Ends a run as the report says, with all that it says: a delay before the next attempt needs a server that has
    /// [`DELAY`](taskqueue_api::capabilities::DELAY).
    pub async fn report_run(
        &self,
        queue: &QueueName,
        id: TaskId,
        run_id: RunId,
        report: &RunReport,
    ) -> Result<(), Error> {
        let call = |doing, path| Call::change(doing, Method::POST, task_path(path, queue, id), AFTER_REPORT);
        let call = match report {
            RunReport::Complete { result } => {
                call("complete the run", paths::COMPLETE).body(&CompleteRequest { run_id, result: result.clone() })
            }
            RunReport::Fail { failure, retry, retry_after } => {
                let (error, retry_after_seconds) = (failure.clone(), *retry_after);
                call("fail the run", paths::FAIL).body(&FailRequest {
                    run_id,
                    error,
                    retry: *retry,
                    retry_after_seconds,
                })
            }
            RunReport::Unclaim { delay } => {
                call("give the task back", paths::UNCLAIM).body(&UnclaimRequest { run_id, delay_seconds: *delay })
            }
        };
        self.perform(call, Answer::no_content).await
    }
}

// A late repetition of either would undo what came between: a report revives a worker that has withdrawn.
const AFTER_OBSERVATION: &str = "report the present state: each report replaces the one before";
const AFTER_WITHDRAWAL: &str = "list the workers; an observation that is left expires by itself";

impl Client {
    /// One page of observations, ordered by id.
    pub async fn workers(&self, queue: &QueueName, query: &WorkerQuery) -> Result<Page<Observation>, Error> {
        let call = Call::read("list the workers", queue_path(paths::WORKERS, queue)).query(query.parameters());
        self.perform(call, |answer| answer.read(&[200], |page| Page::read(page, read_observation))).await
    }

    /// All pages of observations from this one on.
    pub fn walk_workers(&self, queue: &QueueName, query: WorkerQuery) -> Walk<WorkerQuery> {
        Walk::new(self, queue, query)
    }

    /// Counts the observations, approximately.
    pub async fn count_workers(&self, queue: &QueueName, selection: &WorkerSelection) -> Result<u64, Error> {
        let call =
            Call::read("count the workers", queue_path(paths::WORKER_COUNT, queue)).query(selection.parameters());
        self.perform(call, |answer| answer.read(&[200], Count::read)).await
    }

    /// Counts the observations by group. A server that answers with a plain count is refused.
    pub async fn group_workers(
        &self,
        queue: &QueueName,
        query: &GroupQuery<WorkerSelection>,
    ) -> Result<GroupPage, Error> {
        let call = Call::read("count the workers by group", queue_path(paths::WORKER_COUNT, queue));
        self.perform(call.query(query.parameters()), |answer| {
            answer.read(&[200], |value| GroupPage::read(value, query.dimensions()))
        })
        .await
    }

    /// All pages of groups from this one on.
    pub fn walk_worker_groups(
        &self,
        queue: &QueueName,
        query: GroupQuery<WorkerSelection>,
    ) -> Walk<GroupQuery<WorkerSelection>> {
        Walk::new(self, queue, query)
    }

    /// Says what a worker does now; it counts for 300 seconds.
    pub async fn report_worker(&self, queue: &QueueName, id: WorkerId, report: &Report) -> Result<(), Error> {
        let call = Call::change("report the worker", Method::PUT, worker_path(queue, id), AFTER_OBSERVATION);
        self.perform(call.body(report), Answer::no_content).await
    }

    /// Says what a worker measures, which replaces what it measured before. Only for a server that has
    /// [`TELEMETRY`](taskqueue_api::capabilities::TELEMETRY), and for a worker that has reported.
    pub async fn report_telemetry(&self, queue: &QueueName, id: WorkerId, telemetry: &JsonObject) -> Result<(), Error> {
        let path = queue_path(paths::TELEMETRY, queue).replace("{id}", id.as_str());
        let call = Call::change("report the telemetry", Method::POST, path, AFTER_OBSERVATION);
        self.perform(call.body(&TelemetryRequest { telemetry: telemetry.clone() }), Answer::no_content).await
    }

    /// Forgets a worker. One that is not known counts as forgotten.
    pub async fn withdraw_worker(&self, queue: &QueueName, id: WorkerId) -> Result<(), Error> {
        let call = Call::change("withdraw the worker", Method::DELETE, worker_path(queue, id), AFTER_WITHDRAWAL);
        self.perform(call, Answer::no_content).await
    }
}

fn worker_path(queue: &QueueName, id: WorkerId) -> String {
    queue_path(paths::WORKER, queue).replace("{id}", id.as_str())
}

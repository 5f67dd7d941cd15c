//! The worker protocol: claim, heartbeat and the ends of a run; and the observations of workers. Nothing of it is repeated by the
//! client: when to repeat a claim or a report is the worker's decision, because it has to keep its leases meanwhile.

use reqwest::Method;
use taskqueue_api::paths;
use taskqueue_api::run::{self, Claim, HeartbeatRequest, Lease, ProgressRequest, write_report};
use taskqueue_api::worker::TelemetryRequest;
use taskqueue_core::ids::{QueueName, Route, RunId, TaskId, WorkerId};
use taskqueue_core::json::{JsonObject, ObjectWriter};
use taskqueue_core::lifecycle::RunReport;
use taskqueue_core::observation::Report;
use taskqueue_core::time::Timestamp;

use crate::call::{Call, queue_path, task_path};
use crate::client::Client;
use crate::error::Error;

pub(super) const AFTER_CLAIM: &str = "claim again with the same run id: it gives the same task, and no second one";
const AFTER_PROGRESS: &str = "report the present progress: each report replaces the one before";
const AFTER_HEARTBEAT: &str = "send another heartbeat with the same run id";
pub(super) const AFTER_REPORT: &str = "repeat the report with the same run id: a repetition has no second effect, and run_finalized means \
     that the run ended in another way";

/// A claim of the next task for a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRequest {
    pub route: Route,
    /// It was never used before.
    pub run_id: RunId,
    /// Who claims, at most 4 KiB: the task shows it as `last_run`. A server without
    /// [`RUN_INFO`](taskqueue_api::capabilities::RUN_INFO) refuses such a claim.
    pub worker: Option<JsonObject>,
    /// How long the server is asked to wait for a task if there is none. A server may wait less or not at all:
    /// [`ClaimAnswer::wait_applied`] tells.
    pub wait_seconds: Option<u32>,
}

impl ClaimRequest {
    /// A claim that says nothing of the worker and does not wait.
    pub fn new(route: Route, run_id: RunId) -> Self {
        Self { route, run_id, worker: None, wait_seconds: None }
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

/// The answer to a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeartbeatAnswer {
    /// The end of the lease as it was renewed when the heartbeat came, by the server's clock.
    pub lease_expires_at: Timestamp,
    /// The wait in seconds that the server agreed to; `None` if the answer came without a wait. Then pause before the next
    /// heartbeat.
    pub wait_applied: Option<u32>,
}

impl Client {
    /// Claims the next task.
    pub async fn claim(&self, queue: &QueueName, request: &ClaimRequest) -> Result<ClaimAnswer, Error> {
        let ClaimRequest { route, run_id, worker, wait_seconds } = request;
        let path = queue_path(paths::CLAIM, queue);
        let body = run::ClaimRequest { route: route.clone(), run_id: *run_id, worker: worker.clone() };
        let call = Call::post("claim a task", path, AFTER_CLAIM).body(&body);
        let call = Call { wait_seconds: *wait_seconds, ..call };
        self.perform(call, |answer| {
            let claim = match answer.status {
                204 => None,
                _ => Some(answer.read(&[200], |value| Claim::read(value, *run_id))?),
            };
            Ok(ClaimAnswer { claim, wait_applied: answer.wait_applied })
        })
        .await
    }

    /// Renews the lease of a run. With `wait_seconds` the server is asked to hold the answer for so long, or until the run is over,
    /// which is then an error at once ([`ErrorCode::RunFinalized`](crate::ErrorCode::RunFinalized),
    /// [`ErrorCode::StaleRun`](crate::ErrorCode::StaleRun)). A server may hold it for less time or not at all:
    /// [`HeartbeatAnswer::wait_applied`] tells. No heartbeat is repeated here, and repeating it is safe.
    pub async fn heartbeat(
        &self,
        queue: &QueueName,
        id: TaskId,
        run_id: RunId,
        wait_seconds: Option<u32>,
    ) -> Result<HeartbeatAnswer, Error> {
        let call = Call::post("renew the lease", task_path(paths::HEARTBEAT, queue, id), AFTER_HEARTBEAT);
        let call = Call { wait_seconds, ..call.body(&HeartbeatRequest { run_id, progress: None }) };
        self.perform(call, |answer| {
            let Lease { lease_expires_at } = answer.read(&[200], Lease::read)?;
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
        let call = Call::post("report the progress", path, AFTER_PROGRESS);
        self.tell(call.body(&ProgressRequest { run_id, progress: progress.clone() })).await
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
        let (doing, path) = match report {
            RunReport::Complete { .. } => ("complete the run", paths::COMPLETE),
            RunReport::Fail { .. } => ("fail the run", paths::FAIL),
            RunReport::Unclaim { .. } => ("give the task back", paths::UNCLAIM),
        };
        let body = Some(write_report(ObjectWriter::new(), run_id, report).end());
        self.tell(Call { body, ..Call::post(doing, task_path(path, queue, id), AFTER_REPORT) }).await
    }
}

// A late repetition of either would undo what came between: a report revives a worker that has withdrawn.
const AFTER_OBSERVATION: &str = "report the present state: each report replaces the one before";
const AFTER_WITHDRAWAL: &str = "list the workers; an observation that is left expires by itself";

impl Client {
    /// Says what a worker does now; it counts for 300 seconds.
    pub async fn report_worker(&self, queue: &QueueName, id: WorkerId, report: &Report) -> Result<(), Error> {
        let path = worker_path(paths::WORKER, queue, id);
        let call = Call::change("report the worker", Method::PUT, path, AFTER_OBSERVATION);
        self.tell(call.body(report)).await
    }

    /// Says what a worker measures, which replaces what it measured before. Only for a server that has
    /// [`TELEMETRY`](taskqueue_api::capabilities::TELEMETRY), and for a worker that has reported.
    pub async fn report_telemetry(&self, queue: &QueueName, id: WorkerId, telemetry: &JsonObject) -> Result<(), Error> {
        let call = Call::post("report the telemetry", worker_path(paths::TELEMETRY, queue, id), AFTER_OBSERVATION);
        self.tell(call.body(&TelemetryRequest { telemetry: telemetry.clone() })).await
    }

    /// Forgets a worker. One that is not known counts as forgotten.
    pub async fn withdraw_worker(&self, queue: &QueueName, id: WorkerId) -> Result<(), Error> {
        let path = worker_path(paths::WORKER, queue, id);
        self.tell(Call::change("withdraw the worker", Method::DELETE, path, AFTER_WITHDRAWAL)).await
    }
}

fn worker_path(template: &str, queue: &QueueName, id: WorkerId) -> String {
    queue_path(template, queue).replace("{id}", id.as_str())
}

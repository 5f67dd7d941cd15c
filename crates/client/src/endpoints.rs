//! The endpoints, one method of the client each: of the server and its queues, of tasks, of the worker protocol. The constants
//! `AFTER_...` say what to do when the outcome of a call is unknown. What sends many items with one request is in [`batches`].

mod batches;

use std::sync::Arc;

use reqwest::Method;
use taskqueue_api::batch::{RunAction, RunItem};
use taskqueue_api::bulk_action::{self, Acted, BulkActionRequest};
use taskqueue_api::capabilities::{Capabilities, Health};
use taskqueue_api::explain::Explanation;
use taskqueue_api::lists::Updated;
use taskqueue_api::output::{Output, OutputRequest};
use taskqueue_api::paths;
use taskqueue_api::queue::{Queue, read_settings};
use taskqueue_api::run::{self, Claim, HeartbeatRequest, Lease, ProgressRequest, write_report};
use taskqueue_api::stats::{Series, Stats};
use taskqueue_api::task::{BulkUpdateRequest, Creation, Task};
use taskqueue_api::worker::TelemetryRequest;
use taskqueue_core::bulk_action::BulkAction;
use taskqueue_core::ids::{QueueName, Route, RunId, TaskId, WorkerId};
use taskqueue_core::json::{JsonObject, ObjectWriter};
use taskqueue_core::lifecycle::RunReport;
use taskqueue_core::observation::Report;
use taskqueue_core::settings::{QueueSettings, SettingsPatch};
use taskqueue_core::stats::SeriesSelection;
use taskqueue_core::trace::TraceParent;
use taskqueue_core::update::Update;

pub use self::batches::{BatchClaimRequest, CreateOutcome};
use crate::call::{Call, queue_path, task_path};
use crate::client::Client;
use crate::error::{Created, Error, Waited};

// The server itself and its queues: settings, stats and activity. The token is not sent with the question for its health.
const AFTER_SETTINGS: &str = "repeat it: the same change has no second effect";
const AFTER_QUEUE_DELETION: &str = "list the queues: if it is gone, it was deleted";
const AFTER_UPDATE: &str = "get the task and compare the fields that were to change";
const AFTER_BULK_UPDATE: &str =
    "count the tasks that have the new values: the update was done for all matching tasks or for none";
const AFTER_BULK_ACTION: &str = "repeat it: what is done is left alone";
const AFTER_CANCELLATION: &str = "get the task and compare its status: cancelled means that it was done";
const AFTER_REQUEUE: &str =
    "get the task and compare its status, attempt and updated_at: pending with attempt 0 means that it was done";
const AFTER_DELETION: &str = "get the task: if it is not found, it was deleted";
const AFTER_OUTPUT: &str = "send it again with the same offset: what is there already stays as it is";

impl Client {
    /// Makes sure that a queue exists.
    pub async fn create_queue(&self, queue: &QueueName) -> Result<Created<Queue>, Error> {
        self.perform(Call::creation(queue_path(paths::QUEUE, queue)), |answer| answer.created(Queue::read)).await
    }

    /// All queues, sorted by name.
    pub async fn queues(&self) -> Result<Vec<Queue>, Error> {
        self.ask(Call::read(paths::QUEUES.to_owned()), Queue::read_all).await
    }

    /// The settings of a queue. Only for servers with
    /// [`QUEUE_SETTINGS`](taskqueue_api::capabilities::QUEUE_SETTINGS).
    pub async fn queue_settings(&self, queue: &QueueName) -> Result<QueueSettings, Error> {
        self.ask(Call::read(queue_path(paths::SETTINGS, queue)), read_settings).await
    }

    /// Changes settings of a queue; gives all of them. A patch that removes the limits of all routes cannot set new ones: that
    /// takes a second call. Only for servers with [`QUEUE_SETTINGS`](taskqueue_api::capabilities::QUEUE_SETTINGS).
    pub async fn change_settings(&self, queue: &QueueName, patch: &SettingsPatch) -> Result<QueueSettings, Error> {
        let path = queue_path(paths::SETTINGS, queue);
        let call = Call::change("change the settings of the queue", Method::PATCH, path, AFTER_SETTINGS).body(patch);
        self.ask(call, read_settings).await
    }

    /// Deletes a queue that has no tasks.
    pub async fn delete_queue(&self, queue: &QueueName) -> Result<(), Error> {
        let path = queue_path(paths::QUEUE, queue);
        self.tell(Call::change("delete the queue", Method::DELETE, path, AFTER_QUEUE_DELETION)).await
    }

    /// Deletes a queue and all its tasks, unless one of them is running.
    pub async fn delete_queue_with_tasks(&self, queue: &QueueName) -> Result<(), Error> {
        let path = queue_path(paths::QUEUE, queue);
        let call = Call::change("delete the queue with its tasks", Method::DELETE, path, AFTER_QUEUE_DELETION);
        self.tell(call.query(vec![("cascade", "true".to_owned())])).await
    }

    /// Tasks, routes and workers of a queue now, and what happened lately.
    pub async fn queue_stats(&self, queue: &QueueName) -> Result<Stats, Error> {
        self.ask(Call::read(queue_path(paths::STATS, queue)), Stats::read).await
    }

    /// Reads what happened in each minute or hour.
    pub async fn activity_series(&self, queue: &QueueName, selection: SeriesSelection) -> Result<Series, Error> {
        let SeriesSelection { unit, from, to } = selection;
        let mut query = vec![("series", unit.as_str().to_owned())];
        query.extend(from.map(|from| ("from", from.to_string())));
        query.extend(to.map(|to| ("to", to.to_string())));
        let call = Call::read(queue_path(paths::STATS, queue)).query(query);
        self.ask(call, |value| Series::read_by(value, unit)).await
    }

    /// The health of the server. The call is sent once: a server that does not work is an answer, not a failed call.
    pub async fn health(&self) -> Result<Health, Error> {
        let call = Call { is_repeatable: false, ..Call::read(paths::HEALTH.to_owned()) };
        self.perform(call, |answer| answer.read(&[200, 503], Health::read)).await
    }

    /// Reads what the server offers beyond the contract. A server that does not know the question offers nothing.
    pub async fn capabilities(&self) -> Result<Capabilities, Error> {
        match self.ask(Call::read(paths::CAPABILITIES.to_owned()), Capabilities::read).await {
            Err(Error::Api { status: 404, .. }) => Ok(Capabilities::default()),
            answered => answered,
        }
    }

    /// The extensions of a server that has all of this version, as our own programs expect. To be asked before anything is changed.
    ///
    /// # Errors
    ///
    /// [`Error::ServerTooOld`] if the server lacks one, except [`OUTPUT`](taskqueue_api::capabilities::OUTPUT), which can be
    /// turned off.
    pub async fn require_extensions(&self) -> Result<Capabilities, Error> {
        let capabilities = self.capabilities().await?;
        capabilities.first_missing().map_or(Ok(capabilities), |missing| Err(Error::ServerTooOld { missing }))
    }

    /// Makes sure that a task with this id and definition exists. Another definition under the same id is refused with
    /// `task_id_conflict`. A [`Creation`] is a definition with a time before which the task cannot be claimed.
    pub async fn create_task(
        &self,
        queue: &QueueName,
        id: TaskId,
        creation: impl Into<Creation>,
    ) -> Result<Created<Task>, Error> {
        let call = Call::creation(task_path(paths::TASK, queue, id)).body(&creation.into());
        self.perform(call, |answer| answer.created(Task::read)).await
    }

    /// One task.
    pub async fn task(&self, queue: &QueueName, id: TaskId) -> Result<Task, Error> {
        self.ask(Call::read(task_path(paths::TASK, queue, id)), Task::read).await
    }

    /// Explains why a task is not claimed. Only for servers with [`EXPLAIN`](taskqueue_api::capabilities::EXPLAIN).
    pub async fn explain_task(&self, queue: &QueueName, id: TaskId) -> Result<Explanation, Error> {
        self.ask(Call::read(task_path(paths::EXPLAIN, queue, id)), Explanation::read).await
    }

    /// Changes a task that is not running.
    pub async fn update_task(&self, queue: &QueueName, id: TaskId, update: &Update) -> Result<Task, Error> {
        let path = task_path(paths::TASK, queue, id);
        self.ask(Call::change("update the task", Method::PATCH, path, AFTER_UPDATE).body(update), Task::read).await
    }

    /// Changes all tasks that match a filter and are not running, or none of them.
    pub async fn update_tasks(&self, queue: &QueueName, bulk: &BulkUpdateRequest) -> Result<Updated, Error> {
        let path = queue_path(paths::TASKS, queue);
        let call = Call::change("update the tasks", Method::PATCH, path, AFTER_BULK_UPDATE).body(bulk);
        self.ask(call, Updated::read).await
    }

    /// Cancels, requeues or deletes all tasks that match a filter and that the action applies to. The server does it in
    /// portions and stops after some time: fewer may be changed than matched, and then it is to be repeated. Only for servers
    /// with [`BULK_ACTIONS`](taskqueue_api::capabilities::BULK_ACTIONS).
    pub async fn act_on_tasks(
        &self,
        queue: &QueueName,
        action: BulkAction,
        request: &BulkActionRequest,
    ) -> Result<Acted, Error> {
        let doing = match action {
            BulkAction::Cancel => "cancel the tasks",
            BulkAction::Requeue => "requeue the tasks",
            BulkAction::Delete => "delete the tasks",
        };
        let path = queue_path(bulk_action::path(action), queue);
        self.ask(Call::post(doing, path, AFTER_BULK_ACTION).body(request), Acted::read).await
    }

    /// Takes a task out; a running one loses its run.
    pub async fn cancel_task(&self, queue: &QueueName, id: TaskId) -> Result<Task, Error> {
        let path = task_path(paths::CANCEL, queue, id);
        self.ask(Call::post("cancel the task", path, AFTER_CANCELLATION), Task::read).await
    }

    /// Starts a pending, failed or cancelled task over.
    pub async fn requeue_task(&self, queue: &QueueName, id: TaskId) -> Result<Task, Error> {
        self.ask(Call::post("requeue the task", task_path(paths::REQUEUE, queue, id), AFTER_REQUEUE), Task::read).await
    }

    /// Deletes a task that is not running. A task that does not exist counts as deleted.
    pub async fn delete_task(&self, queue: &QueueName, id: TaskId) -> Result<(), Error> {
        let path = task_path(paths::TASK, queue, id);
        self.tell(Call::change("delete the task", Method::DELETE, path, AFTER_DELETION)).await
    }

    /// Sends what a run printed behind `offset` bytes, at most 64 KiB. Sending it again is safe, and left to the caller.
    pub async fn add_output(&self, run: &RunKey, offset: u64, text: Arc<str>) -> Result<(), Error> {
        let call = run.call("send the output", paths::OUTPUT, AFTER_OUTPUT);
        self.tell(call.body(&OutputRequest { run_id: run.run_id, offset, text })).await
    }

    /// Reads what is kept of the output of a task from `offset` on. With `wait_seconds` the server is asked to wait until there is
    /// something behind the offset or the run is over.
    pub async fn output(
        &self,
        queue: &QueueName,
        id: TaskId,
        offset: u64,
        wait_seconds: Option<u32>,
    ) -> Result<Waited<Output>, Error> {
        let call = Call::read(task_path(paths::OUTPUT, queue, id)).query(vec![("offset", offset.to_string())]);
        self.wait(call, wait_seconds, |answer| answer.read(&[200], Output::read)).await
    }

    /// Claims the next task: it with its lease, or `None` when no task is pending for the route.
    pub async fn claim(&self, queue: &QueueName, request: &ClaimRequest) -> Result<Waited<Option<Claim>>, Error> {
        let ClaimRequest { route, run_id, worker, wait_seconds } = request;
        let path = queue_path(paths::CLAIM, queue);
        let body = run::ClaimRequest { route: route.clone(), run_id: *run_id, worker: worker.clone() };
        let call = Call::post("claim a task", path, AFTER_CLAIM).body(&body);
        self.wait(call, *wait_seconds, |answer| match answer.status {
            204 => Ok(None),
            _ => answer.read(&[200], |value| Claim::read(value, *run_id)).map(Some),
        })
        .await
    }

    /// Renews the lease of a run. With `wait_seconds` the server is asked to hold the answer for so long, or until the run is over,
    /// which is then an error at once ([`ErrorCode::RunFinalized`](crate::ErrorCode::RunFinalized),
    /// [`ErrorCode::StaleRun`](crate::ErrorCode::StaleRun)). A server may hold it for less time or not at all:
    /// [`Waited::wait_applied`] tells. No heartbeat is repeated here, and repeating it is safe.
    pub async fn heartbeat(&self, run: &RunKey, wait_seconds: Option<u32>) -> Result<Waited<Lease>, Error> {
        let call = run.call("renew the lease", paths::HEARTBEAT, AFTER_HEARTBEAT);
        let call = call.body(&HeartbeatRequest { run_id: run.run_id, progress: None });
        self.wait(call, wait_seconds, |answer| answer.read(&[200], Lease::read)).await
    }

    /// Says how far a run is, which replaces what it said before. Only for a server that has
    /// [`PROGRESS`](taskqueue_api::capabilities::PROGRESS). It is not repeated here: a late repetition would replace what was
    /// said since.
    pub async fn report_progress(&self, run: &RunKey, progress: &JsonObject) -> Result<(), Error> {
        let call = run.call("report the progress", paths::PROGRESS, AFTER_PROGRESS);
        self.tell(call.body(&ProgressRequest { run_id: run.run_id, progress: progress.clone() })).await
    }

    /// Ends a run as the report says, with all that it says: a delay before the next attempt needs a server that has
    /// [`DELAY`](taskqueue_api::capabilities::DELAY).
    pub async fn report_run(&self, run: &RunKey, report: &RunReport) -> Result<(), Error> {
        let (doing, path) = match report {
            RunReport::Complete { .. } => ("complete the run", paths::COMPLETE),
            RunReport::Fail { .. } => ("fail the run", paths::FAIL),
            RunReport::Unclaim { .. } => ("give the task back", paths::UNCLAIM),
        };
        let body = Some(write_report(ObjectWriter::new(), run.run_id, report).end());
        self.tell(Call { body, ..run.call(doing, path, AFTER_REPORT) }).await
    }

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

// Nothing of the worker protocol is repeated here: when to repeat a claim or a report is the worker's decision, because it has to
// keep its leases meanwhile.
const AFTER_CLAIM: &str = "claim again with the same run id: it gives the same task, and no second one";
const AFTER_PROGRESS: &str = "report the present progress: each report replaces the one before";
const AFTER_HEARTBEAT: &str = "send another heartbeat with the same run id";
const AFTER_REPORT: &str = "repeat the report with the same run id: a repetition has no second effect, and run_finalized means \
     that the run ended in another way";
// A late repetition of either would undo what came between: a report revives a worker that has withdrawn.
const AFTER_OBSERVATION: &str = "report the present state: each report replaces the one before";
const AFTER_WITHDRAWAL: &str = "list the workers; an observation that is left expires by itself";

/// Identifies a run, for the calls about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunKey {
    pub queue: QueueName,
    pub task_id: TaskId,
    pub run_id: RunId,
    /// The trace that calls about the run belong to, if not to that of the client.
    pub trace: Option<TraceParent>,
}

impl RunKey {
    /// A run without a trace of its own.
    pub fn new(queue: &QueueName, task_id: TaskId, run_id: RunId) -> Self {
        Self { queue: queue.clone(), task_id, run_id, trace: None }
    }

    /// Returns what is said of the run as an item of a batch.
    pub fn item(&self, action: RunAction) -> RunItem {
        RunItem { task_id: self.task_id, run_id: self.run_id, action }
    }

    /// A call about the run.
    fn call(&self, name: &'static str, path: &str, advice: &'static str) -> Call {
        Call { trace: self.trace, ..Call::post(name, task_path(path, &self.queue, self.task_id), advice) }
    }
}

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
    /// [`Waited::wait_applied`] tells.
    pub wait_seconds: Option<u32>,
}

impl ClaimRequest {
    /// A claim that says nothing of the worker and does not wait.
    pub fn new(route: Route, run_id: RunId) -> Self {
        Self { route, run_id, worker: None, wait_seconds: None }
    }
}

fn worker_path(template: &str, queue: &QueueName, id: WorkerId) -> String {
    queue_path(template, queue).replace("{id}", id.as_str())
}

//! Tasks: creation, reads, updates, what clients do to their lifecycle, and what their runs print.

use std::sync::Arc;

use reqwest::Method;
use taskqueue_api::bulk_action::{self, Acted, BulkActionRequest};
use taskqueue_api::explain::Explanation;
use taskqueue_api::lists::Updated;
use taskqueue_api::output::{Output, OutputRequest};
use taskqueue_api::paths;
use taskqueue_api::task::{BulkUpdateRequest, Creation, Task};
use taskqueue_core::bulk_action::BulkAction;
use taskqueue_core::ids::{QueueName, RunId, TaskId};
use taskqueue_core::update::Update;

use crate::answer::Created;
use crate::call::{Call, queue_path, task_path};
use crate::client::Client;
use crate::error::Error;

const AFTER_UPDATE: &str = "get the task and compare the fields that were to change";
const AFTER_BULK_UPDATE: &str =
    "count the tasks that have the new values: the update was done for all matching tasks or for none";
const AFTER_BULK_ACTION: &str = "repeat it: what is done is left alone";
const AFTER_CANCELLATION: &str = "get the task and compare its status: cancelled means that it was done";
const AFTER_REQUEUE: &str =
    "get the task and compare its status, attempt and updated_at: pending with attempt 0 means that it was done";
const AFTER_DELETION: &str = "get the task: if it is not found, it was deleted";

impl Client {
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
        let path = task_path(paths::REQUEUE, queue, id);
        self.ask(Call::post("requeue the task", path, AFTER_REQUEUE), Task::read).await
    }

    /// Deletes a task that is not running. A task that does not exist counts as deleted.
    pub async fn delete_task(&self, queue: &QueueName, id: TaskId) -> Result<(), Error> {
        let path = task_path(paths::TASK, queue, id);
        self.tell(Call::change("delete the task", Method::DELETE, path, AFTER_DELETION)).await
    }
}

const AFTER_OUTPUT: &str = "send it again with the same offset: what is there already stays as it is";

/// The answer to a read of output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputAnswer {
    pub output: Output,
    /// The wait in seconds that the server agreed to; `None` if it did not, or was cut short. Then, if there is no text,
    /// pause before the next request.
    pub wait_applied: Option<u32>,
}

impl Client {
    /// Sends what a run printed behind `offset` bytes, at most 64 KiB. Sending it again is safe, and left to the caller.
    pub async fn add_output(
        &self,
        queue: &QueueName,
        id: TaskId,
        run_id: RunId,
        offset: u64,
        text: Arc<str>,
    ) -> Result<(), Error> {
        let call = Call::post("send the output", task_path(paths::OUTPUT, queue, id), AFTER_OUTPUT);
        self.tell(call.body(&OutputRequest { run_id, offset, text })).await
    }

    /// Reads what is kept of the output of a task from `offset` on. With `wait_seconds` the server is asked to wait until there is
    /// something behind the offset or the run is over.
    pub async fn output(
        &self,
        queue: &QueueName,
        id: TaskId,
        offset: u64,
        wait_seconds: Option<u32>,
    ) -> Result<OutputAnswer, Error> {
        let call = Call::read(task_path(paths::OUTPUT, queue, id));
        let call = Call { wait_seconds, ..call.query(vec![("offset", offset.to_string())]) };
        self.perform(call, |answer| {
            let output = answer.read(&[200], Output::read)?;
            Ok(OutputAnswer { output, wait_applied: answer.wait_applied })
        })
        .await
    }
}

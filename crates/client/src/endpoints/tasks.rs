//! Tasks: creation, reads, updates, what clients do to their lifecycle, and what their runs print.

use std::sync::Arc;

use reqwest::Method;
use taskqueue_api::bulk_action::{self, Acted, BulkActionRequest};
use taskqueue_api::explain::Explanation;
use taskqueue_api::lists::{Count, GroupPage, Page, Updated};
use taskqueue_api::output::{Output, OutputRequest};
use taskqueue_api::paths;
use taskqueue_api::task::{BulkUpdateRequest, Creation, Task};
use taskqueue_core::bulk_action::BulkAction;
use taskqueue_core::ids::{QueueName, RunId, TaskId};
use taskqueue_core::update::Update;

use crate::answer::{Answer, Created};
use crate::call::{Call, queue_path, task_path};
use crate::client::Client;
use crate::error::Error;
use crate::query::{GroupQuery, Selection, TaskQuery, TaskSelection, Walk};

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
        let call = Call::creation("create the task", task_path(paths::TASK, queue, id));
        self.perform(call.body(&creation.into()), |answer| answer.created(Task::read)).await
    }

    /// One task.
    pub async fn task(&self, queue: &QueueName, id: TaskId) -> Result<Task, Error> {
        let call = Call::read("get the task", task_path(paths::TASK, queue, id));
        self.perform(call, |answer| answer.read(&[200], Task::read)).await
    }

    /// Explains why a task is not claimed. Only for servers with [`EXPLAIN`](taskqueue_api::capabilities::EXPLAIN).
    pub async fn explain_task(&self, queue: &QueueName, id: TaskId) -> Result<Explanation, Error> {
        let call = Call::read("explain the task", task_path(paths::EXPLAIN, queue, id));
        self.perform(call, |answer| answer.read(&[200], Explanation::read)).await
    }

    /// One page of tasks.
    pub async fn tasks(&self, queue: &QueueName, query: &TaskQuery) -> Result<Page<Task>, Error> {
        let call = Call::read("list the tasks", queue_path(paths::TASKS, queue)).query(query.parameters());
        self.perform(call, |answer| answer.read(&[200], |page| Page::read(page, Task::read))).await
    }

    /// All pages of tasks from this one on.
    pub fn walk_tasks(&self, queue: &QueueName, query: TaskQuery) -> Walk<TaskQuery> {
        Walk::new(self, queue, query)
    }

    /// Counts the tasks.
    pub async fn count_tasks(&self, queue: &QueueName, selection: &TaskSelection) -> Result<u64, Error> {
        let call = Call::read("count the tasks", queue_path(paths::TASK_COUNT, queue)).query(selection.parameters());
        self.perform(call, |answer| answer.read(&[200], Count::read)).await
    }

    /// Counts the tasks by group. A server that answers with a plain count is refused.
    pub async fn group_tasks(&self, queue: &QueueName, query: &GroupQuery<TaskSelection>) -> Result<GroupPage, Error> {
        let call = Call::read("count the tasks by group", queue_path(paths::TASK_COUNT, queue));
        self.perform(call.query(query.parameters()), |answer| {
            answer.read(&[200], |value| GroupPage::read(value, query.dimensions()))
        })
        .await
    }

    /// All pages of groups from this one on.
    pub fn walk_task_groups(
        &self,
        queue: &QueueName,
        query: GroupQuery<TaskSelection>,
    ) -> Walk<GroupQuery<TaskSelection>> {
        Walk::new(self, queue, query)
    }

    /// Changes a task that is not running.
    pub async fn update_task(&self, queue: &QueueName, id: TaskId, update: &Update) -> Result<Task, Error> {
        let path = task_path(paths::TASK, queue, id);
        let call = Call::change("update the task", Method::PATCH, path, AFTER_UPDATE).body(update);
        self.perform(call, |answer| answer.read(&[200], Task::read)).await
    }

    /// Changes all tasks that match a filter and are not running, or none of them.
    pub async fn update_tasks(&self, queue: &QueueName, bulk: &BulkUpdateRequest) -> Result<Updated, Error> {
        let path = queue_path(paths::TASKS, queue);
        let call = Call::change("update the tasks", Method::PATCH, path, AFTER_BULK_UPDATE).body(bulk);
        self.perform(call, |answer| answer.read(&[200], Updated::read)).await
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
        let call = Call::change(doing, Method::POST, path, AFTER_BULK_ACTION).body(request);
        self.perform(call, |answer| answer.read(&[200], Acted::read)).await
    }

    /// Takes a task out; a running one loses its run.
    pub async fn cancel_task(&self, queue: &QueueName, id: TaskId) -> Result<Task, Error> {
        let path = task_path(paths::CANCEL, queue, id);
        let call = Call::change("cancel the task", Method::POST, path, AFTER_CANCELLATION);
        self.perform(call, |answer| answer.read(&[200], Task::read)).await
    }

    /// Starts a pending, failed or cancelled task over.
    pub async fn requeue_task(&self, queue: &QueueName, id: TaskId) -> Result<Task, Error> {
        let path = task_path(paths::REQUEUE, queue, id);
        let call = Call::change("requeue the task", Method::POST, path, AFTER_REQUEUE);
        self.perform(call, |answer| answer.read(&[200], Task::read)).await
    }

    /// Deletes a task that is not running. A task that does not exist counts as deleted.
    pub async fn delete_task(&self, queue: &QueueName, id: TaskId) -> Result<(), Error> {
        let path = task_path(paths::TASK, queue, id);
        let call = Call::change("delete the task", Method::DELETE, path, AFTER_DELETION);
        self.perform(call, Answer::no_content).await
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
        let call = Call::change("send the output", Method::POST, task_path(paths::OUTPUT, queue, id), AFTER_OUTPUT);
        self.perform(call.body(&OutputRequest { run_id, offset, text }), Answer::no_content).await
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
        let call = Call::read("read the output", task_path(paths::OUTPUT, queue, id));
        let call = Call { wait_seconds, ..call.query(vec![("offset", offset.to_string())]) };
        self.perform(call, |answer| {
            let output = answer.read(&[200], Output::read)?;
            Ok(OutputAnswer { output, wait_applied: answer.wait_applied })
        })
        .await
    }
}

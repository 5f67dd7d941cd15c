//! Actions on one task that take more than one call, and what became of it.

use taskqueue_client::{Client, Error, QueueName, Status, Task, TaskId, Update};

/// What an action on one task has done.
#[derive(Debug)]
pub(super) enum Performed {
    Done,
    /// It was requeued and cancelled again at once, for this reason: what it waits for has not been requeued.
    CancelledAgain(String),
}

impl Performed {
    pub(super) fn of_requeued(task: &Task) -> Self {
        match &task.last_error {
            Some(error) if task.status == Status::Cancelled => Self::CancelledAgain(error.failure.message.to_string()),
            _ => Self::Done,
        }
    }
}

/// Why an action on one task failed.
#[derive(Debug)]
pub(super) struct ActionError {
    pub(super) error: Error,
    /// Whether a first step was done: the task has the new values.
    pub(super) was_changed: bool,
}

impl From<Error> for ActionError {
    fn from(error: Error) -> Self {
        Self { error, was_changed: false }
    }
}

/// Deletes a task that exists. The API answers the deletion of a missing task like any other, so it is looked for first.
pub(super) async fn delete_existing(client: &Client, queue: &QueueName, id: TaskId) -> Result<(), Error> {
    client.task(queue, id).await?;
    client.delete_task(queue, id).await
}

/// Updates a task and then requeues it. In this order a task never runs again with its old values: if the second step
/// fails, it is still failed or cancelled, and both steps can be repeated.
pub(super) async fn change_and_requeue(
    client: &Client,
    queue: &QueueName,
    id: TaskId,
    update: &Update,
) -> Result<Performed, ActionError> {
    let task = client.task(queue, id).await?;
    if task.status != Status::Succeeded {
        client.update_task(queue, id, update).await?;
    }
    // A task that has succeeded is never requeued: it stays as it is, and the server says why.
    match client.requeue_task(queue, id).await {
        Ok(task) => Ok(Performed::of_requeued(&task)),
        Err(error) => Err(ActionError { error, was_changed: task.status != Status::Succeeded }),
    }
}

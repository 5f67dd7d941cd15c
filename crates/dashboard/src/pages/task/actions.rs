//! What can be done with a task now, and doing it. What applies to which state is decided in `core`.

use askama::Template;
use axum::body::Body;
use taskqueue_core::lifecycle::{self, TaskAction};
use taskqueue_core::{QueueName, Scope, Status, Task, TaskId, Update};
use taskqueue_store::StoreExt;
use taskqueue_store::command::{ActOnTask, DeleteTask, UpdateTask};

use crate::address::of_task;
use crate::layout::{self, PageResult, Section, Shell};
use crate::problem::Problem;
use crate::show;
use crate::visit::Visit;

/// The actions that apply to a task and that its viewer may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Actions {
    pub(super) cancel: bool,
    pub(super) requeue: bool,
    pub(super) edit: bool,
    pub(super) delete: bool,
    pub(super) duplicate: bool,
    pub(super) archive: bool,
    pub(super) unarchive: bool,
}

impl Actions {
    pub(super) fn of(task: &Task, visit: &Visit, queue: &QueueName) -> Self {
        if !visit.may(Scope::Submit, queue) {
            return Self::default();
        }
        let actions = Self::applying_to(task);
        let has_archive = visit.dashboard.has("archive");
        Self { archive: actions.archive && has_archive, unarchive: actions.unarchive && has_archive, ..actions }
    }

    fn applying_to(task: &Task) -> Self {
        let (head, status) = (task.head(), task.lifecycle.status);
        let applies = |action| {
            let now = task.lifecycle.updated_at;
            matches!(lifecycle::act(&head, action, now, task.lifecycle.pending_seq), Ok(Some(_)))
        };
        // A new task that waits already would only go to the end of the queue.
        let is_new = status == Status::Pending && task.lifecycle.attempt == 0;
        Self {
            cancel: applies(TaskAction::Cancel),
            requeue: applies(TaskAction::Requeue) && !is_new,
            edit: status != Status::Running,
            delete: lifecycle::check_deletion(&head).is_ok(),
            duplicate: true,
            archive: status.is_ended() && !task.lifecycle.archived,
            unarchive: task.lifecycle.archived,
        }
    }
}

#[derive(Template)]
#[template(path = "task_confirm.html")]
struct ConfirmPage {
    shell: Shell,
    task: Task,
    /// The last part of the address of the form.
    action: &'static str,
}

/// Asks whether the run of a task shall be stopped.
pub(crate) async fn confirm_cancel(visit: Visit) -> PageResult {
    confirm(&visit, "cancel", "Cancel this task?").await
}

/// Asks whether a task shall be deleted.
pub(crate) async fn confirm_delete(visit: Visit) -> PageResult {
    confirm(&visit, "delete", "Delete this task?").await
}

async fn confirm(visit: &Visit, action: &'static str, question: &str) -> PageResult {
    let queue = visit.queue_for(Scope::Submit)?;
    let task = visit.task().await?;
    let shell = Shell::new(visit, question, Section::Tasks, Some(&queue)).await?;
    layout::page(visit, &ConfirmPage { shell, task, action })
}

/// The task that a form without fields is about, if its sender may change it.
async fn named_task(visit: &Visit, body: Body) -> Result<(QueueName, TaskId), Problem> {
    visit.form(body).await?;
    let (queue, id) = (visit.queue()?, visit.task_id()?);
    visit.check(Scope::Submit, &queue)?;
    Ok((queue, id))
}

/// Takes the task out.
pub(crate) async fn cancel(visit: Visit, body: Body) -> PageResult {
    act(&visit, body, TaskAction::Cancel, "The task is cancelled.").await
}

/// Starts the task over.
pub(crate) async fn requeue(visit: Visit, body: Body) -> PageResult {
    act(&visit, body, TaskAction::Requeue, "The task is pending again.").await
}

async fn act(visit: &Visit, body: Body, action: TaskAction, notice: &'static str) -> PageResult {
    let (queue, id) = named_task(visit, body).await?;
    let place = of_task(&queue, id);
    visit.dashboard.store().write(ActOnTask { queue, id, action }).await?;
    Ok(layout::done(visit, &place, notice))
}

/// Takes the task out of lists and counts.
pub(crate) async fn archive(visit: Visit, body: Body) -> PageResult {
    set_archived(&visit, body, true, "The task is archived.").await
}

/// Brings the task back into lists and counts.
pub(crate) async fn unarchive(visit: Visit, body: Body) -> PageResult {
    set_archived(&visit, body, false, "The task is not archived any more.").await
}

async fn set_archived(visit: &Visit, body: Body, archived: bool, notice: &'static str) -> PageResult {
    let (queue, id) = named_task(visit, body).await?;
    let place = of_task(&queue, id);
    let update = Box::new(Update { archived: Some(archived), ..Update::default() });
    visit.dashboard.store().write(UpdateTask { queue, id, update }).await?;
    Ok(layout::done(visit, &place, notice))
}

/// Deletes the task.
pub(crate) async fn delete(visit: Visit, body: Body) -> PageResult {
    let (queue, id) = named_task(&visit, body).await?;
    let place = format!("/ui/queues/{queue}/tasks");
    visit.dashboard.store().write(DeleteTask { queue, id }).await?;
    Ok(layout::done(&visit, &place, &format!("The task {id} is deleted.")))
}

#[cfg(test)]
mod tests {
    use taskqueue_core::definition::Definition;
    use taskqueue_core::ids::RunId;
    use taskqueue_core::task::{ActiveRun, Lifecycle};
    use taskqueue_core::time::Timestamp;

    use super::*;
    use crate::selected::tests::task;

    fn offered(status: Status, attempt: i64) -> Vec<&'static str> {
        let at = Timestamp::from_micros(0);
        let run = RunId::parse("r_abcdefghijkl").unwrap();
        let run = ActiveRun { run_id: run, lease_expires_at: at, times_out_at: None };
        let run = Some(run).filter(|_| status == Status::Running);
        let task = task(Definition::default(), Lifecycle { status, attempt, run, ..Lifecycle::created(at, 1) });
        let Actions { cancel, requeue, edit, delete, duplicate, archive, .. } = Actions::applying_to(&task);
        let all = [
            (cancel, "cancel"),
            (requeue, "requeue"),
            (edit, "edit"),
            (delete, "delete"),
            (duplicate, "duplicate"),
            (archive, "archive"),
        ];
        all.into_iter().filter(|(applies, _)| *applies).map(|(_, name)| name).collect()
    }

    #[test]
    fn only_what_applies_now_is_offered() {
        assert_eq!(offered(Status::Pending, 0), ["cancel", "edit", "delete", "duplicate"]);
        assert_eq!(offered(Status::Pending, 1), ["cancel", "requeue", "edit", "delete", "duplicate"]);
        assert_eq!(offered(Status::Running, 1), ["cancel", "duplicate"]);
        assert_eq!(offered(Status::Succeeded, 1), ["edit", "delete", "duplicate", "archive"]);
        assert_eq!(offered(Status::Failed, 3), ["requeue", "edit", "delete", "duplicate", "archive"]);
        assert_eq!(offered(Status::Cancelled, 0), ["requeue", "edit", "delete", "duplicate", "archive"]);
    }
}

//! One task: what it is, what happened to it, what it says, and what can be done with it now, and doing it. What applies to which state is
//! decided in `core`. Its parts are read in one visit; the output of a running task follows by itself (`output.rs`, `assets/output.js`).

pub(crate) mod edit;
pub(crate) mod output;
mod run;
mod timeline;
mod waiting;

use askama::Template;
use axum::body::Body;
use taskqueue_core::explain::Explanation;
use taskqueue_core::fields::TaskField;
use taskqueue_core::json::ObjectWriter;
use taskqueue_core::lifecycle::{self, TaskAction};
use taskqueue_core::scheduling::OnDependencyFailure;
use taskqueue_core::stats::pending_since;
use taskqueue_core::task::LastError;
use taskqueue_core::{QueueName, RouteSelection, Scope, Status, Task, TaskId, Timestamp, Update};
use taskqueue_store::command::{ActOnTask, DeleteTask, UpdateTask};
use taskqueue_store::{StoreExt, dependency_cycle};

use self::output::OutputView;
use self::run::{FailureView, ProgressView, WorkerView};
use self::waiting::{RelatedView, Waiting};
use crate::address::of_task;
use crate::layout::{self, PageResult, Section, Shell};
use crate::problem::Problem;
use crate::show::json::JsonView;
use crate::show::{self, Moment};
use crate::state::Dashboard;
use crate::visit::Visit;
use crate::{answer, field};

/// Routes that are shown; how many more there are is said.
const ROUTES: usize = 20;

/// An object of a task, with its name.
struct Document {
    name: &'static str,
    title: &'static str,
    view: JsonView,
}

#[derive(Template)]
#[template(path = "task.html")]
struct TaskPage {
    shell: Shell,
    task: Task,
    now: Timestamp,
    base: String,
    actions: Actions,
    waiting: Option<Waiting>,
    related: RelatedView,
    worker: WorkerView,
    output: OutputView,
    /// In the order in which they are of interest.
    documents: Vec<Document>,
}

/// The page.
pub(crate) async fn task(visit: Visit) -> PageResult {
    let (queue, id) = (visit.queue()?, visit.task_id()?);
    let store = visit.dashboard.store();
    let task = store.get_task(&queue, id).await?;
    let besides = task.definition.routes.iter().map(Into::into).collect();
    let stats = store.queue_stats(&queue, &RouteSelection::ByName { most: 0, besides }).await?;
    let now = stats.now.max(task.lifecycle.updated_at);
    let worker = WorkerView::read(store, &task, now).await?;
    let output = OutputView::read(&visit.dashboard, &task, &worker).await?;
    let related = RelatedView::read(store, &task).await?;
    let explanation = explain(&visit.dashboard, &task).await?;
    let title = show::title(task.definition.name.as_deref(), &task.id).to_owned();
    let page = TaskPage {
        base: of_task(&queue, id),
        actions: Actions::of(&task, &visit),
        waiting: Waiting::of(&task, explanation.as_ref(), &stats.figures, &visit.server_url(), now),
        documents: documents(&task),
        related,
        worker,
        output,
        // It measures how long everything took, so it comes last.
        shell: Shell::new(&visit, title, Section::Tasks, Some(&queue)).await?,
        task,
        now,
    };
    layout::page(&visit, &page)
}

/// Returns why a pending task is not claimed yet, if this server says so.
async fn explain(dashboard: &Dashboard, task: &Task) -> Result<Option<Explanation>, Problem> {
    if task.lifecycle.status != Status::Pending || !dashboard.has("explain") {
        return Ok(None);
    }
    let (store, time_limit) = (dashboard.store(), dependency_cycle::TIME_LIMIT);
    Ok(Some(dependency_cycle::explain(store, &task.queue, task.id, time_limit).await?))
}

/// A result is what a succeeded task is for, so it comes first; where there is none, nothing is shown of it.
fn documents(task: &Task) -> Vec<Document> {
    let document = |name, title, text: &str| Document { name, title, view: JsonView::new(text) };
    let result = document("result", "Result", task.outcome.result.as_str());
    let metadata = document("metadata", "Metadata", task.definition.metadata.as_str());
    let has_succeeded = task.lifecycle.status == Status::Succeeded;
    let mut documents = vec![document("args", "Args", task.definition.args.as_str())];
    if has_succeeded || !result.view.is_empty {
        documents.insert(usize::from(!has_succeeded), result);
    }
    documents.extend(Some(metadata).filter(|metadata| !metadata.view.is_empty));
    documents
}

/// One object, shown by the browser, or with `?download` saved as a file.
pub(crate) async fn download_json(visit: Visit) -> PageResult {
    let name = visit.path.rsplit('/').next().unwrap_or_default().to_owned();
    let task = visit.task().await?;
    let unknown = || Problem::not_found("part of this task", "Go back to the task, and look at what it has.");
    let text = raw_object(&task, &name).ok_or_else(unknown)?;
    let way = if visit.query.has("download") { "attachment" } else { "inline" };
    let disposition = format!("{way}; filename=\"{}-{name}.json\"", task.id);
    Ok(answer::file(text, "application/json; charset=utf-8", &disposition))
}

fn raw_object(task: &Task, name: &str) -> Option<String> {
    let path = match name {
        "last_error" => return task.outcome.last_error.as_ref().map(error_object),
        "worker" => "last_run.worker",
        "args" | "metadata" | "result" | "progress" => name,
        _ => return None,
    };
    Some(TaskField::find(path)?.value(&task.view())?.text().into_owned())
}

fn error_object(error: &LastError) -> String {
    let failure = &error.failure;
    let object = ObjectWriter::new().text("type", &failure.kind).text("message", &failure.message);
    let object = object.text_or_null("traceback", failure.traceback.as_deref());
    object.time("occurred_at", error.occurred_at).integer("attempt", error.attempt).into_text()
}

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
    pub(super) fn of(task: &Task, visit: &Visit) -> Self {
        if !visit.may(Scope::Submit, &task.queue) {
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
mod actions_tests {
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

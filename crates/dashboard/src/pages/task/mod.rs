//! One task: what it is, what happened to it, what it says, and what can be done with it. Its parts are read in one visit; the output
//! of a running task follows by itself (`output.rs`, `assets/output.js`).

pub(crate) mod actions;
pub(crate) mod edit;
pub(crate) mod output;
mod run;
mod timeline;
mod waiting;

use askama::Template;
use taskqueue_core::explain::Explanation;
use taskqueue_core::fields::TaskField;
use taskqueue_core::json::ObjectWriter;
use taskqueue_core::scheduling::OnDependencyFailure;
use taskqueue_core::stats::pending_since;
use taskqueue_core::task::LastError;
use taskqueue_core::{QueueName, RouteSelection, Status, Task, Timestamp};
use taskqueue_store::{StoreExt, dependency_cycle};

use self::actions::Actions;
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
    let worker = WorkerView::read(store, &queue, &task, now).await?;
    let output = OutputView::read(&visit.dashboard, &queue, &task, &worker).await?;
    let related = RelatedView::read(store, &queue, &task).await?;
    let explanation = explain(&visit.dashboard, &queue, &task).await?;
    let title = show::title(task.definition.name.as_deref(), &task.id).to_owned();
    let page = TaskPage {
        base: of_task(&queue, id),
        actions: Actions::of(&task, &visit, &queue),
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
async fn explain(dashboard: &Dashboard, queue: &QueueName, task: &Task) -> Result<Option<Explanation>, Problem> {
    if task.lifecycle.status != Status::Pending || !dashboard.has("explain") {
        return Ok(None);
    }
    Ok(Some(dependency_cycle::explain(dashboard.store(), queue, task.id, dependency_cycle::TIME_LIMIT).await?))
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

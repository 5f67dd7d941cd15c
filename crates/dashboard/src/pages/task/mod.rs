//! One task: what it is, what happened to it, what it says, and what can be done with it. Its parts are read in one visit; the output
//! of a running task follows by itself (`output.rs`, `assets/output.js`).

pub(crate) mod actions;
mod cut;
pub(crate) mod edit;
mod edit_fields;
mod failure;
pub(crate) mod output;
mod progress;
pub(crate) mod raw;
mod related;
mod timeline;
mod waiting;
mod worker;

use askama::Template;
use axum::extract::State;
use taskqueue_core::explain::Explanation;
use taskqueue_core::ids::{QueueName, TaskId};
use taskqueue_core::scheduling::RetryDelay;
use taskqueue_core::stats::RouteSelection;
use taskqueue_core::task::{Status, Task};
use taskqueue_core::time::Timestamp;
use taskqueue_store::StoreExt;
use taskqueue_store::dependency_cycle;

use self::actions::Actions;
use self::failure::FailureView;
use self::output::OutputView;
use self::progress::ProgressView;
use self::related::RelatedView;
use self::timeline::Event;
use self::waiting::Waiting;
use self::worker::WorkerView;
use crate::layout::{self, PageResult, Section, Shell};
use crate::problem::Problem;
use crate::show::command::server_url;
use crate::show::json::JsonView;
use crate::show::{Moment, bytes, duration};
use crate::state::Dashboard;
use crate::time_field;
use crate::visit::Visit;

/// Routes that are shown; how many more there are is said.
const ROUTES: usize = 20;

/// The address of a task.
pub(crate) fn address(queue: &QueueName, id: TaskId) -> String {
    format!("/ui/queues/{queue}/tasks/{id}")
}

/// What a person calls a task: its name, or its id if it has none.
pub(crate) fn title(task: &Task) -> String {
    task.definition.name.as_deref().filter(|name| !name.trim().is_empty()).unwrap_or(task.id.as_str()).to_owned()
}

/// An object of a task, with its name.
struct Document {
    name: &'static str,
    title: &'static str,
    view: JsonView,
}

impl Document {
    fn size(&self) -> String {
        bytes(self.view.bytes as u64)
    }
}

#[derive(Template)]
#[template(path = "task.html")]
struct TaskPage {
    shell: Shell,
    base: String,
    queue: String,
    id: String,
    title: String,
    status: &'static str,
    actions: Actions,
    facts: Facts,
    events: Vec<Event>,
    is_archived: bool,
    waiting: Option<Waiting>,
    related: RelatedView,
    progress: Option<ProgressView>,
    worker: WorkerView,
    failure: Option<FailureView>,
    output: OutputView,
    /// In the order in which they are of interest.
    documents: Vec<Document>,
}

/// What the task was told to be, and how long it took.
struct Facts {
    attempts: String,
    routes: Vec<String>,
    more_routes: usize,
    last_route: Option<String>,
    priority: i64,
    waited: Option<String>,
    ran: Option<String>,
    not_before: Option<Moment>,
    time_limit: Option<String>,
    /// How long the next attempts wait.
    retries: Option<String>,
}

/// The page.
pub(crate) async fn task(State(dashboard): State<Dashboard>, visit: Visit) -> PageResult {
    let (queue, id) = (visit.queue()?, visit.task_id()?);
    let store = dashboard.store();
    let task = store.get_task(&queue, id).await?;
    let besides = task.definition.routes.iter().map(Into::into).collect();
    let stats = store.queue_stats(&queue, &RouteSelection::ByName { most: 0, besides }).await?;
    let now = stats.now.max(task.lifecycle.updated_at);
    let worker = WorkerView::read(store, &queue, &task, now).await?;
    let output = OutputView::read(&dashboard, &queue, &task, &worker).await?;
    let related = RelatedView::read(store, &queue, &task).await?;
    let explanation = explain(&dashboard, &queue, &task).await?;
    let title = title(&task);
    let page = TaskPage {
        base: address(&queue, id),
        queue: queue.to_string(),
        id: id.to_string(),
        status: task.lifecycle.status.as_str(),
        actions: Actions::of(&task, &dashboard, &visit, &queue),
        is_archived: task.lifecycle.archived,
        facts: Facts::of(&task, now),
        events: timeline::events(&task, now),
        waiting: Waiting::of(&task, explanation.as_ref(), &stats.figures, &server_url(&dashboard, &visit), now),
        related,
        progress: ProgressView::of(&task, now),
        failure: FailureView::of(&task, now),
        documents: documents(&task),
        worker,
        output,
        // It measures how long everything took, so it comes last.
        shell: Shell::new(&dashboard, &visit, title.clone(), Section::Tasks, Some(&queue)).await?,
        title,
    };
    layout::page(&visit, &page)
}

/// Why a pending task is not claimed yet, if this server says so.
async fn explain(dashboard: &Dashboard, queue: &QueueName, task: &Task) -> Result<Option<Explanation>, Problem> {
    if task.lifecycle.status != Status::Pending || !dashboard.has("explain") {
        return Ok(None);
    }
    Ok(Some(dependency_cycle::explain(dashboard.store(), queue, task.id, dependency_cycle::TIME_LIMIT).await?))
}

/// The task of a visit, for the pages behind it.
pub(super) async fn read(dashboard: &Dashboard, visit: &Visit) -> Result<Task, Problem> {
    Ok(dashboard.store().get_task(&visit.queue()?, visit.task_id()?).await?)
}

impl Facts {
    fn of(task: &Task, now: Timestamp) -> Self {
        let (definition, lifecycle) = (&task.definition, &task.lifecycle);
        let routes = definition.routes.count();
        Self {
            attempts: format!("{} of {}", lifecycle.attempt, definition.max_attempts),
            routes: definition.routes.iter().take(ROUTES).map(str::to_owned).collect(),
            more_routes: routes.saturating_sub(ROUTES),
            last_route: lifecycle.last_route.as_ref().map(|route| route.as_str().to_owned()).filter(|_| routes > 1),
            priority: definition.priority,
            waited: timeline::waited(task, now).map(duration),
            ran: timeline::ran(task, now).map(duration),
            not_before: lifecycle.not_before.map(|at| Moment::new(at, now)),
            time_limit: definition.scheduling.run_limit().map(|limit| time_field::written(limit.as_secs_f64())),
            retries: definition.scheduling.retry_delay.map(|delay| retries(&delay)),
        }
    }
}

/// `after 30 s, then 2 times as long each, at most 1 day`.
fn retries(delay: &RetryDelay) -> String {
    let (first, most) = (time_field::written(delay.seconds()), time_field::written(delay.max_seconds()));
    format!("after {first}, then {} times as long each, at most {most}", delay.factor())
}

/// A result is what a succeeded task is for, so it comes first; where there is none, nothing is shown of it.
fn documents(task: &Task) -> Vec<Document> {
    let document = |name, title, text: &str| Document { name, title, view: JsonView::new(text) };
    let result = document("result", "Result", task.outcome.result.as_str());
    let args = document("args", "Args", task.definition.args.as_str());
    let metadata = document("metadata", "Metadata", task.definition.metadata.as_str());
    let has_result = !result.view.is_empty || task.lifecycle.status == Status::Succeeded;
    let mut documents = vec![args];
    if has_result {
        let place = if task.lifecycle.status == Status::Succeeded { 0 } else { 1 };
        documents.insert(place, result);
    }
    if !metadata.view.is_empty {
        documents.push(metadata);
    }
    documents
}

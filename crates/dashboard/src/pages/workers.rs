//! Who works for a queue: workers by host and route, what each is busy with, and what it measures.

mod group;

use std::collections::HashMap;

use askama::Template;
use axum::extract::State;
use futures_util::StreamExt;
use futures_util::stream;
use taskqueue_core::cursor::Resource;
use taskqueue_core::filter::ObservationFilter;
use taskqueue_core::ids::{QueueName, TaskId};
use taskqueue_core::observation::{Observation, WorkerStatus};
use taskqueue_core::refusal::Refusal;
use taskqueue_core::selection::{ObservationQuery, observation_binding};
use taskqueue_core::stats::RouteSelection;
use taskqueue_core::status::Status;
use taskqueue_core::time::Timestamp;
use taskqueue_store::StoreExt;

use self::group::{Group, groups};
use crate::layout::{self, PageResult, Section, Shell};
use crate::problem::Problem;
use crate::selected::Unreadable;
use crate::show::command::{CommandLine, server_url};
use crate::show::{self, Metered as _};
use crate::state::Dashboard;
use crate::visit::Visit;

/// Workers of a page. The task of each busy one is read, too.
const PAGE_WORKERS: u16 = 100;
const READS_AT_ONCE: usize = 8;

#[derive(Template)]
#[template(path = "workers.html")]
struct WorkersPage {
    shell: Shell,
    queue: String,
    filter: String,
    error: Option<Unreadable>,
    summary: String,
    /// Whether there is any worker, whatever the filter says.
    has_workers: bool,
    groups: Vec<Group>,
    /// The address of the first page, if this is another one.
    first: Option<String>,
    next: Option<String>,
    work: String,
}

/// What is known of the task that a worker is busy with.
pub(crate) struct BusyWith {
    pub(crate) name: Option<String>,
    /// Since when it runs; nothing if it does not run any more.
    pub(crate) since: Option<Timestamp>,
}

/// The page.
pub(crate) async fn workers(State(dashboard): State<Dashboard>, visit: Visit) -> PageResult {
    let queue = visit.queue()?;
    let text = visit.query.get("filter").unwrap_or_default().trim().to_owned();
    let filter = if text.is_empty() {
        Ok(None)
    } else {
        let text = text.clone();
        dashboard.read_filter(text.len(), move || ObservationFilter::parse(&text).map(Some)).await?
    };
    let stats = dashboard.store().queue_stats(&queue, &RouteSelection::NONE).await?;
    let all = stats.figures.workers();
    let (shown, error) = match filter {
        Ok(filter) => (shown(&dashboard, &visit, &queue, filter, all, stats.now).await?, None),
        Err(error) => (Shown::default(), Some(error.into())),
    };
    let path = format!("/ui/queues/{queue}/workers");
    let page = WorkersPage {
        summary: shown.summary,
        has_workers: all != [0, 0],
        groups: shown.groups,
        first: visit.query.has("cursor").then(|| visit.query.without("cursor").at(&path)),
        next: shown.next.map(|cursor| visit.query.with("cursor", cursor).at(&path)),
        work: work(&dashboard, &visit, &queue),
        queue: queue.as_str().to_owned(),
        filter: text,
        error,
        shell: Shell::new(&dashboard, &visit, format!("Workers of {queue}"), Section::Workers, Some(&queue)).await?,
    };
    layout::page(&visit, &page)
}

/// How to start one.
fn work(dashboard: &Dashboard, visit: &Visit, queue: &QueueName) -> String {
    let command = CommandLine::new("loop", queue.as_str(), &server_url(dashboard, visit));
    command.running("python train.py --lr %{lr}").to_string()
}

#[derive(Default)]
struct Shown {
    summary: String,
    groups: Vec<Group>,
    next: Option<String>,
}

async fn shown(
    dashboard: &Dashboard,
    visit: &Visit,
    queue: &QueueName,
    filter: Option<ObservationFilter>,
    [idle, busy]: [u64; 2],
    now: Timestamp,
) -> Result<Shown, Problem> {
    let binding = observation_binding(filter.as_ref(), Resource::WorkerList, queue, "");
    let cursor = visit.query.get("cursor").map(|cursor| binding.decode(cursor)).transpose();
    let after = cursor.map_err(|_| Refusal::InvalidCursor)?;
    let of_all = format!("{} busy, {} idle", show::number(busy), show::number(idle));
    let summary = match &filter {
        None => of_all,
        Some(filter) => {
            let matching = dashboard.store().count_workers(queue, Some(filter.clone())).await?;
            format!("{} of {}", show::number(matching), show::count(idle + busy, "worker"))
        }
    };
    let page = dashboard.store().list_workers(queue, ObservationQuery { filter, limit: PAGE_WORKERS, after }).await?;
    let tasks = busy_with(dashboard, queue, &page.items).await;
    let next = page.next.map(|position| binding.encode(&position));
    Ok(Shown { summary, groups: groups(page.items, &tasks, now), next })
}

/// The tasks of the busy ones. Those that were deleted meanwhile are missing.
async fn busy_with(dashboard: &Dashboard, queue: &QueueName, workers: &[Observation]) -> HashMap<TaskId, BusyWith> {
    let busy = workers.iter().filter(|worker| worker.report.status == WorkerStatus::Busy);
    let ids: Vec<TaskId> = busy.filter_map(|worker| worker.report.task_id).collect();
    let read = |id: TaskId| async move {
        let task = dashboard.store().get_task(queue, id).await.ok()?;
        let since = task.lifecycle.started_at.filter(|_| task.lifecycle.status == Status::Running);
        Some((id, BusyWith { name: task.definition.name.as_deref().map(str::to_owned), since }))
    };
    stream::iter(ids).map(read).buffer_unordered(READS_AT_ONCE).filter_map(|found| async { found }).collect().await
}

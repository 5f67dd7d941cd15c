//! Who works for a queue: workers by host and route, what each is busy with, and what it measures.

use std::collections::{BTreeMap, HashMap};

use askama::Template;
use futures_util::{StreamExt, stream};
use taskqueue_core::cursor::Resource;
use taskqueue_core::json::{Found, lookup};
use taskqueue_core::observation::WorkerStatus;
use taskqueue_core::selection::observation_binding;
use taskqueue_core::words::telemetry::Telemetry;
use taskqueue_core::{
    Observation, ObservationFilter, ObservationQuery, QueueName, Refusal, RouteSelection, Status, TaskId, Timestamp,
};
use taskqueue_store::StoreExt;

use crate::layout::{self, PageResult, Section, Shell};
use crate::problem::Problem;
use crate::selected::Unreadable;
use crate::show::{self, Meter, Moment, command_line};
use crate::state::Dashboard;
use crate::visit::Visit;

/// Workers of a page. The task of each busy one is read, too.
const PAGE_WORKERS: u16 = 100;
const READS_AT_ONCE: usize = 8;

#[derive(Template)]
#[template(path = "workers.html")]
struct WorkersPage {
    shell: Shell,
    queue: QueueName,
    now: Timestamp,
    filter: String,
    error: Option<Unreadable>,
    summary: String,
    /// Whether there is any worker, whatever the filter says.
    has_workers: bool,
    groups: Vec<HostGroup>,
    /// The address of the first page, if this is another one.
    first: Option<String>,
    next: Option<String>,
    work: String,
}

/// What is known of the task that a worker is busy with.
#[derive(Clone, Default)]
struct BusyWith {
    name: Option<String>,
    /// Since when it runs; nothing if it does not run any more.
    since: Option<Timestamp>,
}

/// The page.
pub(crate) async fn workers(visit: Visit) -> PageResult {
    let queue = visit.queue()?;
    let text = visit.query.get("filter").unwrap_or_default().trim().to_owned();
    let filter = if text.is_empty() {
        Ok(None)
    } else {
        let text = text.clone();
        visit.dashboard.read_filter(text.len(), move || ObservationFilter::parse(&text).map(Some)).await?
    };
    let stats = visit.dashboard.store().queue_stats(&queue, &RouteSelection::NONE).await?;
    let all = stats.figures.workers();
    let ((summary, groups, next), error) = match filter {
        Ok(filter) => (shown_workers(&visit, &queue, filter, all).await?, None),
        Err(error) => (Default::default(), Some(error.into())),
    };
    let work = command_line("loop", queue.as_str(), &visit.server_url());
    let path = format!("/ui/queues/{queue}/workers");
    let page = WorkersPage {
        has_workers: all != [0, 0],
        first: visit.query.has("cursor").then(|| visit.query.without("cursor").at(&path)),
        next: next.map(|cursor| visit.query.with("cursor", cursor).at(&path)),
        work: work.running("python train.py --lr %{lr}").to_string(),
        shell: Shell::new(&visit, format!("Workers of {queue}"), Section::Workers, Some(&queue)).await?,
        now: stats.now,
        filter: text,
        summary,
        groups,
        queue,
        error,
    };
    layout::page(&visit, &page)
}

/// Returns a sentence about the workers that match, one page of them, and the cursor of the next one.
async fn shown_workers(
    visit: &Visit,
    queue: &QueueName,
    filter: Option<ObservationFilter>,
    [idle, busy]: [u64; 2],
) -> Result<(String, Vec<HostGroup>, Option<String>), Problem> {
    let binding = observation_binding(filter.as_ref(), Resource::WorkerList, queue, "");
    let cursor = visit.query.get("cursor").map(|cursor| binding.decode(cursor)).transpose();
    let after = cursor.map_err(|_| Refusal::InvalidCursor)?;
    let of_all = format!("{} busy, {} idle", show::number(busy), show::number(idle));
    let summary = match &filter {
        None => of_all,
        Some(filter) => {
            let matching = visit.dashboard.store().count_workers(queue, Some(filter.clone())).await?;
            format!("{} of {}", show::number(matching), show::count(idle + busy, "worker"))
        }
    };
    let page =
        visit.dashboard.store().list_workers(queue, ObservationQuery { filter, limit: PAGE_WORKERS, after }).await?;
    let tasks = busy_with(&visit.dashboard, queue, &page.items).await;
    let next = page.next.map(|position| binding.encode(&position));
    Ok((summary, host_groups(page.items, &tasks), next))
}

/// The tasks of the busy ones. Those that were deleted meanwhile are missing.
async fn busy_with(dashboard: &Dashboard, queue: &QueueName, workers: &[Observation]) -> HashMap<TaskId, BusyWith> {
    let ids: Vec<TaskId> = workers.iter().filter_map(task_of).collect();
    let read = |id: TaskId| async move {
        let task = dashboard.store().get_task(queue, id).await.ok()?;
        let since = task.lifecycle.started_at.filter(|_| task.lifecycle.status == Status::Running);
        Some((id, BusyWith { name: task.definition.name.as_deref().map(cut_line), since }))
    };
    stream::iter(ids).map(read).buffer_unordered(READS_AT_ONCE).filter_map(|found| async { found }).collect().await
}

/// Texts that workers choose are cut to so many characters.
const TEXT_CHARS: usize = 100;

/// The workers of one host.
struct HostGroup {
    /// Nothing for workers that do not say where they are.
    host: Option<String>,
    busy: usize,
    /// What the latest measurement says of the host.
    measured: Telemetry,
    rows: Vec<WorkerRow>,
}

/// A worker, with the task that it is busy with, and what it measures.
struct WorkerRow {
    worker: Observation,
    task: Option<(TaskId, BusyWith)>,
    measured: Telemetry,
}

/// Workers by host; in each by route, slot and id, so that a worker stays where it is.
fn host_groups(workers: Vec<Observation>, tasks: &HashMap<TaskId, BusyWith>) -> Vec<HostGroup> {
    let mut hosts: BTreeMap<(bool, Option<String>), Vec<Observation>> = BTreeMap::new();
    for worker in workers {
        let host = text_of(&worker, "host");
        // Those without a host come last.
        hosts.entry((host.is_none(), host)).or_default().push(worker);
    }
    hosts.into_iter().map(|((_, host), workers)| host_group(host, workers, tasks)).collect()
}

fn host_group(host: Option<String>, mut workers: Vec<Observation>, tasks: &HashMap<TaskId, BusyWith>) -> HostGroup {
    workers.sort_by_cached_key(|worker| (worker.report.route.clone(), slot_of(worker), worker.id.to_string()));
    let busy = workers.iter().filter(|worker| is_busy(worker)).count();
    // All workers of a host measure the same host.
    let latest = workers.iter().max_by_key(|worker| worker.telemetry.as_ref().map(|known| known.updated_at));
    let measured = latest.filter(|_| host.is_some()).map(measured_by).unwrap_or_default();
    let task = |id: TaskId| (id, tasks.get(&id).cloned().unwrap_or_default());
    let row = |mut worker: Observation| {
        let (task, measured) = (task_of(&worker).map(task), measured_by(&worker));
        // Not shown otherwise, and as large as a page.
        worker.telemetry = None;
        WorkerRow { worker, task, measured }
    };
    HostGroup { host, busy, measured, rows: workers.into_iter().map(row).collect() }
}

fn is_busy(worker: &Observation) -> bool {
    worker.report.status == WorkerStatus::Busy
}

/// The task that a worker is busy with.
fn task_of(worker: &Observation) -> Option<TaskId> {
    worker.report.task_id.filter(|_| is_busy(worker))
}

fn measured_by(worker: &Observation) -> Telemetry {
    let measured = worker.telemetry.as_ref().map(|known| Telemetry::of(known.value.as_str())).unwrap_or_default();
    Telemetry { other: measured.other.as_deref().map(cut_line), ..measured }
}

fn slot_of(worker: &Observation) -> Option<i64> {
    if let Some(Found::Int(slot)) = lookup(worker.report.metadata.as_str(), &["slot"]) { Some(slot) } else { None }
}

/// A text that the worker says of itself; nothing if it is empty or something else.
fn text_of(worker: &Observation, name: &str) -> Option<String> {
    let Some(Found::Str(text)) = lookup(worker.report.metadata.as_str(), &[name]) else { return None };
    Some(cut_line(&text.to_text())).filter(|text| !text.trim().is_empty())
}

/// Short enough for a table, and on one line.
fn cut_line(text: &str) -> String {
    show::cut(&text.replace(char::is_control, " "), TEXT_CHARS).into_owned()
}

#[cfg(test)]
mod tests {
    use taskqueue_core::ids::{QueueName, Route, WorkerId};
    use taskqueue_core::json::JsonObject;
    use taskqueue_core::observation::{self, Report};

    use super::*;

    fn worker(number: u8, route: &str, metadata: &str) -> Observation {
        let report = Report {
            route: Route::parse(route).expect("a route"),
            status: if number == 1 { WorkerStatus::Busy } else { WorkerStatus::Idle },
            task_id: TaskId::parse("t_abcdefghijkl"),
            metadata: JsonObject::from_canonical(metadata),
        };
        let id = WorkerId::parse(&format!("w_abcdefghijk{number}")).expect("an id");
        let queue = QueueName::parse("q").expect("a name");
        observation::observe(None, &queue, id, report, Timestamp::from_micros(0)).expect("accepted")
    }

    #[test]
    fn workers_are_grouped_by_host_and_in_each_by_route_and_slot() {
        let workers = vec![
            worker(0, "b", r#"{"host":"n2"}"#),
            worker(1, "a", r#"{"host":"n2","slot":10}"#),
            worker(2, "a", r#"{"host":"n2","slot":9}"#),
            worker(3, "a", "{}"),
            worker(4, "a", r#"{"host":"n1"}"#),
            worker(5, "a", r#"{"host":7}"#),
        ];
        let found = host_groups(workers, &HashMap::new());
        let hosts: Vec<(Option<&str>, usize, usize)> =
            found.iter().map(|group| (group.host.as_deref(), group.busy, group.rows.len() - group.busy)).collect();
        assert_eq!(hosts, [(Some("n1"), 0, 1), (Some("n2"), 1, 2), (None, 0, 2)]);
        let ids: Vec<&str> = found[1].rows.iter().map(|row| row.worker.id.as_str()).collect();
        assert_eq!(ids, ["w_abcdefghijk2", "w_abcdefghijk1", "w_abcdefghijk0"]);
        assert!(found[1].rows[0].task.is_none(), "an idle one works on nothing");
        assert!(found[1].rows[1].task.as_ref().is_some_and(|(_, task)| task.name.is_none() && task.since.is_none()));
    }

    #[test]
    fn what_workers_say_is_short_and_on_one_line() {
        assert_eq!(cut_line("a\u{1b}[31m\nb"), "a [31m b");
        let long = cut_line(&"x".repeat(10_000));
        assert_eq!(long.chars().count(), TEXT_CHARS);
        assert!(long.ends_with('…'));
    }
}

//! The server: versions, its database, what it does, and what is wrong with it. All but the versions is for those who may see
//! everything. And how queues come and go.

use std::time::Duration;

use askama::Template;
use axum::body::Body;
use taskqueue_core::stats::PendingDetail;
use taskqueue_core::{QueueName, RouteSelection, Scope, Status};
use taskqueue_store::StoreExt;
use taskqueue_store::command::{CreateQueue, DeleteQueue};
use taskqueue_store::figures::{ProcessFigures, StoreFigures};
use taskqueue_store::histogram::HistogramValues;

use crate::host::HostFigures;
use crate::layout::{self, PageResult, Section, Shell};
use crate::problem::Problem;
use crate::shared_figures::{QUEUES_AT_ONCE, all_tasks};
use crate::show::{self, Meter};
use crate::visit::Visit;

/// Queues that are listed; the overview finds the others.
const QUEUES: usize = 200;

#[derive(Template)]
#[template(path = "system.html")]
struct SystemPage {
    shell: Shell,
    version: &'static str,
    mode: &'static str,
    features: Vec<&'static str>,
    /// Nothing for those who may not see everything.
    inside: Option<Inside>,
}

/// What only those see who may see everything.
struct Inside {
    kind: &'static str,
    /// The risks of the settings of the storage; nothing if it does not work.
    risks: Option<Vec<String>>,
    storage: StoreFigures,
    process: ProcessFigures,
    host: HostFigures,
    /// The first queues by name, how many there are, and how many tasks these have.
    rows: Vec<QueueRow>,
    queues: usize,
    tasks: u64,
}

struct QueueRow {
    name: QueueName,
    tasks: u64,
    routes: u64,
    may_delete: bool,
}

/// The page.
pub(crate) async fn system(visit: Visit) -> PageResult {
    let inside = if visit.viewer.sees_everything() { Some(inside(&visit).await?) } else { None };
    let page = SystemPage {
        version: visit.dashboard.host.figures().version,
        mode: visit.dashboard.mode.as_str(),
        features: visit.dashboard.host.features(),
        inside,
        shell: Shell::new(&visit, "System", Section::System, None).await?,
    };
    layout::page(&visit, &page)
}

async fn inside(visit: &Visit) -> Result<Inside, Problem> {
    let store = visit.dashboard.store();
    let mut inside = Inside {
        kind: store.parts().kind,
        risks: visit.dashboard.check_storage().await,
        storage: store.figures(&[], &RouteSelection::NONE, PendingDetail::Number).await?,
        process: store.process_figures(),
        host: visit.dashboard.host.figures(),
        rows: Vec::new(),
        queues: 0,
        tasks: 0,
    };
    let mut known = store.list_queue_keys().await?;
    known.sort_by(|(_, a), (_, b)| a.as_str().cmp(b.as_str()));
    for part in known.chunks(QUEUES_AT_ONCE) {
        let figures = visit.dashboard.figures.of(store, part, visit.began).await?;
        let existing = part.iter().zip(figures).filter_map(|((_, name), shared)| Some((name, shared?)));
        for (name, shared) in existing {
            let tasks = all_tasks(&shared.figures);
            inside.queues += 1;
            inside.tasks += tasks;
            if inside.rows.len() < QUEUES {
                let (routes, may_delete) = (shared.figures.route_count(), visit.may(Scope::Admin, name));
                inside.rows.push(QueueRow { name: name.clone(), tasks, routes, may_delete });
            }
        }
    }
    Ok(inside)
}

/// So many of at most so many, drawn and in words.
fn limited(used: usize, most: usize) -> (Option<Meter>, String) {
    let words = format!("{} of {}", show::number(used as u64), show::number(most as u64));
    (Meter::of_limit(used as f64, most as f64), words)
}

/// How often, and how long on average.
fn with_mean(seconds: &HistogramValues) -> String {
    let count = show::number(seconds.count());
    mean(seconds)
        .map_or(count.clone(), |mean| format!("{count}, {} on average", show::duration(Duration::from_secs_f64(mean))))
}

fn commands(values: &HistogramValues) -> String {
    let count = show::number(values.sum as u64);
    mean(values).map_or(count.clone(), |mean| format!("{count}, {mean:.1} in each commit"))
}

fn mean(values: &HistogramValues) -> Option<f64> {
    let mean = values.sum / values.count() as f64;
    (mean.is_finite() && mean >= 0.0).then_some(mean)
}

#[derive(Template)]
#[template(path = "delete_queue.html")]
struct DeleteQueuePage {
    shell: Shell,
    queue: String,
    /// How many tasks go with it, in words; nothing if it has none.
    tasks: Option<String>,
    /// How many of them run, in words: then it cannot be deleted.
    running: Option<String>,
    workers: u64,
}

/// Creates a queue.
pub(crate) async fn create_queue(visit: Visit, body: Body) -> PageResult {
    let form = visit.form(body).await?;
    let name = form.get("name").unwrap_or_default().trim();
    let Some(queue) = QueueName::parse(name) else {
        let advice = "Use 1 to 128 letters, digits, and - _ . between them; the first is a letter or a digit.";
        return Err(Problem::invalid("This cannot be the name of a queue", advice));
    };
    visit.check(Scope::Admin, &queue)?;
    let create = CreateQueue { queue: queue.clone(), retention: visit.dashboard.host.default_retention() };
    let created = visit.dashboard.store().write(create).await?;
    let notice = if created { format!("Queue {queue} created.") } else { format!("Queue {queue} was already there.") };
    Ok(layout::done(&visit, &format!("/ui/queues/{queue}/tasks"), &notice))
}

/// Asks whether a queue shall be deleted.
pub(crate) async fn confirm_delete_queue(visit: Visit) -> PageResult {
    let queue = visit.queue_for(Scope::Admin)?;
    let figures = visit.dashboard.store().queue_stats(&queue, &RouteSelection::NONE).await?.figures;
    let (tasks, running) = (all_tasks(&figures), figures.tasks(Status::Running));
    let title = format!("Delete queue {queue}");
    let shell = Shell::new(&visit, title, Section::Overview, Some(&queue)).await?;
    let page = DeleteQueuePage {
        shell,
        queue: queue.as_str().to_owned(),
        tasks: (tasks > 0).then(|| show::count(tasks, "task")),
        running: (running > 0).then(|| show::count(running, "task")),
        workers: figures.workers().iter().sum(),
    };
    layout::page(&visit, &page)
}

/// Deletes a queue; with its tasks only if the form that was sent said that there are some.
pub(crate) async fn delete_queue(visit: Visit, body: Body) -> PageResult {
    let form = visit.form(body).await?;
    let queue = visit.queue_for(Scope::Admin)?;
    let cascade = form.get("with_tasks") == Some("yes");
    if cascade && form.get("name").unwrap_or_default().trim() != queue.as_str() {
        let advice = "Nothing was deleted. Go back, and write the name of the queue exactly.";
        return Err(Problem::invalid("This is not the name of the queue", advice));
    }
    visit.dashboard.store().write(DeleteQueue { queue: queue.clone(), cascade }).await?;
    Ok(layout::done(&visit, "/ui/", &format!("Queue {queue} deleted.")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_average_is_said_when_something_was_counted() {
        let values = |sum, count| HistogramValues { buckets: vec![(1.0, count), (f64::INFINITY, 0)], sum };
        assert_eq!(with_mean(&values(0.02, 4)), "4, 5 ms on average");
        assert_eq!(with_mean(&values(0.0, 0)), "0");
        assert_eq!(commands(&values(9.0, 4)), "9, 2.2 in each commit");
        assert_eq!(commands(&HistogramValues::default()), "0");
    }

    #[test]
    fn what_has_a_limit_is_said_with_it() {
        assert_eq!(limited(6, 4_096), (Meter::of_limit(6.0, 4_096.0), "6 of 4,096".to_owned()));
    }
}

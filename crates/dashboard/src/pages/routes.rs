//! The routes of a queue: what waits and runs on each, against who serves it.

use askama::Template;
use taskqueue_core::ids::QueueName;
use taskqueue_core::stats::{QueueFigures, RouteFigures, RouteSelection};
use taskqueue_core::time::Timestamp;

use crate::address::Query;
use crate::layout::{self, PageResult, Section, Shell};
use crate::show::command::CommandLine;
use crate::show::{self, Meter, Moment};
use crate::visit::Visit;

/// Rows of a page. A queue may have thousands of routes; those that starve come first, and others are found by name.
const ROWS: usize = 500;
/// With more routes than this there is a field to find one.
const FIND_FROM: u64 = 12;

#[derive(Template)]
#[template(path = "routes.html")]
struct RoutesPage {
    shell: Shell,
    queue: String,
    find: String,
    has_find: bool,
    has_routes: bool,
    starving: u64,
    rows: Vec<RouteRow>,
    left_out: u64,
    work: String,
}

struct RouteRow {
    route: String,
    is_starving: bool,
    pending: String,
    running: String,
    busy: String,
    idle: String,
    has_no_worker: bool,
    /// How many of its workers are busy.
    meter: Option<Meter>,
    oldest: Option<Moment>,
    pending_tasks: String,
    running_tasks: String,
    workers: String,
}

/// The page.
pub(crate) async fn routes(visit: Visit) -> PageResult {
    let queue = visit.queue()?;
    let find = visit.find();
    let selection = RouteSelection::StarvingFirst { most: ROWS, find: find.as_str().into() };
    let stats = visit.dashboard.store().queue_stats(&queue, &selection).await?;
    let figures = &stats.figures;
    let page = RoutesPage {
        has_find: figures.route_count() > FIND_FROM || !find.is_empty(),
        has_routes: figures.route_count() > 0,
        starving: starving(figures),
        left_out: figures.left_out().found,
        rows: route_rows(figures.routes(), queue.as_str(), stats.now),
        work: loop_command(&visit, &queue),
        queue: queue.as_str().to_owned(),
        find,
        shell: Shell::new(&visit, format!("Routes of {queue}"), Section::Routes, Some(&queue)).await?,
    };
    layout::page(&visit, &page)
}

/// On how many routes a worker is missed. Of those that are not shown it is not known whether their tasks are only delayed or blocked.
fn starving(figures: &QueueFigures) -> u64 {
    let calm = figures.routes().filter(|(_, route)| route.misses_no_worker()).count();
    figures.starving_count().saturating_sub(calm as u64)
}

/// Returns whether a worker is missed.
fn is_starving(figures: &RouteFigures) -> bool {
    figures.is_starving() && !figures.misses_no_worker()
}

/// How to start a worker.
fn loop_command(visit: &Visit, queue: &QueueName) -> String {
    let command = CommandLine::new("loop", queue.as_str(), &visit.server_url()).flag("--route", "gpu");
    command.running("python train.py --lr %{lr}").to_string()
}

/// Those that starve first, and each by name: a row moves only when it begins or ends to starve.
fn route_rows<'r>(
    routes: impl Iterator<Item = (&'r str, &'r RouteFigures)>,
    queue: &str,
    now: Timestamp,
) -> Vec<RouteRow> {
    let mut routes: Vec<(&str, &RouteFigures)> = routes.collect();
    routes.sort_by_key(|(_, figures)| !is_starving(figures));
    routes.into_iter().map(|(route, figures)| route_row(route, figures, queue, now)).collect()
}

fn route_row(route: &str, figures: &RouteFigures, queue: &str, now: Timestamp) -> RouteRow {
    // Names of routes need no escapes in filters: they have neither quotes nor backslashes.
    let of_status = |status: &str| {
        let filter = format!("\"{route}\" in routes");
        Query::default().and("status", status).and("filter", filter).at(&format!("/ui/queues/{queue}/tasks"))
    };
    let workers = figures.workers_busy + figures.workers_idle;
    RouteRow {
        route: route.to_owned(),
        is_starving: is_starving(figures),
        pending: show::number(figures.pending),
        running: show::number(figures.running),
        busy: show::number(figures.workers_busy),
        idle: show::number(figures.workers_idle),
        has_no_worker: workers == 0,
        meter: Meter::new(figures.workers_busy as f64, workers as f64),
        oldest: figures.oldest_pending.map(|since| Moment::new(since, now)),
        pending_tasks: of_status("pending"),
        running_tasks: of_status("running"),
        workers: Query::default()
            .and("filter", format!("route == \"{route}\""))
            .at(&format!("/ui/queues/{queue}/workers")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_that_starve_come_first_and_each_part_is_in_the_order_of_names() {
        let oldest_pending = Some(Timestamp::from_micros(0));
        let figures =
            |pending, workers_idle| RouteFigures { pending, workers_idle, oldest_pending, ..RouteFigures::default() };
        let delayed = RouteFigures { oldest_pending: None, ..figures(5, 0) };
        let known =
            [("a", figures(0, 1)), ("b", figures(1, 0)), ("c", figures(9, 1)), ("d", figures(500, 0)), ("e", delayed)];
        let rows = route_rows(known.iter().map(|(route, figures)| (*route, figures)), "q", Timestamp::from_micros(0));
        let order: Vec<(&str, bool)> = rows.iter().map(|row| (row.route.as_str(), row.is_starving)).collect();
        assert_eq!(order, [("b", true), ("d", true), ("a", false), ("c", false), ("e", false)]);
        let mut all = QueueFigures::default();
        known.iter().for_each(|(route, figures)| all.add_route(*route, figures));
        assert_eq!(starving(&all), 2, "what is delayed or blocked misses nobody");
        assert_eq!(rows[0].pending_tasks, "/ui/queues/q/tasks?status=pending&filter=%22b%22%20in%20routes");
    }
}

//! The routes of a queue: what waits and runs on each, against who serves it.

use askama::Template;
use taskqueue_core::stats::RouteFigures;
use taskqueue_core::{QueueFigures, QueueName, RouteSelection, Timestamp};

use crate::address::{Query, of_route};
use crate::layout::{self, PageResult, Section, Shell};
use crate::show::{self, Meter, Moment, command_line};
use crate::visit::Visit;

/// Rows of a page. A queue may have thousands of routes; those that starve come first, and others are found by name.
const ROWS: usize = 500;
/// With more routes than this there is a field to find one.
const FIND_FROM: u64 = 12;

#[derive(Template)]
#[template(path = "routes.html")]
struct RoutesPage {
    shell: Shell,
    queue: QueueName,
    find: String,
    figures: QueueFigures,
    now: Timestamp,
    work: String,
}

/// The page.
pub(crate) async fn routes(visit: Visit) -> PageResult {
    let queue = visit.queue()?;
    let find = visit.find();
    let selection = RouteSelection::StarvingFirst { most: ROWS, find: find.as_str().into() };
    let stats = visit.dashboard.store().queue_stats(&queue, &selection).await?;
    let work = command_line("loop", queue.as_str(), &visit.server_url()).flag("--route", "gpu");
    let page = RoutesPage {
        figures: stats.figures,
        now: stats.now,
        work: work.running("python train.py --lr %{lr}").to_string(),
        shell: Shell::new(&visit, format!("Routes of {queue}"), Section::Routes, Some(&queue)).await?,
        queue,
        find,
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

/// Those that starve first, and each by name: a row moves only when it begins or ends to starve.
fn sorted_routes(figures: &QueueFigures) -> Vec<(&str, &RouteFigures)> {
    let mut routes: Vec<(&str, &RouteFigures)> = figures.routes().collect();
    routes.sort_by_key(|(_, figures)| !is_starving(figures));
    routes
}

/// The part of the workers of a route that is busy.
fn busy_part(figures: &RouteFigures) -> Option<Meter> {
    Meter::new(figures.workers_busy as f64, (figures.workers_busy + figures.workers_idle) as f64)
}

/// The workers of a route.
fn workers_address(queue: &QueueName, route: &str) -> String {
    Query::default().and("filter", format!("route == \"{route}\"")).at(&format!("/ui/queues/{queue}/workers"))
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
        let mut all = QueueFigures::default();
        known.iter().for_each(|(route, figures)| all.add_route(*route, figures));
        let order: Vec<(&str, bool)> =
            sorted_routes(&all).into_iter().map(|(route, figures)| (route, is_starving(figures))).collect();
        assert_eq!(order, [("b", true), ("d", true), ("a", false), ("c", false), ("e", false)]);
        assert_eq!(starving(&all), 2, "what is delayed or blocked misses nobody");
        assert_eq!(of_route("q", "b", "pending"), "/ui/queues/q/tasks?status=pending&filter=%22b%22%20in%20routes");
    }
}

//! Rows of counts: activity, tasks by routes and by status, and the tasks that have been pending longest.

use taskqueue_core::activity::Activity;
use taskqueue_core::stats::{RouteFigures, waiting_since};
use taskqueue_core::status::Status;
use taskqueue_core::time::Timestamp;
use taskqueue_store::activity::ProcessId;
use taskqueue_store::transaction::QueueKey;
use tokio_postgres::Row;

use super::{Damaged, Read, count, found_queue, get, parsed, parsed_or_null, time};

/// What a process has saved of a span.
pub(crate) struct SavedSpan {
    pub(crate) start: Timestamp,
    pub(crate) process: ProcessId,
    pub(crate) activity: Activity,
}

pub(crate) fn saved_span(row: &Row) -> Read<SavedSpan> {
    let activity = Activity::from_bytes(get(row, "counted")?).map_err(|_| Damaged::at("counted"))?;
    Ok(SavedSpan { start: time(row, "start_at")?, process: ProcessId(get(row, "process")?), activity })
}

/// Since when activity is counted.
pub(crate) fn known_since(row: &Row) -> Read<Timestamp> {
    time(row, "since")
}

/// How many tasks of a queue have a status; nothing for a queue without tasks.
pub(crate) fn counted_status(row: &Row) -> Read<Option<(Status, u64)>> {
    let status = parsed_or_null(row, "status", Status::parse)?;
    status.map(|status| Ok((status, count(row, "tasks")?))).transpose()
}

/// What rows of a route add up to: pending and running tasks, idle and busy workers. What one shard of a count says may be below
/// zero.
pub(crate) type RouteSums = [i64; 4];

/// A route of a queue, and what one of its rows adds to it.
pub(crate) fn route_row(row: &Row) -> Read<(QueueKey, &str, RouteSums)> {
    let sums = [get(row, "pending")?, get(row, "running")?, get(row, "idle")?, get(row, "busy")?];
    Ok((found_queue(row)?, route_name(row)?, sums))
}

/// The figures of a route, without the oldest pending task; nothing if nobody uses it.
pub(crate) fn route_figures(sums: RouteSums) -> Read<Option<RouteFigures>> {
    let [pending, running, idle, busy] = sums.map(|sum| u64::try_from(sum).map_err(|_| Damaged::at("tasks")));
    let (workers_idle, workers_busy) = (idle?, busy?);
    let figures =
        RouteFigures { pending: pending?, running: running?, workers_idle, workers_busy, ..RouteFigures::default() };
    Ok(Some(figures).filter(|figures| *figures != RouteFigures::default()))
}

/// The name of a route.
pub(crate) fn route_name(row: &Row) -> Read<&str> {
    get(row, "route")
}

/// Since when a task of a route is pending.
pub(crate) struct OldestRow {
    /// The place of the route among those that were asked for.
    pub(crate) place: usize,
    pub(crate) since: Timestamp,
}

pub(crate) fn oldest_pending(row: &Row) -> Read<OldestRow> {
    let number: i64 = get(row, "route_number")?;
    let place = usize::try_from(number - 1).map_err(|_| Damaged::at("route_number"))?;
    let (created_at, updated_at) = (time(row, "created_at")?, time(row, "updated_at")?);
    Ok(OldestRow { place, since: waiting_since(created_at, updated_at, get(row, "was_run")?) })
}

/// How many tasks have these routes, as JSON, and this status.
pub(crate) struct TallyRow<'a> {
    pub(crate) routes: &'a str,
    pub(crate) status: Status,
    pub(crate) tasks: u64,
}

pub(crate) fn tally(row: &Row) -> Read<TallyRow<'_>> {
    let status = parsed(row, "status", Status::parse)?;
    Ok(TallyRow { routes: get(row, "routes")?, status, tasks: count(row, "tasks")? })
}

/// The same for a queue that may have no tasks: then its only row has no routes.
pub(crate) fn tally_or_null(row: &Row) -> Read<Option<TallyRow<'_>>> {
    if get::<Option<&str>>(row, "routes")?.is_some() { tally(row).map(Some) } else { Ok(None) }
}

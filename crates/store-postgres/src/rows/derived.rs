//! Rows beside those of tasks: what tasks wait for in their queue (settings, limits, what an explanation tells), dependencies, ended
//! tasks whose time is over, and counts.

use std::sync::Arc;

use taskqueue_core::activity::Activity;
use taskqueue_core::definition::Routes;
use taskqueue_core::dependency::DependencyState;
use taskqueue_core::ids::{Route, TaskId};
use taskqueue_core::pending_parts::CountedParts;
use taskqueue_core::scheduling::Scheduling;
use taskqueue_core::settings::{QueueSettings, RunningTasks};
use taskqueue_core::stats::{RouteFigures, waiting_since};
use taskqueue_core::status::Status;
use taskqueue_core::task::TaskHead;
use taskqueue_core::time::Timestamp;
use taskqueue_store::activity::ProcessId;
use taskqueue_store::transaction::{QueueKey, TaskKey};
use tokio_postgres::Row;

use super::{
    Damaged, Read, SCHEDULING, count, found_id, found_queue, get, head_with, parsed, parsed_or_null, time, time_or_null,
};
use crate::transaction_rows::Found;

/// The settings of a queue; nothing if they are the default.
pub(crate) fn settings(row: &Row) -> Read<Option<Arc<QueueSettings>>> {
    Ok(parsed_or_null(row, "settings", QueueSettings::from_json)?.map(Arc::new))
}

/// How many entries of the pending order and how many delayed tasks of a queue are counted, and how many of its dependencies.
pub(crate) struct CountBounds {
    pub(crate) entries: i64,
    pub(crate) dependencies: i64,
}

/// Where the pending tasks of a queue are, as far as they were counted.
pub(crate) fn pending_parts(row: &Row, bounds: &CountBounds) -> Read<(QueueKey, CountedParts)> {
    let below = |bound: i64, column: &str| get::<i64>(row, column).map(|found| found < bound);
    let order_is_counted = below(bounds.entries, "ordered_entries")?;
    let due_are_counted = below(bounds.entries, "due_tasks")?;
    let later_are_counted = below(bounds.entries, "later_tasks")?;
    // They are not looked at where all others were counted.
    let others_are_counted = order_is_counted && due_are_counted && later_are_counted;
    let dependencies_are_counted = !others_are_counted && below(bounds.dependencies, "noted_dependencies")?;
    let claimable = count(row, "ordered_tasks")? + count(row, "due_tasks")?;
    let counted = CountedParts {
        claimable: (order_is_counted && due_are_counted).then_some(claimable),
        delayed: Some(count(row, "later_tasks")?).filter(|_| later_are_counted),
        blocked: Some(count(row, "blocked_tasks")?).filter(|_| dependencies_are_counted),
    };
    Ok((found_queue(row)?, counted))
}

/// A route, and how many running tasks were claimed for it.
pub(crate) fn running_of_route(row: &Row) -> Read<(Option<Route>, u64)> {
    Ok((parsed_or_null(row, "route", Route::parse)?, count(row, "tasks")?))
}

/// Whether delayed tasks are due, and whether anything else may be that nobody asks for.
pub(crate) fn due_upkeep(row: &Row) -> Read<(bool, bool)> {
    Ok((get(row, "has_delayed")?, get(row, "has_more")?))
}

/// How many delayed tasks a claim has moved to the pending order, and whether it left some that others hold.
pub(crate) fn moved_tasks(row: &Row) -> Read<(u64, bool)> {
    Ok((count(row, "tasks")?, get(row, "some_held")?))
}

/// Behind which task the tasks of a queue are read on.
pub(crate) fn reading_after(row: &Row) -> Read<(QueueKey, String)> {
    Ok((found_queue(row)?, get(row, "after_id")?))
}

/// For how long a queue keeps the tasks of a state.
pub(crate) fn kept_micros(row: &Row) -> Read<(QueueKey, Status, i64)> {
    Ok((found_queue(row)?, parsed(row, "status", Status::parse)?, get(row, "kept_micros")?))
}

/// What is noted of a task that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndedRow {
    pub(crate) queue: QueueKey,
    pub(crate) status: Status,
    pub(crate) ended_at: Timestamp,
    pub(crate) key: TaskKey,
}

pub(crate) fn ended(row: &Row) -> Read<EndedRow> {
    Ok(EndedRow {
        queue: found_queue(row)?,
        status: parsed(row, "status", Status::parse)?,
        ended_at: time(row, "ended_at")?,
        key: TaskKey(get(row, "task_key")?),
    })
}

/// The queue of an explained task.
pub(crate) fn explained_queue(row: &Row) -> Read<QueueKey> {
    get(row, "explained_queue").map(QueueKey)
}

/// What is so of a route of an explained task.
pub(crate) struct RouteFactsRow {
    pub(crate) ahead: u64,
    pub(crate) running: RunningTasks,
}

pub(crate) fn route_facts(row: &Row) -> Read<RouteFactsRow> {
    Ok(RouteFactsRow { ahead: count(row, "ahead")?, running: running_tasks(row)? })
}

/// How many tasks of a queue that limits claims are running, and how many of them were claimed for a route.
pub(crate) fn running_tasks(row: &Row) -> Read<RunningTasks> {
    Ok(RunningTasks { of_queue: count(row, "of_queue")?, of_route: count(row, "of_route")? })
}

/// The routes and the place in the pending order of a task whose time has come.
pub(crate) fn due_task(row: &Row) -> Read<(Routes, i64, i64)> {
    Ok((get(row, "routes").map(Routes::from_json)?, get(row, "priority")?, get(row, "pending_seq")?))
}

/// A task that another one waits for; without a status it does not exist.
pub(crate) fn dependency_status(row: &Row) -> Read<(TaskId, Option<Status>)> {
    let id: &str = get(row, "id")?;
    let id = TaskId::parse(id).ok_or_else(|| Damaged::at("id"))?;
    Ok((id, parsed_or_null(row, "status", Status::parse)?))
}

/// What is noted of a dependency of a task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DependencyRow {
    pub(crate) queue: QueueKey,
    pub(crate) dependency: TaskId,
    pub(crate) task: TaskKey,
    pub(crate) state: DependencyState,
    /// Whether the task that waits exists.
    pub(crate) is_there: bool,
}

pub(crate) fn dependency(row: &Row) -> Read<DependencyRow> {
    let state = usize::try_from(get::<i16>(row, "state")?).ok().and_then(|place| DependencyState::ALL.get(place));
    Ok(DependencyRow {
        queue: found_queue(row)?,
        dependency: parsed(row, "dependency", TaskId::parse)?,
        task: TaskKey(get(row, "task_key")?),
        state: *state.ok_or_else(|| Damaged::at("state"))?,
        is_there: get(row, "is_there")?,
    })
}

pub(super) fn scheduling(row: &Row) -> Read<Scheduling> {
    Ok(parsed_or_null(row, SCHEDULING, Scheduling::from_json)?.unwrap_or_default())
}

/// The head of a task that waits. Those that wait for the same ones are often read together, so `last` is what the one before had.
pub(crate) fn head_beside(row: &Row, last: &mut Scheduling) -> Read<TaskHead> {
    if get::<Option<&str>>(row, SCHEDULING)? != last.as_json() {
        *last = scheduling(row)?;
    }
    head_with(row, last.clone())
}

/// A task that waits for another one, as it was before it was locked.
pub(crate) struct WalkedRow {
    pub(crate) dependency: TaskId,
    pub(crate) task: TaskKey,
    /// Nothing if it does not exist.
    pub(crate) id: Option<TaskId>,
    /// Whether it is cancelled with the other one.
    pub(crate) goes_on: bool,
}

pub(crate) fn walked(row: &Row) -> Read<WalkedRow> {
    Ok(WalkedRow {
        dependency: parsed(row, "dependency", TaskId::parse)?,
        task: TaskKey(get(row, "task_key")?),
        id: parsed_or_null(row, "id", TaskId::parse)?,
        goes_on: get(row, "goes_on")?,
    })
}

/// The id of a task and its status; others hold it if it has none.
pub(crate) fn locked_status(row: &Row) -> Read<(TaskId, Found<Status>)> {
    let status = parsed_or_null(row, "status", Status::parse)?;
    Ok((found_id(row)?, status.map_or(Found::HeldElsewhere, Found::Here)))
}

/// The same with the queue, also for a task that does not exist.
pub(crate) fn named_status(row: &Row) -> Read<((QueueKey, TaskId), Found<Status>)> {
    let (id, found) = locked_status(row)?;
    let found = if get(row, "is_there")? { found } else { Found::Missing };
    Ok(((found_queue(row)?, id), found))
}

/// A task whose dependents are to be looked at again.
pub(crate) struct UnsettledRow {
    pub(crate) key: i64,
    pub(crate) queue: QueueKey,
    pub(crate) dependency: TaskId,
    pub(crate) after: Option<TaskKey>,
    pub(crate) was_missing: bool,
    pub(crate) has_queue: bool,
}

pub(crate) fn unsettled(row: &Row) -> Read<UnsettledRow> {
    Ok(UnsettledRow {
        key: get(row, "unsettled_key")?,
        queue: found_queue(row)?,
        dependency: parsed(row, "dependency", TaskId::parse)?,
        after: get::<Option<i64>>(row, "after_key")?.map(TaskKey),
        was_missing: get(row, "was_missing")?,
        has_queue: get(row, "has_queue")?,
    })
}

/// A task whose dependents are to be looked at again, for a transfer.
pub(crate) fn unsettled_dependency(row: &Row) -> Read<TaskId> {
    parsed(row, "dependency", TaskId::parse)
}

/// Whether any task waits for another one, and when the next delayed one is due.
pub(crate) fn waiting(row: &Row) -> Read<(bool, Option<Timestamp>)> {
    Ok((get(row, "has_dependencies")?, time_or_null(row, "next_due")?))
}

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

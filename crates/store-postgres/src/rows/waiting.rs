//! Rows of what tasks wait for in their queue: settings, limits, ended tasks whose time is over, and what an explanation tells.

use std::sync::Arc;

use taskqueue_core::definition::Routes;
use taskqueue_core::ids::{Route, TaskId};
use taskqueue_core::pending_parts::CountedParts;
use taskqueue_core::settings::{QueueSettings, RunningTasks};
use taskqueue_core::status::Status;
use taskqueue_core::time::Timestamp;
use taskqueue_store::transaction::{QueueKey, TaskKey};
use tokio_postgres::Row;

use super::{Damaged, Read, count, found_queue, get, parsed, parsed_or_null, time};

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

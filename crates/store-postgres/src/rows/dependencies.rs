//! How rows of tasks that wait for others are read, and what a transaction reads of them when it begins.

use taskqueue_core::dependency::DependencyState;
use taskqueue_core::ids::TaskId;
use taskqueue_core::scheduling::Scheduling;
use taskqueue_core::task::{Status, TaskHead};
use taskqueue_core::time::Timestamp;
use taskqueue_store::transaction::{QueueKey, TaskKey};
use tokio_postgres::Row;

use super::{Damaged, Read, SCHEDULING, found_id, found_queue, get, head_with, parsed, parsed_or_null, time_or_null};
use crate::transaction_rows::Found;

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

//! Rows beside those of tasks: what tasks wait for in their queue (settings, limits, what an explanation tells), dependencies, ended
//! tasks whose time is over, and counts.

use std::sync::Arc;

use taskqueue_core::output::{KeptOutput, Part};
use taskqueue_core::settings::RunningTasks;
use taskqueue_core::stats::RouteFigures;
use taskqueue_core::{DependencyState, QueueSettings, Scheduling, Status, TaskHead, TaskId, Timestamp};
use taskqueue_store::{QueueKey, TaskKey};
use tokio_postgres::Row;

use super::{Damaged, Read, SCHEDULING, found_queue, get, head_with, scheduling};
use crate::output::StoredOutput;
use crate::transaction_rows::Found;

/// The settings of a queue; nothing if they are the default.
pub(crate) fn settings(row: &Row) -> Read<Option<Arc<QueueSettings>>> {
    get(row, "settings")
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
    let (status, ended_at) = (get(row, "status")?, get(row, "ended_at")?);
    Ok(EndedRow { queue: found_queue(row)?, status, ended_at, key: get(row, "task_key")? })
}

/// How many tasks of a queue that limits claims are running, and how many of them were claimed for a route.
pub(crate) fn running_tasks(row: &Row) -> Read<RunningTasks> {
    Ok(RunningTasks { of_queue: get(row, "of_queue")?, of_route: get(row, "of_route")? })
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
    let (task, state, is_there) = (get(row, "task_key")?, get(row, "state")?, get(row, "is_there")?);
    Ok(DependencyRow { queue: found_queue(row)?, dependency: get(row, "dependency")?, task, state, is_there })
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
    let (dependency, task) = (get(row, "dependency")?, get(row, "task_key")?);
    Ok(WalkedRow { dependency, task, id: get(row, "id")?, goes_on: get(row, "goes_on")? })
}

/// The id of a task and its status; others hold it if it has none.
pub(crate) fn locked_status(row: &Row) -> Read<(TaskId, Found<Status>)> {
    let status = get::<Option<_>>(row, "status")?;
    Ok((get(row, "id")?, status.map_or(Found::HeldElsewhere, Found::Here)))
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
    let (key, queue, dependency) = (get(row, "unsettled_key")?, found_queue(row)?, get(row, "dependency")?);
    let (after, was_missing) = (get(row, "after_key")?, get(row, "was_missing")?);
    Ok(UnsettledRow { key, queue, dependency, after, was_missing, has_queue: get(row, "has_queue")? })
}

/// What rows of a route add up to: pending and running tasks, idle and busy workers. What one shard of a count says may be below
/// zero.
pub(crate) type RouteSums = [i64; 4];

/// A route of a queue, and what one of its rows adds to it.
pub(crate) fn route_row(row: &Row) -> Read<(QueueKey, &str, RouteSums)> {
    let sums = [get(row, "pending")?, get(row, "running")?, get(row, "idle")?, get(row, "busy")?];
    Ok((found_queue(row)?, get(row, "route")?, sums))
}

/// The figures of a route, without the oldest pending task; nothing if nobody uses it.
pub(crate) fn route_figures(sums: RouteSums) -> Read<Option<RouteFigures>> {
    let [pending, running, idle, busy] = sums.map(|sum| u64::try_from(sum).map_err(|_| Damaged::at("tasks")));
    let (workers_idle, workers_busy) = (idle?, busy?);
    let figures =
        RouteFigures { pending: pending?, running: running?, workers_idle, workers_busy, ..RouteFigures::default() };
    Ok(Some(figures).filter(|figures| *figures != RouteFigures::default()))
}

/// How many tasks have these routes, as JSON, and this status.
pub(crate) struct TallyRow<'a> {
    pub(crate) routes: &'a str,
    pub(crate) status: Status,
    pub(crate) tasks: u64,
}

pub(crate) fn tally(row: &Row) -> Read<TallyRow<'_>> {
    Ok(TallyRow { routes: get(row, "routes")?, status: get(row, "status")?, tasks: get(row, "tasks")? })
}

/// The same for a queue that may have no tasks: then its only row has no routes.
pub(crate) fn tally_or_null(row: &Row) -> Read<Option<TallyRow<'_>>> {
    if get::<Option<&str>>(row, "routes")?.is_some() { tally(row).map(Some) } else { Ok(None) }
}

// The columns of output: which bytes are kept, as one text, and the pieces that hold them.

/// An empty result needs no row.
const EMPTY_RESULT_BYTES: usize = "{}".len();

/// Start and end of each part, as `0-512 1024-2048`.
pub(crate) fn parts_text(parts: &[Part]) -> String {
    let parts: Vec<String> = parts.iter().map(|part| format!("{}-{}", part.start, part.end)).collect();
    parts.join(" ")
}

fn read_parts(text: &str) -> Option<Vec<Part>> {
    let part = |text: &str| {
        let (start, end) = text.split_once('-')?;
        let (start, end) = (start.parse().ok()?, end.parse().ok()?);
        (start < end).then_some(Part { start, end })
    };
    text.split(' ').map(part).collect()
}

/// An offset as a column holds it. No offset that a server accepts is larger.
pub(crate) fn offset_column(offset: u64) -> i64 {
    i64::try_from(offset).unwrap_or(i64::MAX)
}

/// The key of the task of a row of output, or of the size of its result.
pub(crate) fn output_key(row: &Row) -> Read<TaskKey> {
    get(row, "task_key")
}

/// What is kept of the output of a task, if anything is.
pub(crate) fn stored_output(row: &Row) -> Read<Option<StoredOutput>> {
    let Some(run_id) = get(row, "run_id")? else { return Ok(None) };
    let parts = read_parts(get(row, "parts")?).ok_or_else(|| Damaged::at("parts"))?;
    let kept = KeptOutput { run_id, attempt: get(row, "attempt")?, parts };
    Ok(Some(StoredOutput { kept, last_start: get(row, "last_start")? }))
}

/// Where the pieces of the output of a task lie, from `CHECK_OUTPUTS`.
pub(crate) fn places_of_pieces(row: &Row) -> Read<Vec<Part>> {
    let (starts, lengths): (Vec<i64>, Vec<i64>) = (get(row, "starts")?, get(row, "lengths")?);
    let number = |number: i64| u64::try_from(number).map_err(|_| Damaged::at("starts"));
    let place = |(start, length): (i64, i64)| {
        let start = number(start)?;
        Ok(Part { start, end: start.saturating_add(number(length)?) })
    };
    starts.into_iter().zip(lengths).map(place).collect()
}

/// The bytes of a part, from the pieces that hold them, in ascending order.
pub(crate) fn bytes_of_part<'a>(pieces: impl Iterator<Item = &'a Row>, part: Part) -> Read<Vec<u8>> {
    let mut bytes = Vec::with_capacity(usize::try_from(part.bytes()).unwrap_or(0));
    for row in pieces {
        let (start, piece): (u64, &[u8]) = (get(row, "start")?, get(row, "bytes")?);
        let at = |offset: u64| usize::try_from(offset.saturating_sub(start)).unwrap_or(usize::MAX).min(piece.len());
        bytes.extend_from_slice(&piece[at(part.start)..at(part.end)]);
    }

    if bytes.len() as u64 == part.bytes() { Ok(bytes) } else { Err(Damaged::at("bytes")) }
}

/// The size of the result of a task.
pub(crate) fn result_bytes(row: &Row) -> Read<usize> {
    let bytes = get::<Option<i32>>(row, "bytes")?;
    Ok(bytes.map_or(EMPTY_RESULT_BYTES, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_read_back_from_their_column() {
        for bounds in [&[(0, 1)][..], &[(5, 512), (1_024, 2_048)], &[(0, 1), (u64::MAX - 1, u64::MAX)]] {
            let parts: Vec<Part> = bounds.iter().map(|&(start, end)| Part { start, end }).collect();
            assert_eq!(read_parts(&parts_text(&parts)), Some(parts));
        }
    }

    #[test]
    fn damaged_parts_are_noticed() {
        for text in ["", "1", "1-", "-1", "2-2", "3-2", "1-2 ", "1-2  3-4", "a-b", "1-2,3-4"] {
            assert_eq!(read_parts(text), None, "{text}");
        }
    }
}

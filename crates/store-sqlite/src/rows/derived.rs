//! Rows of what follows from tasks, and of queues, workers and activity: a few columns, read by name.

use rusqlite::{Result, Row};
use taskqueue_core::activity::Activity;
use taskqueue_core::dependency::DependencyState;
use taskqueue_core::ids::{QueueName, Route, RunId, TaskId};
use taskqueue_core::observation::WorkerStatus;
use taskqueue_core::settings::QueueSettings;
use taskqueue_core::task::Status;
use taskqueue_core::time::Timestamp;
use taskqueue_store::activity::ProcessId;
use taskqueue_store::related::RelatedTask;
use taskqueue_store::transaction::{QueueKey, TaskKey};
use taskqueue_store::transfer::DeletedRun;

use super::packed::{self, Unreadable};
use super::packed_head::PackedHead;
use super::{claim_index_columns as columns, count, parsed, parsed_or_null, time};

/// Returns what is shown of a task beside another one, from `GET_RELATED` and `LIST_RELATED`.
pub(crate) fn related_task(row: &Row<'_>) -> Result<RelatedTask> {
    let name = row.get_ref(2)?.as_str_or_null()?;
    Ok(RelatedTask { id: parsed(row, 0)?, status: parsed(row, 1)?, name: name.map(Into::into) })
}

/// The ids of the active and of the latest finished run, from a row of the claim index.
pub(crate) fn run_ids(row: &Row<'_>) -> Result<[Option<RunId>; 2]> {
    let head = PackedHead::of_row(row, columns::PACKED)?;
    let active = head.run.map(|(id, _)| packed::run_id(id)).transpose()?;
    Ok([active, head.finished_run_id().map(packed::run_id).transpose()?])
}

/// A run id of a deleted task and the time until which it stays used.
pub(crate) fn deleted_run(row: &Row<'_>) -> Result<DeletedRun> {
    Ok((time(row, "kept_until")?, run_id(row)?))
}

/// A deleted queue, and the time until which the run ids of its tasks stay used.
pub(crate) fn purge(row: &Row<'_>) -> Result<(QueueKey, Timestamp)> {
    Ok((QueueKey(row.get("queue_key")?), time(row, "kept_until")?))
}

/// A row with nothing but a status.
pub(crate) fn status(row: &Row<'_>) -> Result<Status> {
    parsed(row, "status")
}

/// The key of a queue, a status, and how many tasks the queue has in it.
pub(crate) fn whole_tally(row: &Row<'_>) -> Result<(QueueKey, Status, u64)> {
    Ok((QueueKey(row.get("queue_key")?), parsed(row, "status")?, count(row, "tasks")?))
}

/// The two counts of `COUNT_DERIVED`: past runs of existing queues, and observations.
pub(crate) fn derived(row: &Row<'_>) -> Result<[u64; 2]> {
    Ok([count(row, "past_runs")?, count(row, "observations")?])
}

/// The number of tasks that have these routes, as JSON, and this status, and that of archived ones among them.
pub(crate) struct TallyRow<'a> {
    pub(crate) routes: &'a str,
    pub(crate) status: Status,
    pub(crate) tasks: u64,
    pub(crate) archived: u64,
}

pub(crate) fn tally<'a>(row: &'a Row<'_>) -> Result<TallyRow<'a>> {
    let (tasks, archived) = (count(row, "tasks")?, count(row, "archived")?);
    Ok(TallyRow { routes: row.get_ref("routes")?.as_str()?, status: parsed(row, "status")?, tasks, archived })
}

/// The settings of a queue.
pub(crate) fn settings(row: &Row<'_>) -> Result<QueueSettings> {
    Ok(QueueSettings::from_json(row.get_ref("settings")?.as_str()?).ok_or(Unreadable)?)
}

/// Returns when a task ended, and its key.
pub(crate) fn ended(row: &Row<'_>) -> Result<(Timestamp, TaskKey)> {
    Ok((time(row, "ended_at")?, row.get("task_key").map(TaskKey)?))
}

/// The first end that is noted of a queue and a state.
pub(crate) fn first_ended(row: &Row<'_>) -> Result<(QueueKey, Status, Timestamp)> {
    Ok((row.get("queue_key").map(QueueKey)?, parsed(row, "status")?, time(row, "ended_at")?))
}

/// Returns what is noted of a dependency.
pub(crate) fn dependency_state(row: &Row<'_>) -> Result<DependencyState> {
    let place = usize::try_from(row.get::<_, i64>("state")?).map_err(|_| Unreadable)?;
    Ok(*DependencyState::ALL.get(place).ok_or(Unreadable)?)
}

/// A task that waits for another one, and what is noted of that for it.
pub(crate) fn dependent(row: &Row<'_>) -> Result<(TaskKey, DependencyState)> {
    Ok((TaskKey(row.get("task_key")?), dependency_state(row)?))
}

/// The id of a dependency.
pub(crate) fn dependency(row: &Row<'_>) -> Result<TaskId> {
    parsed(row, "dependency")
}

/// A queue, a dependency, what is noted of it for a task, and what it is, if it exists.
pub(crate) fn noted_status(row: &Row<'_>) -> Result<(QueueKey, TaskId, DependencyState, Option<Status>)> {
    let status = parsed_or_null(row, "status")?;
    Ok((QueueKey(row.get("queue_key")?), dependency(row)?, dependency_state(row)?, status))
}

/// A queue, a dependency whose dependents are to be looked at again, and behind which of them.
pub(crate) fn unsettled(row: &Row<'_>) -> Result<(QueueKey, TaskId, Option<TaskKey>)> {
    let after = row.get::<_, Option<i64>>("after_key")?.map(TaskKey);
    Ok((QueueKey(row.get("queue_key")?), parsed(row, "dependency")?, after))
}

/// A task as the claim index needs it.
pub(crate) struct ClaimIndexRow<'a> {
    pub(crate) key: TaskKey,
    pub(crate) queue_key: i64,
    pub(crate) status: Status,
    pub(crate) finished_run_id: Option<RunId>,
    pub(crate) head: PackedHead<'a>,
}

pub(crate) fn claim_index<'a>(row: &'a Row<'_>) -> Result<ClaimIndexRow<'a>> {
    use columns::{KEY, PACKED, QUEUE_KEY, STATUS};
    let head = PackedHead::of_row(row, PACKED)?;
    Ok(ClaimIndexRow {
        key: row.get(KEY).map(TaskKey)?,
        queue_key: row.get(QUEUE_KEY)?,
        status: parsed(row, STATUS)?,
        finished_run_id: head.finished_run_id().map(packed::run_id).transpose()?,
        head,
    })
}

/// The time of the last lease scan.
pub(crate) fn scan_time(row: &Row<'_>) -> Result<Timestamp> {
    time(row, "last_at")
}

/// The key and the name of a queue; nothing if it has a name that no queue can have.
pub(crate) fn queue(row: &Row<'_>) -> Result<Option<(QueueKey, QueueName)>> {
    let key = QueueKey(row.get("queue_key")?);
    Ok(QueueName::parse(row.get_ref("name")?.as_str()?).map(|name| (key, name)))
}

pub(crate) fn run_id(row: &Row<'_>) -> Result<RunId> {
    parsed(row, "run_id")
}

const MICROS: i64 = 1_000_000;

/// The beginning of a span, as it is stored.
pub(crate) fn seconds(at: Timestamp) -> i64 {
    at.as_micros().div_euclid(MICROS)
}

/// The first second that is not before a moment.
pub(crate) fn seconds_up(at: Timestamp) -> i64 {
    seconds(at) + i64::from(at.as_micros().rem_euclid(MICROS) > 0)
}

/// Returns what a process has saved of a span that began then.
pub(crate) fn saved_span(row: &Row<'_>) -> Result<(Timestamp, ProcessId, Activity)> {
    let start = Timestamp::from_micros(row.get::<_, i64>("start")?.saturating_mul(MICROS));
    let activity = Activity::from_bytes(row.get_ref("activity")?.as_blob()?).map_err(|_| Unreadable)?;
    Ok((start, ProcessId(row.get("process")?), activity))
}

/// From when on activity is known.
pub(crate) fn since(row: &Row<'_>) -> Result<Timestamp> {
    time(row, "since")
}

/// The route and the status of a worker.
pub(crate) fn worker_state(row: &Row<'_>) -> Result<(Route, WorkerStatus)> {
    Ok((parsed(row, "route")?, parsed(row, "status")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_between_seconds_are_rounded_down_and_up() {
        let cases =
            [(0, 0, 0), (1, 0, 1), (MICROS, 1, 1), (-1, -1, 0), (i64::MAX, 9_223_372_036_854, 9_223_372_036_855)];
        for (micros, down, up) in cases {
            let at = Timestamp::from_micros(micros);
            assert_eq!((seconds(at), seconds_up(at)), (down, up), "{micros}");
        }
    }
}

//! The only module that knows columns: the lists that statements select, how a column is read, and how a row becomes a task, a head,
//! a view or an observation. Rows of what follows from tasks are at the end; what packed columns hold is in `packed*.rs`.

mod packed;
mod packed_head;
mod packed_outcome;
mod row_fields;

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ValueRef};
use rusqlite::{Result, Row, RowIndex};
use taskqueue_core::activity::Activity;
use taskqueue_core::observation::{Report, Telemetry, WorkerStatus};
use taskqueue_core::{
    Definition, DependencyState, Documents, Identity, JsonObject, KeptOutput, Observation, Outcome, QueueName,
    QueueSettings, Route, Routes, RunId, Status, Task, TaskHead, TaskId, Timestamp, WorkerId,
};
use taskqueue_store::activity::ProcessId;
use taskqueue_store::related::RelatedTask;
use taskqueue_store::transfer::DeletedRun;
use taskqueue_store::{QueueKey, TaskKey, columns};

use self::packed::unpack_output;
pub(crate) use self::packed::{PackedDocuments, Unreadable, pack_output};
use self::packed_head::FINISHED_RUN_ID;
pub use self::packed_head::{Extended, PackedHead};
pub(crate) use self::packed_outcome::PackedOutcome;
pub(crate) use self::row_fields::{RowFields, view};

/// The key of a task row.
pub(crate) fn key(row: &Row<'_>) -> Result<TaskKey> {
    row.get(KEY).map(TaskKey)
}

/// The id of a task row.
pub(crate) fn id(row: &Row<'_>) -> Result<TaskId> {
    parsed(row, ID)
}

/// The place of a task row by creation.
pub(crate) fn position(row: &Row<'_>) -> Result<(Timestamp, TaskId)> {
    Ok((time(row, CREATED_AT)?, parsed(row, ID)?))
}

/// A head, from the statements that select narrow rows.
pub(crate) fn head(row: &Row<'_>) -> Result<TaskHead> {
    let packed = PackedHead::of_row(row, PACKED)?;
    Ok(TaskHead {
        id: parsed(row, ID)?,
        priority: packed.priority,
        max_attempts: packed.max_attempts,
        routes: Routes::from_json(packed.routes),
        scheduling: packed.scheduling()?,
        definition_bytes: usize::try_from(packed.definition_bytes).unwrap_or(usize::MAX),
        progress_bytes: usize::try_from(packed.progress_bytes).unwrap_or(usize::MAX),
        lifecycle: packed.lifecycle(parsed(row, STATUS)?, time(row, CREATED_AT)?)?,
    })
}

/// A task, from the statements that select whole tasks.
pub(crate) fn task(row: &Row<'_>, queue: &QueueName) -> Result<Task> {
    let packed = PackedHead::of_row(row, PACKED)?;
    let Documents { args, metadata } = PackedDocuments::unpack(packed::column(row, DOCUMENTS)?)?.documents();
    Ok(Task {
        queue: queue.clone(),
        id: parsed(row, ID)?,
        definition: Definition {
            name: row.get(NAME)?,
            args,
            metadata,
            priority: packed.priority,
            max_attempts: packed.max_attempts,
            routes: Routes::from_json(packed.routes),
            scheduling: packed.scheduling()?,
        },
        lifecycle: packed.lifecycle(parsed(row, STATUS)?, time(row, CREATED_AT)?)?,
        outcome: PackedOutcome::of_row(row, OUTCOME)?.outcome()?,
    })
}

/// A row with nothing but documents.
pub(crate) fn documents(row: &Row<'_>) -> Result<Documents> {
    Ok(PackedDocuments::unpack(packed::column(row, 0)?)?.documents())
}

/// A row with nothing but an outcome.
pub(crate) fn outcome(row: &Row<'_>) -> Result<Outcome> {
    Ok(PackedOutcome::of_row(row, 0)?.outcome()?)
}

/// Returns what is kept of the output of a task, from a column that is null if there is none.
pub(crate) fn kept_output(row: &Row<'_>, column: impl RowIndex) -> Result<Option<KeptOutput>> {
    Ok(row.get_ref(column)?.as_blob_or_null()?.map(unpack_output).transpose()?)
}

/// The id of the active run, from a packed head.
pub(crate) fn active_run(row: &Row<'_>, column: impl RowIndex) -> Result<Option<RunId>> {
    let run = PackedHead::unpack(row.get_ref(column)?.as_blob()?)?.run;
    Ok(run.map(|(run_id, _)| packed::run_id(run_id)).transpose()?)
}

/// The key of the queue of a transferred task.
pub(crate) fn queue_key(row: &Row<'_>) -> Result<QueueKey> {
    row.get(QUEUE_KEY).map(QueueKey)
}

/// The identity of a transferred task.
pub(crate) fn identity(row: &Row<'_>) -> Result<Identity> {
    row.get(IDENTITY)
}

/// The size of a whole task: its JSON and the texts of its error and its last run.
pub(crate) fn bytes(row: &Row<'_>) -> Result<usize> {
    let bytes = |column| Ok(row.get_ref(column)?.as_blob_or_null()?.map_or(0, <[u8]>::len));
    [DOCUMENTS, OUTCOME].into_iter().map(bytes).sum()
}

pub(crate) fn observation(row: &Row<'_>, queue: &QueueName) -> Result<Observation> {
    use observations::{
        EXPIRES_AT, ID, LAST_SEEN_AT, METADATA, ROUTE, STATUS, TASK_ID, TELEMETRY, TELEMETRY_UPDATED_AT,
    };
    let (route, status) = (parsed(row, ROUTE)?, parsed(row, STATUS)?);
    let metadata = JsonObject::from_canonical(row.get_ref(METADATA)?.as_str()?);
    let telemetry = row.get_ref(TELEMETRY)?.as_str_or_null()?.map(JsonObject::from_canonical);
    Ok(Observation {
        id: parsed(row, ID)?,
        queue: queue.clone(),
        report: Report { route, status, task_id: parsed_or_null(row, TASK_ID)?, metadata },
        telemetry: telemetry
            .zip(row.get::<_, Option<i64>>(TELEMETRY_UPDATED_AT)?.map(Timestamp::from_micros))
            .map(|(value, updated_at)| Telemetry { value, updated_at }),
        last_seen_at: time(row, LAST_SEEN_AT)?,
        expires_at: time(row, EXPIRES_AT)?,
    })
}

columns! {
    // The narrow table. What SQL does not need of it is in one column, so that a task of a page costs few steps of SQLite.
    NARROW from 0;
    KEY = "tasks.task_key",
    ID = "tasks.id",
    STATUS = "tasks.status",
    CREATED_AT = "tasks.created_at",
    PACKED = "tasks.packed",
    NAME = "tasks.name",
}

columns! {
    HEAVY from NARROW.len();
    DOCUMENTS = "definitions.documents",
    OUTCOME = "outcomes.outcome",
}

columns! {
    TRANSFERRED from NARROW.len() + HEAVY.len();
    IDENTITY = "definitions.identity",
    QUEUE_KEY = "tasks.queue_key",
}

mod observations {
    taskqueue_store::columns! {
        COLUMNS from 0;
        ID = "observations.id",
        ROUTE = "observations.route",
        STATUS = "observations.status",
        TASK_ID = "observations.task_id",
        LAST_SEEN_AT = "observations.last_seen_at",
        EXPIRES_AT = "observations.expires_at",
        METADATA = "observations.metadata",
        TELEMETRY = "observations.telemetry",
        TELEMETRY_UPDATED_AT = "observations.telemetry_updated_at",
    }
}

mod claim_index_columns {
    taskqueue_store::columns! {
        COLUMNS from 0;
        KEY = "tasks.task_key",
        QUEUE_KEY = "tasks.queue_key",
        STATUS = "tasks.status",
        PACKED = "tasks.packed",
    }
}

/// The text of a statement with the columns that it asks for, for example `{task_columns}`.
pub(crate) fn with_columns(text: &str) -> String {
    // A page does not show keys.
    let mut listed = NARROW.to_vec();
    listed[KEY] = "NULL";
    let lists: [(&str, &[&[&str]]); 7] = [
        ("{head_columns}", &[NARROW]),
        ("{listed_columns}", &[&listed, HEAVY]),
        ("{task_columns}", &[NARROW, HEAVY]),
        ("{transferred_columns}", &[NARROW, HEAVY, TRANSFERRED]),
        ("{claim_index_columns}", &[claim_index_columns::COLUMNS]),
        ("{observation_columns}", &[observations::COLUMNS]),
        ("{finished_run_id}", &[&[FINISHED_RUN_ID]]),
    ];
    lists.iter().fold(text.to_owned(), |text, (name, columns)| text.replace(name, &columns.concat().join(", ")))
}

/// A word of the contract or an identifier in a column.
struct Parsed<T>(T);

macro_rules! parsed {
    ($($type:ty)*) => {
        $(impl FromSql for Parsed<$type> {
            fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
                <$type>::parse(value.as_str()?).map(Self).ok_or(FromSqlError::InvalidType)
            }
        })*
    };
}

parsed! { Status RunId WorkerId Route WorkerStatus }

/// Every row of a page has one.
impl FromSql for Parsed<TaskId> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        match value {
            ValueRef::Text(text) => TaskId::parse_bytes(text).map(Self).ok_or(FromSqlError::InvalidType),
            _ => Err(FromSqlError::InvalidType),
        }
    }
}

/// A column of this type.
fn parsed<T>(row: &Row<'_>, column: impl RowIndex) -> Result<T>
where
    Parsed<T>: FromSql,
{
    row.get::<_, Parsed<T>>(column).map(|parsed| parsed.0)
}

/// A column of this type or null.
fn parsed_or_null<T>(row: &Row<'_>, column: impl RowIndex) -> Result<Option<T>>
where
    Parsed<T>: FromSql,
{
    Ok(row.get::<_, Option<Parsed<T>>>(column)?.map(|parsed| parsed.0))
}

fn time(row: &Row<'_>, column: impl RowIndex) -> Result<Timestamp> {
    row.get(column).map(Timestamp::from_micros)
}

/// A count, which is never negative.
pub(crate) fn count(row: &Row<'_>, column: &str) -> Result<u64> {
    Ok(u64::try_from(row.get::<_, i64>(column)?).unwrap_or(0))
}

// Rows of what follows from tasks, and of queues, workers and activity: a few columns, read by name.

/// Returns what is shown of a task beside another one, from `GET_RELATED` and `LIST_RELATED`.
pub(crate) fn related_task(row: &Row<'_>) -> Result<RelatedTask> {
    let name = row.get_ref(2)?.as_str_or_null()?;
    Ok(RelatedTask { id: parsed(row, 0)?, status: parsed(row, 1)?, name: name.map(Into::into) })
}

/// The ids of the active and of the latest finished run, from a row of the claim index.
pub(crate) fn run_ids(row: &Row<'_>) -> Result<[Option<RunId>; 2]> {
    let head = PackedHead::of_row(row, claim_index_columns::PACKED)?;
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
    use claim_index_columns::{KEY, PACKED, QUEUE_KEY, STATUS};
    let head = PackedHead::of_row(row, PACKED)?;
    let (key, queue_key) = (row.get(KEY).map(TaskKey)?, row.get(QUEUE_KEY)?);
    let finished_run_id = head.finished_run_id().map(packed::run_id).transpose()?;
    Ok(ClaimIndexRow { key, queue_key, status: parsed(row, STATUS)?, finished_run_id, head })
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

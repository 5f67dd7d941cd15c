//! The only module that knows columns: the lists that statements select, and how a row becomes a task, a head or an
//! observation. How a filter reads a row without building a task first is in `row_fields.rs`, what packed columns hold in
//! `packed_*.rs`. Rows with few columns are read by name.

mod activity;
mod packed;
mod packed_documents;
mod packed_head;
mod packed_outcome;
mod packed_output;
mod row_fields;

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ValueRef};
use rusqlite::{Result, Row, RowIndex};
use taskqueue_core::definition::{Definition, Identity, Routes};
use taskqueue_core::dependency::DependencyState;
use taskqueue_core::ids::{QueueName, Route, RunId, TaskId, WorkerId};
use taskqueue_core::json::JsonObject;
use taskqueue_core::observation::{Observation, Report, Telemetry, WorkerStatus};
use taskqueue_core::output::KeptOutput;
use taskqueue_core::settings::QueueSettings;
use taskqueue_core::task::{Outcome, Status, Task, TaskHead};
use taskqueue_core::time::Timestamp;
use taskqueue_core::update::Documents;
use taskqueue_store::columns;
use taskqueue_store::related::RelatedTask;
use taskqueue_store::transaction::{QueueKey, TaskKey};
use taskqueue_store::transfer::DeletedRun;

pub(crate) use self::activity::{saved_span, seconds, seconds_up, since, worker_state};
pub(crate) use self::packed::Unreadable;
pub(crate) use self::packed_documents::PackedDocuments;
pub use self::packed_head::{Extended, PackedHead};
pub(crate) use self::packed_outcome::PackedOutcome;
pub(crate) use self::packed_output::pack_output;
use self::packed_output::unpack_output;
pub(crate) use self::row_fields::{RowFields, view};

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

mod claim_index {
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
        ("{claim_index_columns}", &[claim_index::COLUMNS]),
        ("{observation_columns}", &[observations::COLUMNS]),
        ("{finished_run_id}", &[&[packed_head::FINISHED_RUN_ID]]),
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

fn time_or_null(row: &Row<'_>, column: impl RowIndex) -> Result<Option<Timestamp>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(Timestamp::from_micros))
}

fn packed_head<'a>(row: &'a Row<'_>, column: usize) -> Result<PackedHead<'a>> {
    Ok(PackedHead::unpack(packed::column(row, column)?)?)
}

/// The key of a task row.
pub(crate) fn key(row: &Row<'_>) -> Result<TaskKey> {
    row.get(KEY).map(TaskKey)
}

/// The id of a task row.
pub(crate) fn id(row: &Row<'_>) -> Result<TaskId> {
    parsed(row, ID)
}

/// What is shown of a task beside another one, from `get_related.sql` and `list_related.sql`.
pub(crate) fn related_task(row: &Row<'_>) -> Result<RelatedTask> {
    let name = row.get_ref(2)?.as_str_or_null()?;
    Ok(RelatedTask { id: parsed(row, 0)?, status: parsed(row, 1)?, name: name.map(Into::into) })
}

/// The place of a task row by creation.
pub(crate) fn position(row: &Row<'_>) -> Result<(Timestamp, TaskId)> {
    Ok((time(row, CREATED_AT)?, parsed(row, ID)?))
}

/// A head, from `load_head.sql`.
pub(crate) fn head(row: &Row<'_>) -> Result<TaskHead> {
    let packed = packed_head(row, PACKED)?;
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

/// The outcome in a column, which is null if the task has none.
pub(crate) fn packed_outcome<'a>(row: &'a Row<'_>, column: impl RowIndex) -> Result<PackedOutcome<'a>> {
    match row.get_ref(column)?.as_blob_or_null()? {
        None => Ok(PackedOutcome::NONE),
        Some(bytes) => Ok(PackedOutcome::unpack(bytes)?),
    }
}

/// A task, from the statements that select whole tasks.
pub(crate) fn task(row: &Row<'_>, queue: &QueueName) -> Result<Task> {
    let packed = packed_head(row, PACKED)?;
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
        outcome: packed_outcome(row, OUTCOME)?.outcome()?,
    })
}

/// A row with nothing but documents.
pub(crate) fn documents(row: &Row<'_>) -> Result<Documents> {
    Ok(PackedDocuments::unpack(packed::column(row, 0)?)?.documents())
}

/// A row with nothing but an outcome.
pub(crate) fn outcome(row: &Row<'_>) -> Result<Outcome> {
    Ok(packed_outcome(row, 0)?.outcome()?)
}

/// What is kept of the output of a task, from a column that is null if there is none.
pub(crate) fn kept_output(row: &Row<'_>, column: impl RowIndex) -> Result<Option<KeptOutput>> {
    Ok(row.get_ref(column)?.as_blob_or_null()?.map(unpack_output).transpose()?)
}

/// The id of the active run, from a packed head.
pub(crate) fn active_run(row: &Row<'_>, column: impl RowIndex) -> Result<Option<RunId>> {
    let run = PackedHead::unpack(row.get_ref(column)?.as_blob()?)?.run;
    Ok(run.map(|(run_id, _)| RunId::parse(run_id).ok_or(Unreadable)).transpose()?)
}

/// The ids of the active and of the latest finished run, from a row of the claim index.
pub(crate) fn run_ids(row: &Row<'_>) -> Result<[Option<RunId>; 2]> {
    let packed = packed_head(row, claim_index::PACKED)?;
    let ids = [packed.run.map(|(run_id, _)| run_id), packed.finished_run_id()];
    let mut parsed = [None; 2];
    for (id, parsed) in ids.into_iter().zip(&mut parsed) {
        *parsed = id.map(|id| RunId::parse(id).ok_or(Unreadable)).transpose()?;
    }
    Ok(parsed)
}

/// The key of the queue of a transferred task.
pub(crate) fn queue_key(row: &Row<'_>) -> Result<QueueKey> {
    row.get(QUEUE_KEY).map(QueueKey)
}

/// A run id of a deleted task and the time until which it stays used.
pub(crate) fn deleted_run(row: &Row<'_>) -> Result<DeletedRun> {
    Ok((time(row, "kept_until")?, run_id(row)?))
}

/// A deleted queue, and the time until which the run ids of its tasks stay used.
pub(crate) fn purge(row: &Row<'_>) -> Result<(i64, Timestamp)> {
    Ok((row.get("queue_key")?, time(row, "kept_until")?))
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

pub(crate) fn count(row: &Row<'_>, column: &str) -> Result<u64> {
    Ok(u64::try_from(row.get::<_, i64>(column)?).unwrap_or(0))
}

/// A row with nothing but a status.
pub(crate) fn status(row: &Row<'_>) -> Result<Status> {
    parsed(row, "status")
}

/// The key of a queue, a status, and how many tasks the queue has in it.
pub(crate) fn whole_tally(row: &Row<'_>) -> Result<(QueueKey, Status, u64)> {
    Ok((QueueKey(row.get("queue_key")?), parsed(row, "status")?, count(row, "tasks")?))
}

/// The two counts of `count_derived.sql`: past runs of existing queues, and observations.
pub(crate) fn derived(row: &Row<'_>) -> Result<[u64; 2]> {
    Ok([count(row, "past_runs")?, count(row, "observations")?])
}

pub(crate) fn observation(row: &Row<'_>, queue: &QueueName) -> Result<Observation> {
    use observations::{
        EXPIRES_AT, ID, LAST_SEEN_AT, METADATA, ROUTE, STATUS, TASK_ID, TELEMETRY, TELEMETRY_UPDATED_AT,
    };
    let telemetry = row.get_ref(TELEMETRY)?.as_str_or_null()?.map(JsonObject::from_canonical);
    Ok(Observation {
        id: parsed(row, ID)?,
        queue: queue.clone(),
        report: Report {
            route: parsed(row, ROUTE)?,
            status: parsed(row, STATUS)?,
            task_id: parsed_or_null(row, TASK_ID)?,
            metadata: JsonObject::from_canonical(row.get_ref(METADATA)?.as_str()?),
        },
        telemetry: telemetry
            .zip(time_or_null(row, TELEMETRY_UPDATED_AT)?)
            .map(|(value, updated_at)| Telemetry { value, updated_at }),
        last_seen_at: time(row, LAST_SEEN_AT)?,
        expires_at: time(row, EXPIRES_AT)?,
    })
}

/// The key of the queue, behind the columns of an observation.
pub(crate) fn queue_of_observation(row: &Row<'_>) -> Result<QueueKey> {
    row.get("queue_key").map(QueueKey)
}

/// How many tasks have these routes, as JSON, and this status, and how many of them are archived.
pub(crate) struct TallyRow {
    pub(crate) routes: String,
    pub(crate) status: Status,
    pub(crate) tasks: u64,
    pub(crate) archived: u64,
}

pub(crate) fn tally(row: &Row<'_>) -> Result<TallyRow> {
    Ok(TallyRow {
        routes: row.get("routes")?,
        status: parsed(row, "status")?,
        tasks: count(row, "tasks")?,
        archived: count(row, "archived")?,
    })
}

/// The settings of a queue.
pub(crate) fn settings(row: &Row<'_>) -> Result<QueueSettings> {
    Ok(QueueSettings::from_json(row.get_ref("settings")?.as_str()?).ok_or(Unreadable)?)
}

/// When a task ended, and its key.
pub(crate) fn ended(row: &Row<'_>) -> Result<(Timestamp, TaskKey)> {
    Ok((time(row, "ended_at")?, row.get("task_key").map(TaskKey)?))
}

/// The first end that is noted of a queue and a state.
pub(crate) fn first_ended(row: &Row<'_>) -> Result<(QueueKey, Status, Timestamp)> {
    Ok((row.get("queue_key").map(QueueKey)?, parsed(row, "status")?, time(row, "ended_at")?))
}

/// What is noted of a dependency.
pub(crate) fn dependency_state(row: &Row<'_>) -> Result<DependencyState> {
    let place = usize::try_from(row.get::<_, i64>("state")?).map_err(|_| Unreadable)?;
    Ok(*DependencyState::ALL.get(place).ok_or(Unreadable)?)
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

/// What the claim index needs of a task.
pub(crate) struct ClaimIndexRow<'a> {
    pub(crate) key: TaskKey,
    pub(crate) queue_key: i64,
    pub(crate) status: Status,
    pub(crate) priority: i64,
    pub(crate) pending_seq: i64,
    pub(crate) updated_at: Timestamp,
    pub(crate) archived: bool,
    pub(crate) finished_run_id: Option<RunId>,
    pub(crate) not_before: Option<Timestamp>,
    pub(crate) unmet: u32,
    /// As JSON.
    pub(crate) routes: &'a str,
}

pub(crate) fn claim_index<'a>(row: &'a Row<'_>) -> Result<ClaimIndexRow<'a>> {
    use claim_index::{KEY, PACKED, QUEUE_KEY, STATUS};
    let packed = packed_head(row, PACKED)?;
    Ok(ClaimIndexRow {
        key: row.get(KEY).map(TaskKey)?,
        queue_key: row.get(QUEUE_KEY)?,
        status: parsed(row, STATUS)?,
        priority: packed.priority,
        pending_seq: packed.pending_seq,
        updated_at: packed.updated_at,
        archived: packed.extended.archived,
        finished_run_id: packed.finished_run_id().map(|id| RunId::parse(id).ok_or(Unreadable)).transpose()?,
        not_before: packed.extended.not_before,
        unmet: packed.extended.unmet,
        routes: packed.routes,
    })
}

/// The key and the name of a queue; nothing if it has a name that no queue can have.
pub(crate) fn queue(row: &Row<'_>) -> Result<Option<(QueueKey, QueueName)>> {
    let key = QueueKey(row.get("queue_key")?);
    Ok(QueueName::parse(row.get_ref("name")?.as_str()?).map(|name| (key, name)))
}

pub(crate) fn run_id(row: &Row<'_>) -> Result<RunId> {
    parsed(row, "run_id")
}

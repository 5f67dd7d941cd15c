//! The only module that knows columns: the lists that statements select, how a column is read, and how a row becomes a task, a head
//! or an observation. Rows of what follows from tasks are in `derived.rs`; how a filter reads a row without building a task first is
//! in `row_fields.rs`, what packed columns hold in `packed*.rs`.

mod derived;
mod packed;
mod packed_head;
mod packed_outcome;
mod row_fields;

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ValueRef};
use rusqlite::{Result, Row, RowIndex};
use taskqueue_core::definition::{Definition, Identity, Routes};
use taskqueue_core::ids::{QueueName, Route, RunId, TaskId, WorkerId};
use taskqueue_core::json::JsonObject;
use taskqueue_core::observation::{Observation, Report, Telemetry, WorkerStatus};
use taskqueue_core::output::KeptOutput;
use taskqueue_core::task::{Outcome, Status, Task, TaskHead};
use taskqueue_core::time::Timestamp;
use taskqueue_core::update::Documents;
use taskqueue_store::columns;
use taskqueue_store::transaction::{QueueKey, TaskKey};

pub(crate) use self::derived::*;
use self::packed::unpack_output;
pub(crate) use self::packed::{PackedDocuments, Unreadable, pack_output};
use self::packed_head::FINISHED_RUN_ID;
pub use self::packed_head::{Extended, PackedHead};
pub(crate) use self::packed_outcome::PackedOutcome;
pub(crate) use self::row_fields::{selected, view};

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

fn time_or_null(row: &Row<'_>, column: impl RowIndex) -> Result<Option<Timestamp>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(Timestamp::from_micros))
}

/// A count, which is never negative.
pub(crate) fn count(row: &Row<'_>, column: &str) -> Result<u64> {
    Ok(u64::try_from(row.get::<_, i64>(column)?).unwrap_or(0))
}

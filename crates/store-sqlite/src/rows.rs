//! The only module that knows columns: the lists that statements select, and how a row becomes a task, a head or an
//! observation. How a filter reads a row without building a task first is in `row_fields.rs`. Rows with few columns are read
//! by name.

mod row_fields;

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ValueRef};
use rusqlite::{Result, Row, RowIndex};
use taskqueue_core::definition::{Definition, Identity, Routes};
use taskqueue_core::ids::{QueueName, Route, RunId, TaskId, WorkerId};
use taskqueue_core::json::JsonObject;
use taskqueue_core::observation::{Observation, Report, WorkerStatus};
use taskqueue_core::task::{
    ActiveRun, Failure, FinishedRun, LastError, LastRun, Lifecycle, Outcome, RunEnd, Status, Task, TaskHead,
};
use taskqueue_core::time::Timestamp;
use taskqueue_core::update::Documents;
use taskqueue_store::columns;
use taskqueue_store::transaction::{QueueKey, TaskKey};
use taskqueue_store::transfer::DeletedRun;

pub(crate) use self::row_fields::{RowFields, view};

columns! {
    // What clients see of the narrow table.
    SHOWN from 0;
    KEY = "tasks.task_key",
    ID = "tasks.id",
    STATUS = "tasks.status",
    NAME = "tasks.name",
    PRIORITY = "tasks.priority",
    ATTEMPT = "tasks.attempt",
    MAX_ATTEMPTS = "tasks.max_attempts",
    ROUTES = "tasks.routes",
    LAST_ROUTE = "tasks.last_route",
    CREATED_AT = "tasks.created_at",
    UPDATED_AT = "tasks.updated_at",
    STARTED_AT = "tasks.started_at",
    FINISHED_AT = "tasks.finished_at",
}

columns! {
    // What else is in the narrow table: the pending order, runs and sizes.
    INTERNAL from SHOWN.len();
    PENDING_SEQ = "tasks.pending_seq",
    RUN_ID = "tasks.run_id",
    LEASE_EXPIRES_AT = "tasks.lease_expires_at",
    FINISHED_RUN_ID = "tasks.finished_run_id",
    FINISHED_RUN_END = "tasks.finished_run_end",
    DEFINITION_BYTES = "tasks.definition_bytes",
}

columns! {
    HEAVY from SHOWN.len() + INTERNAL.len();
    ARGS = "definitions.args",
    METADATA = "definitions.metadata",
    RESULT = "outcomes.result",
    ERROR_TYPE = "outcomes.error_type",
    ERROR_MESSAGE = "outcomes.error_message",
    ERROR_TRACEBACK = "outcomes.error_traceback",
    ERROR_OCCURRED_AT = "outcomes.error_occurred_at",
    ERROR_ATTEMPT = "outcomes.error_attempt",
    ERROR_RUN_ID = "outcomes.error_run_id",
    LAST_RUN_ATTEMPT = "outcomes.last_run_attempt",
    LAST_RUN_WORKER = "outcomes.last_run_worker",
}

columns! {
    TRANSFERRED from SHOWN.len() + INTERNAL.len() + HEAVY.len();
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
    }
}

mod claim_index {
    taskqueue_store::columns! {
        COLUMNS from 0;
        KEY = "tasks.task_key",
        QUEUE_KEY = "tasks.queue_key",
        STATUS = "tasks.status",
        PRIORITY = "tasks.priority",
        PENDING_SEQ = "tasks.pending_seq",
        ROUTES = "tasks.routes",
        UPDATED_AT = "tasks.updated_at",
        FINISHED_RUN_ID = "tasks.finished_run_id",
    }
}

/// The text of a statement with the columns that it asks for, for example `{task_columns}`.
pub(crate) fn with_columns(text: &str) -> String {
    let mut listed = ["NULL"; INTERNAL.len()];
    // The last run shows the id of a run that is over.
    listed[FINISHED_RUN_ID - SHOWN.len()] = INTERNAL[FINISHED_RUN_ID - SHOWN.len()];
    let lists: [(&str, &[&[&str]]); 7] = [
        ("{shown_columns}", &[SHOWN]),
        ("{head_columns}", &[SHOWN, INTERNAL]),
        // No list shows anything else that is internal.
        ("{listed_columns}", &[SHOWN, &listed, HEAVY]),
        ("{task_columns}", &[SHOWN, INTERNAL, HEAVY]),
        ("{transferred_columns}", &[SHOWN, INTERNAL, HEAVY, TRANSFERRED]),
        ("{claim_index_columns}", &[claim_index::COLUMNS]),
        ("{observation_columns}", &[observations::COLUMNS]),
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

parsed! { Status RunEnd TaskId RunId WorkerId Route WorkerStatus }

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

fn routes(row: &Row<'_>) -> Result<Routes> {
    Ok(Routes::from_json(row.get_ref(ROUTES)?.as_str()?))
}

/// The key of a task row.
pub(crate) fn key(row: &Row<'_>) -> Result<TaskKey> {
    row.get(KEY).map(TaskKey)
}

/// The id of a task row.
pub(crate) fn id(row: &Row<'_>) -> Result<TaskId> {
    parsed(row, ID)
}

fn lifecycle(row: &Row<'_>) -> Result<Lifecycle> {
    let run = match parsed_or_null(row, RUN_ID)? {
        Some(run_id) => Some(ActiveRun { run_id, lease_expires_at: time(row, LEASE_EXPIRES_AT)? }),
        None => None,
    };
    let finished_run = match parsed_or_null(row, FINISHED_RUN_ID)? {
        Some(run_id) => Some(FinishedRun { run_id, end: parsed(row, FINISHED_RUN_END)? }),
        None => None,
    };
    Ok(Lifecycle {
        status: parsed(row, STATUS)?,
        attempt: row.get(ATTEMPT)?,
        pending_seq: row.get(PENDING_SEQ)?,
        last_route: parsed_or_null(row, LAST_ROUTE)?,
        created_at: time(row, CREATED_AT)?,
        updated_at: time(row, UPDATED_AT)?,
        started_at: time_or_null(row, STARTED_AT)?,
        finished_at: time_or_null(row, FINISHED_AT)?,
        run,
        finished_run,
    })
}

/// A head, from `load_head.sql`.
pub(crate) fn head(row: &Row<'_>) -> Result<TaskHead> {
    let definition_bytes: i64 = row.get(DEFINITION_BYTES)?;
    Ok(TaskHead {
        id: parsed(row, ID)?,
        priority: row.get(PRIORITY)?,
        max_attempts: row.get(MAX_ATTEMPTS)?,
        routes: routes(row)?,
        definition_bytes: usize::try_from(definition_bytes).unwrap_or(usize::MAX),
        lifecycle: lifecycle(row)?,
    })
}

fn outcome(row: &Row<'_>) -> Result<Outcome> {
    let result = match row.get_ref(RESULT)? {
        ValueRef::Null => JsonObject::empty(),
        text => JsonObject::from_canonical(text.as_str()?),
    };
    let last_error = match row.get_ref(ERROR_TYPE)? {
        ValueRef::Null => None,
        kind => Some(LastError {
            failure: Failure {
                kind: kind.as_str()?.into(),
                message: row.get(ERROR_MESSAGE)?,
                traceback: row.get(ERROR_TRACEBACK)?,
            },
            occurred_at: time(row, ERROR_OCCURRED_AT)?,
            attempt: row.get(ERROR_ATTEMPT)?,
            run_id: parsed(row, ERROR_RUN_ID)?,
        }),
    };
    let last_run = match row.get_ref(LAST_RUN_WORKER)? {
        ValueRef::Null => None,
        worker => {
            Some(LastRun { attempt: row.get(LAST_RUN_ATTEMPT)?, worker: JsonObject::from_canonical(worker.as_str()?) })
        }
    };
    Ok(Outcome { result, last_error, last_run })
}

/// A task, from the statements that select whole tasks.
pub(crate) fn task(row: &Row<'_>, queue: &QueueName) -> Result<Task> {
    Ok(Task {
        queue: queue.clone(),
        id: parsed(row, ID)?,
        definition: Definition {
            name: row.get(NAME)?,
            args: JsonObject::from_canonical(row.get_ref(ARGS)?.as_str()?),
            metadata: JsonObject::from_canonical(row.get_ref(METADATA)?.as_str()?),
            priority: row.get(PRIORITY)?,
            max_attempts: row.get(MAX_ATTEMPTS)?,
            routes: routes(row)?,
        },
        lifecycle: lifecycle(row)?,
        outcome: outcome(row)?,
    })
}

pub(crate) fn documents(row: &Row<'_>) -> Result<Documents> {
    let object = |column| Ok::<_, rusqlite::Error>(JsonObject::from_canonical(row.get_ref(column)?.as_str()?));
    Ok(Documents { args: object("args")?, metadata: object("metadata")? })
}

/// The key of the queue of a transferred task.
pub(crate) fn queue_key(row: &Row<'_>) -> Result<QueueKey> {
    row.get(QUEUE_KEY).map(QueueKey)
}

/// A run id of a deleted task and the time until which it stays used.
pub(crate) fn deleted_run(row: &Row<'_>) -> Result<DeletedRun> {
    Ok((time(row, "kept_until")?, run_id(row)?))
}

/// A deleted queue, and the time until which the run ids of its tasks stay used, if its deletion recorded one.
pub(crate) fn purge(row: &Row<'_>) -> Result<(i64, Option<Timestamp>)> {
    Ok((row.get("queue_key")?, time_or_null(row, "kept_until")?))
}

/// The identity of a transferred task.
pub(crate) fn identity(row: &Row<'_>) -> Result<Identity> {
    row.get(IDENTITY)
}

/// The size of a whole task: its JSON and the texts of its error and its last run.
pub(crate) fn bytes(row: &Row<'_>) -> Result<usize> {
    let text = |column| Ok(row.get_ref(column)?.as_str_or_null()?.map_or(0, str::len));
    let heavy = [ARGS, METADATA, RESULT, ERROR_TYPE, ERROR_MESSAGE, ERROR_TRACEBACK, LAST_RUN_WORKER];
    heavy.into_iter().map(text).sum()
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

/// The four counts of `count_derived.sql`.
pub(crate) fn derived(row: &Row<'_>) -> Result<[u64; 4]> {
    Ok([count(row, "running")?, count(row, "pending")?, count(row, "runs")?, count(row, "observations")?])
}

pub(crate) fn observation(row: &Row<'_>, queue: &QueueName) -> Result<Observation> {
    use observations::{EXPIRES_AT, ID, LAST_SEEN_AT, METADATA, ROUTE, STATUS, TASK_ID};
    Ok(Observation {
        id: parsed(row, ID)?,
        queue: queue.clone(),
        report: Report {
            route: parsed(row, ROUTE)?,
            status: parsed(row, STATUS)?,
            task_id: parsed_or_null(row, TASK_ID)?,
            metadata: JsonObject::from_canonical(row.get_ref(METADATA)?.as_str()?),
        },
        last_seen_at: time(row, LAST_SEEN_AT)?,
        expires_at: time(row, EXPIRES_AT)?,
    })
}

/// How many tasks have these routes, as JSON, and this status.
pub(crate) struct TallyRow {
    pub(crate) routes: String,
    pub(crate) status: Status,
    pub(crate) tasks: u64,
}

pub(crate) fn tally(row: &Row<'_>) -> Result<TallyRow> {
    Ok(TallyRow { routes: row.get("routes")?, status: parsed(row, "status")?, tasks: count(row, "tasks")? })
}

/// What the claim index needs of a task. The routes are read with [`claim_index_routes`], only where they are needed.
pub(crate) struct ClaimIndexRow {
    pub(crate) key: TaskKey,
    pub(crate) queue_key: i64,
    pub(crate) status: Status,
    pub(crate) priority: i64,
    pub(crate) pending_seq: i64,
    pub(crate) updated_at: Timestamp,
    pub(crate) finished_run_id: Option<RunId>,
}

pub(crate) fn claim_index(row: &Row<'_>) -> Result<ClaimIndexRow> {
    use claim_index::{FINISHED_RUN_ID, KEY, PENDING_SEQ, PRIORITY, QUEUE_KEY, STATUS, UPDATED_AT};
    Ok(ClaimIndexRow {
        key: row.get(KEY).map(TaskKey)?,
        queue_key: row.get(QUEUE_KEY)?,
        status: parsed(row, STATUS)?,
        priority: row.get(PRIORITY)?,
        pending_seq: row.get(PENDING_SEQ)?,
        updated_at: time(row, UPDATED_AT)?,
        finished_run_id: parsed_or_null(row, FINISHED_RUN_ID)?,
    })
}

/// The routes as JSON.
pub(crate) fn claim_index_routes<'a>(row: &'a Row<'_>) -> Result<&'a str> {
    Ok(row.get_ref(claim_index::ROUTES)?.as_str()?)
}

pub(crate) fn run_id(row: &Row<'_>) -> Result<RunId> {
    parsed(row, "run_id")
}

/// The routes of a task row, for grouping.
pub(crate) fn routes_text<'a>(row: &'a Row<'_>) -> Result<&'a str> {
    Ok(row.get_ref(ROUTES)?.as_str()?)
}

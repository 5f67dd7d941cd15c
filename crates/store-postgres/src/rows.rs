//! The only module that knows columns: the lists that statements select, and how a row becomes a task, a head or an
//! observation. How a filter reads a row without building a task first is in `row_fields.rs`. Rows with few columns are read
//! by name.

mod derived;
mod packed_output;
mod row_fields;

use std::fmt::Display;

use taskqueue_core::definition::{Definition, Identity, Routes};
use taskqueue_core::ids::{QueueName, Route, RunId, TaskId, WorkerId};
use taskqueue_core::json::JsonObject;
use taskqueue_core::observation::{Observation, Report, Telemetry, WorkerStatus};
use taskqueue_core::scheduling::Scheduling;
use taskqueue_core::task::{
    ActiveRun, FinishedRun, LastError, LastRun, Lifecycle, Outcome, Progress, RunEnd, Status, Task, TaskHead,
};
use taskqueue_core::time::Timestamp;
use taskqueue_core::update::Documents;
use taskqueue_store::StoreError;
use taskqueue_store::columns;
use taskqueue_store::related::RelatedTask;
use taskqueue_store::transaction::{QueueKey, RunUse, TaskKey};
use taskqueue_store::transfer::DeletedRun;
use tokio_postgres::Row;
use tokio_postgres::row::RowIndex;
use tokio_postgres::types::FromSql;

use crate::clock::ClockRow;

use self::derived::scheduling;
pub(crate) use self::derived::{
    CountBounds, DependencyRow, EndedRow, OldestRow, RouteSums, SavedSpan, TallyRow, UnsettledRow, counted_status,
    dependency, dependency_status, due_task, due_upkeep, ended, explained_queue, head_beside, kept_micros, known_since,
    locked_status, moved_tasks, named_status, oldest_pending, pending_parts, reading_after, route_facts, route_figures,
    route_name, route_row, running_of_route, running_tasks, saved_span, settings, tally, tally_or_null, unsettled,
    unsettled_dependency, waiting, walked,
};
pub(crate) use self::packed_output::{
    active_run, bytes_of_part, offset_column, output_key, output_key_or_null, output_sizes, parts_text,
    places_of_pieces, result_bytes, stored_output,
};
use self::row_fields::ErrorText;
pub(crate) use self::row_fields::{RowFields, error_text};

columns! {
    HEAD from 0;
    KEY = "tasks.task_key",
    QUEUE_KEY = "tasks.queue_key",
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
    PENDING_SEQ = "tasks.pending_seq",
    RUN_ID = "tasks.run_id",
    LEASE_EXPIRES_AT = "tasks.lease_expires_at",
    FINISHED_RUN_ID = "tasks.finished_run_id",
    FINISHED_RUN_END = "tasks.finished_run_end",
    DEFINITION_BYTES = "tasks.definition_bytes",
    PROGRESS_BYTES = "tasks.progress_bytes",
    NOT_BEFORE = "tasks.not_before",
    UNMET = "tasks.unmet",
    ARCHIVED = "tasks.archived",
    TIMES_OUT_AT = "tasks.times_out_at",
    SCHEDULING = "tasks.scheduling",
}

columns! {
    // Tasks that are picked for a claim may lack all of these.
    HEAVY from HEAD.len();
    ARGS = "definitions.args",
    METADATA = "definitions.metadata",
    RESULT = "outcomes.result",
    ERROR = "outcomes.error",
    ERROR_OCCURRED_AT = "outcomes.error_occurred_at",
    ERROR_ATTEMPT = "outcomes.error_attempt",
    ERROR_RUN_ID = "outcomes.error_run_id",
    LAST_RUN_ATTEMPT = "outcomes.last_run_attempt",
    LAST_RUN_WORKER = "outcomes.last_run_worker",
    PROGRESS = "outcomes.progress",
    PROGRESS_UPDATED_AT = "outcomes.progress_updated_at",
    PROGRESS_ATTEMPT = "outcomes.progress_attempt",
}

columns! {
    HIDDEN from HEAD.len() + HEAVY.len();
    IDENTITY = "definitions.identity",
}

/// The column after the head of a task in `LOAD_IDENTITIES`.
const LONE_IDENTITY: usize = HEAD.len();

/// The column after a whole task in `PICK_TASKS`.
const ROUTE_NUMBER: usize = IDENTITY + 1;

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

/// The text of a statement with the columns that it asks for, for example `{task_columns}`.
pub(crate) fn with_columns(text: &str) -> String {
    // With $2 a filter reads definitions, with $3 outcomes. The rest is null, so that the planner removes the join.
    let if_read = |column: &&str| match column.starts_with("definitions.") {
        true => format!("CASE WHEN $2::boolean THEN {column} END"),
        false => format!("CASE WHEN $3::boolean THEN {column} END"),
    };
    let filtered: Vec<String> =
        HEAD.iter().map(|column| (*column).to_owned()).chain(HEAVY.iter().map(if_read)).collect();
    text.replace("{head_columns}", &HEAD.join(", "))
        .replace("{task_columns}", &[HEAD, HEAVY, HIDDEN].concat().join(", "))
        .replace("{filtered_columns}", &filtered.join(", "))
        .replace("{observation_columns}", &observations::COLUMNS.join(", "))
}

/// A row that this service cannot have written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Damaged {
    /// The name of the column, or its position in the list of its statement.
    pub(crate) column: String,
}

impl Damaged {
    fn at(column: impl Display) -> Self {
        Self { column: column.to_string() }
    }
}

type Read<T> = Result<T, Damaged>;

impl From<Damaged> for StoreError {
    /// No caller can do anything about it, so it is logged here.
    fn from(Damaged { column }: Damaged) -> Self {
        tracing::error!(column, "the database holds a row that cannot be read; restore it from a backup");
        Self::Unavailable
    }
}

/// A position or a name.
trait Column: RowIndex + Display + Copy {}

impl<C: RowIndex + Display + Copy> Column for C {}

fn get<'a, T: FromSql<'a>>(row: &'a Row, column: impl Column) -> Read<T> {
    row.try_get(column).map_err(|_| Damaged::at(column))
}

/// A word of the contract or an identifier in a column, with the function that reads it.
fn parsed<T>(row: &Row, column: impl Column, parse: fn(&str) -> Option<T>) -> Read<T> {
    parse(get(row, column)?).ok_or_else(|| Damaged::at(column))
}

fn parsed_or_null<T>(row: &Row, column: impl Column, parse: fn(&str) -> Option<T>) -> Read<Option<T>> {
    let text: Option<&str> = get(row, column)?;
    text.map(|text| parse(text).ok_or_else(|| Damaged::at(column))).transpose()
}

fn time(row: &Row, column: impl Column) -> Read<Timestamp> {
    get(row, column).map(Timestamp::from_micros)
}

fn time_or_null(row: &Row, column: impl Column) -> Read<Option<Timestamp>> {
    Ok(get::<Option<i64>>(row, column)?.map(Timestamp::from_micros))
}

fn object(row: &Row, column: impl Column) -> Read<JsonObject> {
    get(row, column).map(JsonObject::from_canonical)
}

fn routes(row: &Row) -> Read<Routes> {
    get(row, ROUTES).map(Routes::from_json)
}

/// The key of a task row.
pub(crate) fn key(row: &Row) -> Read<TaskKey> {
    get(row, KEY).map(TaskKey)
}

/// The key of a task row of an outer join, if there is a task.
pub(crate) fn key_or_null(row: &Row) -> Read<Option<TaskKey>> {
    Ok(get::<Option<i64>>(row, KEY)?.map(TaskKey))
}

/// The key of the queue of a task row.
pub(crate) fn queue_key(row: &Row) -> Read<QueueKey> {
    get(row, QUEUE_KEY).map(QueueKey)
}

/// The id of a task row.
pub(crate) fn id(row: &Row) -> Read<TaskId> {
    parsed(row, ID, TaskId::parse)
}

/// How many of its dependencies are unmet.
fn unmet(row: &Row) -> Read<u32> {
    get::<Option<i32>>(row, UNMET)?.map_or(Ok(0), u32::try_from).map_err(|_| Damaged::at(UNMET))
}

/// What is shown of a task beside another one, from `GET_RELATED` and `LIST_RELATED`.
pub(crate) fn related_task(row: &Row) -> Read<RelatedTask> {
    let (id, status) = (parsed(row, 0, TaskId::parse)?, parsed(row, 1, Status::parse)?);
    Ok(RelatedTask { id, status, name: get::<Option<&str>>(row, 2)?.map(Into::into) })
}

fn lifecycle(row: &Row) -> Read<Lifecycle> {
    let run = match parsed_or_null(row, RUN_ID, RunId::parse)? {
        Some(run_id) => Some(ActiveRun {
            run_id,
            lease_expires_at: time(row, LEASE_EXPIRES_AT)?,
            times_out_at: time_or_null(row, TIMES_OUT_AT)?,
        }),
        None => None,
    };
    let finished_run = match parsed_or_null(row, FINISHED_RUN_ID, RunId::parse)? {
        Some(run_id) => Some(FinishedRun { run_id, end: parsed(row, FINISHED_RUN_END, RunEnd::parse)? }),
        None => None,
    };
    Ok(Lifecycle {
        status: parsed(row, STATUS, Status::parse)?,
        attempt: get(row, ATTEMPT)?,
        pending_seq: get(row, PENDING_SEQ)?,
        last_route: parsed_or_null(row, LAST_ROUTE, Route::parse)?,
        created_at: time(row, CREATED_AT)?,
        updated_at: time(row, UPDATED_AT)?,
        started_at: time_or_null(row, STARTED_AT)?,
        finished_at: time_or_null(row, FINISHED_AT)?,
        run,
        finished_run,
        not_before: time_or_null(row, NOT_BEFORE)?,
        unmet: unmet(row)?,
        archived: get::<Option<bool>>(row, ARCHIVED)?.unwrap_or(false),
    })
}

pub(crate) fn head(row: &Row) -> Read<TaskHead> {
    head_with(row, scheduling(row)?)
}

fn head_with(row: &Row, scheduling: Scheduling) -> Read<TaskHead> {
    let definition_bytes: i64 = get(row, DEFINITION_BYTES)?;
    let progress_bytes = get::<Option<i64>>(row, PROGRESS_BYTES)?.unwrap_or(0);
    Ok(TaskHead {
        id: id(row)?,
        priority: get(row, PRIORITY)?,
        max_attempts: get(row, MAX_ATTEMPTS)?,
        routes: routes(row)?,
        scheduling,
        definition_bytes: usize::try_from(definition_bytes).unwrap_or(usize::MAX),
        progress_bytes: usize::try_from(progress_bytes).unwrap_or(0),
        lifecycle: lifecycle(row)?,
    })
}

fn definition(row: &Row) -> Read<Definition> {
    Ok(Definition {
        name: get::<Option<&str>>(row, NAME)?.map(Into::into),
        args: object(row, ARGS)?,
        metadata: object(row, METADATA)?,
        priority: get(row, PRIORITY)?,
        max_attempts: get(row, MAX_ATTEMPTS)?,
        routes: routes(row)?,
        scheduling: scheduling(row)?,
    })
}

pub(crate) fn documents(row: &Row) -> Read<Documents> {
    Ok(Documents { args: object(row, "args")?, metadata: object(row, "metadata")? })
}

fn outcome(row: &Row) -> Read<Outcome> {
    let result = get::<Option<&str>>(row, RESULT)?.map_or_else(JsonObject::empty, JsonObject::from_canonical);
    let last_error = match get::<Option<&str>>(row, ERROR)? {
        None => None,
        Some(text) => Some(LastError {
            failure: ErrorText::read(text).ok_or_else(|| Damaged::at(ERROR))?.into(),
            occurred_at: time(row, ERROR_OCCURRED_AT)?,
            attempt: get(row, ERROR_ATTEMPT)?,
            run_id: parsed_or_null(row, ERROR_RUN_ID, RunId::parse)?,
        }),
    };
    let last_run = match get::<Option<&str>>(row, LAST_RUN_WORKER)? {
        None => None,
        Some(worker) => {
            Some(LastRun { attempt: get(row, LAST_RUN_ATTEMPT)?, worker: JsonObject::from_canonical(worker) })
        }
    };
    let progress = match get::<Option<&str>>(row, PROGRESS)? {
        None => None,
        Some(value) => Some(Progress {
            value: JsonObject::from_canonical(value),
            updated_at: time(row, PROGRESS_UPDATED_AT)?,
            attempt: get(row, PROGRESS_ATTEMPT)?,
        }),
    };
    Ok(Outcome { result, last_error, last_run, progress })
}

/// The heavy part of a whole task.
pub(crate) fn body(row: &Row) -> Read<(Definition, Outcome)> {
    Ok((definition(row)?, outcome(row)?))
}

pub(crate) fn task(row: &Row, queue: &QueueName) -> Read<Task> {
    let (definition, outcome) = body(row)?;
    Ok(Task { queue: queue.clone(), id: id(row)?, definition, lifecycle: lifecycle(row)?, outcome })
}

/// The identity that a whole task was created with.
pub(crate) fn identity(row: &Row) -> Read<Identity> {
    Identity::try_from(get::<&[u8]>(row, IDENTITY)?).map_err(|_| Damaged::at(IDENTITY))
}

/// The identity that a task was created with, of a row without its JSON.
pub(crate) fn lone_identity(row: &Row) -> Read<Identity> {
    Identity::try_from(get::<&[u8]>(row, LONE_IDENTITY)?).map_err(|_| Damaged::at(LONE_IDENTITY))
}

/// All run ids of a transferred task.
pub(crate) fn runs(row: &Row) -> Read<Vec<RunId>> {
    let texts: Vec<&str> = get(row, "runs")?;
    texts.into_iter().map(|text| RunId::parse(text).ok_or_else(|| Damaged::at("runs"))).collect()
}

/// The key of a queue, a status, and how many tasks the queue has in it.
pub(crate) fn whole_tally(row: &Row) -> Read<(QueueKey, Status, u64)> {
    Ok((found_queue(row)?, parsed(row, "status", Status::parse)?, count(row, "tasks")?))
}

/// A status, and how many tasks have it.
pub(crate) fn status_count(row: &Row) -> Read<(Status, u64)> {
    Ok((parsed(row, "status", Status::parse)?, count(row, "tasks")?))
}

/// A queue and its name.
pub(crate) fn named_queue(row: &Row) -> Read<(QueueKey, QueueName)> {
    Ok((found_queue(row)?, queue_name(row)?))
}

pub(crate) fn clock(row: &Row) -> Read<ClockRow> {
    Ok(ClockRow {
        micros: get(row, "micros")?,
        offset_micros: get(row, "offset_micros")?,
        last_scan_at: time_or_null(row, "last_scan_at")?,
        ahead_since: time_or_null(row, "ahead_since")?,
    })
}

/// What a statement of a check found different, with the key of the row.
pub(crate) fn difference(row: &Row) -> Read<String> {
    Ok(format!("{} (row {})", get::<&str>(row, "what")?, get::<i64>(row, "task_key")?))
}

/// A count that is not the number of tasks.
pub(crate) fn wrong_count(row: &Row) -> Read<String> {
    let text = |column| get::<&str>(row, column);
    let (queue, status, routes) = (text("name")?, text("status")?, text("routes")?);
    let (kept, found): (i64, i64) = (get(row, "kept")?, get(row, "found")?);
    Ok(format!("queue {queue} counts {kept} {status} tasks with routes {routes} and has {found}"))
}

/// The first of a block of numbers.
pub(crate) fn numbers(row: &Row) -> Read<i64> {
    get(row, "first_number")
}

/// The only column of a statement that answers yes or no.
pub(crate) fn boolean_column(row: &Row) -> Read<bool> {
    get(row, 0)
}

/// What a whole task counts against the byte limit of `LIST_TASKS`.
pub(crate) fn bytes(row: &Row) -> Read<usize> {
    let text = |column: usize| Ok(get::<Option<&str>>(row, column)?.map_or(0, str::len));
    let definition: i64 = get(row, DEFINITION_BYTES)?;
    let outcome = text(RESULT)? + text(ERROR)? + text(LAST_RUN_WORKER)? + text(PROGRESS)?;
    Ok(usize::try_from(definition).unwrap_or(0) + outcome)
}

pub(crate) fn observation(row: &Row, queue: &QueueName) -> Read<Observation> {
    use observations::{
        EXPIRES_AT, ID, LAST_SEEN_AT, METADATA, ROUTE, STATUS, TASK_ID, TELEMETRY, TELEMETRY_UPDATED_AT,
    };
    let telemetry = match get::<Option<&str>>(row, TELEMETRY)? {
        None => None,
        Some(value) => {
            let updated_at = time(row, TELEMETRY_UPDATED_AT)?;
            Some(Telemetry { value: JsonObject::from_canonical(value), updated_at })
        }
    };
    Ok(Observation {
        id: parsed(row, ID, WorkerId::parse)?,
        queue: queue.clone(),
        report: Report {
            route: parsed(row, ROUTE, Route::parse)?,
            status: parsed(row, STATUS, WorkerStatus::parse)?,
            task_id: parsed_or_null(row, TASK_ID, TaskId::parse)?,
            metadata: object(row, METADATA)?,
        },
        telemetry,
        last_seen_at: time(row, LAST_SEEN_AT)?,
        expires_at: time(row, EXPIRES_AT)?,
    })
}

/// A queue key in a row that is no task.
pub(crate) fn found_queue(row: &Row) -> Read<QueueKey> {
    get(row, "queue_key").map(QueueKey)
}

/// The time of the service.
pub(crate) fn found_time(row: &Row) -> Read<Timestamp> {
    time(row, "now")
}

pub(crate) fn queue_name(row: &Row) -> Read<QueueName> {
    parsed(row, "name", QueueName::parse)
}

/// A count. A sum over shards is never below zero.
pub(crate) fn count(row: &Row, column: &str) -> Read<u64> {
    u64::try_from(get::<i64>(row, column)?).map_err(|_| Damaged::at(column))
}

/// The version of the row of a task: the last 32 bits of the number of the transaction that wrote it.
pub(crate) fn version(row: &Row) -> Read<u32> {
    u32::try_from(get::<i64>(row, "version")?).map_err(|_| Damaged::at("version"))
}

/// The number of the route that a task was picked for, from 1 on.
pub(crate) fn route_number(row: &Row) -> Read<usize> {
    usize::try_from(get::<i64>(row, ROUTE_NUMBER)?).map_err(|_| Damaged::at(ROUTE_NUMBER))
}

/// The id of a task that was found.
pub(crate) fn found_id(row: &Row) -> Read<TaskId> {
    parsed(row, "id", TaskId::parse)
}

/// Whether a picked task came with its heavy part.
pub(crate) fn is_whole(row: &Row) -> Read<bool> {
    Ok(get::<Option<&str>>(row, ARGS)?.is_some())
}

/// A run id and what it is used for.
pub(crate) fn run(row: &Row) -> Read<(RunId, RunUse)> {
    let run_id = parsed(row, "run_id", RunId::parse)?;
    let usage = match get(row, "is_active")? {
        true => RunUse::Active(found_queue(row)?, TaskKey(get(row, "task_key")?)),
        false => RunUse::Past,
    };
    Ok((run_id, usage))
}

/// A run id of a deleted task and the time until which it stays used.
pub(crate) fn deleted_run(row: &Row) -> Read<DeletedRun> {
    Ok((time(row, "kept_until")?, parsed(row, "run_id", RunId::parse)?))
}

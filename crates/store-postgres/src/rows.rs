//! The only module that knows columns: the lists that statements select, and how a row becomes a task, a head or an
//! observation. How a filter reads a row without building a task first is in `row_fields.rs`. The columns that a statement makes
//! for itself are read by name, most of them where it is asked.

mod derived;
mod row_fields;

use std::fmt::Display;
use std::sync::Arc;

use taskqueue_core::activity::Activity;
use taskqueue_core::observation::{Report, Telemetry, WorkerStatus};
use taskqueue_core::task::{ActiveRun, FinishedRun, LastError, LastRun, Progress};
use taskqueue_core::{
    Definition, DependencyState, Documents, Identity, JsonObject, Lifecycle, Observation, Outcome, QueueName,
    QueueSettings, Route, Routes, RunEnd, RunId, Scheduling, Status, Task, TaskHead, TaskId, Timestamp, WorkerId,
};
use taskqueue_store::activity::ProcessId;
use taskqueue_store::related::RelatedTask;
use taskqueue_store::{QueueKey, RunUse, StoreError, TaskKey, columns};
use tokio_postgres::Row;
use tokio_postgres::row::RowIndex;
use tokio_postgres::types::FromSql;

pub(crate) use self::derived::*;
use self::row_fields::ErrorText;
pub(crate) use self::row_fields::{RowFields, error_text};
use crate::clock::ClockRow;

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
pub(crate) const LONE_IDENTITY: usize = HEAD.len();

/// The column after a whole task in `PICK_TASKS`.
pub(crate) const ROUTE_NUMBER: usize = IDENTITY + 1;

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

/// A value of a column: of the driver's types as it is, of ours read from what is stored.
pub(crate) trait Value<'a>: Sized {
    type Stored: FromSql<'a>;

    /// Returns nothing if this service cannot have written it.
    fn read(stored: Self::Stored) -> Option<Self>;
}

impl<'a, T: Value<'a>> Value<'a> for Option<T> {
    type Stored = Option<T::Stored>;

    fn read(stored: Self::Stored) -> Option<Self> {
        stored.map_or(Some(None), |stored| T::read(stored).map(Some))
    }
}

macro_rules! values {
    ($($value:ty: $stored:ty = $read:expr;)*) => {$(
        impl<'a> Value<'a> for $value {
            type Stored = $stored;

            fn read(stored: $stored) -> Option<Self> {
                let read: fn($stored) -> Option<Self> = $read;
                read(stored)
            }
        }
    )*};
}

values! {
    bool: bool = Some;
    i16: i16 = Some;
    i32: i32 = Some;
    i64: i64 = Some;
    &'a str: &'a str = Some;
    &'a [u8]: &'a [u8] = Some;
    String: String = Some;
    Vec<i64>: Vec<i64> = Some;
    Vec<&'a str>: Vec<&'a str> = Some;
    u32: i32 = |number| number.try_into().ok();
    u64: i64 = |number| number.try_into().ok();
    usize: i64 = |number| number.try_into().ok();
    Timestamp: i64 = |micros| Some(Timestamp::from_micros(micros));
    QueueKey: i64 = |key| Some(QueueKey(key));
    TaskKey: i64 = |key| Some(TaskKey(key));
    ProcessId: i64 = |id| Some(ProcessId(id));
    Identity: &'a [u8] = |bytes| bytes.try_into().ok();
    Activity: &'a [u8] = |bytes| Activity::from_bytes(bytes).ok();
    DependencyState: i16 = |place| DependencyState::ALL.get(usize::try_from(place).ok()?).copied();
    QueueName: &'a str = QueueName::parse;
    Route: &'a str = Route::parse;
    RunEnd: &'a str = RunEnd::parse;
    RunId: &'a str = RunId::parse;
    Status: &'a str = Status::parse;
    TaskId: &'a str = TaskId::parse;
    WorkerId: &'a str = WorkerId::parse;
    WorkerStatus: &'a str = WorkerStatus::parse;
    Arc<str>: &'a str = |text| Some(text.into());
    Arc<QueueSettings>: &'a str = |text| QueueSettings::from_json(text).map(Arc::new);
    JsonObject: &'a str = |text| Some(JsonObject::from_canonical(text));
    Routes: &'a str = |text| Some(Routes::from_json(text));
    Scheduling: &'a str = Scheduling::from_json;
}

/// Returns the value of a column, which is named or given by its position.
pub(crate) fn get<'a, T: Value<'a>>(row: &'a Row, column: impl RowIndex + Display + Copy) -> Read<T> {
    let stored = row.try_get(column).map_err(|_| Damaged::at(column))?;
    T::read(stored).ok_or_else(|| Damaged::at(column))
}

/// Returns what `read` makes of a column, unless that is null.
fn unless_null<'a, T: Value<'a>, R>(row: &'a Row, column: usize, read: impl FnOnce(T) -> Read<R>) -> Read<Option<R>> {
    get::<Option<T>>(row, column)?.map(read).transpose()
}

/// The key of a task row.
pub(crate) fn key(row: &Row) -> Read<TaskKey> {
    get(row, KEY)
}

/// The key of a task row of an outer join, if there is a task.
pub(crate) fn key_or_null(row: &Row) -> Read<Option<TaskKey>> {
    get(row, KEY)
}

/// The key of the queue of a task row.
pub(crate) fn queue_key(row: &Row) -> Read<QueueKey> {
    get(row, QUEUE_KEY)
}

/// The id of a task row.
pub(crate) fn id(row: &Row) -> Read<TaskId> {
    get(row, ID)
}

/// How many of its dependencies are unmet.
fn unmet(row: &Row) -> Read<u32> {
    Ok(get::<Option<u32>>(row, UNMET)?.unwrap_or(0))
}

/// What is shown of a task beside another one, from `GET_RELATED` and `LIST_RELATED`.
pub(crate) fn related_task(row: &Row) -> Read<RelatedTask> {
    Ok(RelatedTask { id: get(row, 0)?, status: get(row, 1)?, name: get(row, 2)? })
}

fn lifecycle(row: &Row) -> Read<Lifecycle> {
    let run = unless_null(row, RUN_ID, |run_id| {
        let (lease_expires_at, times_out_at) = (get(row, LEASE_EXPIRES_AT)?, get(row, TIMES_OUT_AT)?);
        Ok(ActiveRun { run_id, lease_expires_at, times_out_at })
    })?;
    let finished = |run_id| Ok(FinishedRun { run_id, end: get(row, FINISHED_RUN_END)? });
    let finished_run = unless_null(row, FINISHED_RUN_ID, finished)?;
    Ok(Lifecycle {
        status: get(row, STATUS)?,
        attempt: get(row, ATTEMPT)?,
        pending_seq: get(row, PENDING_SEQ)?,
        last_route: get(row, LAST_ROUTE)?,
        created_at: get(row, CREATED_AT)?,
        updated_at: get(row, UPDATED_AT)?,
        started_at: get(row, STARTED_AT)?,
        finished_at: get(row, FINISHED_AT)?,
        run,
        finished_run,
        not_before: get(row, NOT_BEFORE)?,
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
        routes: get(row, ROUTES)?,
        scheduling,
        definition_bytes: usize::try_from(definition_bytes).unwrap_or(usize::MAX),
        progress_bytes: usize::try_from(progress_bytes).unwrap_or(0),
        lifecycle: lifecycle(row)?,
    })
}

fn scheduling(row: &Row) -> Read<Scheduling> {
    Ok(get::<Option<_>>(row, SCHEDULING)?.unwrap_or_default())
}

fn definition(row: &Row) -> Read<Definition> {
    Ok(Definition {
        name: get(row, NAME)?,
        args: get(row, ARGS)?,
        metadata: get(row, METADATA)?,
        priority: get(row, PRIORITY)?,
        max_attempts: get(row, MAX_ATTEMPTS)?,
        routes: get(row, ROUTES)?,
        scheduling: scheduling(row)?,
    })
}

pub(crate) fn documents(row: &Row) -> Read<Documents> {
    Ok(Documents { args: get(row, "args")?, metadata: get(row, "metadata")? })
}

fn outcome(row: &Row) -> Read<Outcome> {
    let result = get::<Option<JsonObject>>(row, RESULT)?.unwrap_or_else(JsonObject::empty);
    let last_error = unless_null(row, ERROR, |text| {
        Ok(LastError {
            failure: ErrorText::read(text).ok_or_else(|| Damaged::at(ERROR))?.into(),
            occurred_at: get(row, ERROR_OCCURRED_AT)?,
            attempt: get(row, ERROR_ATTEMPT)?,
            run_id: get(row, ERROR_RUN_ID)?,
        })
    })?;
    let last_run = |worker| Ok(LastRun { attempt: get(row, LAST_RUN_ATTEMPT)?, worker });
    let last_run = unless_null(row, LAST_RUN_WORKER, last_run)?;
    let progress = unless_null(row, PROGRESS, |value| {
        let (updated_at, attempt) = (get(row, PROGRESS_UPDATED_AT)?, get(row, PROGRESS_ATTEMPT)?);
        Ok(Progress { value, updated_at, attempt })
    })?;
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
    get(row, IDENTITY)
}

/// All run ids of a transferred task.
pub(crate) fn runs(row: &Row) -> Read<Vec<RunId>> {
    let texts: Vec<&str> = get(row, "runs")?;
    texts.into_iter().map(|text| RunId::parse(text).ok_or_else(|| Damaged::at("runs"))).collect()
}

/// The key of a queue, a status, and how many tasks the queue has in it.
pub(crate) fn whole_tally(row: &Row) -> Read<(QueueKey, Status, u64)> {
    Ok((found_queue(row)?, get(row, "status")?, get(row, "tasks")?))
}

/// A queue and its name.
pub(crate) fn named_queue(row: &Row) -> Read<(QueueKey, QueueName)> {
    Ok((found_queue(row)?, get(row, "name")?))
}

pub(crate) fn clock(row: &Row) -> Read<ClockRow> {
    let (last_scan_at, ahead_since) = (get(row, "last_scan_at")?, get(row, "ahead_since")?);
    Ok(ClockRow { micros: get(row, "micros")?, offset_micros: get(row, "offset_micros")?, last_scan_at, ahead_since })
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
    let measured = |value| Ok(Telemetry { value, updated_at: get(row, TELEMETRY_UPDATED_AT)? });
    let telemetry = unless_null(row, TELEMETRY, measured)?;
    let (route, status) = (get(row, ROUTE)?, get(row, STATUS)?);
    Ok(Observation {
        id: get(row, ID)?,
        queue: queue.clone(),
        report: Report { route, status, task_id: get(row, TASK_ID)?, metadata: get(row, METADATA)? },
        telemetry,
        last_seen_at: get(row, LAST_SEEN_AT)?,
        expires_at: get(row, EXPIRES_AT)?,
    })
}

/// A queue key in a row that is no task.
pub(crate) fn found_queue(row: &Row) -> Read<QueueKey> {
    get(row, "queue_key")
}

/// The version of the row of a task: the last 32 bits of the number of the transaction that wrote it.
pub(crate) fn version(row: &Row) -> Read<u32> {
    u32::try_from(get::<i64>(row, "version")?).map_err(|_| Damaged::at("version"))
}

/// Whether a picked task came with its heavy part.
pub(crate) fn is_whole(row: &Row) -> Read<bool> {
    Ok(get::<Option<&str>>(row, ARGS)?.is_some())
}

/// A run id and what it is used for.
pub(crate) fn run(row: &Row) -> Read<(RunId, RunUse)> {
    let usage = match get(row, "is_active")? {
        true => RunUse::Active(found_queue(row)?, get(row, "task_key")?),
        false => RunUse::Past,
    };
    Ok((get(row, "run_id")?, usage))
}

//! The only file that knows columns: how a row becomes a task, a head or an observation, and how a filter reads a row
//! without building a task first. Column numbers follow the SELECT lists in `sql/`.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ValueRef};
use rusqlite::{Result, Row};
use taskqueue_core::definition::{Definition, Identity, Routes, routes_of};
use taskqueue_core::filter::{LastErrorFields, TaskFields};
use taskqueue_core::ids::{QueueName, Route, RunId, TaskId, WorkerId};
use taskqueue_core::json::JsonObject;
use taskqueue_core::observation::{Observation, Report, WorkerStatus};
use taskqueue_core::task::{
    ActiveRun, Failure, FinishedRun, LastError, Lifecycle, Outcome, RunEnd, Status, Task, TaskHead,
};
use taskqueue_core::time::Timestamp;
use taskqueue_core::view::TaskView;
use taskqueue_store::transaction::{QueueKey, TaskKey};
use taskqueue_store::transfer::DeletedRun;

const KEY: usize = 0;
const ID: usize = 1;
const STATUS: usize = 2;
const NAME: usize = 3;
const PRIORITY: usize = 4;
const ATTEMPT: usize = 5;
const MAX_ATTEMPTS: usize = 6;
const ROUTES: usize = 7;
const LAST_ROUTE: usize = 8;
const CREATED_AT: usize = 9;
const UPDATED_AT: usize = 10;
const STARTED_AT: usize = 11;
const FINISHED_AT: usize = 12;
const PENDING_SEQ: usize = 13;
const RUN_ID: usize = 14;
const LEASE_EXPIRES_AT: usize = 15;
const FINISHED_RUN_ID: usize = 16;
const FINISHED_RUN_END: usize = 17;
const DEFINITION_BYTES: usize = 18;
const ARGS: usize = 19;
const METADATA: usize = 20;
const RESULT: usize = 21;
const ERROR_TYPE: usize = 22;
const ERROR_MESSAGE: usize = 23;
const ERROR_TRACEBACK: usize = 24;
const ERROR_OCCURRED_AT: usize = 25;
const ERROR_ATTEMPT: usize = 26;
const ERROR_RUN_ID: usize = 27;
/// From here on only in `transfer_tasks.sql`.
const IDENTITY: usize = 28;
const QUEUE_KEY: usize = 29;

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
fn parsed<T>(row: &Row<'_>, column: usize) -> Result<T>
where
    Parsed<T>: FromSql,
{
    row.get::<_, Parsed<T>>(column).map(|parsed| parsed.0)
}

/// A column of this type or null.
fn parsed_or_null<T>(row: &Row<'_>, column: usize) -> Result<Option<T>>
where
    Parsed<T>: FromSql,
{
    Ok(row.get::<_, Option<Parsed<T>>>(column)?.map(|parsed| parsed.0))
}

fn time(row: &Row<'_>, column: usize) -> Result<Timestamp> {
    row.get(column).map(Timestamp::from_micros)
}

fn time_or_null(row: &Row<'_>, column: usize) -> Result<Option<Timestamp>> {
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
    Ok(Outcome { result, last_error })
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

/// A task as the API shows it, straight from the row. Each column is read once, and a damaged one is an error.
pub(crate) fn view<'a>(row: &'a Row<'_>, queue: &'a QueueName) -> Result<TaskView<'a>> {
    let text = |column| Ok::<_, rusqlite::Error>(row.get_ref(column)?.as_str()?);
    let text_or_null = |column| Ok::<_, rusqlite::Error>(row.get_ref(column)?.as_str_or_null()?);
    let last_error = match text_or_null(ERROR_TYPE)? {
        None => None,
        Some(kind) => Some(LastErrorFields {
            kind,
            message: text(ERROR_MESSAGE)?,
            traceback: text_or_null(ERROR_TRACEBACK)?,
            occurred_at: time(row, ERROR_OCCURRED_AT)?,
            attempt: row.get(ERROR_ATTEMPT)?,
            run_id: text(ERROR_RUN_ID)?,
        }),
    };
    Ok(TaskView {
        id: parsed(row, ID)?,
        queue: queue.as_str(),
        status: parsed(row, STATUS)?,
        name: text_or_null(NAME)?,
        args: text(ARGS)?,
        metadata: text(METADATA)?,
        priority: row.get(PRIORITY)?,
        attempt: row.get(ATTEMPT)?,
        max_attempts: row.get(MAX_ATTEMPTS)?,
        routes: text(ROUTES)?,
        result: text_or_null(RESULT)?.unwrap_or("{}"),
        last_error,
        last_route: text_or_null(LAST_ROUTE)?,
        created_at: time(row, CREATED_AT)?,
        updated_at: time(row, UPDATED_AT)?,
        started_at: time_or_null(row, STARTED_AT)?,
        finished_at: time_or_null(row, FINISHED_AT)?,
    })
}

/// The key of the queue of a task, from `transfer_tasks.sql`.
pub(crate) fn queue_key(row: &Row<'_>) -> Result<QueueKey> {
    row.get(QUEUE_KEY).map(QueueKey)
}

/// A run id of a deleted task and until when it is kept.
pub(crate) fn deleted_run(row: &Row<'_>) -> Result<DeletedRun> {
    Ok((time(row, 1)?, run_id(row)?))
}

/// A deleted queue and until when the run ids of its tasks are kept, if that was noted.
pub(crate) fn purge(row: &Row<'_>) -> Result<(i64, Option<Timestamp>)> {
    Ok((row.get(0)?, time_or_null(row, 1)?))
}

/// The identity of a task, from `transfer_tasks.sql`.
pub(crate) fn identity(row: &Row<'_>) -> Result<Identity> {
    row.get(IDENTITY)
}

/// What a whole task weighs: its JSON and the texts of its error.
pub(crate) fn bytes(row: &Row<'_>) -> Result<usize> {
    let text = |column| Ok(row.get_ref(column)?.as_str_or_null()?.map_or(0, str::len));
    let heavy = [ARGS, METADATA, RESULT, ERROR_TYPE, ERROR_MESSAGE, ERROR_TRACEBACK];
    heavy.into_iter().map(text).sum()
}

/// A line of `list_whole_tally.sql`: the key of a queue, a status, and how many tasks.
pub(crate) fn whole_tally(row: &Row<'_>) -> Result<(QueueKey, Status, u64)> {
    let tasks: i64 = row.get(2)?;
    Ok((QueueKey(row.get(0)?), parsed(row, 1)?, u64::try_from(tasks).unwrap_or(0)))
}

/// The four counts of `count_derived.sql`.
pub(crate) fn derived(row: &Row<'_>) -> Result<[u64; 4]> {
    let count = |column| row.get::<_, i64>(column).map(|count| u64::try_from(count).unwrap_or(0));
    Ok([count(0)?, count(1)?, count(2)?, count(3)?])
}

/// An observation, from the statements that select observations.
pub(crate) fn observation(row: &Row<'_>, queue: &QueueName) -> Result<Observation> {
    Ok(Observation {
        id: parsed(row, 0)?,
        queue: queue.clone(),
        report: Report {
            route: parsed(row, 1)?,
            status: parsed(row, 2)?,
            task_id: parsed_or_null(row, 3)?,
            metadata: JsonObject::from_canonical(row.get_ref(6)?.as_str()?),
        },
        last_seen_at: time(row, 4)?,
        expires_at: time(row, 5)?,
    })
}

/// A line of the tally.
pub(crate) struct TallyRow {
    /// The routes as JSON.
    pub(crate) routes: String,
    /// The status.
    pub(crate) status: Status,
    /// How many tasks.
    pub(crate) tasks: u64,
}

/// A line of the tally, from `list_tally.sql`.
pub(crate) fn tally(row: &Row<'_>) -> Result<TallyRow> {
    let tasks: i64 = row.get(2)?;
    Ok(TallyRow { routes: row.get(0)?, status: parsed(row, 1)?, tasks: u64::try_from(tasks).unwrap_or(0) })
}

/// A line of `load_claim_index.sql`.
pub(crate) struct ClaimIndexRow {
    pub(crate) key: TaskKey,
    pub(crate) queue_key: i64,
    pub(crate) status: Status,
    pub(crate) priority: i64,
    pub(crate) pending_seq: i64,
    pub(crate) updated_at: Timestamp,
    pub(crate) finished_run_id: Option<RunId>,
}

/// A line of `load_claim_index.sql`; its routes are read with [`claim_index_routes`], only where they are needed.
pub(crate) fn claim_index(row: &Row<'_>) -> Result<ClaimIndexRow> {
    Ok(ClaimIndexRow {
        key: key(row)?,
        queue_key: row.get(1)?,
        status: parsed(row, 2)?,
        priority: row.get(3)?,
        pending_seq: row.get(4)?,
        updated_at: time(row, 6)?,
        finished_run_id: parsed_or_null(row, 7)?,
    })
}

/// The routes of a line of `load_claim_index.sql`, as JSON.
pub(crate) fn claim_index_routes<'a>(row: &'a Row<'_>) -> Result<&'a str> {
    Ok(row.get_ref(5)?.as_str()?)
}

/// A run id in the first column.
pub(crate) fn run_id(row: &Row<'_>) -> Result<RunId> {
    parsed(row, 0)
}

/// A task row as a filter sees it: columns are read when asked for. Values of the wrong type cannot occur in a STRICT
/// table; should a file be damaged all the same, they read as empty and the row does not match.
pub(crate) struct RowFields<'a, 'stmt>(pub(crate) &'a Row<'stmt>);

impl RowFields<'_, '_> {
    fn text(&self, column: usize) -> Option<&str> {
        self.0.get_ref(column).ok()?.as_str_or_null().ok()?
    }

    fn int(&self, column: usize) -> Option<i64> {
        self.0.get_ref(column).ok()?.as_i64_or_null().ok()?
    }

    fn time(&self, column: usize) -> Option<Timestamp> {
        self.int(column).map(Timestamp::from_micros)
    }
}

impl TaskFields for RowFields<'_, '_> {
    fn id(&self) -> &str {
        self.text(ID).unwrap_or_default()
    }
    fn status(&self) -> Status {
        self.text(STATUS).and_then(Status::parse).unwrap_or(Status::Cancelled)
    }
    fn name(&self) -> Option<&str> {
        self.text(NAME)
    }
    fn last_route(&self) -> Option<&str> {
        self.text(LAST_ROUTE)
    }
    fn priority(&self) -> i64 {
        self.int(PRIORITY).unwrap_or_default()
    }
    fn attempt(&self) -> i64 {
        self.int(ATTEMPT).unwrap_or_default()
    }
    fn max_attempts(&self) -> i64 {
        self.int(MAX_ATTEMPTS).unwrap_or_default()
    }
    fn created_at(&self) -> Timestamp {
        self.time(CREATED_AT).unwrap_or_default()
    }
    fn updated_at(&self) -> Timestamp {
        self.time(UPDATED_AT).unwrap_or_default()
    }
    fn started_at(&self) -> Option<Timestamp> {
        self.time(STARTED_AT)
    }
    fn finished_at(&self) -> Option<Timestamp> {
        self.time(FINISHED_AT)
    }
    fn routes(&self) -> impl Iterator<Item = &str> {
        self.text(ROUTES).into_iter().flat_map(routes_of)
    }
    fn args(&self) -> &str {
        self.text(ARGS).unwrap_or("{}")
    }
    fn metadata(&self) -> &str {
        self.text(METADATA).unwrap_or("{}")
    }
    fn result(&self) -> &str {
        self.text(RESULT).unwrap_or("{}")
    }
    fn last_error(&self) -> Option<LastErrorFields<'_>> {
        Some(LastErrorFields {
            kind: self.text(ERROR_TYPE)?,
            message: self.text(ERROR_MESSAGE)?,
            traceback: self.text(ERROR_TRACEBACK),
            occurred_at: self.time(ERROR_OCCURRED_AT)?,
            attempt: self.int(ERROR_ATTEMPT)?,
            run_id: self.text(ERROR_RUN_ID)?,
        })
    }
}

/// The routes of a task row, for grouping.
pub(crate) fn routes_text<'a>(row: &'a Row<'_>) -> Result<&'a str> {
    Ok(row.get_ref(ROUTES)?.as_str()?)
}

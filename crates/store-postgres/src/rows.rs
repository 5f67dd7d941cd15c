//! The only file that knows columns: how a row becomes a task, a head or an observation, how a filter reads a row
//! without building a task first, and how what PostgreSQL cannot hold as it is becomes a column.
//!
//! Every statement that selects tasks has these columns in this order (the model is `sql/get_task.sql`):
//!
//! - a head is `tasks.` task_key, queue_key, id, status, name, priority, attempt, max_attempts, routes, last_route,
//!   created_at, updated_at, started_at, finished_at, pending_seq, run_id, lease_expires_at, finished_run_id,
//!   finished_run_end, definition_bytes;
//! - a whole task is a head, then `definitions.` args, metadata, `outcomes.` result, error, error_occurred_at,
//!   error_attempt, error_run_id, and `definitions.identity`. Those that are picked for a claim may lack all of that.
//!
//! An observation is `observations.` id, route, status, task_id, last_seen_at, expires_at, metadata.

use std::borrow::Cow;
use std::cell::OnceCell;

use taskqueue_core::definition::{Definition, Identity, Routes, routes_of};
use taskqueue_core::filter::{LastErrorFields, TaskFields};
use taskqueue_core::ids::{QueueName, Route, RunId, TaskId, WorkerId};
use taskqueue_core::json::{self, JsonObject, Value};
use taskqueue_core::observation::{Observation, Report, WorkerStatus};
use taskqueue_core::task::{
    ActiveRun, Failure, FinishedRun, LastError, Lifecycle, Outcome, RunEnd, Status, Task, TaskHead,
};
use taskqueue_core::time::Timestamp;
use taskqueue_core::view::TaskView;
use taskqueue_store::StoreError;
use taskqueue_store::transaction::{QueueKey, RunUse, TaskKey};
use taskqueue_store::transfer::DeletedRun;
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use crate::clock::ClockRow;

const KEY: usize = 0;
const QUEUE_KEY: usize = 1;
const ID: usize = 2;
const STATUS: usize = 3;
const NAME: usize = 4;
const PRIORITY: usize = 5;
const ATTEMPT: usize = 6;
const MAX_ATTEMPTS: usize = 7;
const ROUTES: usize = 8;
const LAST_ROUTE: usize = 9;
const CREATED_AT: usize = 10;
const UPDATED_AT: usize = 11;
const STARTED_AT: usize = 12;
const FINISHED_AT: usize = 13;
const PENDING_SEQ: usize = 14;
const RUN_ID: usize = 15;
const LEASE_EXPIRES_AT: usize = 16;
const FINISHED_RUN_ID: usize = 17;
const FINISHED_RUN_END: usize = 18;
const DEFINITION_BYTES: usize = 19;
const ARGS: usize = 20;
const METADATA: usize = 21;
const RESULT: usize = 22;
const ERROR: usize = 23;
const ERROR_OCCURRED_AT: usize = 24;
const ERROR_ATTEMPT: usize = 25;
const ERROR_RUN_ID: usize = 26;
const IDENTITY: usize = 27;
/// Only in `transfer_tasks.sql`.
const RUNS: usize = 28;
/// Only in `pick_tasks.sql`.
const PLACE: usize = 28;

/// A row holds what this service did not write there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Damaged {
    /// The number of the column in its statement.
    pub(crate) column: usize,
}

type Read<T> = Result<T, Damaged>;

impl From<Damaged> for StoreError {
    /// The end of the matter: nobody above can do anything about it but log it, so that is done here.
    fn from(Damaged { column }: Damaged) -> Self {
        tracing::error!(column, "the database holds a row that cannot be read; restore it from a backup");
        Self::Unavailable
    }
}

/// A column as PostgreSQL has it.
fn get<'a, T: FromSql<'a>>(row: &'a Row, column: usize) -> Read<T> {
    row.try_get(column).map_err(|_| Damaged { column })
}

/// A word of the contract or an identifier in a column, with the function that reads it.
fn parsed<T>(row: &Row, column: usize, parse: fn(&str) -> Option<T>) -> Read<T> {
    parse(get(row, column)?).ok_or(Damaged { column })
}

/// The same where it may be null.
fn parsed_or_null<T>(row: &Row, column: usize, parse: fn(&str) -> Option<T>) -> Read<Option<T>> {
    let text: Option<&str> = get(row, column)?;
    text.map(|text| parse(text).ok_or(Damaged { column })).transpose()
}

fn time(row: &Row, column: usize) -> Read<Timestamp> {
    get(row, column).map(Timestamp::from_micros)
}

fn time_or_null(row: &Row, column: usize) -> Read<Option<Timestamp>> {
    Ok(get::<Option<i64>>(row, column)?.map(Timestamp::from_micros))
}

fn object(row: &Row, column: usize) -> Read<JsonObject> {
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

fn lifecycle(row: &Row) -> Read<Lifecycle> {
    let run = match parsed_or_null(row, RUN_ID, RunId::parse)? {
        Some(run_id) => Some(ActiveRun { run_id, lease_expires_at: time(row, LEASE_EXPIRES_AT)? }),
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
    })
}

/// A head.
pub(crate) fn head(row: &Row) -> Read<TaskHead> {
    let definition_bytes: i64 = get(row, DEFINITION_BYTES)?;
    Ok(TaskHead {
        id: id(row)?,
        priority: get(row, PRIORITY)?,
        max_attempts: get(row, MAX_ATTEMPTS)?,
        routes: routes(row)?,
        definition_bytes: usize::try_from(definition_bytes).unwrap_or(usize::MAX),
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
    })
}

fn outcome(row: &Row) -> Read<Outcome> {
    let result = get::<Option<&str>>(row, RESULT)?.map_or_else(JsonObject::empty, JsonObject::from_canonical);
    let last_error = match get::<Option<&str>>(row, ERROR)? {
        None => None,
        Some(text) => Some(LastError {
            failure: ErrorText::read(text).ok_or(Damaged { column: ERROR })?.into(),
            occurred_at: time(row, ERROR_OCCURRED_AT)?,
            attempt: get(row, ERROR_ATTEMPT)?,
            run_id: parsed(row, ERROR_RUN_ID, RunId::parse)?,
        }),
    };
    Ok(Outcome { result, last_error })
}

/// What a whole task has besides its head.
pub(crate) fn body(row: &Row) -> Read<(Definition, Outcome)> {
    Ok((definition(row)?, outcome(row)?))
}

/// A whole task.
pub(crate) fn task(row: &Row, queue: &QueueName) -> Read<Task> {
    let (definition, outcome) = body(row)?;
    Ok(Task { queue: queue.clone(), id: id(row)?, definition, lifecycle: lifecycle(row)?, outcome })
}

/// The identity that a whole task was created with.
pub(crate) fn identity(row: &Row) -> Read<Identity> {
    Identity::try_from(get::<&[u8]>(row, IDENTITY)?).map_err(|_| Damaged { column: IDENTITY })
}

/// All run ids of a task, from `transfer_tasks.sql`.
pub(crate) fn runs(row: &Row) -> Read<Vec<RunId>> {
    let texts: Vec<&str> = get(row, RUNS)?;
    texts.into_iter().map(|text| RunId::parse(text).ok_or(Damaged { column: RUNS })).collect()
}

/// A line of `list_whole_tally.sql`: the key of a queue, a status, and how many tasks.
pub(crate) fn whole_tally(row: &Row) -> Read<(QueueKey, Status, u64)> {
    Ok((QueueKey(get(row, 0)?), parsed(row, 1, Status::parse)?, count(row, 2)?))
}

/// A queue, from `load_queues.sql`.
pub(crate) fn named_queue(row: &Row) -> Read<(QueueKey, QueueName)> {
    Ok((QueueKey(get(row, 0)?), parsed(row, 1, QueueName::parse)?))
}

/// The clock, from `load_clock.sql` and `lock_clock.sql`.
pub(crate) fn clock(row: &Row) -> Read<ClockRow> {
    let (micros, offset_micros) = (get(row, 0)?, get(row, 1)?);
    Ok(ClockRow { micros, offset_micros, last_scan_at: time_or_null(row, 2)?, ahead_since: time_or_null(row, 4)? })
}

/// The first of a block of numbers, from the same.
pub(crate) fn numbers(row: &Row) -> Read<i64> {
    get(row, 3)
}

/// Whether something is so, in the first column.
pub(crate) fn is_so(row: &Row) -> Read<bool> {
    get(row, 0)
}

/// What a whole task counts against the bytes of `list_tasks.sql`.
pub(crate) fn bytes(row: &Row) -> Read<usize> {
    let text = |column| Ok(get::<Option<&str>>(row, column)?.map_or(0, str::len));
    let definition: i64 = get(row, DEFINITION_BYTES)?;
    Ok(usize::try_from(definition).unwrap_or(0) + text(RESULT)? + text(ERROR)?)
}

/// An observation.
pub(crate) fn observation(row: &Row, queue: &QueueName) -> Read<Observation> {
    Ok(Observation {
        id: parsed(row, 0, WorkerId::parse)?,
        queue: queue.clone(),
        report: Report {
            route: parsed(row, 1, Route::parse)?,
            status: parsed(row, 2, WorkerStatus::parse)?,
            task_id: parsed_or_null(row, 3, TaskId::parse)?,
            metadata: object(row, 6)?,
        },
        last_seen_at: time(row, 4)?,
        expires_at: time(row, 5)?,
    })
}

/// A queue key in the first column.
pub(crate) fn found_queue(row: &Row) -> Read<QueueKey> {
    get(row, 0).map(QueueKey)
}

/// The time in the second column.
pub(crate) fn found_time(row: &Row) -> Read<Timestamp> {
    time(row, 1)
}

/// A queue name in the first column.
pub(crate) fn queue_name(row: &Row) -> Read<QueueName> {
    parsed(row, 0, QueueName::parse)
}

/// A count in this column. A sum over shards is never below zero.
pub(crate) fn count(row: &Row, column: usize) -> Read<u64> {
    u64::try_from(get::<i64>(row, column)?).map_err(|_| Damaged { column })
}

/// The number of the route that a task was picked for.
pub(crate) fn place(row: &Row) -> Read<usize> {
    usize::try_from(get::<i64>(row, PLACE)?).map_err(|_| Damaged { column: PLACE })
}

/// Whether a picked task came whole.
pub(crate) fn is_whole(row: &Row) -> Read<bool> {
    Ok(get::<Option<&str>>(row, ARGS)?.is_some())
}

/// A run id and what it is used for, from `find_runs.sql`.
pub(crate) fn run(row: &Row) -> Read<(RunId, RunUse)> {
    let run_id = parsed(row, 0, RunId::parse)?;
    let owns = get(row, 3)?;
    let usage = if owns { RunUse::Active(QueueKey(get(row, 2)?), TaskKey(get(row, 1)?)) } else { RunUse::Past };
    Ok((run_id, usage))
}

/// A run id of a deleted task and until when it is kept.
pub(crate) fn deleted_run(row: &Row) -> Read<DeletedRun> {
    Ok((Timestamp::from_micros(get(row, 1)?), parsed(row, 0, RunId::parse)?))
}

/// The key of the queue of an observation, behind it.
pub(crate) fn queue_of_observation(row: &Row) -> Read<QueueKey> {
    get(row, 7).map(QueueKey)
}

/// Tasks with the same routes and status.
pub(crate) struct TallyRow<'a> {
    /// The routes as JSON.
    pub(crate) routes: &'a str,
    /// The status.
    pub(crate) status: Status,
    /// How many tasks.
    pub(crate) tasks: u64,
}

/// Routes, status and a count, from column `first` on.
pub(crate) fn tally(row: &Row, first: usize) -> Read<TallyRow<'_>> {
    let status = parsed(row, first + 1, Status::parse)?;
    Ok(TallyRow { routes: get(row, first)?, status, tasks: count(row, first + 2)? })
}

/// The same from `list_tally.sql`, where a queue without tasks has one line that says nothing.
pub(crate) fn tally_or_null(row: &Row) -> Read<Option<TallyRow<'_>>> {
    if get::<Option<&str>>(row, 1)?.is_some() { tally(row, 1).map(Some) } else { Ok(None) }
}

/// A task row as a filter sees it: columns are read when asked for. Values of the wrong type cannot occur in our
/// tables; should one be damaged all the same, they read as empty and the row does not match.
pub(crate) struct RowFields<'a> {
    row: &'a Row,
    error: OnceCell<Option<ErrorText<'a>>>,
}

impl<'a> RowFields<'a> {
    /// The fields of this row.
    pub(crate) fn new(row: &'a Row) -> Self {
        Self { row, error: OnceCell::new() }
    }

    /// The routes as JSON, for grouping.
    pub(crate) fn routes_text(&self) -> &'a str {
        self.text(ROUTES).unwrap_or_default()
    }

    /// The task as the API shows it. Unlike the fields that a filter asks for, a damaged one is an error.
    pub(crate) fn view<'b>(&'b self, queue: &'b QueueName) -> Read<TaskView<'b>> {
        let row = self.row;
        let last_error = match get::<Option<&str>>(row, ERROR)? {
            None => None,
            Some(_) => Some(self.last_error().ok_or(Damaged { column: ERROR })?),
        };
        Ok(TaskView {
            id: id(row)?,
            queue: queue.as_str(),
            status: parsed(row, STATUS, Status::parse)?,
            name: get(row, NAME)?,
            args: get(row, ARGS)?,
            metadata: get(row, METADATA)?,
            priority: get(row, PRIORITY)?,
            attempt: get(row, ATTEMPT)?,
            max_attempts: get(row, MAX_ATTEMPTS)?,
            routes: get(row, ROUTES)?,
            result: get::<Option<&str>>(row, RESULT)?.unwrap_or("{}"),
            last_error,
            last_route: get(row, LAST_ROUTE)?,
            created_at: time(row, CREATED_AT)?,
            updated_at: time(row, UPDATED_AT)?,
            started_at: time_or_null(row, STARTED_AT)?,
            finished_at: time_or_null(row, FINISHED_AT)?,
        })
    }

    fn text(&self, column: usize) -> Option<&'a str> {
        self.row.try_get(column).ok()?
    }

    fn int(&self, column: usize) -> Option<i64> {
        self.row.try_get(column).ok()?
    }

    fn time(&self, column: usize) -> Option<Timestamp> {
        self.int(column).map(Timestamp::from_micros)
    }
}

impl TaskFields for RowFields<'_> {
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
        routes_of(self.routes_text())
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
        let text = self.error.get_or_init(|| self.text(ERROR).and_then(ErrorText::read)).as_ref()?;
        Some(LastErrorFields {
            kind: &text.kind,
            message: &text.message,
            traceback: text.traceback.as_deref(),
            occurred_at: self.time(ERROR_OCCURRED_AT)?,
            attempt: self.int(ERROR_ATTEMPT)?,
            run_id: self.text(ERROR_RUN_ID)?,
        })
    }
}

/// The column `outcomes.error`: type, message and traceback as a JSON array.
struct ErrorText<'a> {
    kind: Cow<'a, str>,
    message: Cow<'a, str>,
    traceback: Option<Cow<'a, str>>,
}

impl<'a> ErrorText<'a> {
    fn read(column: &'a str) -> Option<Self> {
        let Value::Array(parts) = json::parse(column.as_bytes()).ok()? else { return None };
        match <[Value<'a>; 3]>::try_from(parts).ok()? {
            [Value::Str(kind), Value::Str(message), Value::Null] => Some(Self { kind, message, traceback: None }),
            [Value::Str(kind), Value::Str(message), Value::Str(traceback)] => {
                Some(Self { kind, message, traceback: Some(traceback) })
            }
            _ => None,
        }
    }
}

impl From<ErrorText<'_>> for Failure {
    fn from(text: ErrorText<'_>) -> Self {
        Self { kind: text.kind.into(), message: text.message.into(), traceback: text.traceback.map(Into::into) }
    }
}

/// The column `outcomes.error` of a failure.
pub(crate) fn error_text(failure: &Failure) -> String {
    let mut text = vec![b'['];
    json::write_string(&mut text, &failure.kind);
    text.push(b',');
    json::write_string(&mut text, &failure.message);
    text.push(b',');
    match &failure.traceback {
        Some(traceback) => json::write_string(&mut text, traceback),
        None => text.extend_from_slice(b"null"),
    }
    text.push(b']');
    // Only whole pieces of UTF-8 were written, so this does not fail.
    String::from_utf8(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(kind: &str, message: &str, traceback: Option<&str>) -> Failure {
        Failure { kind: kind.into(), message: message.into(), traceback: traceback.map(Into::into) }
    }

    #[test]
    fn an_error_reads_back_from_its_column_whatever_characters_it_holds() {
        let cases = [
            (failure("", "", None), r#"["","",null]"#),
            (failure("E", "a\0b", Some("")), r#"["E","a\u0000b",""]"#),
            (failure("\"],[", "é\n\\", Some("null")), r#"["\"],[","é\n\\","null"]"#),
        ];
        for (failure, column) in cases {
            assert_eq!(error_text(&failure), column);
            assert_eq!(ErrorText::read(column).map(Failure::from), Some(failure), "{column}");
        }
    }

    #[test]
    fn a_damaged_error_column_is_noticed() {
        for column in ["", "[", "{}", r#"["a","b"]"#, r#"["a","b",1]"#, r#"[null,"b",null]"#, r#"["a","b",null,null]"#]
        {
            assert!(ErrorText::read(column).is_none(), "{column}");
        }
    }
}

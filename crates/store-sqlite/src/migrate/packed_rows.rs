//! The part of migration 6 that SQL cannot do: copies every task into rows with packed columns (docs/decisions/0043). It
//! belongs to a released migration, so the columns that it reads never change. One task is in memory at a time.

use std::time::{Duration, Instant};

use rusqlite::{Connection, Row, params};
use taskqueue_core::filter::LastErrorFields;
use taskqueue_core::task::RunEnd;
use taskqueue_core::time::Timestamp;

use crate::rows::{Extended, PackedDocuments, PackedHead, PackedOutcome, Unreadable};

/// The name of the migration.
pub(super) const MIGRATION: &str = "packed_rows";

/// The line of its text at which the rows are copied.
const HERE: &str = "-- The rows are copied here.";

/// Page cache meanwhile: sorting the indexes of a million tasks uses it too.
const CACHE_KIB: i64 = 65_536;

/// Between two lines of the log.
const REPORT_AFTER: Duration = Duration::from_secs(5);

// By position: a look for a name at each of 32 columns would take half of the time.
taskqueue_store::columns! {
    UNPACKED from 0;
    TASK_KEY = "unpacked_tasks.task_key",
    QUEUE_KEY = "queue_key",
    ID = "id",
    CREATED_AT = "created_at",
    STATUS = "status",
    PRIORITY = "priority",
    PENDING_SEQ = "pending_seq",
    ROUTES = "routes",
    ATTEMPT = "attempt",
    MAX_ATTEMPTS = "max_attempts",
    UPDATED_AT = "updated_at",
    STARTED_AT = "started_at",
    FINISHED_AT = "finished_at",
    LAST_ROUTE = "last_route",
    RUN_ID = "run_id",
    LEASE_EXPIRES_AT = "lease_expires_at",
    FINISHED_RUN_ID = "finished_run_id",
    FINISHED_RUN_END = "finished_run_end",
    DEFINITION_BYTES = "definition_bytes",
    NAME = "name",
    IDENTITY = "identity",
    ARGS = "args",
    METADATA = "metadata",
    RESULT = "result",
    ERROR_TYPE = "error_type",
    ERROR_MESSAGE = "error_message",
    ERROR_TRACEBACK = "error_traceback",
    ERROR_OCCURRED_AT = "error_occurred_at",
    ERROR_ATTEMPT = "error_attempt",
    ERROR_RUN_ID = "error_run_id",
    LAST_RUN_ATTEMPT = "last_run_attempt",
    LAST_RUN_WORKER = "last_run_worker",
}

const READ: &str = "
    SELECT {columns}
    FROM unpacked_tasks
    LEFT JOIN unpacked_definitions ON unpacked_definitions.task_key = unpacked_tasks.task_key
    LEFT JOIN unpacked_outcomes ON unpacked_outcomes.task_key = unpacked_tasks.task_key
    ORDER BY unpacked_tasks.task_key";
const INSERT_TASK: &str = "
    INSERT INTO tasks (task_key, queue_key, id, created_at, status, outcome_key, packed, name)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
const INSERT_DEFINITION: &str = "INSERT INTO definitions (task_key, identity, documents) VALUES (?1, ?2, ?3)";
const INSERT_OUTCOME: &str = "INSERT INTO outcomes (task_key, outcome) VALUES (?1, ?2)";

/// Runs the text of the migration, and copies the rows where it says so, in the transaction that `connection` is in.
pub(super) fn apply(connection: &Connection, text: &str) -> rusqlite::Result<()> {
    let (before, after) = text.split_once(HERE).unwrap_or((text, ""));
    connection.execute_batch(before)?;
    copy(connection)?;
    connection.execute_batch(after)
}

/// Runs `migrate` with room for sorting: large indexes are sorted in files, so that memory stays bounded.
pub(super) fn with_room<T>(
    connection: &mut Connection,
    migrate: impl FnOnce(&mut Connection) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    let cache: i64 = connection.pragma_query_value(None, "cache_size", |row| row.get(0))?;
    let temporary: i64 = connection.pragma_query_value(None, "temp_store", |row| row.get(0))?;
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    connection.pragma_update(None, "temp_store", "file")?;
    let migrated = migrate(connection)?;
    connection.pragma_update(None, "temp_store", temporary)?;
    connection.pragma_update(None, "cache_size", cache)?;
    // The log has grown to the size of all tasks. Nobody else reads yet, so it can be emptied.
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    Ok(migrated)
}

fn copy(connection: &Connection) -> rusqlite::Result<()> {
    let mut copied: u64 = 0;
    let mut reported = Instant::now();
    let mut statement = connection.prepare(&READ.replace("{columns}", &UNPACKED.join(", ")))?;
    let mut insert = Insert {
        task: connection.prepare(INSERT_TASK)?,
        definition: connection.prepare(INSERT_DEFINITION)?,
        outcome: connection.prepare(INSERT_OUTCOME)?,
    };
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        insert.row(row)?;
        copied += 1;
        if reported.elapsed() >= REPORT_AFTER {
            reported = Instant::now();
            tracing::info!(copied, "rewriting the tasks of the database for this version");
        }
    }
    Ok(())
}

struct Insert<'c> {
    task: rusqlite::Statement<'c>,
    definition: rusqlite::Statement<'c>,
    outcome: rusqlite::Statement<'c>,
}

impl Insert<'_> {
    fn row(&mut self, row: &Row<'_>) -> rusqlite::Result<()> {
        let key: i64 = row.get(TASK_KEY)?;
        let outcome = packed_outcome(row)?;
        let value = |column: usize| row.get_ref(column);
        self.task.execute(params![
            key,
            row.get::<_, i64>(QUEUE_KEY)?,
            value(ID)?.as_str()?,
            row.get::<_, i64>(CREATED_AT)?,
            value(STATUS)?.as_str()?,
            outcome.as_ref().map(|_| key),
            packed_head(row)?,
            value(NAME)?.as_str_or_null()?,
        ])?;
        // A task of a damaged file may have no definition. It is left as it is.
        if let (Some(args), Some(metadata)) = (value(ARGS)?.as_str_or_null()?, value(METADATA)?.as_str_or_null()?) {
            let documents = PackedDocuments { args, metadata }.pack();
            self.definition.execute(params![key, value(IDENTITY)?.as_blob()?, documents])?;
        }
        if let Some(outcome) = outcome {
            self.outcome.execute(params![key, outcome])?;
        }
        Ok(())
    }
}

fn text<'a>(row: &'a Row<'_>, column: usize) -> rusqlite::Result<Option<&'a str>> {
    Ok(row.get_ref(column)?.as_str_or_null()?)
}

fn time(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Timestamp>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(Timestamp::from_micros))
}

fn packed_head(row: &Row<'_>) -> rusqlite::Result<Vec<u8>> {
    let finished_run = match (text(row, FINISHED_RUN_ID)?, text(row, FINISHED_RUN_END)?) {
        (Some(run_id), Some(end)) => Some((run_id, RunEnd::parse(end).ok_or(Unreadable)?)),
        _ => None,
    };
    let head = PackedHead {
        attempt: row.get(ATTEMPT)?,
        max_attempts: row.get(MAX_ATTEMPTS)?,
        priority: row.get(PRIORITY)?,
        pending_seq: row.get(PENDING_SEQ)?,
        definition_bytes: row.get(DEFINITION_BYTES)?,
        updated_at: time(row, UPDATED_AT)?.unwrap_or_default(),
        started_at: time(row, STARTED_AT)?,
        finished_at: time(row, FINISHED_AT)?,
        run: text(row, RUN_ID)?.zip(time(row, LEASE_EXPIRES_AT)?),
        finished_run,
        last_route: text(row, LAST_ROUTE)?,
        progress_bytes: 0,
        extended: Extended::default(),
        routes: text(row, ROUTES)?.unwrap_or_default(),
    };
    Ok(head.pack())
}

/// Nothing if there is no result, no error and no last run, even if there is a row.
fn packed_outcome(row: &Row<'_>) -> rusqlite::Result<Option<Vec<u8>>> {
    let last_error = match (text(row, ERROR_TYPE)?, text(row, ERROR_MESSAGE)?, text(row, ERROR_RUN_ID)?) {
        (Some(kind), Some(message), Some(run_id)) => Some(LastErrorFields {
            kind,
            message,
            traceback: text(row, ERROR_TRACEBACK)?,
            occurred_at: time(row, ERROR_OCCURRED_AT)?.unwrap_or_default(),
            attempt: row.get(ERROR_ATTEMPT)?,
            run_id: Some(run_id),
        }),
        _ => None,
    };
    let last_run = match text(row, LAST_RUN_WORKER)? {
        Some(worker) => Some((row.get(LAST_RUN_ATTEMPT)?, worker)),
        None => None,
    };
    let result = text(row, RESULT)?.unwrap_or("{}");
    let is_empty = result == "{}" && last_error.is_none() && last_run.is_none();
    Ok((!is_empty).then(|| PackedOutcome { result, last_error, last_run, progress: None }.pack()))
}

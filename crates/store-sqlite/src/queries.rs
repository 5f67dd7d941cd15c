//! Statements on a connection: executed, or read row by row. They stay prepared. What a read sees is one moment of the database, on a
//! connection of its own; a long read yields to others between rows, and within a statement that finds no rows SQLite's progress
//! handler does it (`readers.rs`). An error of the driver is logged once, with what was being done, and becomes a `StoreError`.

use std::cell::RefCell;
use std::ops::ControlFlow;

use rusqlite::{CachedStatement, Connection, ErrorCode, OptionalExtension, Params, Row, ffi};
use taskqueue_core::{QueueName, Refusal, TaskId};
use taskqueue_store::long_reads::ActiveRead;
use taskqueue_store::{Loaded, QueueKey, StoreError, StoreResult};

use crate::statements as sql;

pub(crate) type NextRow = ControlFlow<()>;
pub(crate) const CONTINUE: NextRow = NextRow::Continue(());

/// Passes every row to `read`, until it breaks or fails.
pub(crate) fn each_row(
    connection: &Connection,
    statement: &str,
    params: impl Params,
    mut read: impl FnMut(&Row<'_>) -> rusqlite::Result<NextRow>,
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(statement)?;
    let mut rows = statement.query(params)?;
    while let Some(row) = rows.next()? {
        if read(row)?.is_break() {
            break;
        }
    }
    Ok(())
}

/// Returns what `read` makes of every row.
pub(crate) fn all_rows<T>(
    connection: &Connection,
    statement: &str,
    params: impl Params,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    connection.prepare_cached(statement)?.query_map(params, read)?.collect()
}

/// Returns what `read` makes of the first row.
pub(crate) fn first_row<T>(
    connection: &Connection,
    statement: &str,
    params: impl Params,
    read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Option<T>> {
    connection.prepare_cached(statement)?.query_row(params, read).optional()
}

/// Executes a statement that returns no rows, and returns how many rows it changed.
pub(crate) fn execute(connection: &Connection, statement: &str, params: impl Params) -> rusqlite::Result<usize> {
    connection.prepare_cached(statement)?.execute(params)
}

/// The statements that a transaction uses. Taking one from the cache of the connection and giving it back costs about as much as
/// a small statement itself, so a transaction takes each once, however many commands it executes.
pub(crate) struct Prepared<'a> {
    pub(crate) connection: &'a Connection,
    /// A transaction uses few: comparing their texts, most of which differ in length, is faster than hashing one.
    statements: RefCell<Vec<(&'static str, CachedStatement<'a>)>>,
}

impl<'a> Prepared<'a> {
    pub(crate) fn new(connection: &'a Connection) -> Self {
        Self { connection, statements: RefCell::default() }
    }

    /// Works with the statement of this text. The work must not use another one.
    fn with<T>(
        &self,
        text: &'static str,
        work: impl FnOnce(&mut CachedStatement<'a>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        let mut statements = self.statements.borrow_mut();
        let place = match statements.iter().position(|(known, _)| *known == text) {
            Some(place) => place,
            None => {
                statements.push((text, self.connection.prepare_cached(text)?));
                statements.len() - 1
            }
        };
        work(&mut statements[place].1)
    }

    /// Executes a statement that returns no rows, and returns how many rows it changed.
    pub(crate) fn run(&self, statement: &'static str, params: impl Params, doing: &'static str) -> Loaded<usize> {
        self.with(statement, |s| s.execute(params)).doing(doing)
    }

    /// Returns what `read` makes of the first row.
    pub(crate) fn one<T>(
        &self,
        statement: &'static str,
        params: impl Params,
        doing: &'static str,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Loaded<Option<T>> {
        self.with(statement, |s| s.query_row(params, read).optional()).doing(doing)
    }

    /// Returns what `read` makes of every row.
    pub(crate) fn all<T>(
        &self,
        statement: &'static str,
        params: impl Params,
        doing: &'static str,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Loaded<Vec<T>> {
        self.with(statement, |s| s.query_map(params, read)?.collect()).doing(doing)
    }
}

pub(crate) type Read<T> = Result<T, ReadError>;

/// The reason why a read has no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error(transparent)]
    Refused(#[from] StoreError),
    #[error(transparent)]
    Failed(#[from] rusqlite::Error),
}

impl ReadError {
    /// Returns what the caller may know. The rest is logged.
    pub(crate) fn into_store_error(self, doing: &'static str) -> StoreError {
        match self {
            Self::Refused(error) => error,
            Self::Failed(error) => failed(doing, &error),
        }
    }
}

pub(crate) fn refused(refusal: Refusal) -> ReadError {
    ReadError::Refused(StoreError::Refused(refusal))
}

pub(crate) fn no_queue(queue: &QueueName) -> ReadError {
    refused(Refusal::QueueNotFound { queue: queue.clone() })
}

/// One moment of the database.
pub(crate) struct Snapshot<'a> {
    pub(crate) connection: &'a Connection,
    /// The long read that looks at it.
    pub(crate) active: Option<&'a ActiveRead>,
}

impl Snapshot<'_> {
    /// Yields to other long reads. Must be called for each row.
    pub(crate) fn yield_if_due(&self) -> Read<()> {
        Ok(self.active.map_or(Ok(()), ActiveRead::yield_if_due).map_err(StoreError::from)?)
    }

    /// Lets another long read work. Must be called before waiting for anything else.
    pub(crate) fn release_slot(&self) {
        if let Some(active) = self.active {
            active.release_slot();
        }
    }

    /// Passes every row to `read`, until it breaks or fails, and yields before each row.
    pub(crate) fn each_row(
        &self,
        statement: &str,
        params: impl Params,
        mut read: impl FnMut(&Row<'_>) -> rusqlite::Result<NextRow>,
    ) -> Read<()> {
        let mut yielded = Ok(());
        each_row(self.connection, statement, params, |row| {
            yielded = self.yield_if_due();
            if yielded.is_err() { Ok(NextRow::Break(())) } else { read(row) }
        })?;
        yielded
    }

    /// Returns what `read` makes of every row.
    pub(crate) fn all_rows<T>(
        &self,
        statement: &str,
        params: impl Params,
        mut read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Read<Vec<T>> {
        let mut all = Vec::new();
        self.each_row(statement, params, |row| {
            all.push(read(row)?);
            Ok(CONTINUE)
        })?;
        Ok(all)
    }

    /// Returns the key of a queue that must exist.
    pub(crate) fn existing_queue(&self, name: &QueueName) -> Read<QueueKey> {
        let key = first_row(self.connection, &sql::FIND_QUEUE, [name.as_str()], |row| row.get(0).map(QueueKey))?;
        key.ok_or_else(|| no_queue(name))
    }

    /// Returns why a task is not there.
    pub(crate) fn no_task(&self, queue: &QueueName, id: TaskId) -> ReadError {
        match self.existing_queue(queue) {
            Ok(_) => refused(Refusal::TaskNotFound { queue: queue.clone(), task_id: id }),
            Err(error) => error,
        }
    }
}

/// Runs a read in one transaction.
pub(crate) fn in_snapshot<T>(
    connection: &Connection,
    active: Option<&ActiveRead>,
    read: impl FnOnce(&Snapshot<'_>) -> Read<T>,
) -> Read<T> {
    execute(connection, &sql::BEGIN_READ, [])?;
    let _unfinished = UnfinishedRead(connection);
    let value = read(&Snapshot { connection, active });
    execute(connection, &sql::END_READ, [])?;
    value
}

/// A transaction that ends whatever happens in it.
struct UnfinishedRead<'c>(&'c Connection);

impl Drop for UnfinishedRead<'_> {
    /// After a panic, or when the end failed.
    fn drop(&mut self) {
        if !self.0.is_autocommit() {
            let _ = self.0.execute_batch("ROLLBACK");
        }
    }
}

/// Logs a driver error and turns it into what the caller may know.
pub(crate) fn failed(doing: &'static str, error: &rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            tracing::warn!(doing, %error, "another process holds the database");
            StoreError::Busy
        }
        _ => {
            tracing::error!(doing, %error, "the database failed");
            StoreError::Unavailable
        }
    }
}

/// The result of a failed `COMMIT`. The last write to the log makes a transaction valid, so if a write failed, the disk was
/// full, or a lock was not obtained, there is no transaction. After any other error, such as a failed sync, the log may hold
/// all of it, and a restart would find it there.
pub(crate) fn failed_commit(error: &rusqlite::Error) -> StoreError {
    let failure = failed("committing", error);
    let code = error.sqlite_error().map(|error| error.extended_code);
    let never_written = matches!(code, Some(ffi::SQLITE_IOERR_WRITE | ffi::SQLITE_FULL));
    if never_written || failure == StoreError::Busy { failure } else { StoreError::OutcomeUnknown }
}

/// Returns whether the database could be read, but what it said makes no sense.
pub(crate) fn is_unreadable(error: &rusqlite::Error) -> bool {
    error.sqlite_error().is_none()
}

/// Adds what was being done to a driver error.
pub(crate) trait Doing<T> {
    fn doing(self, what: &'static str) -> StoreResult<T>;
}

impl<T> Doing<T> for rusqlite::Result<T> {
    fn doing(self, what: &'static str) -> StoreResult<T> {
        self.map_err(|error| failed(what, &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_undone_for_sure_only_when_its_last_write_was_never_made() {
        for (code, expected) in [
            (ffi::SQLITE_FULL, StoreError::Unavailable),
            (ffi::SQLITE_IOERR_WRITE, StoreError::Unavailable),
            (ffi::SQLITE_BUSY, StoreError::Busy),
            (ffi::SQLITE_IOERR, StoreError::OutcomeUnknown),
            (ffi::SQLITE_IOERR_FSYNC, StoreError::OutcomeUnknown),
            (ffi::SQLITE_CORRUPT, StoreError::OutcomeUnknown),
        ] {
            let error = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
            assert_eq!(failed_commit(&error), expected, "{code}");
        }
    }
}

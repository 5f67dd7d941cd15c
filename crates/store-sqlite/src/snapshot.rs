//! What a read sees: one moment of the database, on a connection of its own. A long read yields to others between rows;
//! within a statement that finds no rows, SQLite's progress handler does it (`readers.rs`).

use rusqlite::{Connection, Params, Row};
use taskqueue_core::ids::{QueueName, TaskId};
use taskqueue_core::refusal::Refusal;
use taskqueue_store::StoreError;
use taskqueue_store::long_reads::{ActiveRead, StopReason};
use taskqueue_store::transaction::QueueKey;

use crate::failure::failed;
use crate::queries::{CONTINUE, NextRow, each_row, execute, first_row};
use crate::statements as sql;

pub(crate) type Read<T> = Result<T, ReadError>;

/// The reason why a read has no answer.
pub(crate) enum ReadError {
    Refused(StoreError),
    Stopped(StopReason),
    Failed(rusqlite::Error),
}

impl ReadError {
    /// Returns what the caller may know. The rest is logged.
    pub(crate) fn into_store_error(self, doing: &'static str) -> StoreError {
        match self {
            Self::Refused(error) => error,
            Self::Stopped(stopped) => stopped.into(),
            Self::Failed(error) => failed(doing, &error),
        }
    }
}

impl From<rusqlite::Error> for ReadError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Failed(error)
    }
}

impl From<StoreError> for ReadError {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl From<StopReason> for ReadError {
    fn from(stopped: StopReason) -> Self {
        Self::Stopped(stopped)
    }
}

pub(crate) fn refused(refusal: Refusal) -> ReadError {
    ReadError::Refused(StoreError::Refused(refusal))
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
        Ok(self.active.map_or(Ok(()), ActiveRead::yield_if_due)?)
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

    /// Returns what `read` makes of the first row.
    pub(crate) fn first_row<T>(
        &self,
        statement: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Read<Option<T>> {
        Ok(first_row(self.connection, statement, params, read)?)
    }

    /// Returns the key of a queue that must exist.
    pub(crate) fn existing_queue(&self, name: &QueueName) -> Read<QueueKey> {
        let key = self.first_row(&sql::FIND_QUEUE, [name.as_str()], |row| row.get(0).map(QueueKey))?;
        key.ok_or_else(|| refused(Refusal::QueueNotFound { queue: name.clone() }))
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
    let transaction = ReadTransaction::begin(connection)?;
    let value = read(&Snapshot { connection, active });
    transaction.end()?;
    value
}

/// A transaction that ends whatever happens in it. Its statements stay prepared.
struct ReadTransaction<'c>(&'c Connection);

impl<'c> ReadTransaction<'c> {
    fn begin(connection: &'c Connection) -> rusqlite::Result<Self> {
        execute(connection, &sql::BEGIN_READ, [])?;
        Ok(Self(connection))
    }

    fn end(self) -> rusqlite::Result<()> {
        execute(self.0, &sql::END_READ, []).map(drop)
    }
}

impl Drop for ReadTransaction<'_> {
    /// After a panic, or when the end failed.
    fn drop(&mut self) {
        if !self.0.is_autocommit() {
            let _ = self.0.execute_batch("ROLLBACK");
        }
    }
}

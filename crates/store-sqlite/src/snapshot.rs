//! What a read sees: one moment of the database, on a connection of its own. A long read yields to others between rows;
//! within a statement that finds no rows, SQLite's progress handler does it (`long_reader.rs`).

use rusqlite::{Connection, Params, Row};
use taskqueue_store::long_reads::ActiveRead;

use crate::each_row::{NextRow, each_row};
use crate::readers::ReadError;

pub(crate) struct Snapshot<'a> {
    pub(crate) connection: &'a Connection,
    /// For a long read.
    pub(crate) active: Option<&'a ActiveRead>,
}

impl Snapshot<'_> {
    /// Must be called for each row.
    pub(crate) fn yield_if_due(&self) -> Result<(), ReadError> {
        Ok(self.active.map_or(Ok(()), ActiveRead::yield_if_due)?)
    }

    /// Must be called before waiting for anything else.
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
    ) -> Result<(), ReadError> {
        let mut yielded = Ok(());
        each_row(self.connection, statement, params, |row| {
            yielded = self.yield_if_due();
            if yielded.is_err() { Ok(NextRow::Break(())) } else { read(row) }
        })?;
        yielded
    }
}

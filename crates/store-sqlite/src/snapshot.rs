//! What a read sees: one moment of the database, on a connection that nobody else uses meanwhile. A read that may take
//! long pauses between rows; inside a statement that finds none, SQLite's progress handler does (`readers.rs`).

use rusqlite::{Connection, Params, Row};
use taskqueue_store::long_reads::ActiveRead;

use crate::each_row::{Go, each_row};
use crate::readers::ReadError;

/// One moment of the database.
pub(crate) struct Snapshot<'a> {
    pub(crate) connection: &'a Connection,
    /// The active of a read that may take long.
    pub(crate) active: Option<&'a ActiveRead>,
}

impl Snapshot<'_> {
    /// Lets others compute if it is their active. To be called for each row.
    pub(crate) fn yield_if_due(&self) -> Result<(), ReadError> {
        Ok(self.active.map_or(Ok(()), ActiveRead::yield_if_due)?)
    }

    /// Hands every row to `read`, with a pause before each, until it breaks off or fails.
    pub(crate) fn each_row(
        &self,
        statement: &str,
        params: impl Params,
        mut read: impl FnMut(&Row<'_>) -> rusqlite::Result<Go>,
    ) -> Result<(), ReadError> {
        let mut paused = Ok(());
        each_row(self.connection, statement, params, |row| {
            paused = self.yield_if_due();
            if paused.is_err() { Ok(Go::Break(())) } else { read(row) }
        })?;
        paused
    }
}

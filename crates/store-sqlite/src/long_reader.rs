//! A thread for long reads, with its own connection. A read yields to others between rows (`snapshot.rs`); within a
//! statement that finds no rows, SQLite's progress handler does it.

use std::sync::{Arc, Weak};

use rusqlite::Connection;
use taskqueue_store::StoreError;
use taskqueue_store::long_reads::ActiveRead;

use crate::open;
use crate::ownership::Ownership;
use crate::readers::{ReadError, in_snapshot};
use crate::snapshot::Snapshot;

/// Steps of SQLite's virtual machine between two calls: a fraction of a millisecond.
const PROGRESS_STEPS: i32 = 20_000;

/// The state of one thread.
pub(crate) struct LongReader {
    ownership: Weak<Ownership>,
    /// Opened by the first read.
    connection: Option<Connection>,
}

impl LongReader {
    pub(crate) fn new(ownership: Weak<Ownership>) -> Self {
        Self { ownership, connection: None }
    }

    pub(crate) fn run<T>(
        &mut self,
        active: &Arc<ActiveRead>,
        read: impl FnOnce(&Snapshot<'_>) -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => none.insert(connect(&self.ownership)?),
        };
        let watched = Arc::clone(active);
        connection.progress_handler(PROGRESS_STEPS, Some(move || watched.yield_if_due().is_err()))?;
        let answer = in_snapshot(connection, Some(active), read);
        connection.progress_handler(0, None::<fn() -> bool>)?;
        // The error of an interrupted statement does not tell the reason.
        match active.stopped() {
            Some(stopped) => Err(stopped.into()),
            None => answer,
        }
    }
}

/// Opens the file, unless its path now leads to another one: SQLite deletes the log of an empty file.
fn connect(ownership: &Weak<Ownership>) -> Result<Connection, ReadError> {
    match ownership.upgrade() {
        Some(ownership) if ownership.is_intact() => Ok(open::long_reader(ownership.path())?),
        _ => Err(StoreError::Unavailable.into()),
    }
}

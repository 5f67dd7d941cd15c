//! A reader of reads that may look at every task: a thread with a connection. The read pauses between rows (`snapshot.rs`),
//! and inside a statement that finds none SQLite's progress handler lets it pause.

use std::sync::{Arc, Weak};

use rusqlite::Connection;
use taskqueue_store::StoreError;
use taskqueue_store::long_reads::ActiveRead;

use crate::open;
use crate::ownership::Ownership;
use crate::readers::{ReadError, in_snapshot};
use crate::snapshot::Snapshot;

/// Steps of SQLite's machine between two pauses: a fraction of a millisecond.
const PAUSE_STEPS: i32 = 20_000;

/// What a thread of the long reads owns.
pub(crate) struct LongReader {
    ownership: Weak<Ownership>,
    /// Opened by the first read.
    connection: Option<Connection>,
}

impl LongReader {
    /// Without a connection.
    pub(crate) fn new(ownership: Weak<Ownership>) -> Self {
        Self { ownership, connection: None }
    }

    /// Does a read in a snapshot of its own.
    pub(crate) fn read<T>(
        &mut self,
        active: &Arc<ActiveRead>,
        read: impl FnOnce(&Snapshot<'_>) -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => none.insert(open_own(&self.ownership)?),
        };
        let watched = Arc::clone(active);
        connection.progress_handler(PAUSE_STEPS, Some(move || watched.yield_if_due().is_err()))?;
        let answer = in_snapshot(connection, Some(active), read);
        connection.progress_handler(0, None::<fn() -> bool>)?;
        // A statement that was interrupted does not tell why.
        match active.stopped() {
            Some(stopped) => Err(stopped.into()),
            None => answer,
        }
    }
}

/// Opens the file, unless its name leads to another one by now: SQLite deletes the log beside an empty file.
fn open_own(ownership: &Weak<Ownership>) -> Result<Connection, ReadError> {
    match ownership.upgrade() {
        Some(ownership) if ownership.still_holds() => Ok(open::long_reader(ownership.path())?),
        _ => Err(StoreError::Unavailable.into()),
    }
}

//! A reader of reads that may look at every task: a thread with a connection. The read pauses between rows (`snapshot.rs`),
//! and inside a statement that finds none SQLite's progress handler lets it pause.

use std::sync::Arc;

use rusqlite::Connection;
use taskqueue_store::StoreError;
use taskqueue_store::long_reads::Turn;

use crate::open;
use crate::ownership::Ownership;
use crate::readers::{ReadError, in_snapshot};
use crate::snapshot::Snapshot;

/// Steps of SQLite's machine between two pauses: a fraction of a millisecond.
const PAUSE_STEPS: i32 = 20_000;

/// What a thread of the long reads owns.
pub(crate) struct LongReader {
    /// Opened by the first read.
    connection: Option<Connection>,
    /// The last one to go: every connection is closed before the file is given up.
    ownership: Arc<Ownership>,
}

impl LongReader {
    /// Without a connection.
    pub(crate) fn new(ownership: Arc<Ownership>) -> Self {
        Self { connection: None, ownership }
    }

    /// Does a read in a snapshot of its own.
    pub(crate) fn read<T>(
        &mut self,
        turn: &Arc<Turn>,
        read: impl FnOnce(&Snapshot<'_>) -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            // Not under a name that leads to another file by now: SQLite deletes the log beside an empty one.
            none if self.ownership.still_holds() => none.insert(open::long_reader(self.ownership.path())?),
            _ => return Err(StoreError::Unavailable.into()),
        };
        let watched = Arc::clone(turn);
        connection.progress_handler(PAUSE_STEPS, Some(move || watched.pause().is_err()))?;
        let answer = in_snapshot(connection, Some(turn), read);
        connection.progress_handler(0, None::<fn() -> bool>)?;
        // A statement that was interrupted does not tell why.
        match turn.stopped() {
            Some(stopped) => Err(stopped.into()),
            None => answer,
        }
    }
}

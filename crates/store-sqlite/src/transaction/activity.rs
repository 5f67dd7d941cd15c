//! Saving what processes have counted.

use rusqlite::params;
use taskqueue_store::activity::{ActivityRow, ProcessId};
use taskqueue_store::transaction::Loaded;

use super::SqliteTransaction;
use crate::{rows, statements as sql};

impl SqliteTransaction<'_> {
    pub(super) fn save_spans(&mut self, process: ProcessId, rows: &[ActivityRow]) -> Loaded<()> {
        for ActivityRow { queue, span, activity } in rows {
            let (unit, start) = (span.unit.seconds(), rows::seconds(span.start));
            let values = params![queue.0, unit, start, process.0, activity.to_bytes()];
            self.run(sql::SAVE_ACTIVITY, values, "saving activity")?;
        }
        Ok(())
    }

    /// Removes up to `most` spans of a deleted queue. Returns how many it were.
    pub(crate) fn delete_spans(&mut self, queue: i64, most: u32) -> Loaded<usize> {
        self.run(sql::DELETE_ACTIVITY, params![queue, most], "deleting activity")
    }
}

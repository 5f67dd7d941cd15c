//! Saving and forgetting what processes have counted. Rows are sent at once: no other command of a batch reads them.

use std::collections::BTreeSet;

use taskqueue_core::activity::Unit;
use taskqueue_core::time::Timestamp;
use taskqueue_store::StoreError;
use taskqueue_store::activity::{ActivityRow, ProcessId};
use taskqueue_store::transaction::Loaded;

use super::PostgresTransaction;
use crate::rows;
use crate::statements as sql;

impl PostgresTransaction<'_> {
    /// Busy if another transaction has a queue for itself. The rows of the other queues are saved all the same: when this is tried
    /// again, saving them once more changes nothing.
    pub(super) fn save_counted(&mut self, process: ProcessId, counted: &[ActivityRow]) -> Loaded<()> {
        if counted.is_empty() {
            return Ok(());
        }
        let queues: Vec<i64> = counted.iter().map(|row| row.queue.0).collect();
        let units: Vec<i64> = counted.iter().map(|row| row.span.unit.seconds()).collect();
        let starts: Vec<i64> = counted.iter().map(|row| row.span.start.as_micros()).collect();
        let bytes: Vec<Vec<u8>> = counted.iter().map(|row| row.activity.to_bytes()).collect();
        let session = self.session;
        self.wrote = true;
        let asked = async { session.query(&sql::SAVE_ACTIVITY, &[&queues, &units, &starts, &process.0, &bytes]).await };
        let saved = self.wait("saving activity", asked)?;
        let mut left_out: BTreeSet<i64> = queues.into_iter().collect();
        for row in &saved {
            left_out.remove(&rows::found_queue(row)?.0);
        }
        if left_out.is_empty() || !self.any_queue_exists(left_out)? { Ok(()) } else { Err(StoreError::Busy) }
    }

    fn any_queue_exists(&mut self, keys: BTreeSet<i64>) -> Loaded<bool> {
        let (session, keys) = (self.session, keys.into_iter().collect::<Vec<_>>());
        let row = self.wait("finding queues", async { session.first(&sql::CHECK_QUEUES, &[&keys]).await })?;
        Ok(row.as_ref().map(rows::boolean_column).transpose()?.unwrap_or(false))
    }

    pub(super) fn forget_counted(&mut self, unit: Unit, before: Timestamp, most: u32) -> Loaded<()> {
        let (session, seconds, before, most) = (self.session, unit.seconds(), before.as_micros(), i64::from(most));
        let asked = async { session.execute(&sql::FORGET_ACTIVITY, &[&seconds, &before, &most]).await };
        self.wrote |= self.wait("forgetting activity", asked)? > 0;
        Ok(())
    }
}

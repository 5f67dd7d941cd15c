//! What is written of tasks that have ended in queues which keep them for a limited time (`ended.rs`).

use taskqueue_core::settings::Retention;
use taskqueue_core::task::{Status, TaskHead};
use taskqueue_core::time::Timestamp;
use taskqueue_store::transaction::{QueueKey, TaskKey};
use tokio_postgres::types::ToSql;

use super::Write;
use crate::ended::noted_end;
use crate::session::Sql;
use crate::statements as sql;

sets! {
    Ends of End { queue: i64, status: &'a str, ended_at: i64, key: i64, }
}

#[derive(Default)]
pub(super) struct EndedWrites<'a> {
    forgotten: Ends<'a>,
    noted: Ends<'a>,
}

impl EndedWrites<'_> {
    pub(super) fn add(
        &mut self,
        key: TaskKey,
        queue: QueueKey,
        retention: &Retention,
        before: Option<&TaskHead>,
        after: Option<&TaskHead>,
    ) {
        let end = |head: Option<&TaskHead>| head.and_then(|head| noted_end(retention, head));
        let (before, after) = (end(before), end(after));
        if before == after {
            return;
        }
        let row = |(status, ended_at): (Status, Timestamp)| End {
            queue: queue.0,
            status: status.as_str(),
            ended_at: ended_at.as_micros(),
            key: key.0,
        };
        before.map(row).into_iter().for_each(|end| self.forgotten.push(end));
        after.map(row).into_iter().for_each(|end| self.noted.push(end));
    }

    pub(super) fn writes(&self) -> [Option<Write<'_>>; 2] {
        [self.forgotten.write(&sql::DELETE_ENDED), self.noted.write(&sql::INSERT_ENDED)]
    }
}

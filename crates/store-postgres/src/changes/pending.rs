//! What a transaction writes to the pending order and to the delayed tasks. A task whose dependencies are not met is in neither.

use taskqueue_core::delta::{Difference, PendingEntry, PendingPlace};
use taskqueue_core::time::Timestamp;
use taskqueue_store::transaction::{QueueKey, TaskKey};
use tokio_postgres::types::ToSql;

use super::Write;
use crate::session::Sql;
use crate::statements as sql;

sets! {
    RemovedReady of RemovedEntry { queue: i64, route: &'a str, priority: i64, pending_seq: i64, }

    AddedReady of AddedEntry { queue: i64, route: &'a str, priority: i64, pending_seq: i64, key: i64, }
}

/// Keys of delayed tasks, by column.
#[derive(Default)]
struct Delayed {
    queue: Vec<i64>,
    not_before: Vec<i64>,
    key: Vec<i64>,
}

impl Delayed {
    fn push(&mut self, queue: QueueKey, not_before: Timestamp, key: TaskKey) {
        self.queue.push(queue.0);
        self.not_before.push(not_before.as_micros());
        self.key.push(key.0);
    }

    fn write(&self, sql: &'static Sql) -> Option<Write<'_>> {
        let params: Vec<&(dyn ToSql + Sync)> = vec![&self.queue, &self.not_before, &self.key];
        (!self.queue.is_empty()).then_some((sql, params))
    }
}

#[derive(Default)]
pub(super) struct PendingWrites<'a> {
    removed_ready: RemovedReady<'a>,
    added_ready: AddedReady<'a>,
    removed_delayed: Delayed,
    added_delayed: Delayed,
}

impl<'a> PendingWrites<'a> {
    pub(super) fn add(&mut self, queue: QueueKey, key: TaskKey, pending: Difference<PendingEntry<'a>>, now: Timestamp) {
        if let Some(removed) = pending.removed.filter(|removed| !removed.blocked) {
            // Whether it was moved since its time has come is not known here.
            if let Some(not_before) = removed.not_before {
                self.removed_delayed.push(queue, not_before, key);
            }
            let PendingEntry { routes, priority, pending_seq, .. } = removed;
            for route in routes.iter() {
                self.removed_ready.push(RemovedEntry { queue: queue.0, route, priority, pending_seq });
            }
        }
        let Some(added) = pending.added else { return };
        match added.place(now) {
            PendingPlace::Blocked => {}
            PendingPlace::Delayed(not_before) => self.added_delayed.push(queue, not_before, key),
            PendingPlace::Order => {
                let PendingEntry { routes, priority, pending_seq, .. } = added;
                for route in routes.iter() {
                    self.added_ready.push(AddedEntry { queue: queue.0, route, priority, pending_seq, key: key.0 });
                }
            }
        }
    }

    pub(super) fn writes(&self) -> [Option<Write<'_>>; 4] {
        [
            self.removed_ready.write(&sql::DELETE_READY),
            self.added_ready.write(&sql::INSERT_READY),
            self.removed_delayed.write(&sql::DELETE_DELAYED),
            self.added_delayed.write(&sql::INSERT_DELAYED),
        ]
    }

    pub(super) fn dead_entries(&self) -> usize {
        self.removed_ready.queue.len() + self.removed_delayed.queue.len()
    }
}

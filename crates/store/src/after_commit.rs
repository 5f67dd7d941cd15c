//! What a transaction did that others are told after its commit, collected while its commands run (`execute.rs`): what became
//! claimable and which runs ended, for waiters; what happened to tasks, for the counts. A transaction that is undone tells
//! nobody.

use taskqueue_core::activity::Record;
use taskqueue_core::definition::Routes;
use taskqueue_core::ids::TaskId;
use taskqueue_core::task::{Lifecycle, TaskHead};
use taskqueue_core::time::Timestamp;

use crate::activity::ActivityLog;
use crate::claimable::Claimable;
use crate::transaction::{Queue, QueueKey};

#[derive(Debug)]
pub struct AfterCommit {
    pub claimable: Claimable,
    /// The time of the transaction.
    now: Timestamp,
    records: Vec<(QueueKey, Record)>,
}

impl AfterCommit {
    /// `has_claims`: whether any claim waits.
    pub fn new(has_claims: bool) -> Self {
        let now = Timestamp::from_micros(0);
        Self { claimable: Claimable::new(has_claims), now, records: Vec::new() }
    }

    pub(crate) fn begun_at(&mut self, now: Timestamp) {
        self.now = now;
    }

    pub(crate) fn created(&mut self, queue: Queue<'_>, id: TaskId, routes: &Routes) {
        self.claimable.created(queue.name, id, routes);
        self.records.push((queue.key, Record::CREATED));
    }

    /// An action or a report changed a task.
    pub(crate) fn changed(&mut self, queue: Queue<'_>, before: &TaskHead, after: &Lifecycle) {
        self.claimable.acted(queue.name, before, after);
        self.record(queue.key, &before.lifecycle, after);
    }

    /// A change that makes nothing claimable, or of which waiters are told otherwise.
    pub(crate) fn record(&mut self, queue: QueueKey, before: &Lifecycle, after: &Lifecycle) {
        self.records.extend(Record::of_change(before, after, self.now).map(|record| (queue, record)));
    }

    /// Counts what happened to tasks. Called once, when the transaction is committed.
    pub fn count(&self, log: &ActivityLog) {
        log.add(self.now, &self.records);
    }
}

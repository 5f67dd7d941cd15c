//! What a transaction did that others are told after its commit, collected while its commands run (`execute.rs`): what became
//! claimable and which runs ended, for waiters; what happened to tasks, for the counts. A transaction that is undone tells
//! nobody.

use std::collections::HashSet;

use taskqueue_core::activity::Record;
use taskqueue_core::ids::QueueName;
use taskqueue_core::task::{Lifecycle, Task, TaskHead};
use taskqueue_core::time::Timestamp;

use crate::activity::ActivityLog;
use crate::claimable::Claimable;
use crate::transaction::{Queue, QueueKey, QueueRef, TaskKey};
use crate::weight;

#[derive(Debug, Default)]
pub struct AfterCommit {
    pub claimable: Claimable,
    /// The time of the transaction.
    pub(crate) now: Timestamp,
    records: Vec<(QueueKey, Record)>,
    /// How many dependents the transaction may still settle.
    pub(crate) dependents_left: usize,
    /// Tasks that were changed because another one was. What a command loaded of them before is not what they are.
    pub(crate) settled: HashSet<TaskKey>,
    /// The weight that was not known of its commands before they ran.
    pub(crate) done: weight::Done,
}

/// Dependents that one transaction settles: up to a tenth of a second. The rest is left to [`Upkeep`](crate::command::Upkeep).
const DEPENDENTS: usize = 1_000;

impl AfterCommit {
    /// `has_claims`: whether any claim waits.
    pub fn new(has_claims: bool) -> Self {
        Self { claimable: Claimable::new(has_claims), dependents_left: DEPENDENTS, ..Self::default() }
    }

    pub(crate) fn created(&mut self, queue: Queue<'_>, created: &Task) {
        self.done.routes(&created.definition.routes);
        self.claimable.created(queue.name, created, self.now);
        self.records.push((queue.key, Record::CREATED));
    }

    /// An action or a report changed a task. Without the name of its queue, all waiters look again.
    pub(crate) fn changed(&mut self, queue: QueueRef<'_>, before: &TaskHead, after: &Lifecycle) {
        self.done.routes(&before.routes);
        match queue.name {
            Some(name) => self.claimable.acted(name, before, after, self.now),
            None => self.claimable.poll_all = true,
        }
        self.record(queue.key, &before.lifecycle, after);
    }

    /// An update changed a task.
    pub(crate) fn updated(&mut self, queue: &QueueName, before: &TaskHead, after: &TaskHead) {
        self.done.routes(&after.routes);
        self.claimable.updated(queue, before, after, self.now);
    }

    /// How many of `most` dependents may be settled now; they are used up.
    pub(crate) fn take_dependents(&mut self, most: usize) -> usize {
        let taken = most.min(self.dependents_left);
        self.dependents_left -= taken;
        taken
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

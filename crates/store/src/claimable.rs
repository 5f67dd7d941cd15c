//! What a transaction makes claimable and which runs it ends, collected while its commands run (`execute.rs`) and used to wake
//! waiters after the commit. A hint may be wrong: a waiter that is woken claims, and may find nothing.

use std::collections::HashSet;

use taskqueue_core::activity::Record;
use taskqueue_core::task::FinishedRun;
use taskqueue_core::{Lifecycle, QueueName, Routes, RunId, Task, TaskHead, TaskId, Timestamp};

use crate::activity::ActivityLog;
use crate::transaction::{Queue, QueueKey, QueueRef, TaskKey};
use crate::waiting::Hint;
use crate::weight;

/// Hints of one transaction, and ended runs; with more, all routes and runs are polled instead. A transaction has less than 1,300
/// items (`write_queue.rs`), so only a bulk update can have more.
const MAX_HINTS: usize = 2_048;

#[derive(Debug, Default)]
pub struct Claimable {
    pub hints: Vec<Hint>,
    pub ended_runs: Vec<FinishedRun>,
    /// Runs whose output has grown. A poll would not find these, so they are collected in any case. There are no more than commands
    /// in a transaction.
    pub printed_runs: Vec<RunId>,
    pub deleted_queues: Vec<QueueName>,
    /// True if the pending tasks of all routes with waiters must be counted, and all watched runs must be looked up.
    pub poll_all: bool,
    /// Collect nothing for claims.
    disabled: bool,
}

impl Claimable {
    /// With no claim that waits, no hint is needed: a later waiter claims first, which needs the writer. A later reader of output
    /// does not, so runs that end or print are always collected.
    pub fn new(enabled: bool) -> Self {
        Self { disabled: !enabled, ..Self::default() }
    }

    pub(crate) fn created(&mut self, queue: &QueueName, created: &Task, now: Timestamp) {
        if created.lifecycle.is_claimable(now) {
            self.add(queue, created.id, &created.definition.routes);
        }
    }

    /// An action or a dependency changed a task.
    pub(crate) fn acted(&mut self, queue: &QueueName, before: &TaskHead, after: &Lifecycle, now: Timestamp) {
        if after.is_claimable(now) && !before.lifecycle.is_claimable(now) {
            self.add(queue, before.id, &before.routes);
        }
        if let (Some(_), None, Some(ended)) = (before.lifecycle.run, after.run, after.finished_run) {
            self.run_ended(ended);
        }
    }

    /// An update changed a task.
    pub(crate) fn updated(&mut self, queue: &QueueName, before: &TaskHead, after: &TaskHead, now: Timestamp) {
        let opened = !before.lifecycle.is_claimable(now) || before.routes != after.routes;
        if after.lifecycle.is_claimable(now) && opened {
            self.add(queue, after.id, &after.routes);
        }
    }

    pub fn queue_deleted(&mut self, queue: &QueueName) {
        if !self.disabled {
            self.deleted_queues.push(queue.clone());
        }
    }

    fn add(&mut self, queue: &QueueName, task: TaskId, routes: &Routes) {
        self.hint(Hint { queue: queue.clone(), routes: routes.clone(), task: Some(task) });
    }

    pub fn hint(&mut self, hint: Hint) {
        if !self.disabled && self.has_room() {
            self.hints.push(hint);
        }
    }

    pub fn run_ended(&mut self, run: FinishedRun) {
        if self.has_room() {
            self.ended_runs.push(run);
        }
    }

    /// Returns whether one more is collected. If there are too many, none is.
    fn has_room(&mut self) -> bool {
        if self.poll_all {
            return false;
        }
        if self.hints.len().max(self.ended_runs.len()) >= MAX_HINTS {
            self.hints.clear();
            self.ended_runs.clear();
            self.poll_all = true;
        }
        !self.poll_all
    }

    pub fn is_empty(&self) -> bool {
        self.hints.is_empty()
            && self.ended_runs.is_empty()
            && self.printed_runs.is_empty()
            && self.deleted_queues.is_empty()
            && !self.poll_all
    }
}

// What a transaction did that others are told after its commit, collected while its commands run (`execute.rs`): what became
// claimable and which runs ended, for waiters; what happened to tasks, for the counts. A transaction that is undone tells
// nobody.

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::commands::{queue, routes, run_id, task_id};
    use taskqueue_core::task::RunEnd;

    fn hints(claimable: &mut Claimable, tasks: usize) {
        for task in 0..tasks {
            claimable.hint(Hint { queue: queue("q"), routes: routes(&["default"]), task: Some(task_id(task)) });
        }
    }

    #[test]
    fn more_hints_than_the_limit_request_a_poll_of_all_routes() {
        let mut claimable = Claimable::new(true);
        hints(&mut claimable, MAX_HINTS);
        assert_eq!((claimable.hints.len(), claimable.poll_all), (MAX_HINTS, false));
        hints(&mut claimable, 1);
        assert!(claimable.poll_all && !claimable.is_empty());
        assert_eq!(claimable.hints.len(), 0, "the poll finds all of them");
        hints(&mut claimable, 1);
        assert!(claimable.poll_all && claimable.hints.is_empty());
    }

    #[test]
    fn a_poll_of_all_routes_stays_requested_after_later_hints() {
        let mut claimable = Claimable::new(true);
        claimable.poll_all = true;
        assert!(!claimable.is_empty());
        claimable.queue_deleted(&queue("gone"));
        hints(&mut claimable, 3);
        assert!(claimable.poll_all);
        assert_eq!(claimable.deleted_queues, [queue("gone")]);
        let mut deleted = Claimable::new(true);
        deleted.queue_deleted(&queue("gone"));
        assert!(!deleted.is_empty());
    }

    #[test]
    fn nothing_is_collected_for_claims_when_disabled() {
        let mut claimable = Claimable::new(false);
        hints(&mut claimable, MAX_HINTS + 1);
        claimable.queue_deleted(&queue("gone"));
        assert!(claimable.is_empty());
    }

    /// A read of output may begin, and see what was before the transaction, while the transaction runs.
    #[test]
    fn runs_that_end_or_print_are_collected_when_disabled_too() {
        let mut claimable = Claimable::new(false);
        claimable.run_ended(FinishedRun { run_id: run_id(1), end: RunEnd::Cancel });
        claimable.printed_runs.push(run_id(2));
        assert_eq!((claimable.ended_runs[0].run_id, &claimable.printed_runs[..]), (run_id(1), &[run_id(2)][..]));
        claimable.poll_all = true;
        claimable.printed_runs.push(run_id(3));
        assert!(claimable.poll_all);
        assert_eq!(claimable.printed_runs, [2, 3].map(run_id), "a poll does not find them");
    }

    #[test]
    fn more_ended_runs_than_the_limit_request_a_poll_too() {
        let mut claimable = Claimable::new(true);
        let ended = |n| FinishedRun { run_id: run_id(n), end: RunEnd::Cancel };
        (0..MAX_HINTS).for_each(|n| claimable.run_ended(ended(n)));
        assert_eq!((claimable.ended_runs.len(), claimable.poll_all), (MAX_HINTS, false));
        claimable.run_ended(ended(MAX_HINTS));
        assert!(claimable.poll_all && claimable.ended_runs.is_empty());
    }
}

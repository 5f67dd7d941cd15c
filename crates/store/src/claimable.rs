//! What the commands of a transaction made claimable, collected while they run (`execute.rs`) and told to the waiters once
//! they are committed. A hint is never the truth: who gets one too many looks and finds nothing.

use taskqueue_core::definition::Routes;
use taskqueue_core::ids::{QueueName, TaskId};
use taskqueue_core::task::{Status, TaskHead};

use crate::waiting::Hint;

/// Hints of one transaction at most; above that everything is looked at instead. A batch has 256 commands, so only a
/// bulk update can have more.
const HINTS: usize = 1_024;

/// What became claimable, and which queues are gone.
#[derive(Debug, Default)]
pub struct Claimable {
    hints: Vec<Hint>,
    deleted_queues: Vec<QueueName>,
    poll_all: bool,
    /// Whether nobody wants to know.
    disabled: bool,
}

impl Claimable {
    /// Nothing yet. With `wanted` false nothing is collected: nobody waits, and whoever comes looks for themselves.
    pub fn new(wanted: bool) -> Self {
        Self { disabled: !wanted, ..Self::default() }
    }

    /// A task is new.
    pub(crate) fn created(&mut self, queue: &QueueName, task: TaskId, routes: &Routes) {
        self.add(queue, task, routes);
    }

    /// An action brought a task from `before` to `after`.
    pub(crate) fn acted(&mut self, queue: &QueueName, before: &TaskHead, after: Status) {
        if after == Status::Pending && before.lifecycle.status != Status::Pending {
            self.add(queue, before.id, &before.routes);
        }
    }

    /// An update gave a task other routes.
    pub(crate) fn updated(&mut self, queue: &QueueName, before: &TaskHead, routes: &Routes) {
        if before.lifecycle.status == Status::Pending && before.routes != *routes {
            self.add(queue, before.id, routes);
        }
    }

    /// Something became claimable in a queue whose name is not known here.
    pub fn poll_all_routes(&mut self) {
        self.poll_all = !self.disabled;
    }

    /// A queue is gone.
    pub fn queue_deleted(&mut self, queue: &QueueName) {
        if !self.disabled {
            self.deleted_queues.push(queue.clone());
        }
    }

    fn add(&mut self, queue: &QueueName, task: TaskId, routes: &Routes) {
        self.hint(Hint { queue: queue.clone(), routes: routes.clone(), task: Some(task) });
    }

    /// A task became claimable.
    pub fn hint(&mut self, hint: Hint) {
        if self.disabled || self.poll_all {
            return;
        }
        if self.hints.len() >= HINTS {
            self.hints.clear();
            self.poll_all = true;
            return;
        }
        self.hints.push(hint);
    }

    /// One for each task.
    pub fn hints(&self) -> &[Hint] {
        &self.hints
    }

    /// The queues that are gone.
    pub fn deleted_queues(&self) -> &[QueueName] {
        &self.deleted_queues
    }

    /// Whether every line of waiters is to be compared with what is pending.
    pub fn must_poll_all_routes(&self) -> bool {
        self.poll_all
    }

    /// Whether there is nothing to tell.
    pub fn is_empty(&self) -> bool {
        self.hints.is_empty() && self.deleted_queues.is_empty() && !self.poll_all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::commands::{queue, routes, task_id};

    fn hints(claimable: &mut Claimable, tasks: usize) {
        for task in 0..tasks {
            claimable.hint(Hint { queue: queue("q"), routes: routes(&["default"]), task: Some(task_id(task)) });
        }
    }

    #[test]
    fn what_has_more_hints_than_are_kept_asks_for_a_look_at_everything() {
        let mut claimable = Claimable::new(true);
        hints(&mut claimable, HINTS);
        assert_eq!((claimable.hints().len(), claimable.must_poll_all_routes()), (HINTS, false));
        hints(&mut claimable, 1);
        assert!(claimable.must_poll_all_routes() && !claimable.is_empty());
        assert_eq!(claimable.hints().len(), 0, "the look finds all of them");
        hints(&mut claimable, 1);
        assert!(claimable.must_poll_all_routes() && claimable.hints().is_empty());
    }

    #[test]
    fn a_look_at_everything_is_not_forgotten_for_what_comes_behind_it() {
        let mut claimable = Claimable::new(true);
        claimable.poll_all_routes();
        claimable.queue_deleted(&queue("gone"));
        hints(&mut claimable, 3);
        assert!(claimable.must_poll_all_routes());
        assert_eq!(claimable.deleted_queues(), [queue("gone")]);
    }

    #[test]
    fn nothing_is_collected_for_nobody() {
        let mut claimable = Claimable::new(false);
        hints(&mut claimable, HINTS + 1);
        claimable.poll_all_routes();
        claimable.queue_deleted(&queue("gone"));
        assert!(claimable.is_empty());
    }
}

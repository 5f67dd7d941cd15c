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
    gone: Vec<QueueName>,
    everywhere: bool,
    /// Whether nobody wants to know.
    deaf: bool,
}

impl Claimable {
    /// Nothing yet. With `wanted` false nothing is collected: nobody waits, and whoever comes looks for themselves.
    pub fn new(wanted: bool) -> Self {
        Self { deaf: !wanted, ..Self::default() }
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
    pub fn look_everywhere(&mut self) {
        self.everywhere = !self.deaf;
    }

    /// A queue is gone.
    pub fn queue_gone(&mut self, queue: &QueueName) {
        if !self.deaf {
            self.gone.push(queue.clone());
        }
    }

    fn add(&mut self, queue: &QueueName, task: TaskId, routes: &Routes) {
        self.hint(Hint { queue: queue.clone(), routes: routes.clone(), task: Some(task) });
    }

    /// A task became claimable.
    pub fn hint(&mut self, hint: Hint) {
        if self.deaf || self.everywhere {
            return;
        }
        if self.hints.len() >= HINTS {
            self.hints.clear();
            self.everywhere = true;
            return;
        }
        self.hints.push(hint);
    }

    /// One for each task.
    pub fn hints(&self) -> &[Hint] {
        &self.hints
    }

    /// The queues that are gone.
    pub fn gone(&self) -> &[QueueName] {
        &self.gone
    }

    /// Whether every line of waiters is to be compared with what is pending.
    pub fn is_everywhere(&self) -> bool {
        self.everywhere
    }

    /// Whether there is nothing to tell.
    pub fn is_empty(&self) -> bool {
        self.hints.is_empty() && self.gone.is_empty() && !self.everywhere
    }
}

//! How much there is: what is counted while tasks are copied, and what each side must say of itself.

use std::collections::BTreeMap;

use taskqueue_core::ids::QueueName;
use taskqueue_core::task::Status;

use super::TransferredTask;

/// How much there is of everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Queues.
    pub queues: u64,
    /// Tasks by queue and the word of their status; no line counts nothing.
    pub tasks_by_status: BTreeMap<(QueueName, &'static str), u64>,
    /// Running tasks.
    pub running: u64,
    /// Places in the order of claims: one for each route of a pending task.
    pub pending_entries: u64,
    /// Run ids.
    pub runs: u64,
    /// Observations.
    pub observations: u64,
}

impl Totals {
    /// All tasks.
    pub fn tasks(&self) -> u64 {
        self.tasks_by_status.values().sum()
    }

    /// Counts tasks of a queue in a status.
    pub fn add_status(&mut self, queue: &QueueName, status: Status, tasks: u64) {
        if tasks > 0 {
            *self.tasks_by_status.entry((queue.clone(), status.as_str())).or_default() += tasks;
        }
    }

    pub(super) fn add_tasks(&mut self, tasks: &[TransferredTask]) {
        for task in tasks {
            let status = task.task.lifecycle.status;
            self.add_status(&task.task.queue, status, 1);
            self.running += u64::from(status == Status::Running);
            if status == Status::Pending {
                self.pending_entries += task.task.definition.routes.iter().count() as u64;
            }
            self.runs += task.runs().count() as u64;
        }
    }
}

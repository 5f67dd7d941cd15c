//! Row counts: counted while tasks are copied, and compared with those of the source and the target.

use std::collections::BTreeMap;

use taskqueue_core::ids::QueueName;
use taskqueue_core::task::Status;

use super::TransferredTask;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub queues: u64,
    /// By queue and name of the status; never 0.
    pub tasks_by_status: BTreeMap<(QueueName, &'static str), u64>,
    pub running: u64,
    /// Entries of the pending order: one for each route of a pending task.
    pub pending_entries: u64,
    pub runs: u64,
    pub observations: u64,
}

impl Totals {
    pub fn tasks(&self) -> u64 {
        self.tasks_by_status.values().sum()
    }

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

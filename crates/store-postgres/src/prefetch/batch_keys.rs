//! What the commands of a batch name.

use std::collections::{BTreeMap, BTreeSet};

use taskqueue_core::definition::Definition;
use taskqueue_core::ids::{QueueName, Route, RunId, TaskId, WorkerId};
use taskqueue_store::command::{Claim, ClaimTasks, Heartbeat, RunAction, RunItem};
use taskqueue_store::write_request::WriteRequest;

/// The keys that the commands of a batch name.
#[derive(Default)]
pub(crate) struct BatchKeys {
    pub(super) queues: BTreeSet<QueueName>,
    /// To be locked.
    pub(super) held: BTreeSet<(QueueName, TaskId)>,
    /// To be loaded with their heavy part.
    pub(super) whole: BTreeSet<(QueueName, TaskId)>,
    /// To be loaded with their identities.
    pub(super) identified: BTreeSet<(QueueName, TaskId)>,
    /// The size of their results is needed.
    pub(super) sized: BTreeSet<(QueueName, TaskId)>,
    /// To be loaded with what is kept of their output.
    pub(super) printed: BTreeSet<(QueueName, TaskId)>,
    pub(super) runs: BTreeSet<RunId>,
    /// How many tasks the claims of a route want.
    pub(super) wanted: BTreeMap<(QueueName, Route), i64>,
    pub(super) observations: BTreeSet<(QueueName, WorkerId)>,
    /// What new tasks wait for.
    pub(super) dependencies: BTreeSet<(QueueName, TaskId)>,
    /// Tasks that may become something else to those that wait for them.
    pub(super) settling: BTreeSet<(QueueName, TaskId)>,
}

impl BatchKeys {
    pub(crate) fn by<'a>(requests: impl Iterator<Item = &'a WriteRequest>) -> Self {
        let mut keys = Self::default();
        requests.for_each(|request| keys.add(request));
        keys
    }

    fn add(&mut self, request: &WriteRequest) {
        match request {
            WriteRequest::CreateQueue(create) => drop(self.queues.insert(create.command.queue.clone())),
            WriteRequest::CreateTask(create) => {
                let task = self.task(&create.command.queue, create.command.id);
                self.add_dependencies(&create.command.queue, &create.command.new.definition);
                self.settling.insert(task.clone());
                self.whole.insert(task);
            }
            WriteRequest::CreateTasks(create) => {
                self.queues.insert(create.command.queue.clone());
                for (id, new) in &create.command.tasks {
                    self.add_dependencies(&create.command.queue, &new.definition);
                    self.settling.insert((create.command.queue.clone(), *id));
                    self.identified.insert((create.command.queue.clone(), *id));
                }
            }
            WriteRequest::UpdateTask(update) => self.add_changed(&update.command.queue, update.command.id),
            WriteRequest::ActOnTask(act) => {
                self.add_settling(&act.command.queue, act.command.id);
                self.add_changed(&act.command.queue, act.command.id);
            }
            // Its tasks are locked when their turn comes.
            WriteRequest::ActOnFound(found) => drop(self.queues.insert(found.command.act.queue.clone())),
            WriteRequest::DeleteTask(delete) => {
                self.add_settling(&delete.command.queue, delete.command.id);
                self.add_held(&delete.command.queue, delete.command.id, false);
            }
            WriteRequest::Heartbeat(heartbeat) => {
                let Heartbeat { queue, id, progress, .. } = &heartbeat.command;
                self.add_held(queue, *id, progress.is_some());
            }
            WriteRequest::ReportProgress(report) => self.add_held(&report.command.queue, report.command.id, true),
            WriteRequest::AddOutput(output) => {
                self.add_held(&output.command.queue, output.command.id, false);
                self.printed.insert((output.command.queue.clone(), output.command.id));
            }
            WriteRequest::ReportRun(report) => {
                self.add_settling(&report.command.queue, report.command.id);
                self.add_held(&report.command.queue, report.command.id, false);
            }
            WriteRequest::Claim(claim) => {
                let Claim { queue, route, run_id, .. } = &claim.command;
                self.queues.insert(queue.clone());
                self.runs.insert(*run_id);
                *self.wanted.entry((queue.clone(), route.clone())).or_default() += 1;
            }
            WriteRequest::ClaimTasks(claim) => {
                let ClaimTasks { queue, route, run_ids, .. } = &claim.command;
                self.queues.insert(queue.clone());
                self.runs.extend(run_ids);
                *self.wanted.entry((queue.clone(), route.clone())).or_default() += run_ids.len() as i64;
            }
            WriteRequest::ReportRuns(reports) => {
                self.queues.insert(reports.command.queue.clone());
                for RunItem { id, action, .. } in &reports.command.reports {
                    let has_progress =
                        matches!(action, RunAction::Progress { .. } | RunAction::Heartbeat { progress: Some(_) });
                    if matches!(action, RunAction::Report(_)) {
                        self.add_settling(&reports.command.queue, *id);
                    }
                    self.add_held(&reports.command.queue, *id, has_progress);
                }
            }
            WriteRequest::ReportWorker(report) => self.add_observation(&report.command.queue, report.command.id),
            WriteRequest::ReportTelemetry(report) => self.add_observation(&report.command.queue, report.command.id),
            WriteRequest::WithdrawWorker(withdraw) => {
                self.add_observation(&withdraw.command.queue, withdraw.command.id)
            }
            // These have a transaction of their own and load as they go, or need nothing.
            WriteRequest::DeleteQueue(_)
            | WriteRequest::UpdateTasks(_)
            | WriteRequest::SaveActivity(_)
            | WriteRequest::ChangeSettings(_)
            | WriteRequest::Upkeep(_)
            | WriteRequest::Scan(_) => {}
        }
    }

    fn task(&mut self, queue: &QueueName, id: TaskId) -> (QueueName, TaskId) {
        self.queues.insert(queue.clone());
        (queue.clone(), id)
    }

    fn add_held(&mut self, queue: &QueueName, id: TaskId, has_progress: bool) {
        let task = self.task(queue, id);
        if has_progress {
            self.sized.insert(task.clone());
        }
        self.held.insert(task);
    }

    fn add_changed(&mut self, queue: &QueueName, id: TaskId) {
        let task = self.task(queue, id);
        self.held.insert(task.clone());
        self.whole.insert(task);
    }

    fn add_settling(&mut self, queue: &QueueName, id: TaskId) {
        self.settling.insert((queue.clone(), id));
    }

    fn add_dependencies(&mut self, queue: &QueueName, definition: &Definition) {
        let ids = definition.scheduling.dependencies.as_slice();
        self.dependencies.extend(ids.iter().map(|id| (queue.clone(), *id)));
    }

    fn add_observation(&mut self, queue: &QueueName, id: WorkerId) {
        self.queues.insert(queue.clone());
        self.observations.insert((queue.clone(), id));
    }
}

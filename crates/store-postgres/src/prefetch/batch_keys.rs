//! What the commands of a batch name.

use std::collections::{BTreeMap, BTreeSet};

use taskqueue_core::{Definition, QueueName, Route, RunId, TaskId, WorkerId};
use taskqueue_store::command::{RunAction, RunItem};
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

    /// Adds what a command names, unless it has a transaction of its own and loads as it goes.
    fn add(&mut self, request: &WriteRequest) {
        let Some(queue) = request.queue().filter(|_| !request.is_long()) else { return };
        self.queues.insert(queue.clone());
        let task = |id: TaskId| (queue.clone(), id);
        match request {
            WriteRequest::CreateTask(create) => {
                self.add_new(queue, create.command.id, &create.command.new.definition);
                self.whole.insert(task(create.command.id));
            }
            WriteRequest::CreateTasks(create) => {
                for (id, new) in create.command.tasks.iter() {
                    self.add_new(queue, *id, &new.definition);
                    self.identified.insert(task(*id));
                }
            }
            WriteRequest::UpdateTask(update) => self.add_changed(task(update.command.id)),
            WriteRequest::ActOnTask(act) => {
                self.settling.insert(task(act.command.id));
                self.add_changed(task(act.command.id));
            }
            WriteRequest::DeleteTask(delete) => self.add_ended(task(delete.command.id)),
            WriteRequest::Heartbeat(heartbeat) => {
                self.add_held(task(heartbeat.command.id), heartbeat.command.progress.is_some());
            }
            WriteRequest::ReportProgress(report) => self.add_held(task(report.command.id), true),
            WriteRequest::AddOutput(output) => {
                self.held.insert(task(output.command.id));
                self.printed.insert(task(output.command.id));
            }
            WriteRequest::ReportRun(report) => self.add_ended(task(report.command.id)),
            WriteRequest::Claim(claim) => self.add_claims(queue, &claim.command.route, &[claim.command.run_id]),
            WriteRequest::ClaimTasks(claim) => self.add_claims(queue, &claim.command.route, &claim.command.run_ids),
            WriteRequest::ReportRuns(reports) => {
                for RunItem { task_id: id, action, .. } in reports.command.reports.iter() {
                    match action {
                        RunAction::End(_) => self.add_ended(task(*id)),
                        RunAction::Progress { .. } => self.add_held(task(*id), true),
                        RunAction::Heartbeat { progress } => self.add_held(task(*id), progress.is_some()),
                    }
                }
            }
            WriteRequest::ReportWorker(report) => drop(self.observations.insert((queue.clone(), report.command.id))),
            WriteRequest::ReportTelemetry(report) => drop(self.observations.insert((queue.clone(), report.command.id))),
            WriteRequest::WithdrawWorker(worker) => drop(self.observations.insert((queue.clone(), worker.command.id))),
            // The tasks of a portion are locked when their turn comes; the rest needs no more than its queue.
            WriteRequest::ActOnFound(_)
            | WriteRequest::CreateQueue(_)
            | WriteRequest::DeleteQueue(_)
            | WriteRequest::UpdateTasks(_)
            | WriteRequest::SaveActivity(_)
            | WriteRequest::ChangeSettings(_)
            | WriteRequest::Upkeep(_)
            | WriteRequest::Scan(_) => {}
        }
    }

    fn add_new(&mut self, queue: &QueueName, id: TaskId, definition: &Definition) {
        let dependencies = definition.scheduling.dependencies.as_slice();
        self.dependencies.extend(dependencies.iter().map(|id| (queue.clone(), *id)));
        self.settling.insert((queue.clone(), id));
    }

    fn add_held(&mut self, task: (QueueName, TaskId), has_progress: bool) {
        self.sized.extend(has_progress.then(|| task.clone()));
        self.held.insert(task);
    }

    fn add_changed(&mut self, task: (QueueName, TaskId)) {
        self.held.insert(task.clone());
        self.whole.insert(task);
    }

    /// Adds a task that ends or goes.
    fn add_ended(&mut self, task: (QueueName, TaskId)) {
        self.settling.insert(task.clone());
        self.held.insert(task);
    }

    fn add_claims(&mut self, queue: &QueueName, route: &Route, run_ids: &[RunId]) {
        self.runs.extend(run_ids);
        *self.wanted.entry((queue.clone(), route.clone())).or_default() += run_ids.len() as i64;
    }
}

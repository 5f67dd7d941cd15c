//! What the model holds: plain maps, and how they are looked through.

use std::collections::{BTreeMap, BTreeSet};

use taskqueue_core::activity::{Activity, Span};
use taskqueue_core::definition::Identity;
use taskqueue_core::dependency::DependencyState;
use taskqueue_core::filter::ObservationFilter;
use taskqueue_core::ids::{QueueName, Route, RunId, TaskId, WorkerId};
use taskqueue_core::observation::Observation;
use taskqueue_core::output::KeptOutput;
use taskqueue_core::refusal::Refusal;
use taskqueue_core::settings::QueueSettings;
use taskqueue_core::task::Task;
use taskqueue_core::time::Timestamp;

use super::NO_TASK;
use crate::StoreError;
use crate::activity::ProcessId;
use crate::bulk::Planned;
use crate::transaction::{Loaded, QueueKey, RunUse, TaskKey};

pub(super) struct State {
    pub(super) queues: BTreeMap<QueueName, QueueKey>,
    pub(super) tasks: BTreeMap<TaskKey, Row>,
    pub(super) runs: BTreeMap<RunId, TaskKey>,
    /// Run ids of deleted tasks, and until when they are kept.
    pub(super) deleted_runs: BTreeMap<RunId, Timestamp>,
    pub(super) observations: BTreeMap<(QueueKey, WorkerId), Observation>,
    /// What each process has saved.
    pub(super) activity: BTreeMap<(QueueKey, Span, ProcessId), Activity>,
    /// Since when activity is counted.
    pub(super) counts_since: Timestamp,
    /// What each dependency is to each task that waits for it.
    pub(super) dependencies: BTreeMap<(QueueKey, TaskId, TaskKey), DependencyState>,
    /// Tasks whose dependents are to be looked at again, behind which of them.
    pub(super) unsettled: BTreeMap<(QueueKey, TaskId), Option<TaskKey>>,
    pub(super) settings: BTreeMap<QueueKey, QueueSettings>,
    /// Until when delayed tasks were released.
    pub(super) released_until: Timestamp,
    pub(super) last_key: i64,
    pub(super) last_pending_seq: i64,
    pub(super) last_scan_at: Option<Timestamp>,
    pub(super) last_change: u64,
}

pub(super) struct Row {
    pub(super) queue: QueueKey,
    pub(super) task: Task,
    pub(super) identity: Identity,
    pub(super) output: Option<ModelOutput>,
    /// The number of its last change.
    pub(super) change: u64,
}

pub(super) struct ModelOutput {
    pub(super) kept: KeptOutput,
    pub(super) bytes: BTreeMap<u64, u8>,
}

impl State {
    pub(super) fn begun_at(now: Timestamp) -> Self {
        Self {
            queues: BTreeMap::new(),
            tasks: BTreeMap::new(),
            runs: BTreeMap::new(),
            deleted_runs: BTreeMap::new(),
            observations: BTreeMap::new(),
            activity: BTreeMap::new(),
            dependencies: BTreeMap::new(),
            unsettled: BTreeMap::new(),
            settings: BTreeMap::new(),
            released_until: now,
            counts_since: now,
            last_key: 0,
            last_pending_seq: 0,
            last_scan_at: None,
            last_change: 0,
        }
    }

    pub(super) fn queue(&self, name: &QueueName) -> Result<QueueKey, StoreError> {
        self.queues.get(name).copied().ok_or_else(|| Refusal::QueueNotFound { queue: name.clone() }.into())
    }

    pub(super) fn tasks_of(&self, queue: QueueKey) -> impl Iterator<Item = (TaskKey, &Task)> {
        self.tasks.iter().filter(move |(_, row)| row.queue == queue).map(|(key, row)| (*key, &row.task))
    }

    pub(super) fn observations_of<'a>(
        &'a self,
        queue: QueueKey,
        filter: Option<&'a ObservationFilter>,
        now: Timestamp,
    ) -> impl Iterator<Item = &'a Observation> {
        let current = self.observations.iter().filter(move |((owner, _), _)| *owner == queue);
        current
            .map(|(_, observation)| observation)
            .filter(move |one| one.is_current(now) && filter.is_none_or(|filter| filter.matches(*one)))
    }

    pub(super) fn task(&self, key: TaskKey) -> Loaded<&Task> {
        self.tasks.get(&key).map(|row| &row.task).ok_or(NO_TASK)
    }

    /// A task that is about to change.
    pub(super) fn task_mut(&mut self, key: TaskKey) -> Loaded<&mut Task> {
        let change = self.next_change();
        let row = self.tasks.get_mut(&key).ok_or(NO_TASK)?;
        row.change = change;
        Ok(&mut row.task)
    }

    pub(super) fn next_change(&mut self) -> u64 {
        self.last_change += 1;
        self.last_change
    }

    /// The tasks of a plan's queue that were created, changed or deleted since its snapshot.
    pub(super) fn changed_since(&self, planned: &Planned<u64>) -> Vec<TaskKey> {
        let own = self.tasks.iter().filter(|(_, row)| row.queue == planned.plan.queue());
        let changed = own.filter(|(_, row)| row.change > planned.snapshot).map(|(key, _)| *key);
        let known = planned.plan.changes().map(|(key, _)| key).chain(planned.plan.unchanged());
        changed.chain(known.filter(|key| !self.tasks.contains_key(key))).collect()
    }

    pub(super) fn run_use(&self, run_id: RunId) -> Result<RunUse, StoreError> {
        if self.deleted_runs.contains_key(&run_id) {
            return Ok(RunUse::Past);
        }
        let Some(key) = self.runs.get(&run_id).copied() else { return Ok(RunUse::New) };
        let row = self.tasks.get(&key).ok_or(NO_TASK)?;
        let active = row.task.lifecycle.run.is_some_and(|run| run.run_id == run_id);
        Ok(if active { RunUse::Active(row.queue, key) } else { RunUse::Past })
    }

    /// How many tasks claims for this route may take now.
    pub(super) fn pending(&self, queue: &QueueName, route: &Route, now: Timestamp) -> usize {
        let Ok(key) = self.queue(queue) else { return 0 };
        let pending = self.tasks_of(key).filter(|(_, task)| Self::is_claimable(task, route, now)).count();
        let room = self.settings(key).room(route, self.running(key, route));
        room.map_or(pending, |room| pending.min(usize::try_from(room).unwrap_or(usize::MAX)))
    }

    pub(super) fn delete_runs(&mut self, deleted_tasks: &BTreeSet<TaskKey>, kept_until: Timestamp) {
        let deleted = self.runs.extract_if(.., |_, key| deleted_tasks.contains(key));
        self.deleted_runs.extend(deleted.map(|(run_id, _)| (run_id, kept_until)));
    }

    pub(super) fn next_key(&mut self) -> i64 {
        self.last_key += 1;
        self.last_key
    }
}

//! What the model holds: plain maps, and how they are looked through: what tasks wait for, what is around a task, what is going on in
//! a queue. It visits every task, which no other store may do.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};

use taskqueue_core::activity::{Activity, Span, Unit};
use taskqueue_core::definition::Identity;
use taskqueue_core::dependency::DependencyState;
use taskqueue_core::explain::{Explanation, Facts, RouteFacts, explain};
use taskqueue_core::ids::{QueueName, Route, RunId, TaskId, WorkerId};
use taskqueue_core::observation::Observation;
use taskqueue_core::output::KeptOutput;
use taskqueue_core::pending_parts::CountedParts;
use taskqueue_core::refusal::Refusal;
use taskqueue_core::settings::{QueueSettings, RunningTasks};
use taskqueue_core::stats::{KnownSpans, PendingDetail, QueueFigures, RouteSelection, pending_since};
use taskqueue_core::task::{Lifecycle, Status, Task};
use taskqueue_core::time::Timestamp;

use super::NO_TASK;
use crate::StoreResult;
use crate::activity::{ActivityLog, ProcessId};
use crate::bulk::Planned;
use crate::related::{Related, RelatedTask, RelatedTasks};
use crate::transaction::{Dependents, Loaded, QueueKey, RunUse, TaskKey};

#[derive(Default)]
pub(super) struct ModelState {
    pub(super) queues: BTreeMap<QueueName, QueueKey>,
    pub(super) tasks: BTreeMap<TaskKey, Row>,
    pub(super) runs: BTreeMap<RunId, TaskKey>,
    /// Run ids of deleted tasks, and until when they are kept.
    pub(super) deleted_runs: BTreeMap<RunId, Timestamp>,
    pub(super) observations: BTreeMap<(QueueKey, WorkerId), Observation>,
    /// The saved activity of each process.
    pub(super) activity: BTreeMap<(QueueKey, Span, ProcessId), Activity>,
    /// Since when activity is counted.
    pub(super) counts_since: Timestamp,
    /// The state of each dependency for each task that waits for it.
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

impl ModelState {
    pub(super) fn begun_at(now: Timestamp) -> Self {
        Self { released_until: now, counts_since: now, ..Self::default() }
    }

    pub(super) fn queue(&self, name: &QueueName) -> StoreResult<QueueKey> {
        self.queues.get(name).copied().ok_or_else(|| Refusal::QueueNotFound { queue: name.clone() }.into())
    }

    pub(super) fn tasks_of(&self, queue: QueueKey) -> impl Iterator<Item = (TaskKey, &Task)> {
        self.tasks.iter().filter(move |(_, row)| row.queue == queue).map(|(key, row)| (*key, &row.task))
    }

    pub(super) fn observations_of(&self, queue: QueueKey, now: Timestamp) -> impl Iterator<Item = &Observation> {
        let own = self.observations.iter().filter(move |((owner, _), _)| *owner == queue);
        own.map(|(_, observation)| observation).filter(move |observation| observation.is_current(now))
    }

    pub(super) fn find(&self, queue: QueueKey, id: TaskId) -> Option<(TaskKey, &Task)> {
        self.tasks_of(queue).find(|(_, task)| task.id == id)
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
        let own = self.tasks.iter().filter(|(_, row)| row.queue == planned.plan.queue);
        let changed = own.filter(|(_, row)| row.change > planned.snapshot).map(|(key, _)| *key);
        let known = planned.plan.changes().map(|(key, _)| key).chain(planned.plan.unchanged());
        changed.chain(known.filter(|key| !self.tasks.contains_key(key))).collect()
    }

    pub(super) fn run_use(&self, run_id: RunId) -> StoreResult<RunUse> {
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

    /// Returns whether a claim for this route may take a task.
    pub(super) fn is_claimable(task: &Task, route: &Route, now: Timestamp) -> bool {
        task.lifecycle.is_claimable(now) && task.definition.routes.contains(route.as_str())
    }

    pub(super) fn status_of(&self, queue: QueueKey, id: TaskId) -> Option<Status> {
        self.find(queue, id).map(|(_, task)| task.lifecycle.status)
    }

    pub(super) fn dependents(&self, queue: QueueKey, id: TaskId, after: Option<TaskKey>, most: usize) -> Dependents {
        let from = after.map_or(Unbounded, |after| Excluded((queue, id, after)));
        let own = self.dependencies.range((from, Unbounded));
        let own = own.filter(|((own_queue, own_id, _), _)| (*own_queue, *own_id) == (queue, id));
        Dependents { tasks: own.take(most).map(|((_, _, key), state)| (*key, *state)).collect(), held_elsewhere: false }
    }

    pub(super) fn settings(&self, queue: QueueKey) -> QueueSettings {
        self.settings.get(&queue).cloned().unwrap_or_default()
    }

    pub(super) fn running(&self, queue: QueueKey, route: &Route) -> RunningTasks {
        let running = |task: &&Task| task.lifecycle.status == Status::Running;
        let own = || self.tasks_of(queue).map(|(_, task)| task).filter(running);
        RunningTasks {
            of_queue: own().count() as u64,
            of_route: own().filter(|task| task.lifecycle.last_route.as_ref() == Some(route)).count() as u64,
        }
    }

    pub(super) fn explain(&self, queue: &QueueName, id: TaskId, now: Timestamp) -> StoreResult<Explanation> {
        let key = self.queue(queue)?;
        let (_, task) =
            self.find(key, id).ok_or_else(|| Refusal::TaskNotFound { queue: queue.clone(), task_id: id })?;
        let rank = |task: &Task| (std::cmp::Reverse(task.definition.priority), task.lifecycle.pending_seq);
        let of_route = |route: Route| {
            let pending = self.tasks_of(key).filter(|(_, other)| Self::is_claimable(other, &route, now));
            RouteFacts {
                running: self.running(key, &route),
                has_worker: self.observations_of(key, now).any(|worker| worker.report.route == route),
                ahead: pending.filter(|(_, other)| rank(other) < rank(task)).count() as u64,
                route,
            }
        };
        let dependencies = task.definition.scheduling.dependencies.as_slice().iter();
        let statuses = dependencies.map(|dependency| (*dependency, self.status_of(key, *dependency)));
        Ok(explain(Facts {
            settings: self.settings(key),
            of_routes: task.definition.routes.iter().filter_map(Route::parse).map(of_route).collect(),
            unmet: statuses.filter(|(_, status)| *status != Some(Status::Succeeded)).collect(),
            ..Facts::of(&task.head(), now)
        }))
    }

    /// Forgets what a task waited for.
    pub(super) fn forget_dependencies(&mut self, task: TaskKey) {
        self.dependencies.retain(|(_, _, key), _| *key != task);
    }

    pub(super) fn related_tasks(&self, queue: QueueKey, related: &Related) -> RelatedTasks {
        let shown = |task: &Task| RelatedTask {
            id: task.id,
            status: task.lifecycle.status,
            name: task.definition.name.clone(),
        };
        let found = |id| self.find(queue, id).map(|(_, task)| shown(task));
        let dependents = self.dependents(queue, related.id, None, related.most_dependents.into()).tasks;
        let by_key = |key| self.tasks.get(&key).map(|row| shown(&row.task));
        RelatedTasks {
            dependencies: related.dependencies.iter().copied().map(found).collect(),
            dependents: dependents.into_iter().filter_map(|(key, _)| by_key(key)).collect(),
        }
    }

    pub(super) fn queue_figures(
        &self,
        key: QueueKey,
        routes: &RouteSelection,
        pending: PendingDetail,
        now: Timestamp,
    ) -> QueueFigures {
        let mut figures = QueueFigures::default();
        let mut oldest: BTreeMap<String, &Lifecycle> = BTreeMap::new();
        let (mut claimable, mut blocked) = (0, 0);
        for (_, task) in self.tasks_of(key) {
            let routes = &task.definition.routes;
            if task.lifecycle.archived {
                continue;
            }
            figures.add_tasks(routes.iter(), task.lifecycle.status, 1);
            blocked += u64::from(task.lifecycle.status == Status::Pending && task.lifecycle.unmet > 0);
            if task.lifecycle.is_claimable(now) {
                claimable += 1;
                for route in routes.iter() {
                    let first = oldest.entry(route.to_owned()).or_insert(&task.lifecycle);
                    if task.lifecycle.pending_seq < first.pending_seq {
                        *first = &task.lifecycle;
                    }
                }
            }
        }
        for worker in self.observations_of(key, now) {
            figures.add_workers(worker.report.route.as_str(), worker.report.status, 1);
        }
        figures.settings = self.settings(key);
        if pending == PendingDetail::ByState {
            figures.set_pending(CountedParts { claimable: Some(claimable), delayed: None, blocked: Some(blocked) });
        }
        figures.keep(routes);
        let told: Vec<String> = figures.routes().map(|(route, _)| route.to_owned()).collect();
        for route in told {
            if let Some(lifecycle) = oldest.get(&route) {
                figures.add_pending_since(&route, pending_since(lifecycle));
            }
        }
        figures
    }

    /// Returns the activity of all processes in the spans that begin between two moments.
    pub(super) fn known_spans(
        &self,
        log: &ActivityLog,
        key: QueueKey,
        unit: Unit,
        (from, to): (Timestamp, Timestamp),
    ) -> KnownSpans {
        let in_memory = log.in_memory(key, unit, (from, to));
        let rows = self
            .activity
            .iter()
            .filter(|((queue, span, _), _)| *queue == key && span.unit == unit && (from..to).contains(&span.start));
        log.sum(in_memory, rows.map(|((_, span, process), activity)| (span.start, *process, activity.clone())))
    }
}

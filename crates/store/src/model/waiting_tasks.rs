//! What the model knows of tasks that wait: for a time, for other tasks, for room in their queue.

use std::ops::Bound::{Excluded, Unbounded};

use taskqueue_core::dependency::DependencyState;
use taskqueue_core::explain::{Explanation, Facts, RouteFacts, explain};
use taskqueue_core::ids::{QueueName, Route, TaskId};
use taskqueue_core::refusal::Refusal;
use taskqueue_core::settings::{QueueSettings, RunningTasks};
use taskqueue_core::task::{Lifecycle, Status, Task};
use taskqueue_core::time::Timestamp;

use super::state::State;
use crate::StoreError;
use crate::transaction::{Dependents, QueueKey, TaskKey, Unsettled};

impl State {
    /// Whether a claim for this route may take a task.
    pub(super) fn is_claimable(task: &Task, route: &Route, now: Timestamp) -> bool {
        Self::waits_for_a_claim(&task.lifecycle, now) && task.definition.routes.contains(route.as_str())
    }

    /// Whether nothing but a claim is missing.
    pub(super) fn waits_for_a_claim(lifecycle: &Lifecycle, now: Timestamp) -> bool {
        lifecycle.status == Status::Pending
            && lifecycle.unmet == 0
            && lifecycle.not_before.is_none_or(|not_before| not_before <= now)
    }

    pub(super) fn status_of(&self, queue: QueueKey, id: TaskId) -> Option<Status> {
        self.tasks_of(queue).find(|(_, task)| task.id == id).map(|(_, task)| task.lifecycle.status)
    }

    pub(super) fn dependents(
        &self,
        queue: QueueKey,
        dependency: TaskId,
        after: Option<TaskKey>,
        most: usize,
    ) -> Dependents {
        let from = after.map_or(Unbounded, |after| Excluded((queue, dependency, after)));
        let own = self.dependencies.range((from, Unbounded));
        let own = own.filter(|((own_queue, own_id, _), _)| (*own_queue, *own_id) == (queue, dependency));
        Dependents { tasks: own.take(most).map(|((_, _, key), state)| (*key, *state)).collect(), held_elsewhere: false }
    }

    pub(super) fn noted(&self, queue: QueueKey, task: TaskKey, id: TaskId) -> Option<DependencyState> {
        self.dependencies.get(&(queue, id, task)).copied()
    }

    pub(super) fn find_unsettled(&self, of: Option<QueueKey>) -> Option<Unsettled> {
        let is_asked_for = |queue: &QueueKey| of.is_none_or(|of| of == *queue);
        let ((queue, dependency), after) = self.unsettled.iter().find(|((queue, _), _)| is_asked_for(queue))?;
        let status = self.status_of(*queue, *dependency);
        Some(Unsettled { queue: *queue, dependency: *dependency, status, after: *after })
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

    /// Ended tasks that are kept no longer.
    pub(super) fn outdated(&self, now: Timestamp) -> impl Iterator<Item = (QueueKey, TaskKey)> {
        let is_outdated = move |queue: QueueKey, task: &Task| {
            self.settings.get(&queue).is_some_and(|settings| settings.retention.is_outdated(&task.lifecycle, now))
        };
        let outdated = self.tasks.iter().filter(move |(_, row)| is_outdated(row.queue, &row.task));
        outdated.map(|(key, row)| (row.queue, *key))
    }

    pub(super) fn explain(&self, queue: &QueueName, id: TaskId, now: Timestamp) -> Result<Explanation, StoreError> {
        let key = self.queue(queue)?;
        let found = self.tasks_of(key).find(|(_, task)| task.id == id);
        let (_, task) = found.ok_or_else(|| Refusal::TaskNotFound { queue: queue.clone(), task_id: id })?;
        let rank = |task: &Task| (std::cmp::Reverse(task.definition.priority), task.lifecycle.pending_seq);
        let of_route = |route: Route| {
            let pending = self.tasks_of(key).filter(|(_, other)| Self::is_claimable(other, &route, now));
            RouteFacts {
                running: self.running(key, &route),
                has_worker: self.observations_of(key, None, now).any(|worker| worker.report.route == route),
                ahead: pending.filter(|(_, other)| rank(other) < rank(task)).count() as u64,
                route,
            }
        };
        let dependencies = task.definition.scheduling.dependencies.as_slice().iter();
        let statuses = dependencies.map(|dependency| (*dependency, self.status_of(key, *dependency)));
        Ok(explain(Facts {
            status: task.lifecycle.status,
            lease_expires_at: task.lifecycle.run.map(|run| run.lease_expires_at),
            not_before: task.lifecycle.not_before,
            routes: task.definition.routes.clone(),
            now,
            settings: self.settings(key),
            of_routes: task.definition.routes.iter().filter_map(Route::parse).map(of_route).collect(),
            is_blocked: task.lifecycle.unmet > 0,
            unmet: statuses.filter(|(_, status)| *status != Some(Status::Succeeded)).collect(),
        }))
    }

    /// Forgets what a deleted task waited for.
    pub(super) fn forget_dependencies(&mut self, task: TaskKey) {
        self.dependencies.retain(|(_, _, key), _| *key != task);
    }

    /// Forgets all that is known of a deleted queue.
    pub(super) fn forget_waiting(&mut self, queue: QueueKey) {
        self.dependencies.retain(|(own, _, _), _| *own != queue);
        self.unsettled.retain(|(own, _), _| *own != queue);
        self.settings.remove(&queue);
    }
}

//! What the model loads and saves: each thing as plainly as it can be done.

use std::collections::BTreeSet;
use std::sync::Arc;

use taskqueue_core::activity::Span;
use taskqueue_core::definition::Identity;
use taskqueue_core::dependency::DependencyState;
use taskqueue_core::ids::{QueueName, Route, RunId, TaskId, WorkerId};
use taskqueue_core::lease;
use taskqueue_core::lifecycle::Change;
use taskqueue_core::observation::Observation;
use taskqueue_core::output::{KeptOutput, OutputChange};
use taskqueue_core::scheduling::Dependencies;
use taskqueue_core::settings::{QueueSettings, RunningTasks};
use taskqueue_core::task::{Status, Task, TaskHead};
use taskqueue_core::time::Timestamp;
use taskqueue_core::update::{Documents, Effect, Update};

use super::NO_TASK;
use super::state::{ModelOutput, ModelState, Row};
use crate::activity::{ActivityRow, ProcessId};
use crate::bulk::{Limit, Planned, REDECIDED};
use crate::bulk_action::{ChangeRecord, FoundState, FoundTask};
use crate::command::BulkUpdate;
use crate::transaction::{
    BatchTransaction, Dependents, Loaded, Outdated, Over, Queue, QueueKey, QueueTally, RunUse, TaskKey, Transaction,
    Unsettled, VisitTask,
};

/// A transaction on the maps.
pub(super) struct ModelTransaction<'a> {
    pub(super) state: &'a mut ModelState,
    pub(super) now: Timestamp,
}

impl Transaction for ModelTransaction<'_> {
    fn now(&self) -> Timestamp {
        self.now
    }

    fn next_pending_seq(&mut self) -> i64 {
        self.state.last_pending_seq += 1;
        self.state.last_pending_seq
    }

    fn find_queue(&mut self, name: &QueueName) -> Loaded<Option<QueueKey>> {
        Ok(self.state.queues.get(name).copied())
    }

    fn insert_queue(&mut self, name: &QueueName) -> Loaded<bool> {
        if self.state.queues.contains_key(name) {
            return Ok(false);
        }
        let key = QueueKey(self.state.next_key());
        self.state.queues.insert(name.clone(), key);
        Ok(true)
    }

    fn tally_queue(&mut self, queue: QueueKey) -> Loaded<QueueTally> {
        let tasks = self.state.tasks_of(queue).count() as u64;
        let is_running = |(_, task): &(TaskKey, &Task)| task.lifecycle.status == Status::Running;
        Ok(QueueTally { tasks, running: self.state.tasks_of(queue).filter(is_running).count() as u64 })
    }

    fn delete_queue(&mut self, Queue { key: queue, name }: Queue<'_>, runs_kept_until: Timestamp) -> Loaded<()> {
        let deleted_tasks: BTreeSet<TaskKey> = self.state.tasks_of(queue).map(|(key, _)| key).collect();
        self.state.delete_runs(&deleted_tasks, runs_kept_until);
        self.state.tasks.retain(|key, _| !deleted_tasks.contains(key));
        self.state.observations.retain(|(owner, _), _| *owner != queue);
        self.state.activity.retain(|(owner, ..), _| *owner != queue);
        self.state.dependencies.retain(|(owner, ..), _| *owner != queue);
        self.state.unsettled.retain(|(owner, _), _| *owner != queue);
        self.state.settings.remove(&queue);
        self.state.queues.remove(name);
        Ok(())
    }

    fn find_task(&mut self, queue: QueueKey, id: TaskId) -> Loaded<Option<TaskKey>> {
        Ok(self.state.find(queue, id).map(|(key, _)| key))
    }

    fn load_task(&mut self, _: Queue<'_>, key: TaskKey) -> Loaded<Task> {
        self.state.task(key).cloned()
    }

    fn load_head(&mut self, key: TaskKey) -> Loaded<TaskHead> {
        self.state.task(key).map(Task::head)
    }

    fn load_result_bytes(&mut self, key: TaskKey) -> Loaded<usize> {
        Ok(self.state.task(key)?.outcome.result.as_str().len())
    }

    fn load_output(&mut self, key: TaskKey) -> Loaded<Option<KeptOutput>> {
        let row = self.state.tasks.get(&key).ok_or(NO_TASK)?;
        Ok(row.output.as_ref().map(|output| output.kept.clone()))
    }

    fn save_output(&mut self, _: QueueKey, key: TaskKey, change: &OutputChange<'_>) -> Loaded<()> {
        let row = self.state.tasks.get_mut(&key).ok_or(NO_TASK)?;
        let before = row.output.take().filter(|_| !change.replaces);
        let mut bytes = before.map(|output| output.bytes).unwrap_or_default();
        for (offset, text) in &change.added {
            bytes.extend((*offset..).zip(text.bytes()));
        }
        row.output = Some(ModelOutput { kept: change.kept.clone(), bytes });
        Ok(())
    }

    fn load_identity(&mut self, key: TaskKey) -> Loaded<Identity> {
        self.state.tasks.get(&key).map(|row| row.identity).ok_or(NO_TASK)
    }

    fn insert_task(&mut self, queue: QueueKey, task: &Task, identity: &Identity) -> Loaded<Option<TaskKey>> {
        if self.find_task(queue, task.id)?.is_some() {
            return Ok(None);
        }
        let key = TaskKey(self.state.next_key());
        let change = self.state.next_change();
        self.state.tasks.insert(key, Row { queue, task: task.clone(), identity: *identity, output: None, change });
        Ok(Some(key))
    }

    fn save_change(&mut self, _: QueueKey, key: TaskKey, _: &TaskHead, change: &Change) -> Loaded<()> {
        if let Some(run) = change.lifecycle.run {
            self.state.runs.insert(run.run_id, key);
        }
        let task = self.state.task_mut(key)?;
        task.lifecycle = change.lifecycle.clone();
        change.apply_to_outcome(&mut task.outcome);
        Ok(())
    }

    fn save_update(&mut self, _: QueueKey, key: TaskKey, _: &Task, after: &Task) -> Loaded<()> {
        *self.state.task_mut(key)? = after.clone();
        Ok(())
    }

    fn delete_task(&mut self, _: QueueKey, key: TaskKey, _: &TaskHead, runs_kept_until: Timestamp) -> Loaded<()> {
        self.state.tasks.remove(&key);
        self.state.forget_dependencies(key);
        self.state.delete_runs(&BTreeSet::from([key]), runs_kept_until);
        Ok(())
    }

    fn may_have_dependents(&mut self, queue: QueueKey, dependency: TaskId) -> Loaded<bool> {
        Ok(self.state.dependencies.keys().any(|(own, id, _)| (*own, *id) == (queue, dependency)))
    }

    fn dependents(&mut self, queue: QueueKey, id: TaskId, after: Option<TaskKey>, most: usize) -> Loaded<Dependents> {
        Ok(self.state.dependents(queue, id, after, most))
    }

    fn save_dependency(&mut self, queue: QueueKey, id: TaskId, task: TaskKey, state: DependencyState) -> Loaded<()> {
        self.state.dependencies.insert((queue, id, task), state);
        Ok(())
    }

    fn load_statuses(&mut self, queue: QueueKey, ids: &[TaskId]) -> Loaded<Vec<Option<Status>>> {
        Ok(ids.iter().map(|id| self.state.status_of(queue, *id)).collect())
    }

    fn load_noted(&mut self, queue: QueueKey, task: TaskKey, ids: &[TaskId]) -> Loaded<Vec<Option<DependencyState>>> {
        Ok(ids.iter().map(|id| self.state.dependencies.get(&(queue, *id, task)).copied()).collect())
    }

    fn replace_dependencies(
        &mut self,
        queue: QueueKey,
        task: TaskKey,
        _: &Dependencies,
        after: &[(TaskId, DependencyState)],
    ) -> Loaded<()> {
        self.state.forget_dependencies(task);
        self.state.dependencies.extend(after.iter().map(|(id, state)| ((queue, *id, task), *state)));
        Ok(())
    }

    fn leave_unsettled(&mut self, queue: QueueKey, dependency: TaskId) -> Loaded<()> {
        self.state.unsettled.insert((queue, dependency), None);
        Ok(())
    }

    fn find_unsettled(&mut self, of: Option<QueueKey>) -> Loaded<Option<Unsettled>> {
        let unsettled = self.state.unsettled.iter().find(|((queue, _), _)| of.is_none_or(|of| of == *queue));
        Ok(unsettled.map(|((queue, dependency), after)| {
            let status = self.state.status_of(*queue, *dependency);
            Unsettled { queue: *queue, dependency: *dependency, status, after: *after }
        }))
    }

    fn save_settled(&mut self, unsettled: &Unsettled, after: Option<TaskKey>) -> Loaded<()> {
        let left = (unsettled.queue, unsettled.dependency);
        // Left again by what the settling itself has changed.
        if self.state.unsettled.get(&left) != Some(&unsettled.after) {
            return Ok(());
        }
        match after {
            Some(after) => drop(self.state.unsettled.insert(left, Some(after))),
            None => drop(self.state.unsettled.remove(&left)),
        }
        Ok(())
    }

    /// Claims look at the time themselves, so this only counts.
    fn release_delayed(&mut self) -> Loaded<usize> {
        let due = self.state.released_until..self.now;
        let is_due = |at: Timestamp| at > due.start && at <= due.end;
        let pending = self.state.tasks.values().filter(|row| row.task.lifecycle.status == Status::Pending);
        let released = pending.filter(|row| row.task.lifecycle.not_before.is_some_and(is_due)).count();
        self.state.released_until = self.now.max(due.start);
        Ok(released)
    }

    fn load_settings(&mut self, queue: QueueKey) -> Loaded<Option<Arc<QueueSettings>>> {
        Ok(self.state.settings.get(&queue).cloned().map(Arc::new))
    }

    fn count_running(&mut self, queue: QueueKey, route: &Route) -> Loaded<RunningTasks> {
        Ok(self.state.running(queue, route))
    }

    fn save_settings(&mut self, queue: Queue<'_>, settings: &QueueSettings) -> Loaded<()> {
        self.state.settings.insert(queue.key, settings.clone());
        Ok(())
    }

    fn find_outdated(&mut self, most: usize) -> Loaded<Outdated> {
        let is_outdated = |row: &Row| {
            let settings = self.state.settings.get(&row.queue);
            settings.is_some_and(|settings| settings.retention.is_outdated(&row.task.lifecycle, self.now))
        };
        let outdated = self.state.tasks.iter().filter(|(_, row)| is_outdated(row));
        let mut tasks: Vec<_> = outdated.map(|(key, row)| (row.queue, *key)).take(most + 1).collect();
        let more = tasks.len() > most;
        tasks.truncate(most);
        Ok(Outdated { tasks, more })
    }

    fn find_run(&mut self, run_id: RunId) -> Loaded<RunUse> {
        self.state.run_use(run_id)
    }

    fn first_pending(&mut self, queue: QueueKey, route: &Route) -> Loaded<Option<TaskKey>> {
        let pending = self.state.tasks_of(queue).filter(|(_, task)| ModelState::is_claimable(task, route, self.now));
        let place = |task: &Task| (std::cmp::Reverse(task.definition.priority), task.lifecycle.pending_seq);
        Ok(pending.min_by_key(|(_, task)| place(task)).map(|(key, _)| key))
    }

    fn running_until(&mut self, until: Timestamp, most: usize) -> Loaded<Vec<(QueueKey, TaskKey)>> {
        let ends = |task: &Task| task.lifecycle.run.is_some_and(|run| lease::run_ends_at(&run) <= until);
        let rows = self.state.tasks.iter().filter(|(_, row)| ends(&row.task));
        Ok(rows.map(|(key, row)| (row.queue, *key)).take(most).collect())
    }

    fn save_scan(&mut self) -> Loaded<()> {
        self.state.last_scan_at = Some(self.now);
        Ok(())
    }

    fn save_activity(&mut self, process: ProcessId, rows: &[ActivityRow]) -> Loaded<()> {
        for ActivityRow { queue, span, activity } in rows {
            if self.state.queues.values().any(|key| key == queue) {
                self.state.activity.insert((*queue, *span, process), activity.clone());
            }
        }
        Ok(())
    }

    fn forget(&mut self, over: Over) -> Loaded<u64> {
        let state = &mut self.state;
        Ok(match over {
            Over::DeletedRuns { most } => {
                let kept = state.deleted_runs.iter().map(|(run_id, kept_until)| (*kept_until, *run_id));
                let mut over: Vec<_> = kept.filter(|(kept_until, _)| *kept_until <= self.now).collect();
                over.sort_unstable();
                over.truncate(most as usize);
                over.iter().filter(|(_, run_id)| state.deleted_runs.remove(run_id).is_some()).count()
            }
            Over::Activity { unit, before, most } => {
                let is_old = |span: &Span| span.unit == unit && span.start < before;
                let old = state.activity.keys().filter(|(_, span, _)| is_old(span)).take(most as usize);
                let old: Vec<_> = old.copied().collect();
                old.iter().filter(|key| state.activity.remove(key).is_some()).count()
            }
            Over::Observations => {
                let (before, now) = (state.observations.len(), self.now);
                state.observations.retain(|_, observation| observation.is_current(now));
                before - state.observations.len()
            }
        } as u64)
    }

    fn load_observation(&mut self, queue: Queue<'_>, id: WorkerId) -> Loaded<Option<Observation>> {
        Ok(self.state.observations.get(&(queue.key, id)).cloned())
    }

    fn save_observation(&mut self, queue: QueueKey, id: WorkerId, observation: Option<&Observation>) -> Loaded<()> {
        match observation {
            Some(observation) => drop(self.state.observations.insert((queue, id), observation.clone())),
            None => drop(self.state.observations.remove(&(queue, id))),
        }
        Ok(())
    }
}

/// A snapshot is the number of the last change before it.
impl BatchTransaction for ModelTransaction<'_> {
    type Snapshot = u64;

    fn changed_since(&mut self, planned: &Planned<u64>) -> Loaded<Option<Vec<TaskKey>>> {
        Ok(Some(self.state.changed_since(planned)).filter(|since| since.len() <= REDECIDED))
    }

    fn visit_matching(&mut self, queue: Queue<'_>, bulk: &BulkUpdate, _: &Limit, each: VisitTask<'_>) -> Loaded<()> {
        for (key, task) in self.state.tasks_of(queue.key).filter(|(_, task)| bulk.selection.matches(&task.view())) {
            if each(key, task).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn load_existing(&mut self, queue: Queue<'_>, keys: &[TaskKey]) -> Loaded<Vec<(TaskKey, Task)>> {
        let row = |key: &TaskKey| Some((*key, self.state.tasks.get(key)?));
        let own = keys.iter().filter_map(row).filter(|(_, row)| row.queue == queue.key);
        Ok(own.map(|(key, row)| (key, row.task.clone())).collect())
    }

    fn load_found(
        &mut self,
        _: QueueKey,
        found: &[FoundTask],
        _: Option<&dyn ChangeRecord>,
    ) -> Loaded<Vec<(FoundTask, FoundState)>> {
        Ok(found.iter().map(|found| (*found, FoundState::Changed)).collect())
    }

    fn load_documents(&mut self, keys: &[TaskKey]) -> Loaded<Vec<(TaskKey, Documents)>> {
        let documents = |key: &TaskKey| {
            let definition = &self.state.task(*key)?.definition;
            Ok((*key, Documents { args: definition.args.clone(), metadata: definition.metadata.clone() }))
        };
        keys.iter().map(documents).collect()
    }

    fn save_effect(
        &mut self,
        _: QueueKey,
        key: TaskKey,
        (_, after): (&TaskHead, &TaskHead),
        update: &Update,
        _: Effect,
        _: Option<&Documents>,
    ) -> Loaded<()> {
        let task = self.state.task_mut(key)?;
        *task = update.apply(task, after.lifecycle.updated_at)?.unwrap_or_else(|| task.clone());
        Ok(())
    }
}

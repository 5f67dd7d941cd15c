//! The model: a store in plain maps, as simple as it can be. It is the oracle that the real backends are compared with,
//! and a store for tests of the server. It keeps nothing when the process ends.

mod bulk;
mod state;
mod stats;

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use async_trait::async_trait;
use taskqueue_core::activity::{Span, Unit};
use taskqueue_core::definition::Identity;
use taskqueue_core::filter::ObservationFilter;
use taskqueue_core::grouping::{GroupPage, Groups, ObservationGroupQuery, TaskGroupQuery};
use taskqueue_core::ids::{QueueName, Route, RunId, TaskId, WorkerId};
use taskqueue_core::lifecycle::Change;
use taskqueue_core::limits::OUTAGE_CREDIT_SECONDS;
use taskqueue_core::observation::Observation;
use taskqueue_core::output::{KeptOutput, OutputChange};
use taskqueue_core::refusal::Refusal;
use taskqueue_core::selection::{FirstRows, ObservationQuery, Page, TaskQuery, TaskSelection};
use taskqueue_core::stats::{ActivitySeries, QueueStats, SeriesSelection};
use taskqueue_core::task::{Status, Task, TaskHead};
use taskqueue_core::time::Timestamp;
use taskqueue_core::update::{Documents, Effect, Update};

use self::state::{ModelOutput, Row, State};
use crate::activity::{ActivityLog, ActivityRow, ProcessId};
use crate::after_commit::AfterCommit;
use crate::batch::{BatchTransaction, execute_batch};
use crate::bulk::{BulkUpdates, Gate, Limit, Planned, REDECIDED};
use crate::bulk_action::{BulkActions, ChangeRecord, FOUND_MAX, FoundTask, Now};
use crate::clock::Clock;
use crate::command::{ActOnTasks, Acted, BulkUpdate, Output, Updated};
use crate::figures::StoreFigures;
use crate::output::read_output;
use crate::page::{
    TaskPage, WriteTask, WrittenTasks, group_position, observation_position, page_of_observations, task_position,
};
use crate::transaction::{Loaded, Queue, QueueKey, QueueTally, RunUse, TaskKey, Transaction};
use crate::waiting::Waiters;
use crate::write_queue::QueuedWrite;
use crate::write_request::WriteRequest;
use crate::{InstallationSecret, Store, StoreError};

const NO_TASK: StoreError = StoreError::Broken("the model has no task with this key");

/// The store in maps.
pub struct ModelStore {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    waiters: Arc<Waiters>,
    activity: Arc<ActivityLog>,
    bulk: BulkUpdates,
    bulk_actions: BulkActions,
    secret: OnceLock<InstallationSecret>,
}

impl ModelStore {
    /// An empty store.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self::with_gate(clock, Gate::default(), FOUND_MAX)
    }

    /// An empty store whose bulk updates and actions pass a gate, and whose actions find so many tasks at once.
    pub fn with_gate(clock: Arc<dyn Clock>, gate: Gate, found_at_once: usize) -> Self {
        let (bulk, bulk_actions) = (BulkUpdates::new(gate.clone()), BulkActions::new(gate, found_at_once));
        let state = Mutex::new(State::begun_at(clock.now()));
        let secret = OnceLock::new();
        Self { clock, state, waiters: Arc::default(), activity: Arc::default(), bulk, bulk_actions, secret }
    }

    /// Executes one command, answers it, and wakes the waiters for what it made claimable and ended.
    fn execute(&self, mut write: QueuedWrite<u64>) {
        let mut state = self.state();
        let mut tx = ModelTransaction { state: &mut state, now: self.clock.now() };
        let mut after_commit = AfterCommit::new(true);
        match execute_batch(&mut tx, std::slice::from_mut(&mut write), OUTAGE_CREDIT_SECONDS, &mut after_commit) {
            Ok(_) => {
                after_commit.count(&self.activity);
                write.release();
            }
            Err(error) => write.fail(error),
        }
        self.waiters.wake(&after_commit.claimable);
        if after_commit.claimable.must_poll() {
            for (queue, route, _) in self.waiters.waiting_routes() {
                self.waiters.wake_for_route(&queue, &route, state.pending(&queue, &route));
            }
            self.waiters.wake_unless(|run_id| matches!(state.run_use(run_id), Ok(RunUse::Active(..))));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct ModelTransaction<'a> {
    state: &'a mut State,
    now: Timestamp,
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

    fn insert_queue(&mut self, name: &QueueName) -> Loaded<()> {
        let key = QueueKey(self.state.next_key());
        self.state.queues.insert(name.clone(), key);
        Ok(())
    }

    fn tally_queue(&mut self, queue: QueueKey) -> Loaded<QueueTally> {
        let running = |task: &Task| task.lifecycle.status == Status::Running;
        Ok(self.state.tasks_of(queue).fold(QueueTally::default(), |tally, (_, task)| QueueTally {
            tasks: tally.tasks + 1,
            running: tally.running + u64::from(running(task)),
        }))
    }

    fn delete_queue(&mut self, Queue { key: queue, name }: Queue<'_>, runs_kept_until: Timestamp) -> Loaded<()> {
        let deleted_tasks: BTreeSet<TaskKey> = self.state.tasks_of(queue).map(|(key, _)| key).collect();
        self.state.delete_runs(&deleted_tasks, runs_kept_until);
        self.state.tasks.retain(|key, _| !deleted_tasks.contains(key));
        self.state.observations.retain(|(owner, _), _| *owner != queue);
        self.state.activity.retain(|(owner, ..), _| *owner != queue);
        self.state.queues.remove(name);
        Ok(())
    }

    fn find_task(&mut self, queue: QueueKey, id: TaskId) -> Loaded<Option<TaskKey>> {
        Ok(self.state.tasks_of(queue).find(|(_, task)| task.id == id).map(|(key, _)| key))
    }

    fn load_task(&mut self, _: Queue<'_>, key: TaskKey) -> Loaded<Task> {
        self.state.task(key).cloned()
    }

    fn load_head(&mut self, key: TaskKey) -> Loaded<TaskHead> {
        self.state.task(key).map(Task::head)
    }

    fn load_found(
        &mut self,
        _: QueueKey,
        found: &[FoundTask],
        _: Option<&dyn ChangeRecord>,
    ) -> Loaded<Vec<(FoundTask, Now)>> {
        Ok(found.iter().map(|found| (*found, Now::Changed)).collect())
    }

    fn load_documents(&mut self, keys: &[TaskKey]) -> Loaded<Vec<(TaskKey, Documents)>> {
        let documents = |key: &TaskKey| {
            let definition = &self.state.task(*key)?.definition;
            Ok((*key, Documents { args: definition.args.clone(), metadata: definition.metadata.clone() }))
        };
        keys.iter().map(documents).collect()
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

    fn visit_matching(
        &mut self,
        queue: Queue<'_>,
        bulk: &BulkUpdate,
        _: &Limit,
        each: &mut (dyn FnMut(TaskKey, &Task) -> ControlFlow<()> + Send),
    ) -> Loaded<()> {
        for (key, task) in self.state.tasks_of(queue.key).filter(|(_, task)| bulk.selects(&task.view())) {
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

    fn insert_task(&mut self, queue: QueueKey, task: &Task, identity: &Identity) -> Loaded<bool> {
        if self.find_task(queue, task.id)?.is_some() {
            return Ok(false);
        }
        let key = TaskKey(self.state.next_key());
        let change = self.state.next_change();
        self.state.tasks.insert(key, Row { queue, task: task.clone(), identity: *identity, output: None, change });
        Ok(true)
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

    fn delete_task(&mut self, _: QueueKey, key: TaskKey, _: &TaskHead, runs_kept_until: Timestamp) -> Loaded<()> {
        self.state.tasks.remove(&key);
        self.state.delete_runs(&BTreeSet::from([key]), runs_kept_until);
        Ok(())
    }

    fn forget_deleted_runs(&mut self, most: u32) -> Loaded<()> {
        let kept = self.state.deleted_runs.iter().map(|(run_id, kept_until)| (*kept_until, *run_id));
        let mut over: Vec<_> = kept.filter(|(kept_until, _)| *kept_until <= self.now).collect();
        over.sort_unstable();
        for (_, run_id) in over.into_iter().take(most as usize) {
            self.state.deleted_runs.remove(&run_id);
        }
        Ok(())
    }

    fn find_run(&mut self, run_id: RunId) -> Loaded<RunUse> {
        self.state.run_use(run_id)
    }

    fn first_pending(&mut self, queue: QueueKey, route: &Route) -> Loaded<Option<TaskKey>> {
        let claimable =
            |task: &Task| task.lifecycle.status == Status::Pending && task.definition.routes.contains(route.as_str());
        let pending = self.state.tasks_of(queue).filter(|(_, task)| claimable(task));
        let place = |task: &Task| (std::cmp::Reverse(task.definition.priority), task.lifecycle.pending_seq);
        Ok(pending.min_by_key(|(_, task)| place(task)).map(|(key, _)| key))
    }

    fn running_until(&mut self, until: Timestamp) -> Loaded<Vec<(QueueKey, TaskKey)>> {
        let ends = |task: &Task| task.lifecycle.run.is_some_and(|run| run.lease_expires_at <= until);
        let rows = self.state.tasks.iter().filter(|(_, row)| ends(&row.task));
        Ok(rows.map(|(key, row)| (row.queue, *key)).collect())
    }

    fn last_scan_at(&mut self) -> Loaded<Option<Timestamp>> {
        Ok(self.state.last_scan_at)
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

    fn forget_activity(&mut self, unit: Unit, before: Timestamp, most: u32) -> Loaded<()> {
        let is_old = |span: &Span| span.unit == unit && span.start < before;
        let old = self.state.activity.keys().filter(|(_, span, _)| is_old(span)).take(most as usize);
        let old: Vec<_> = old.copied().collect();
        old.iter().for_each(|key| drop(self.state.activity.remove(key)));
        Ok(())
    }

    fn load_observation(&mut self, queue: Queue<'_>, id: WorkerId) -> Loaded<Option<Observation>> {
        Ok(self.state.observations.get(&(queue.key, id)).cloned())
    }

    fn save_observation(&mut self, queue: QueueKey, observation: &Observation) -> Loaded<()> {
        self.state.observations.insert((queue, observation.id), observation.clone());
        Ok(())
    }

    fn delete_observation(&mut self, queue: QueueKey, id: WorkerId) -> Loaded<()> {
        self.state.observations.remove(&(queue, id));
        Ok(())
    }

    fn delete_expired_observations(&mut self) -> Loaded<u64> {
        let before = self.state.observations.len();
        let now = self.now;
        self.state.observations.retain(|_, observation| observation.is_current(now));
        Ok((before - self.state.observations.len()) as u64)
    }
}

/// A snapshot is the number of the last change before it.
impl BatchTransaction for ModelTransaction<'_> {
    type Snapshot = u64;

    fn changed_since(&mut self, planned: &Planned<u64>) -> Loaded<Option<Vec<TaskKey>>> {
        Ok(Some(self.state.changed_since(planned)).filter(|since| since.len() <= REDECIDED))
    }
}

#[async_trait]
impl Store for ModelStore {
    fn submit(&self, request: WriteRequest) -> Result<(), StoreError> {
        self.execute(QueuedWrite::new(request));
        Ok(())
    }

    async fn update_tasks(&self, bulk: Arc<BulkUpdate>) -> Result<Updated, StoreError> {
        self.bulk.run(self, &bulk).await
    }

    async fn act_on_tasks(&self, act: Arc<ActOnTasks>) -> Result<Acted, StoreError> {
        self.bulk_actions.run(self, act).await
    }

    async fn queue_stats(&self, queue: &QueueName) -> Result<QueueStats, StoreError> {
        stats::queue_stats(&self.state(), &self.activity, queue, self.clock.now())
    }

    async fn activity_series(
        &self,
        queue: &QueueName,
        selection: SeriesSelection,
    ) -> Result<ActivitySeries, StoreError> {
        stats::activity_series(&self.state(), &self.activity, queue, selection, self.clock.now())
    }

    async fn figures(&self) -> Result<StoreFigures, StoreError> {
        Ok(stats::figures(&self.state(), self.clock.now()))
    }

    fn activity(&self) -> &Arc<ActivityLog> {
        &self.activity
    }

    fn waiters(&self) -> &Arc<Waiters> {
        &self.waiters
    }

    async fn installation_secret(&self) -> Result<InstallationSecret, StoreError> {
        let new = InstallationSecret::random().map_err(|_| StoreError::Unavailable)?;
        Ok(*self.secret.get_or_init(|| new))
    }

    async fn list_queues(&self) -> Result<Vec<QueueName>, StoreError> {
        Ok(self.state().queues.keys().cloned().collect())
    }

    async fn get_task(&self, queue: &QueueName, id: TaskId) -> Result<Task, StoreError> {
        let state = self.state();
        let key = state.queue(queue)?;
        let task = state.tasks_of(key).find(|(_, task)| task.id == id).map(|(_, task)| task.clone());
        task.ok_or_else(|| Refusal::TaskNotFound { queue: queue.clone(), task_id: id }.into())
    }

    async fn read_output(
        &self,
        queue: &QueueName,
        id: TaskId,
        offset: u64,
        most_bytes: usize,
    ) -> Result<Output, StoreError> {
        let state = self.state();
        let key = state.queue(queue)?;
        let row = state.tasks.values().find(|row| row.queue == key && row.task.id == id);
        let row = row.ok_or_else(|| Refusal::TaskNotFound { queue: queue.clone(), task_id: id })?;
        let output = row.output.as_ref().ok_or(Refusal::OutputNotFound { task_id: id })?;
        let active = row.task.lifecycle.run.map(|run| run.run_id);
        let kept = output.kept.clone().within(most_bytes).ok_or(Refusal::OutputNotFound { task_id: id })?;
        read_output(&kept, active, offset, |part| {
            Ok(output.bytes.range(part.start..part.end).map(|(_, byte)| *byte).collect())
        })
    }

    async fn list_tasks(
        &self,
        queue: &QueueName,
        query: TaskQuery,
        write: WriteTask,
    ) -> Result<WrittenTasks, StoreError> {
        let state = self.state();
        let key = state.queue(queue)?;
        let mut page = TaskPage::new(&query, key, write);
        let after = query.after.map(|position| task_position(position, key)).transpose()?;
        let mut rows = FirstRows::new(query.order, after, usize::from(query.limit) + 1);
        for (_, task) in state.tasks_of(key).filter(|(_, task)| query.selection.matches(&task.view())) {
            rows.offer(&task.view(), task.id, task);
        }
        let more = !rows.into_sorted().into_iter().all(|task| page.push(&task.view()));
        Ok(page.finish(more))
    }

    async fn count_tasks(&self, queue: &QueueName, selection: TaskSelection) -> Result<u64, StoreError> {
        let state = self.state();
        let key = state.queue(queue)?;
        Ok(state.tasks_of(key).filter(|(_, task)| selection.matches(&task.view())).count() as u64)
    }

    async fn group_tasks(&self, queue: &QueueName, query: TaskGroupQuery) -> Result<GroupPage, StoreError> {
        let state = self.state();
        let key = state.queue(queue)?;
        let mut groups = Groups::new(query.limit, group_position(&query, key)?);
        for (_, task) in state.tasks_of(key).filter(|(_, task)| query.selection.matches(&task.view())) {
            groups.add_tasks(&query.dimensions, task.definition.routes.iter(), task.lifecycle.status, 1);
        }
        Ok(groups.into_page(key.0))
    }

    async fn list_workers(&self, queue: &QueueName, query: ObservationQuery) -> Result<Page<Observation>, StoreError> {
        let state = self.state();
        let key = state.queue(queue)?;
        let after = query.after.map(|position| observation_position(&position, key)).transpose()?;
        let rows = state.observations_of(key, query.filter.as_ref(), self.clock.now());
        let behind = rows.filter(|one| after.is_none_or(|after| one.id > after)).cloned();
        Ok(page_of_observations(behind, query.limit, key))
    }

    async fn count_workers(&self, queue: &QueueName, filter: Option<ObservationFilter>) -> Result<u64, StoreError> {
        let state = self.state();
        let key = state.queue(queue)?;
        Ok(state.observations_of(key, filter.as_ref(), self.clock.now()).count() as u64)
    }

    async fn group_workers(&self, queue: &QueueName, query: ObservationGroupQuery) -> Result<GroupPage, StoreError> {
        let state = self.state();
        let key = state.queue(queue)?;
        let mut groups = Groups::new(query.limit, group_position(&query, key)?);
        for observation in state.observations_of(key, query.selection.as_ref(), self.clock.now()) {
            groups.add_observation(&query.dimensions, observation);
        }
        Ok(groups.into_page(key.0))
    }

    async fn check(&self) -> Result<Vec<String>, StoreError> {
        Ok(Vec::new())
    }

    async fn close(&self) {}
}

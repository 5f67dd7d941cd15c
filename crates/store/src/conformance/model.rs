//! The model: a store in plain maps, as simple as it can be. It is the oracle that the real backends are compared with,
//! and a store for tests of the server. It keeps nothing when the process ends.

mod state;
mod transaction;
pub mod variant;

use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use taskqueue_core::activity::Unit;
use taskqueue_core::explain::Explanation;
use taskqueue_core::grouping::Groups;
use taskqueue_core::ids::{QueueName, TaskId};
use taskqueue_core::limits::OUTAGE_CREDIT_SECONDS;
use taskqueue_core::refusal::Refusal;
use taskqueue_core::selection::{FirstRows, TaskSelection};
use taskqueue_core::settings::QueueSettings;
use taskqueue_core::stats::{ActivitySeries, PendingDetail, QueueStats, RouteSelection, SeriesSelection};

use self::state::ModelState;
use self::transaction::ModelTransaction;
use crate::batch::execute_batch;
use crate::bulk::{BulkSteps, Limit, Planned, PlannedWrite, Planner, update_tasks};
use crate::bulk_action::{Collector, FindTasks, FoundTask, FoundTasks, KeyRange, act_on_tasks};
use crate::claimable::AfterCommit;
use crate::clock::Clock;
use crate::command::{ActOnTasks, Acted, BulkUpdate, Output, Updated};
use crate::execute::OutageCredit;
use crate::figures::StoreFigures;
use crate::page::{TaskPage, group_position, task_position};
use crate::reading::{TaskRead, WorkerRead, read_output};
use crate::related::{Related, RelatedTasks};
use crate::transaction::{BatchTransaction, Queue, QueueKey, RunUse};
use crate::write_queue::QueuedWrite;
use crate::write_request::WriteRequest;
use crate::{InstallationSecret, Store, StoreError, StoreParts, StoreResult};

const NO_TASK: StoreError = StoreError::Broken("the model has no task with this key");

/// The store in maps.
pub struct ModelStore {
    clock: Arc<dyn Clock>,
    state: Mutex<ModelState>,
    parts: StoreParts,
}

impl ModelStore {
    /// An empty store.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let state = Mutex::new(ModelState::begun_at(clock.now()));
        let secret = InstallationSecret::random().ok();
        let parts = StoreParts::new("memory", Arc::default(), Arc::default(), secret);
        Self { clock, state, parts }
    }

    /// Executes one command, answers it, and wakes the waiters for what it made claimable and ended.
    fn execute(&self, mut write: QueuedWrite<u64>) {
        let mut state = self.state.lock();
        let credit = OutageCredit { seconds: OUTAGE_CREDIT_SECONDS, last_scan_at: state.last_scan_at };
        let mut tx = ModelTransaction { state: &mut state, now: self.clock.now() };
        let mut after_commit = AfterCommit::new(true);
        match execute_batch(&mut tx, std::slice::from_mut(&mut write), credit, &mut after_commit) {
            Ok(_) => {
                after_commit.count(&self.parts.activity);
                write.release();
            }
            Err(error) => write.fail(error),
        }
        self.parts.waiters.wake(&after_commit.claimable);
        if after_commit.claimable.poll_all {
            for (queue, route, _) in self.parts.waiters.waiting_routes() {
                self.parts.waiters.wake_for_route(&queue, &route, state.pending(&queue, &route, self.clock.now()));
            }
            self.parts.waiters.wake_unless(|run_id| matches!(state.run_use(run_id), Ok(RunUse::Active(..))));
        }
    }
}

#[async_trait]
impl Store for ModelStore {
    fn submit(&self, request: WriteRequest) -> StoreResult<()> {
        self.execute(QueuedWrite::new(request));
        Ok(())
    }

    async fn update_tasks(&self, bulk: Arc<BulkUpdate>) -> StoreResult<Updated> {
        update_tasks(self, &bulk).await
    }

    async fn act_on_tasks(&self, act: Arc<ActOnTasks>) -> StoreResult<Acted> {
        act_on_tasks(self, &self.parts.actions, act).await
    }

    async fn queue_stats(&self, queue: &QueueName, routes: &RouteSelection) -> StoreResult<QueueStats> {
        let (state, now) = (self.state.lock(), self.clock.now());
        let key = state.queue(queue)?;
        let minutes = state.known_spans(&self.parts.activity, key, Unit::Minute, QueueStats::needs(now));
        let figures = state.queue_figures(key, routes, PendingDetail::Number, now);
        Ok(QueueStats::of(now, figures, &minutes, state.counts_since))
    }

    async fn activity_series(&self, queue: &QueueName, selection: SeriesSelection) -> StoreResult<ActivitySeries> {
        let (state, unit) = (self.state.lock(), selection.unit);
        let range = selection.range(self.clock.now());
        let spans = state.known_spans(&self.parts.activity, state.queue(queue)?, unit, range);
        Ok(ActivitySeries { unit, spans, since: state.counts_since })
    }

    async fn figures(
        &self,
        queues: &[QueueKey],
        routes: &RouteSelection,
        pending: PendingDetail,
    ) -> StoreResult<StoreFigures> {
        let (state, now) = (self.state.lock(), self.clock.now());
        let existing = queues.iter().filter(|key| state.queues.values().any(|known| known == *key));
        let queue_figures = existing.map(|key| (*key, state.queue_figures(*key, routes, pending, now))).collect();
        Ok(StoreFigures { now, queues: queue_figures, looked_at: queues.len(), database_bytes: None })
    }

    async fn list_queue_keys(&self) -> StoreResult<Vec<(QueueKey, QueueName)>> {
        let mut keys: Vec<_> = self.state.lock().queues.iter().map(|(name, key)| (*key, name.clone())).collect();
        keys.sort_unstable();
        Ok(keys)
    }

    async fn explain(&self, queue: &QueueName, id: TaskId) -> StoreResult<Explanation> {
        self.state.lock().explain(queue, id, self.clock.now())
    }

    async fn related_tasks(&self, queue: &QueueName, related: Related) -> StoreResult<RelatedTasks> {
        let state = self.state.lock();
        Ok(state.related_tasks(state.queue(queue)?, &related))
    }

    async fn queue_settings(&self, queue: &QueueName) -> StoreResult<QueueSettings> {
        let state = self.state.lock();
        Ok(state.settings(state.queue(queue)?))
    }

    async fn read_output(&self, queue: &QueueName, id: TaskId, offset: u64, most_bytes: usize) -> StoreResult<Output> {
        let state = self.state.lock();
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

    async fn read_tasks(&self, queue: &QueueName, read: TaskRead) -> StoreResult<()> {
        let state = self.state.lock();
        let key = state.queue(queue)?;
        let selected =
            |selection: TaskSelection| state.tasks_of(key).filter(move |(_, task)| selection.matches(&task.view()));
        match read {
            TaskRead::Task(id, answer) => {
                let task = state.find(key, id).map(|(_, task)| task.clone());
                answer.set(task.ok_or_else(|| Refusal::TaskNotFound { queue: queue.clone(), task_id: id })?);
            }
            TaskRead::Page(query, rows) => {
                let mut page = TaskPage::new(&query, key, rows());
                let after = query.after.map(|position| task_position(position, key)).transpose()?;
                let mut first = FirstRows::new(query.order, after, usize::from(query.limit) + 1);
                selected(query.selection).for_each(|(_, task)| first.offer(&task.view(), task.id, task));
                let more = !first.into_sorted().into_iter().all(|task| page.push(&task.view()));
                page.finish(more);
            }
            TaskRead::Groups(query, answer) => {
                let mut groups = Groups::new(query.limit, group_position(&query, key)?);
                for (_, task) in selected(query.selection) {
                    groups.add_tasks(&query.dimensions, task.definition.routes.iter(), task.lifecycle.status, 1);
                }
                answer.set(groups.into_page(key.0));
            }
        }
        Ok(())
    }

    async fn read_workers(&self, queue: &QueueName, read: WorkerRead) -> StoreResult<()> {
        let state = self.state.lock();
        let key = state.queue(queue)?;
        let mut visit = read.begin(key)?;
        let (after, rows) = (visit.after, state.observations_of(key, self.clock.now()));
        let mut behind = rows.filter(|one| after.is_none_or(|after| one.id > after)).cloned();
        let more = behind.any(|observation| !visit.visit(observation));
        visit.finish(more);
        Ok(())
    }

    fn parts(&self) -> &StoreParts {
        &self.parts
    }

    async fn check(&self) -> StoreResult<Vec<String>> {
        Ok(Vec::new())
    }

    async fn close(&self) {}
}

#[async_trait]
impl BulkSteps for ModelStore {
    type Snapshot = u64;

    async fn plan(&self, bulk: &Arc<BulkUpdate>, limit: &Limit) -> StoreResult<Planned<u64>> {
        let mut state = self.state.lock();
        let queue = Queue { key: state.queue(&bulk.queue)?, name: &bulk.queue };
        let mut planner = Planner::new(queue.key, &bulk.update);
        let mut tx = ModelTransaction { state: &mut state, now: self.clock.now() };
        tx.visit_matching(queue, bulk, limit, &mut |key, task| planner.decide(key, task))?;
        Ok(Planned::new(planner.finish()?, state.last_change))
    }

    async fn write_plan(&self, bulk: &Arc<BulkUpdate>, plan: PlannedWrite<u64>) -> StoreResult<Updated> {
        let (write, answer) = QueuedWrite::bulk(Arc::clone(bulk), Some(plan));
        self.execute(write);
        answer.wait().await
    }
}

#[async_trait]
impl FindTasks for ModelStore {
    async fn find_tasks(&self, act: &Arc<ActOnTasks>, range: Option<KeyRange>, most: usize) -> StoreResult<FoundTasks> {
        let state = self.state.lock();
        let queue = state.queue(&act.queue)?;
        let mut collector = Collector::up_to(most);
        for (key, _) in state.tasks_of(queue).filter(|(_, task)| act.selection.matches(&task.view())) {
            if range.is_none_or(|range| range.after < key && key <= range.until) {
                collector.add(FoundTask { key, version: 0 });
            }
        }
        Ok(collector.finish(queue, None))
    }
}

//! How the model plans bulk updates and finds the tasks of bulk actions: in one look at its maps.

use std::sync::Arc;

use async_trait::async_trait;

use super::{ModelStore, ModelTransaction};
use crate::StoreError;
use crate::bulk::{BulkSteps, Limit, Planned, PlannedWrite, Planner};
use crate::bulk_action::{Collector, FindTasks, FoundTask, FoundTasks, KeyRange};
use crate::command::{ActOnTasks, BulkUpdate, Updated};
use crate::transaction::{BatchTransaction, Queue};
use crate::write_queue::QueuedWrite;

#[async_trait]
impl BulkSteps for ModelStore {
    type Snapshot = u64;

    async fn plan(&self, bulk: &Arc<BulkUpdate>, limit: &Limit) -> Result<Planned<u64>, StoreError> {
        let mut state = self.state();
        let queue = Queue { key: state.queue(&bulk.queue)?, name: &bulk.queue };
        let mut planner = Planner::new(queue.key, &bulk.update);
        let mut tx = ModelTransaction { state: &mut state, now: self.clock.now() };
        tx.visit_matching(queue, bulk, limit, &mut |key, task| planner.decide(key, task))?;
        Ok(Planned::new(planner.finish()?, state.last_change))
    }

    async fn write_plan(&self, bulk: &Arc<BulkUpdate>, plan: PlannedWrite<u64>) -> Result<Updated, StoreError> {
        let (write, answer) = QueuedWrite::bulk(Arc::clone(bulk), Some(plan));
        self.execute(write);
        answer.wait().await
    }
}

#[async_trait]
impl FindTasks for ModelStore {
    async fn find_tasks(
        &self,
        act: &Arc<ActOnTasks>,
        range: Option<KeyRange>,
        most: usize,
    ) -> Result<FoundTasks, StoreError> {
        let state = self.state();
        let queue = state.queue(&act.queue)?;
        let mut collector = Collector::up_to(most);
        for (key, _) in state.tasks_of(queue).filter(|(_, task)| act.selects(&task.view())) {
            if range.is_none_or(|range| range.after < key && key <= range.until) {
                collector.add(FoundTask { key, version: 0 });
            }
        }
        Ok(collector.finish(queue, None))
    }
}

//! A store for tests that does what the model does, except for what the test is about: writes that are slow or lost, reads
//! that fail or hang.

use std::sync::Arc;

use async_trait::async_trait;
use taskqueue_core::explain::Explanation;
use taskqueue_core::filter::ObservationFilter;
use taskqueue_core::grouping::{GroupPage, ObservationGroupQuery, TaskGroupQuery};
use taskqueue_core::ids::{QueueName, TaskId};
use taskqueue_core::observation::Observation;
use taskqueue_core::selection::{ObservationQuery, Page, TaskQuery, TaskSelection};
use taskqueue_core::settings::QueueSettings;
use taskqueue_core::stats::{ActivitySeries, PendingDetail, QueueStats, RouteSelection, SeriesSelection};
use taskqueue_core::task::Task;

use super::ModelStore;
use crate::activity::ActivityLog;
use crate::command::{ActOnTasks, Acted, BulkUpdate, Output, Updated};
use crate::figures::StoreFigures;
use crate::page::{WriteTask, WrittenTasks};
use crate::related::{Related, RelatedTasks};
use crate::transaction::QueueKey;
use crate::waiting::Waiters;
use crate::write_request::WriteRequest;
use crate::{InstallationSecret, Store, StoreError};

/// What a store is asked besides `submit`, as far as tests tell it apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    ActOnTasks,
    ListQueues,
    Figures,
    Check,
    Other,
}

/// What differs from the model. Whoever implements this is a [`Store`].
#[async_trait]
pub trait ModelVariant: Send + Sync + 'static {
    fn model(&self) -> &ModelStore;

    fn submit(&self, request: WriteRequest) -> Result<(), StoreError> {
        self.model().submit(request)
    }

    fn has_no_upkeep(&self) -> bool {
        false
    }

    /// Before the model is asked. With an error it is not.
    async fn before(&self, _: Call) -> Result<(), StoreError> {
        Ok(())
    }

    /// Whose figures are asked for.
    fn asked_for_figures(&self, _: &[QueueKey], _: &RouteSelection) {}

    async fn close(&self) {}
}

#[async_trait]
impl<V: ModelVariant> Store for V {
    fn submit(&self, request: WriteRequest) -> Result<(), StoreError> {
        ModelVariant::submit(self, request)
    }

    fn has_no_upkeep(&self) -> bool {
        ModelVariant::has_no_upkeep(self)
    }

    async fn update_tasks(&self, bulk: Arc<BulkUpdate>) -> Result<Updated, StoreError> {
        self.before(Call::Other).await?;
        self.model().update_tasks(bulk).await
    }

    async fn act_on_tasks(&self, act: Arc<ActOnTasks>) -> Result<Acted, StoreError> {
        self.before(Call::ActOnTasks).await?;
        self.model().act_on_tasks(act).await
    }

    async fn list_queues(&self) -> Result<Vec<QueueName>, StoreError> {
        self.before(Call::ListQueues).await?;
        self.model().list_queues().await
    }

    async fn list_queue_keys(&self) -> Result<Vec<(QueueKey, QueueName)>, StoreError> {
        self.before(Call::Figures).await?;
        self.model().list_queue_keys().await
    }

    async fn get_task(&self, queue: &QueueName, id: TaskId) -> Result<Task, StoreError> {
        self.before(Call::Other).await?;
        self.model().get_task(queue, id).await
    }

    async fn explain(&self, queue: &QueueName, id: TaskId) -> Result<Explanation, StoreError> {
        self.before(Call::Other).await?;
        self.model().explain(queue, id).await
    }

    async fn related_tasks(&self, queue: &QueueName, related: Related) -> Result<RelatedTasks, StoreError> {
        self.before(Call::Other).await?;
        self.model().related_tasks(queue, related).await
    }

    async fn queue_settings(&self, queue: &QueueName) -> Result<QueueSettings, StoreError> {
        self.before(Call::Other).await?;
        self.model().queue_settings(queue).await
    }

    async fn read_output(&self, queue: &QueueName, id: TaskId, offset: u64, most: usize) -> Result<Output, StoreError> {
        self.before(Call::Other).await?;
        self.model().read_output(queue, id, offset, most).await
    }

    async fn list_tasks(
        &self,
        queue: &QueueName,
        query: TaskQuery,
        write: WriteTask,
    ) -> Result<WrittenTasks, StoreError> {
        self.before(Call::Other).await?;
        self.model().list_tasks(queue, query, write).await
    }

    async fn count_tasks(&self, queue: &QueueName, selection: TaskSelection) -> Result<u64, StoreError> {
        self.before(Call::Other).await?;
        self.model().count_tasks(queue, selection).await
    }

    async fn group_tasks(&self, queue: &QueueName, query: TaskGroupQuery) -> Result<GroupPage, StoreError> {
        self.before(Call::Other).await?;
        self.model().group_tasks(queue, query).await
    }

    async fn list_workers(&self, queue: &QueueName, query: ObservationQuery) -> Result<Page<Observation>, StoreError> {
        self.before(Call::Other).await?;
        self.model().list_workers(queue, query).await
    }

    async fn count_workers(&self, queue: &QueueName, filter: Option<ObservationFilter>) -> Result<u64, StoreError> {
        self.before(Call::Other).await?;
        self.model().count_workers(queue, filter).await
    }

    async fn group_workers(&self, queue: &QueueName, query: ObservationGroupQuery) -> Result<GroupPage, StoreError> {
        self.before(Call::Other).await?;
        self.model().group_workers(queue, query).await
    }

    async fn queue_stats(&self, queue: &QueueName, routes: &RouteSelection) -> Result<QueueStats, StoreError> {
        self.before(Call::Other).await?;
        self.model().queue_stats(queue, routes).await
    }

    async fn activity_series(&self, queue: &QueueName, series: SeriesSelection) -> Result<ActivitySeries, StoreError> {
        self.before(Call::Other).await?;
        self.model().activity_series(queue, series).await
    }

    async fn figures(
        &self,
        queues: &[QueueKey],
        routes: &RouteSelection,
        pending: PendingDetail,
    ) -> Result<StoreFigures, StoreError> {
        self.before(Call::Figures).await?;
        self.asked_for_figures(queues, routes);
        self.model().figures(queues, routes, pending).await
    }

    fn activity(&self) -> &Arc<ActivityLog> {
        self.model().activity()
    }

    fn waiters(&self) -> &Arc<Waiters> {
        self.model().waiters()
    }

    async fn installation_secret(&self) -> Result<InstallationSecret, StoreError> {
        self.before(Call::Other).await?;
        self.model().installation_secret().await
    }

    async fn check(&self) -> Result<Vec<String>, StoreError> {
        self.before(Call::Check).await?;
        self.model().check().await
    }

    async fn close(&self) {
        ModelVariant::close(self).await;
    }
}

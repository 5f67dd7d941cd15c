//! A store for tests that does what the model does, except for what the test is about: writes that are slow or lost, reads
//! that fail or hang.

use std::sync::Arc;

use async_trait::async_trait;
use taskqueue_core::explain::Explanation;
use taskqueue_core::ids::{QueueName, TaskId};
use taskqueue_core::settings::QueueSettings;
use taskqueue_core::stats::{ActivitySeries, PendingDetail, QueueStats, RouteSelection, SeriesSelection};

use super::ModelStore;
use crate::command::{ActOnTasks, Acted, BulkUpdate, Lookup, Output, Updated};
use crate::figures::StoreFigures;
use crate::reading::{TaskRead, WorkerRead};
use crate::related::{Related, RelatedTasks};
use crate::transaction::QueueKey;
use crate::write_request::WriteRequest;
use crate::{Store, StoreParts, StoreResult};

/// A call of a store besides `submit`, as far as tests tell it apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    ActOnTasks,
    ListQueues,
    Figures,
    Check,
    Other,
}

/// A store that differs from the model. Whoever implements this is a [`Store`].
#[async_trait]
pub trait ModelVariant: Send + Sync + 'static {
    fn model(&self) -> &ModelStore;

    fn submit(&self, request: WriteRequest) -> StoreResult<()> {
        self.model().submit(request)
    }

    fn has_no_upkeep(&self) -> bool {
        false
    }

    /// Before the model is asked. With an error it is not.
    async fn before(&self, _: Call) -> StoreResult<()> {
        Ok(())
    }

    /// Whose figures are asked for.
    fn asked_for_figures(&self, _: &[QueueKey], _: &RouteSelection) {}

    async fn close(&self) {}
}

/// Implements [`Store`] for every variant: each call is announced, and then the model's.
macro_rules! variants {
    ($( $call:ident: $method:ident($($argument:ident: $type:ty),*) -> $answer:ty; )*) => {
        #[async_trait]
        impl<V: ModelVariant> Store for V {
            fn submit(&self, request: WriteRequest) -> StoreResult<()> {
                ModelVariant::submit(self, request)
            }

            fn finds_nothing(&self, lookup: Lookup<'_>) -> bool {
                matches!(lookup, Lookup::Upkeep) && self.has_no_upkeep()
            }

            fn parts(&self) -> &StoreParts {
                self.model().parts()
            }

            async fn figures(
                &self,
                queues: &[QueueKey],
                routes: &RouteSelection,
                pending: PendingDetail,
            ) -> StoreResult<StoreFigures> {
                self.before(Call::Figures).await?;
                self.asked_for_figures(queues, routes);
                self.model().figures(queues, routes, pending).await
            }

            $(async fn $method(&self, $($argument: $type),*) -> StoreResult<$answer> {
                self.before(Call::$call).await?;
                self.model().$method($($argument),*).await
            })*

            async fn close(&self) {
                ModelVariant::close(self).await;
            }
        }
    };
}

variants! {
    Other: update_tasks(bulk: Arc<BulkUpdate>) -> Updated;
    ActOnTasks: act_on_tasks(act: Arc<ActOnTasks>) -> Acted;
    ListQueues: list_queue_keys() -> Vec<(QueueKey, QueueName)>;
    Other: explain(queue: &QueueName, id: TaskId) -> Explanation;
    Other: related_tasks(queue: &QueueName, related: Related) -> RelatedTasks;
    Other: queue_settings(queue: &QueueName) -> QueueSettings;
    Other: read_output(queue: &QueueName, id: TaskId, offset: u64, most_bytes: usize) -> Output;
    Other: read_tasks(queue: &QueueName, read: TaskRead) -> ();
    Other: read_workers(queue: &QueueName, read: WorkerRead) -> ();
    Other: queue_stats(queue: &QueueName, routes: &RouteSelection) -> QueueStats;
    Other: activity_series(queue: &QueueName, selection: SeriesSelection) -> ActivitySeries;
    Check: check() -> Vec<String>;
}

//! The trait that the server sees: one way to write, a handful of reads, a check and an orderly end.

use std::sync::Arc;

use async_trait::async_trait;
use taskqueue_core::filter::ObservationFilter;
use taskqueue_core::grouping::{GroupPage, ObservationGroupQuery, TaskGroupQuery};
use taskqueue_core::ids::{QueueName, TaskId};
use taskqueue_core::observation::Observation;
use taskqueue_core::selection::{ObservationQuery, Page, TaskQuery, TaskSelection};
use taskqueue_core::task::Task;

use crate::StoreError;
use crate::command::{Answer, Command};
use crate::page::{WriteTask, WrittenTasks};
use crate::waiting::Waiters;

/// A place where queues, tasks and observations live.
///
/// Promises of every implementation, held by the conformance suite: an answer is given only when what it says is
/// durable; writes behave as if they happened one after the other; a refused command has changed nothing.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Does one write and answers when it is durable. A caller that goes away before it has begun takes it back; once it
    /// has begun it is done. [`StoreError::Busy`] and [`StoreError::Unavailable`] say that nothing was done and nothing will
    /// be; where that is not certain the answer is [`StoreError::OutcomeUnknown`].
    async fn write(&self, command: Command) -> Result<Answer, StoreError>;

    /// All queues, sorted by name.
    async fn list_queues(&self) -> Result<Vec<QueueName>, StoreError>;

    /// One task.
    async fn get_task(&self, queue: &QueueName, id: TaskId) -> Result<Task, StoreError>;

    /// One page of the selected tasks, each written by `write` as soon as it is read: a page of tasks is the largest
    /// answer there is, and none of them is needed for anything else.
    async fn list_tasks(
        &self,
        queue: &QueueName,
        query: TaskQuery,
        write: WriteTask,
    ) -> Result<WrittenTasks, StoreError>;

    /// How many tasks are selected.
    async fn count_tasks(&self, queue: &QueueName, selection: TaskSelection) -> Result<u64, StoreError>;

    /// One page of groups of the selected tasks; the count and the groups are of one moment.
    async fn group_tasks(&self, queue: &QueueName, query: TaskGroupQuery) -> Result<GroupPage, StoreError>;

    /// One page of the current observations.
    async fn list_workers(&self, queue: &QueueName, query: ObservationQuery) -> Result<Page<Observation>, StoreError>;

    /// How many current observations are selected.
    async fn count_workers(&self, queue: &QueueName, filter: Option<ObservationFilter>) -> Result<u64, StoreError>;

    /// One page of groups of the current observations.
    async fn group_workers(&self, queue: &QueueName, query: ObservationGroupQuery) -> Result<GroupPage, StoreError>;

    /// Those who wait for tasks. The store wakes them when something became claimable, whoever did it: after every commit
    /// of its own, and soon after one of another server.
    fn waiters(&self) -> &Arc<Waiters>;

    /// How many reads are under way that may look at every task: none where no read takes long. A read that nobody waits
    /// for any more ends soon.
    fn long_reads_under_way(&self) -> usize {
        0
    }

    /// Whether the storage works, by really asking it; and what its settings risk, each in one sentence.
    async fn check(&self) -> Result<Vec<String>, StoreError>;

    /// Takes no more writes, finishes those under way and lets go of the storage.
    async fn close(&self);
}

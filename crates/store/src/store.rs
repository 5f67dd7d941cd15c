//! The trait that the server sees: writing commands, a handful of reads, a check and an orderly end; what a store can answer besides
//! success; and the secret of an installation.

use std::sync::Arc;
use std::{fmt, io};

use async_trait::async_trait;
use taskqueue_core::explain::Explanation;
use taskqueue_core::grouping::{GroupPage, GroupQuery, ObservationGroupQuery, TaskGroupQuery};
use taskqueue_core::selection::Page;
use taskqueue_core::stats::{ActivitySeries, PendingDetail, QueueStats, SeriesSelection};
use taskqueue_core::{
    Observation, ObservationFilter, ObservationQuery, QueueName, QueueSettings, Refusal, RouteSelection, Task, TaskId,
    TaskQuery, TaskSelection, TaskView,
};
use tokio::sync::Semaphore;

use crate::activity::ActivityLog;
use crate::bulk::PLANS;
use crate::bulk_action::ACTIONS;
use crate::command::{ActOnTasks, Acted, BulkUpdate, Command, Lookup, Output, Updated};
use crate::figures::{ProcessFigures, StoreFigures};
use crate::page::{WriteTask, WrittenTasks};
use crate::reading::{Answer, TaskRead, WorkerRead};
use crate::related::{Related, RelatedTasks};
use crate::submission::{Held, Submission};
use crate::waiting::Waiters;
use crate::{QueueKey, WriteRequest};

/// A place where queues, tasks and observations live.
///
/// Promises of every implementation, held by the conformance suite: an answer is given only when what it says is
/// durable; writes behave as if they happened one after the other; a refused command has changed nothing.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Takes a command for execution. Callers use [`StoreExt::write`].
    fn submit(&self, request: WriteRequest) -> StoreResult<()>;

    /// Updates every task that matches and is not running, or none.
    async fn update_tasks(&self, bulk: Arc<BulkUpdate>) -> StoreResult<Updated>;

    /// Cancels, requeues or deletes every task that matches and that the action applies to, some at a time: others write in
    /// between, and each task is decided again when its turn comes. Gives up after some time, and says how far it came.
    async fn act_on_tasks(&self, act: Arc<ActOnTasks>) -> StoreResult<Acted>;

    /// Returns whether it certainly finds nothing at this moment, as far as that is known without the writer.
    fn finds_nothing(&self, _: Lookup<'_>) -> bool {
        false
    }

    /// The keys of all queues, in the order of their creation.
    async fn list_queue_keys(&self) -> StoreResult<Vec<(QueueKey, QueueName)>>;

    /// Why a task is not claimed yet. What it says is of one moment.
    async fn explain(&self, queue: &QueueName, id: TaskId) -> StoreResult<Explanation>;

    /// The tasks that a task waits for, and those that wait for it.
    async fn related_tasks(&self, queue: &QueueName, related: Related) -> StoreResult<RelatedTasks>;

    /// The settings of a queue.
    async fn queue_settings(&self, queue: &QueueName) -> StoreResult<QueueSettings>;

    /// Returns what is kept of the output of a task from `offset` on, at most one answer of it, if `most_bytes` of it are kept.
    /// Refused as `OutputNotFound` if nothing is kept.
    async fn read_output(&self, queue: &QueueName, id: TaskId, offset: u64, most_bytes: usize) -> StoreResult<Output>;

    /// Visits the tasks of a queue. Callers use the methods of [`StoreExt`].
    async fn read_tasks(&self, queue: &QueueName, read: TaskRead) -> StoreResult<()>;

    /// Visits the current observations of a queue that are selected, by id. Callers use the methods of [`StoreExt`].
    async fn read_workers(&self, queue: &QueueName, read: WorkerRead) -> StoreResult<()>;

    /// Returns what is going on in a queue, with the selected routes one by one. No task is visited.
    async fn queue_stats(&self, queue: &QueueName, routes: &RouteSelection) -> StoreResult<QueueStats>;

    /// Returns what happened in a queue over time, counted by all processes.
    async fn activity_series(&self, queue: &QueueName, selection: SeriesSelection) -> StoreResult<ActivitySeries>;

    /// The figures of these queues, with the selected routes of each and as much as is asked of their pending tasks, and of the
    /// storage. What it costs does not grow with the number of tasks. Callers that ask for many use
    /// [`read_figures`](crate::figures::read_figures).
    async fn figures(
        &self,
        queues: &[QueueKey],
        routes: &RouteSelection,
        pending: PendingDetail,
    ) -> StoreResult<StoreFigures>;

    /// Returns what the part of the storage that is in this process does: nothing where there is none.
    fn process_figures(&self) -> ProcessFigures {
        ProcessFigures::default()
    }

    /// The parts of the store that are the same whatever the storage is.
    fn parts(&self) -> &StoreParts;

    /// Returns whether the storage works, by really asking it; and what its settings risk, each in one sentence.
    ///
    /// # Errors
    ///
    /// `Busy` if it did not answer in time or hangs; anything else if it answers that it does not work.
    async fn check(&self) -> StoreResult<Vec<String>>;

    /// Takes no more writes, finishes those under way and lets go of the storage.
    async fn close(&self);
}

/// The parts of a store that are in this process, whatever the storage is.
pub struct StoreParts {
    /// The kind of the storage, for people.
    pub kind: &'static str,
    /// The activity that this process has counted. The store adds to it after every commit of its own; `save_activity` saves it.
    pub activity: Arc<ActivityLog>,
    /// The claims that wait for tasks. The store wakes them when something became claimable: after every commit
    /// of its own, and soon after one of another server.
    pub waiters: Arc<Waiters>,
    /// The secret that all stores of this database have had since the first of them opened it.
    pub secret: Option<InstallationSecret>,
    /// One permit: for the command that is written in many portions. Two would take turns, and each would take twice as long.
    pub portions: Semaphore,
    /// Permits for the plans of bulk updates.
    pub plans: Arc<Semaphore>,
    /// Permits for bulk actions.
    pub actions: Arc<Semaphore>,
}

impl StoreParts {
    pub fn new(
        kind: &'static str,
        activity: Arc<ActivityLog>,
        waiters: Arc<Waiters>,
        secret: Option<InstallationSecret>,
    ) -> Self {
        let permits = |most: usize| Arc::new(Semaphore::new(most));
        let (plans, actions) = (permits(PLANS), permits(ACTIONS));
        Self { kind, activity, waiters, secret, portions: Semaphore::new(1), plans, actions }
    }
}

/// The future of an answer of a store.
pub trait StoreFuture<T>: Future<Output = StoreResult<T>> + Send {}

impl<T, F: Future<Output = StoreResult<T>> + Send> StoreFuture<T> for F {}

/// Writing with typed commands and reading into types, on every store.
pub trait StoreExt: Store {
    /// Executes one command and answers when it is durable. A caller that drops this before it has begun withdraws it; once
    /// it has begun it is executed. [`StoreError::Busy`] and [`StoreError::Unavailable`] mean that nothing was done and
    /// nothing will be; where that is not certain the answer is [`StoreError::OutcomeUnknown`].
    fn write<C: Command>(&self, command: C) -> impl StoreFuture<C::Answer> {
        self.write_holding(command, None)
    }

    /// Executes a command with what is reserved for its memory.
    fn write_holding<C: Command>(&self, command: C, held: Option<Held>) -> impl StoreFuture<C::Answer> {
        async move {
            if let Some(answer) = command.known_answer(self) {
                return Ok(answer);
            }
            let (submission, answer) = Submission::holding(command, held);
            self.submit(C::into_request(submission))?;
            answer.wait().await
        }
    }

    /// All queues, sorted by name.
    fn list_queues(&self) -> impl StoreFuture<Vec<QueueName>> {
        async {
            let mut queues: Vec<_> = self.list_queue_keys().await?.into_iter().map(|(_, queue)| queue).collect();
            queues.sort_unstable();
            Ok(queues)
        }
    }

    /// One task.
    fn get_task(&self, queue: &QueueName, id: TaskId) -> impl StoreFuture<Task> {
        let answer = Answer::default();
        visit_tasks(self, queue, (TaskRead::Task(id, answer.clone()), answer))
    }

    /// One page of the selected tasks, each written by `write` as soon as it is read: a page of tasks is the largest
    /// answer there is, and none of them is needed for anything else.
    fn list_tasks(&self, queue: &QueueName, query: TaskQuery, write: WriteTask) -> impl StoreFuture<WrittenTasks> {
        visit_tasks(self, queue, TaskRead::written(query, write))
    }

    /// One page of what `read` takes of the selected tasks, with how many bytes that takes of the page.
    fn list_rows<T: Send + 'static>(
        &self,
        queue: &QueueName,
        query: TaskQuery,
        read: impl Fn(&TaskView<'_>) -> (T, usize) + Send + Sync + 'static,
    ) -> impl StoreFuture<Page<T>> {
        visit_tasks(self, queue, TaskRead::rows(query, read))
    }

    /// How many tasks are selected.
    fn count_tasks(&self, queue: &QueueName, selection: TaskSelection) -> impl StoreFuture<u64> {
        let query = GroupQuery { selection, dimensions: Vec::new(), limit: 0, after: None };
        async move { Ok(self.group_tasks(queue, query).await?.count) }
    }

    /// One page of groups of the selected tasks; the count and the groups are of one moment.
    fn group_tasks(&self, queue: &QueueName, query: TaskGroupQuery) -> impl StoreFuture<GroupPage> {
        visit_tasks(self, queue, TaskRead::groups(query))
    }

    /// One page of the current observations.
    fn list_workers(&self, queue: &QueueName, query: ObservationQuery) -> impl StoreFuture<Page<Observation>> {
        visit_workers(self, queue, WorkerRead::page(query))
    }

    /// How many current observations are selected.
    fn count_workers(&self, queue: &QueueName, filter: Option<ObservationFilter>) -> impl StoreFuture<u64> {
        let query = GroupQuery { selection: filter, dimensions: Vec::new(), limit: 0, after: None };
        async move { Ok(self.group_workers(queue, query).await?.count) }
    }

    /// One page of groups of the current observations.
    fn group_workers(&self, queue: &QueueName, query: ObservationGroupQuery) -> impl StoreFuture<GroupPage> {
        visit_workers(self, queue, WorkerRead::groups(query))
    }

    /// Returns what this process has counted.
    fn activity(&self) -> &Arc<ActivityLog> {
        &self.parts().activity
    }

    /// The claims that wait for tasks.
    fn waiters(&self) -> &Arc<Waiters> {
        &self.parts().waiters
    }
}

impl<S: Store + ?Sized> StoreExt for S {}

/// Visits tasks, and returns what was made of them.
async fn visit_tasks<T: Send>(
    store: &(impl Store + ?Sized),
    queue: &QueueName,
    (read, answer): (TaskRead, Answer<T>),
) -> StoreResult<T> {
    store.read_tasks(queue, read).await?;
    answer.take()
}

async fn visit_workers<T: Send>(
    store: &(impl Store + ?Sized),
    queue: &QueueName,
    (read, answer): (WorkerRead, Answer<T>),
) -> StoreResult<T> {
    store.read_workers(queue, read).await?;
    answer.take()
}

/// The answer of a store.
pub type StoreResult<T> = Result<T, StoreError>;

/// Why a store did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// A rule forbids it. Nothing was changed, except that a lease which had ended before is now recorded as ended.
    #[error("refused: {0}")]
    Refused(#[from] Refusal),
    /// The storage cannot take the request now (queue full, no turn or lock in time). Nothing was done, and nothing will be.
    #[error("the storage is busy")]
    Busy,
    /// The storage failed (disk full, I/O error, unreachable). Nothing was done.
    #[error("the storage is unavailable")]
    Unavailable,
    /// The command had begun and its end is not known: the storage failed or was lost while it committed, or gave no
    /// answer in time. It may have been done, or may still be.
    #[error("it is not known whether the command was done")]
    OutcomeUnknown,
    /// The storage failed in the middle of a bulk action: a part of it was done, or may have been.
    #[error("a part of it may have been done")]
    PartlyDone,
    /// Something happened that cannot happen: a bug. The transaction is undone, and the writer logs it.
    #[error("a bug: {0}")]
    Broken(&'static str),
}

/// Bytes of the secret: nobody guesses 256 bits.
const SECRET_BYTES: usize = 32;

/// The secret of an installation. It is never shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct InstallationSecret([u8; SECRET_BYTES]);

impl InstallationSecret {
    /// A new one, of random bytes of the system.
    pub fn random() -> io::Result<Self> {
        let mut bytes = [0; SECRET_BYTES];
        getrandom::fill(&mut bytes)
            .map_err(|error| io::Error::other(format!("the system gives no random numbers: {error}")))?;
        Ok(Self(bytes))
    }

    /// One that was kept; none if it has another length.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().map(Self).ok()
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for InstallationSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InstallationSecret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_random_reads_back_and_is_never_shown() {
        let (one, other) = (InstallationSecret::random().unwrap(), InstallationSecret::random().unwrap());
        assert_ne!(one, other);
        assert_eq!(InstallationSecret::from_bytes(one.as_bytes()), Some(one));
        assert_eq!(InstallationSecret::from_bytes(&one.as_bytes()[1..]), None);
        assert_eq!(format!("{one:?}"), "InstallationSecret(..)");
    }
}

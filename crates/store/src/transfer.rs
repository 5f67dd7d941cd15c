//! Copies a whole database to another one, of any backend, in one transaction of the target: copies everything, reads it back,
//! compares it with the source, and only then commits (docs/decisions/0011).

use std::collections::{BTreeMap, VecDeque};

use async_trait::async_trait;
use taskqueue_core::definition::Identity;
use taskqueue_core::lifecycle::{Change, ErrorChange, LastRunChange, ProgressChange};
use taskqueue_core::output::KeptOutput;
use taskqueue_core::{DependencyState, Observation, QueueName, QueueSettings, RunId, Status, Task, TaskId, Timestamp};

use crate::transaction::{Queue, QueueKey};
use crate::{StoreError, StoreResult};

/// Tasks in memory at a time.
pub const CHUNK_TASKS: usize = 500;
/// Run ids of deleted tasks in memory at a time: some hundred KiB.
pub const CHUNK_RUNS: u32 = 10_000;
/// A chunk ends with the task that reaches this size: it may be in memory three times, as read, parsed and sent.
pub const CHUNK_BYTES: usize = 8 * 1024 * 1024;

/// A task with all its data. Its number in the pending order is copied: only the order of these numbers matters, and the
/// target continues with larger ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransferredTask {
    /// Its queue, which has the same key in source and target.
    pub queue: QueueKey,
    /// The task, with its active and its latest finished run.
    pub task: Task,
    pub identity: Identity,
    /// Its other run ids, sorted.
    pub past_runs: Vec<RunId>,
    pub output: Option<TransferredOutput>,
    /// The noted state of each of its dependencies, in their order.
    pub noted: Vec<DependencyState>,
}

/// The output of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransferredOutput {
    pub kept: KeptOutput,
    /// The bytes of each part.
    pub bytes: Vec<Vec<u8>>,
}

impl TransferredOutput {
    pub fn byte_count(&self) -> usize {
        self.bytes.iter().map(Vec::len).sum()
    }
}

impl TransferredTask {
    /// A task without output and dependencies. `runs` may contain those of the lifecycle.
    pub fn new(queue: QueueKey, task: Task, identity: Identity, mut runs: Vec<RunId>) -> Self {
        let known: Vec<RunId> = task.lifecycle.run_ids().collect();
        runs.retain(|run_id| !known.contains(run_id));
        runs.sort_unstable();
        Self { queue, task, identity, past_runs: runs, output: None, noted: Vec::new() }
    }

    /// What the task waits for, and what is noted of it. An error if that is not of all its dependencies.
    pub fn dependencies(&self) -> StoreResult<Vec<(TaskId, DependencyState)>> {
        let ids = self.task.definition.scheduling.dependencies.as_slice();
        if self.noted.len() != ids.len() {
            return Err(StoreError::Broken("a task was copied without what is noted of its dependencies"));
        }
        Ok(ids.iter().copied().zip(self.noted.iter().copied()).collect())
    }

    /// All that has become of the task, as one change since its creation.
    pub fn history(&self) -> Change {
        let outcome = &self.task.outcome;
        Change {
            lifecycle: self.task.lifecycle.clone(),
            result: Some(outcome.result.clone()).filter(|result| !result.is_empty_object()),
            last_error: ErrorChange::to(outcome.last_error.as_ref()),
            last_run: LastRunChange::to(outcome.last_run.as_ref()),
            progress: ProgressChange::to(outcome.progress.as_ref()),
        }
    }

    pub fn runs(&self) -> impl Iterator<Item = RunId> {
        self.task.lifecycle.run_ids().chain(self.past_runs.iter().copied())
    }
}

/// Until when a run id of a deleted task is kept, and the id.
pub type DeletedRun = (Timestamp, RunId);

/// Consecutive tasks in the order of the source.
#[derive(Debug, Default)]
pub struct Chunk {
    pub tasks: Vec<TransferredTask>,
    /// The key of the last task; nothing if there are no more tasks.
    pub last_key: Option<i64>,
}

/// A snapshot of a database that no server uses meanwhile. Tasks of deleted queues that are not removed yet are not
/// included.
#[async_trait(?Send)]
pub trait Source {
    /// All queues by key.
    async fn queues(&mut self) -> StoreResult<Vec<(QueueKey, QueueName)>>;
    /// The next chunk of the tasks of all queues, in a stable order.
    async fn tasks(&mut self, after: Option<i64>) -> StoreResult<Chunk>;
    /// The settings of a queue; nothing if they are the default.
    async fn settings(&mut self, queue: QueueKey) -> StoreResult<Option<QueueSettings>>;
    /// The tasks of a queue, existing or not, whose dependents are to be looked at again.
    async fn unsettled(&mut self, queue: QueueKey) -> StoreResult<Vec<TaskId>>;
    /// All observations of a queue by id, expired or not.
    async fn observations(&mut self, queue: Queue<'_>) -> StoreResult<Vec<Observation>>;
    /// The next run ids of deleted tasks, at most [`CHUNK_RUNS`], sorted by time and id. Those of tasks that are not removed
    /// yet are included.
    async fn deleted_runs(&mut self, after: Option<DeletedRun>) -> StoreResult<Vec<DeletedRun>>;
    /// When the leases were last scanned, so that the time since then counts as an outage.
    async fn last_scan_at(&mut self) -> StoreResult<Option<Timestamp>>;
    /// The counts that the database keeps, and the number of rows that it derives from tasks.
    async fn totals(&mut self) -> StoreResult<Totals>;
}

/// A database that is written in one transaction and reads its own writes. Without a commit nothing changes.
#[async_trait(?Send)]
pub trait Target: Source {
    /// Returns whether it has no queue, and no task of a deleted one.
    async fn is_empty(&mut self) -> StoreResult<bool>;
    /// Adds queues with their keys, so that cursors stay valid.
    async fn add_queues(&mut self, queues: &[(QueueKey, QueueName)]) -> StoreResult<()>;
    /// Appends tasks, with all rows that are derived from them.
    async fn add_tasks(&mut self, tasks: &[TransferredTask]) -> StoreResult<()>;
    /// Adds the settings of a queue, whose tasks are all there. Those that have ended are deleted when their time comes.
    async fn add_settings(&mut self, queue: Queue<'_>, settings: &QueueSettings) -> StoreResult<()>;
    /// Notes that the dependents of these tasks are to be looked at again.
    async fn add_unsettled(&mut self, queue: QueueKey, ids: &[TaskId]) -> StoreResult<()>;
    async fn add_observations(&mut self, queue: QueueKey, observations: &[Observation]) -> StoreResult<()>;
    /// Deletes the run ids of the target's own deleted tasks.
    async fn clear_deleted_runs(&mut self) -> StoreResult<()>;
    async fn add_deleted_runs(&mut self, runs: &[DeletedRun]) -> StoreResult<()>;
    /// Called after the last row, with the time of the last scan.
    async fn finish(&mut self, last_scan_at: Option<Timestamp>) -> StoreResult<()>;
    async fn commit(self: Box<Self>) -> StoreResult<()>;
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransferError {
    /// The source or the target cannot be opened. The text says what to do.
    #[error("{0}")]
    Refused(String),
    #[error(
        "the target is not empty; choose a database without queues, or delete its queues and let a server remove them"
    )]
    NotEmpty,
    /// Reading or writing failed. The backend has logged the reason.
    #[error("the copy was broken off: {0}; the target holds nothing of it; see the lines above, then try again")]
    Storage(#[from] StoreError),
    /// The copy differs from the source.
    #[error("the copy is not what the source holds: {0}; the target holds nothing of it; please report this")]
    Differs(String),
    /// The result of the commit is not known.
    #[error(
        "it is unknown whether the copy was committed ({0}); run the command again: if it then says that the target is not \
         empty, the copy is complete"
    )]
    Unknown(StoreError),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Copying,
    /// The copy is read back and compared.
    Verifying,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    pub step: Step,
    /// Tasks that are done.
    pub done: u64,
    pub tasks: u64,
}

/// Copies everything to an empty target; returns the totals.
pub async fn transfer(
    source: &mut dyn Source,
    mut target: Box<dyn Target>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Totals, TransferError> {
    if !target.is_empty().await? {
        return Err(TransferError::NotEmpty);
    }
    let totals = source.totals().await?;
    let mut report = |step, done| progress(Progress { step, done, tasks: totals.tasks() });
    let copied = copy(source, &mut *target, &mut |done| report(Step::Copying, done)).await?;
    compare("the counts of the source", &totals, &copied)?;
    compare("the counts of the target", &target.totals().await?, &copied)?;
    verify(source, &mut *target, &mut |done| report(Step::Verifying, done)).await?;
    target.commit().await.map_err(TransferError::Unknown)?;
    Ok(copied)
}

async fn copy(source: &mut dyn Source, target: &mut dyn Target, report: &mut dyn FnMut(u64)) -> StoreResult<Totals> {
    let queues = source.queues().await?;
    let mut copied = Totals { queues: queues.len() as u64, ..Totals::default() };
    target.add_queues(&queues).await?;
    target.clear_deleted_runs().await?;
    let mut last_key = None;
    loop {
        let chunk = source.tasks(last_key).await?;
        if chunk.last_key.is_none() {
            break;
        }
        last_key = chunk.last_key;
        target.add_tasks(&chunk.tasks).await?;
        copied.add_tasks(&chunk.tasks);
        report(copied.tasks());
    }
    let mut runs = source.deleted_runs(None).await?;
    while let Some(last) = runs.last().copied() {
        target.add_deleted_runs(&runs).await?;
        runs = source.deleted_runs(Some(last)).await?;
    }
    for (key, name) in &queues {
        let queue = Queue { key: *key, name };
        if let Some(settings) = source.settings(*key).await? {
            target.add_settings(queue, &settings).await?;
        }
        let unsettled = source.unsettled(*key).await?;
        target.add_unsettled(*key, &unsettled).await?;
        let observations = source.observations(queue).await?;
        target.add_observations(*key, &observations).await?;
        copied.observations += observations.len() as u64;
    }
    target.finish(source.last_scan_at().await?).await?;
    Ok(copied)
}

/// Reads source and target again and compares everything.
async fn verify(
    source: &mut dyn Source,
    target: &mut dyn Target,
    report: &mut dyn FnMut(u64),
) -> Result<(), TransferError> {
    let queues = source.queues().await?;
    compare("the queues", &queues, &target.queues().await?)?;
    let (mut original, mut copy, mut done) = (TaskStream::default(), TaskStream::default(), 0);
    loop {
        let (expected, found) = (original.next(source).await?, copy.next(target).await?);
        if expected != found {
            return Err(TransferError::Differs(describe_task(expected.as_ref(), found.as_ref())));
        }
        if expected.is_none() {
            break;
        }
        done += 1;
        if done % CHUNK_TASKS as u64 == 0 {
            report(done);
        }
    }
    verify_deleted_runs(source, target).await?;
    for (key, name) in &queues {
        let queue = Queue { key: *key, name };
        compare("the settings", &source.settings(*key).await?, &target.settings(*key).await?)?;
        compare("the observations", &source.observations(queue).await?, &target.observations(queue).await?)?;
    }
    compare("the time of the last scan", &source.last_scan_at().await?, &target.last_scan_at().await?)
}

async fn verify_deleted_runs(source: &mut dyn Source, target: &mut dyn Target) -> Result<(), TransferError> {
    let mut last = None;
    loop {
        let runs = source.deleted_runs(last).await?;
        compare("the run ids of deleted tasks", &runs, &target.deleted_runs(last).await?)?;
        match runs.last() {
            Some(run) => last = Some(*run),
            None => return Ok(()),
        }
    }
}

/// Names a task that differs, without its content.
fn describe_task(expected: Option<&TransferredTask>, found: Option<&TransferredTask>) -> String {
    let named =
        |task: &TransferredTask| format!("task {} of queue {}", task.task.id.as_str(), task.task.queue.as_str());
    expected.or(found).map(named).unwrap_or_default()
}

fn compare<T: PartialEq>(what: &str, expected: &T, found: &T) -> Result<(), TransferError> {
    if expected == found { Ok(()) } else { Err(TransferError::Differs(format!("{what} do not agree"))) }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub queues: u64,
    /// By queue and name of the status; never 0.
    pub tasks_by_status: BTreeMap<(QueueName, &'static str), u64>,
    pub running: u64,
    /// Entries of the pending order: one for each route of a pending task.
    pub pending_entries: u64,
    pub runs: u64,
    pub observations: u64,
}

impl Totals {
    pub fn tasks(&self) -> u64 {
        self.tasks_by_status.values().sum()
    }

    pub fn add_status(&mut self, queue: &QueueName, status: Status, tasks: u64) {
        if tasks > 0 {
            *self.tasks_by_status.entry((queue.clone(), status.as_str())).or_default() += tasks;
        }
    }

    fn add_tasks(&mut self, tasks: &[TransferredTask]) {
        for task in tasks {
            let status = task.task.lifecycle.status;
            self.add_status(&task.task.queue, status, 1);
            self.running += u64::from(status == Status::Running);
            if status == Status::Pending {
                self.pending_entries += task.task.definition.routes.iter().count() as u64;
            }
            self.runs += task.runs().count() as u64;
        }
    }
}

#[derive(Default)]
struct TaskStream {
    tasks: VecDeque<TransferredTask>,
    last_key: Option<i64>,
}

impl TaskStream {
    async fn next<S: Source + ?Sized>(&mut self, source: &mut S) -> StoreResult<Option<TransferredTask>> {
        if self.tasks.is_empty() {
            let chunk = source.tasks(self.last_key).await?;
            self.last_key = chunk.last_key.or(self.last_key);
            self.tasks = chunk.tasks.into();
        }
        Ok(self.tasks.pop_front())
    }
}

#[cfg(test)]
mod tests;

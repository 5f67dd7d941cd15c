//! Moving a whole database to another one, of any backend: what is moved, what a backend offers for it, and the one way
//! in which it is done: copy everything inside one transaction of the target, read all of it back and compare it with the
//! source, and only then commit (docs/decisions/0011). What the rows of a backend look like is its own business.

mod task_stream;
mod totals;

use async_trait::async_trait;
use taskqueue_core::definition::Identity;
use taskqueue_core::ids::{QueueName, RunId};
use taskqueue_core::observation::Observation;
use taskqueue_core::task::Task;
use taskqueue_core::time::Timestamp;

use self::task_stream::TaskStream;
pub use self::totals::Totals;
use crate::StoreError;
use crate::transaction::QueueKey;

/// Tasks that are in memory at a time, at most.
pub const CHUNK_TASKS: usize = 500;
/// Run ids of deleted tasks that are in memory at a time, at most: some hundred KiB.
pub const CHUNK_RUNS: u32 = 10_000;
/// A chunk ends early with the task that reaches these bytes: it may be held three times, read, parsed and sent.
pub const CHUNK_BYTES: usize = 8 * 1024 * 1024;

/// A task with everything that is known of it. Its place in the pending order is kept as a number: all that counts is
/// the order of these numbers, and whoever takes them gives larger ones from then on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransferredTask {
    /// The task, with its active and its latest finished run.
    pub task: Task,
    /// What it was created with.
    pub identity: Identity,
    /// Its other run ids, which stay used up; sorted.
    pub past_runs: Vec<RunId>,
}

impl TransferredTask {
    /// A task with all its run ids, or only those that its lifecycle does not tell.
    pub fn new(task: Task, identity: Identity, mut runs: Vec<RunId>) -> Self {
        let told: Vec<RunId> = lifecycle_runs(&task).collect();
        runs.retain(|run_id| !told.contains(run_id));
        runs.sort_unstable();
        Self { task, identity, past_runs: runs }
    }

    /// All its run ids.
    pub fn runs(&self) -> impl Iterator<Item = RunId> {
        lifecycle_runs(&self.task).chain(self.past_runs.iter().copied())
    }
}

fn lifecycle_runs(task: &Task) -> impl Iterator<Item = RunId> + use<> {
    let (active, finished) = (task.lifecycle.run, task.lifecycle.finished_run);
    active.map(|run| run.run_id).into_iter().chain(finished.map(|run| run.run_id))
}

/// Until when a run id of a deleted task is kept, and the id.
pub type DeletedRun = (Timestamp, RunId);

/// Some tasks, one behind the other in the order of the source.
#[derive(Debug, Default)]
pub struct Chunk {
    /// The tasks.
    pub tasks: Vec<TransferredTask>,
    /// Where the next chunk begins; nothing if there are no more tasks.
    pub last_key: Option<i64>,
}

/// A database that is read, as of one moment, and that no server uses meanwhile. Tasks of deleted queues that are still
/// being removed are not there.
#[async_trait(?Send)]
pub trait Source {
    /// All queues by key.
    async fn queues(&mut self) -> Result<Vec<(QueueKey, QueueName)>, StoreError>;
    /// The next tasks of all queues: as many as one chunk may hold, in an order that never changes.
    async fn tasks(&mut self, behind: Option<i64>) -> Result<Chunk, StoreError>;
    /// All observations of a queue by id, expired or not.
    async fn observations(&mut self, queue: &QueueName) -> Result<Vec<Observation>, StoreError>;
    /// The next run ids of deleted tasks behind this one, at most [`CHUNK_RUNS`], sorted by time and id. Those of tasks that
    /// are still being removed are among them.
    async fn deleted_runs(&mut self, behind: Option<DeletedRun>) -> Result<Vec<DeletedRun>, StoreError>;
    /// When the leases were last scanned, so that the time since then counts as an outage.
    async fn last_scan_at(&mut self) -> Result<Option<Timestamp>, StoreError>;
    /// What its own counts say: what it keeps beside the rows, and the rows that it derives from tasks.
    async fn totals(&mut self) -> Result<Totals, StoreError>;
}

/// A database that is written in one transaction, and reads what it wrote. Dropped without a commit it is as before.
#[async_trait(?Send)]
pub trait Target: Source {
    /// Whether there is nothing in it: no queue, and no task of a deleted one.
    async fn is_empty(&mut self) -> Result<bool, StoreError>;
    /// Adds queues under the keys that they had, so that cursors go on.
    async fn add_queues(&mut self, queues: &[(QueueKey, QueueName)]) -> Result<(), StoreError>;
    /// Adds tasks behind those that are there, with all that is derived from them.
    async fn add_tasks(&mut self, tasks: &[TransferredTask]) -> Result<(), StoreError>;
    /// Adds observations.
    async fn add_observations(&mut self, observations: &[Observation]) -> Result<(), StoreError>;
    /// Forgets the run ids of its own deleted tasks: they belong to a history that ends here.
    async fn clear_deleted_runs(&mut self) -> Result<(), StoreError>;
    /// Adds run ids of deleted tasks.
    async fn add_deleted_runs(&mut self, runs: &[DeletedRun]) -> Result<(), StoreError>;
    /// After the last task: writes what was put off, and the time of the last scan.
    async fn finish(&mut self, last_scan_at: Option<Timestamp>) -> Result<(), StoreError>;
    /// Makes it durable.
    async fn commit(self: Box<Self>) -> Result<(), StoreError>;
}

/// Why a database was not moved.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransferError {
    /// The source or the target cannot be had. The text says what to do.
    #[error("{0}")]
    Refused(String),
    /// There is something in the target.
    #[error(
        "the target is not empty; choose a database without queues, or delete its queues and let a server remove them"
    )]
    NotEmpty,
    /// The source could not be read or the target not be written. The backend has logged why.
    #[error("the copy was broken off: {0}; the target holds nothing of it; see the lines above, then try again")]
    Storage(#[from] StoreError),
    /// What was read back is not what was to be copied.
    #[error("the copy is not what the source holds: {0}; the target holds nothing of it; please report this")]
    Differs(String),
    /// The last answer was not heard.
    #[error("nobody knows whether the copy was kept ({0}): try again; a target that is not empty then has all of it")]
    Unknown(StoreError),
}

/// What is being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Tasks are copied.
    Copying,
    /// What was copied is read back and compared.
    Verifying,
}

/// How far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What is being done.
    pub step: Step,
    /// Tasks for which it is done.
    pub done: u64,
    /// All tasks.
    pub tasks: u64,
}

/// Moves everything to an empty target; says what was moved.
pub async fn transfer(
    source: &mut dyn Source,
    mut target: Box<dyn Target>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Totals, TransferError> {
    if !target.is_empty().await? {
        return Err(TransferError::NotEmpty);
    }
    let told = source.totals().await?;
    let mut tell = |step, done| progress(Progress { step, done, tasks: told.tasks() });
    let copied = copy(source, &mut *target, &mut |done| tell(Step::Copying, done)).await?;
    compare("the counts of the source", &told, &copied)?;
    compare("the counts of the target", &target.totals().await?, &copied)?;
    verify(source, &mut *target, &mut |done| tell(Step::Verifying, done)).await?;
    target.commit().await.map_err(TransferError::Unknown)?;
    Ok(copied)
}

async fn copy(
    source: &mut dyn Source,
    target: &mut dyn Target,
    tell: &mut dyn FnMut(u64),
) -> Result<Totals, StoreError> {
    let queues = source.queues().await?;
    let mut copied = Totals { queues: queues.len() as u64, ..Totals::default() };
    target.add_queues(&queues).await?;
    target.clear_deleted_runs().await?;
    let mut place = None;
    loop {
        let chunk = source.tasks(place).await?;
        if chunk.last_key.is_none() {
            break;
        }
        place = chunk.last_key;
        target.add_tasks(&chunk.tasks).await?;
        copied.add_tasks(&chunk.tasks);
        tell(copied.tasks());
    }
    let mut runs = source.deleted_runs(None).await?;
    while let Some(last) = runs.last().copied() {
        target.add_deleted_runs(&runs).await?;
        runs = source.deleted_runs(Some(last)).await?;
    }
    for (_, queue) in &queues {
        let observations = source.observations(queue).await?;
        target.add_observations(&observations).await?;
        copied.observations += observations.len() as u64;
    }
    target.finish(source.last_scan_at().await?).await?;
    Ok(copied)
}

/// Reads both sides from the beginning and compares everything.
async fn verify(
    source: &mut dyn Source,
    target: &mut dyn Target,
    tell: &mut dyn FnMut(u64),
) -> Result<(), TransferError> {
    let queues = source.queues().await?;
    compare("the queues", &queues, &target.queues().await?)?;
    let (mut original, mut copy, mut done) = (TaskStream::default(), TaskStream::default(), 0);
    loop {
        let (expected, found) = (original.next(source).await?, copy.next(target).await?);
        if expected != found {
            return Err(TransferError::Differs(differing(expected.as_ref(), found.as_ref())));
        }
        if expected.is_none() {
            break;
        }
        done += 1;
        if done % CHUNK_TASKS as u64 == 0 {
            tell(done);
        }
    }
    verify_deleted_runs(source, target).await?;
    for (_, queue) in &queues {
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

/// Names a task that is different, and nothing of what it holds.
fn differing(expected: Option<&TransferredTask>, found: Option<&TransferredTask>) -> String {
    let named =
        |task: &TransferredTask| format!("task {} of queue {}", task.task.id.as_str(), task.task.queue.as_str());
    expected.or(found).map(named).unwrap_or_default()
}

fn compare<T: PartialEq>(what: &str, expected: &T, found: &T) -> Result<(), TransferError> {
    if expected == found { Ok(()) } else { Err(TransferError::Differs(format!("{what} do not agree"))) }
}

#[cfg(test)]
mod tests;

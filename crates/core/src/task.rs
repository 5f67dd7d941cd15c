//! The task: a definition that creation and update set, a lifecycle that actions change, and an outcome.
//! What may happen to it is decided in `lifecycle.rs` and `update.rs`; what a definition may hold, in `definition.rs`.

use std::sync::Arc;

use crate::definition::{Definition, Routes};
use crate::ids::{QueueName, Route, RunId, TaskId};
use crate::json::JsonObject;
use crate::scheduling::Scheduling;
use crate::time::Timestamp;

pub use crate::status::{RunEnd, Status};

/// The run that owns a running task. Never part of the ordinary task resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActiveRun {
    /// The claimant's token.
    pub run_id: RunId,
    /// When the lease is over unless a heartbeat renews it.
    pub lease_expires_at: Timestamp,
    /// When the run has been active for as long as it may be, heartbeats or not.
    pub times_out_at: Option<Timestamp>,
}

/// The most recent run of a task that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FinishedRun {
    /// The claimant's token.
    pub run_id: RunId,
    /// Its end.
    pub end: RunEnd,
}

/// The part of a task that actions change. Small on purpose: every claim and every report rewrites it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lifecycle {
    pub status: Status,
    /// Claims minus unclaims since creation or requeue.
    pub attempt: i64,
    /// Place in the pending order; a new one each time that the task goes to the back.
    pub pending_seq: i64,
    /// Route of the latest claim.
    pub last_route: Option<Route>,
    /// When the task was created.
    pub created_at: Timestamp,
    /// When the task last changed.
    pub updated_at: Timestamp,
    /// When it was last claimed.
    pub started_at: Option<Timestamp>,
    /// When its latest run ended.
    pub finished_at: Option<Timestamp>,
    /// The owner, exactly while the task is running.
    pub run: Option<ActiveRun>,
    /// The run before, remembered so that a repeated report can be recognised.
    pub finished_run: Option<FinishedRun>,
    /// A pending task is not claimable before; kept until a claim or a requeue.
    pub not_before: Option<Timestamp>,
    /// How many of its dependencies have not succeeded, or do not exist.
    pub unmet: u32,
    /// Left out of lists and counts unless they ask for it. Only tasks that have ended are.
    pub archived: bool,
}

impl Lifecycle {
    /// The lifecycle of a task that was created just now.
    pub fn created(now: Timestamp, pending_seq: i64) -> Self {
        Self {
            status: Status::Pending,
            attempt: 0,
            pending_seq,
            last_route: None,
            created_at: now,
            updated_at: now,
            started_at: None,
            finished_at: None,
            run: None,
            finished_run: None,
            not_before: None,
            unmet: 0,
            archived: false,
        }
    }

    /// Returns whether the task is in the pending order: nothing but a claim is missing.
    pub fn is_claimable(&self, now: Timestamp) -> bool {
        self.status == Status::Pending && self.unmet == 0 && self.not_before.is_none_or(|not_before| not_before <= now)
    }

    /// Returns the ids of the runs that it names: of the active one, and of the latest finished one.
    pub fn run_ids(&self) -> impl Iterator<Item = RunId> + use<> {
        let (active, finished) = (self.run, self.finished_run);
        active.map(|run| run.run_id).into_iter().chain(finished.map(|run| run.run_id))
    }

    /// When the task has ended: the end of its run, or of its waiting.
    pub fn ended_at(&self) -> Option<Timestamp> {
        self.status.is_ended().then(|| self.finished_at.unwrap_or(self.updated_at))
    }
}

/// A failure as its worker reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The kind of error.
    pub kind: Arc<str>,
    /// Its message.
    pub message: Arc<str>,
    /// Where, if known.
    pub traceback: Option<Arc<str>>,
}

impl Failure {
    /// Returns what its texts take in memory.
    pub fn bytes(&self) -> usize {
        self.kind.len() + self.message.len() + self.traceback.as_ref().map_or(0, |text| text.len())
    }
}

/// The last recorded failure of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastError {
    /// The reported failure.
    pub failure: Failure,
    /// When it was recorded.
    pub occurred_at: Timestamp,
    /// The attempt that failed.
    pub attempt: i64,
    /// The run that failed; nothing if the task was cancelled because of a dependency.
    pub run_id: Option<RunId>,
}

/// Who ran a task last. Its run is the active one, else the latest finished one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastRun {
    /// The attempt that the claim began.
    pub attempt: i64,
    /// The claimant's words about itself.
    pub worker: JsonObject,
}

/// How far a run of a task is, as it said last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The value that the run reported.
    pub value: JsonObject,
    /// When it was recorded.
    pub updated_at: Timestamp,
    /// The attempt of that run.
    pub attempt: i64,
}

/// The outcome of a task so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// `{}` until set by completion or update.
    pub result: JsonObject,
    /// The last recorded failure; reset by requeue.
    pub last_error: Option<LastError>,
    /// Nothing if the latest claim did not say who claims.
    pub last_run: Option<LastRun>,
    /// Of the latest run that said any; the next claim clears it.
    pub progress: Option<Progress>,
}

impl Outcome {
    /// The outcome of a task to which nothing has happened.
    pub fn empty() -> Self {
        Self { result: JsonObject::empty(), last_error: None, last_run: None, progress: None }
    }

    /// Returns what its texts take in memory.
    pub fn bytes(&self) -> usize {
        let error = self.last_error.as_ref().map_or(0, |error| error.failure.bytes());
        let worker = self.last_run.as_ref().map_or(0, |run| run.worker.as_str().len());
        self.result.as_str().len() + error + worker + self.progress_bytes()
    }

    /// Returns what the progress counts towards the stored size.
    pub fn progress_bytes(&self) -> usize {
        self.progress.as_ref().map_or(0, |progress| progress.value.as_str().len())
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// The queue it lives in.
    pub queue: QueueName,
    /// Its identity within the queue.
    pub id: TaskId,
    /// The part of a task that creation and update set.
    pub definition: Definition,
    /// The part that actions change.
    pub lifecycle: Lifecycle,
    /// The outcome.
    pub outcome: Outcome,
}

impl Task {
    /// Returns what its texts take in memory.
    pub fn bytes(&self) -> usize {
        self.definition.stored_bytes() + self.outcome.bytes()
    }

    /// The part that rules about actions need.
    pub fn head(&self) -> TaskHead {
        TaskHead {
            id: self.id,
            priority: self.definition.priority,
            max_attempts: self.definition.max_attempts,
            routes: self.definition.routes.clone(),
            scheduling: self.definition.scheduling.clone(),
            definition_bytes: self.definition.stored_bytes(),
            progress_bytes: self.outcome.progress_bytes(),
            lifecycle: self.lifecycle.clone(),
        }
    }
}

/// A task without its heavy JSON: what is enough to decide about an action, and cheap to load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskHead {
    /// Its identity within the queue.
    pub id: TaskId,
    /// Higher is claimed first.
    pub priority: i64,
    /// The attempt budget.
    pub max_attempts: i64,
    /// Who may claim it.
    pub routes: Routes,
    pub scheduling: Scheduling,
    /// See [`Definition::stored_bytes`].
    pub definition_bytes: usize,
    /// See [`Outcome::progress_bytes`].
    pub progress_bytes: usize,
    /// The part that actions change.
    pub lifecycle: Lifecycle,
}

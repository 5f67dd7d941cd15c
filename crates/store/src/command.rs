//! What can be written: one variant for each writing verb of the contract, and what each answers.

use std::sync::Arc;

use taskqueue_core::definition::{Definition, Identity};
use taskqueue_core::filter::TaskFilter;
use taskqueue_core::ids::{QueueName, Route, RunId, TaskId, WorkerId};
use taskqueue_core::lifecycle::Action;
use taskqueue_core::observation::Report;
use taskqueue_core::task::Task;
use taskqueue_core::time::Timestamp;
use taskqueue_core::update::Update;

/// A task to be created: the definition with what is computed from it once, off the writer.
#[derive(Clone, Debug)]
pub struct NewTask {
    /// The normalised definition.
    pub definition: Definition,
    /// Its identity.
    pub identity: Identity,
}

impl From<Definition> for NewTask {
    fn from(definition: Definition) -> Self {
        let identity = definition.identity();
        Self { definition, identity }
    }
}

/// A bulk update.
#[derive(Clone, Debug)]
pub struct BulkUpdate {
    pub queue: QueueName,
    pub filter: TaskFilter,
    pub update: Update,
}

/// One write. Writes behave as if they happened one after the other.
#[derive(Clone, Debug)]
pub enum Command {
    /// Makes sure that a queue exists. Answers [`Answer::Created`].
    CreateQueue(QueueName),
    /// Deletes a queue. Answers [`Answer::Done`].
    DeleteQueue {
        queue: QueueName,
        /// Whether its tasks go with it.
        cascade: bool,
    },
    /// Creates a task or recognises its replay. Answers [`Answer::Task`].
    CreateTask { queue: QueueName, id: TaskId, new: Box<NewTask> },
    /// Updates one task. Answers [`Answer::Task`].
    UpdateTask { queue: QueueName, id: TaskId, update: Box<Update> },
    /// Updates every task that matches and is not running, or none. Answers [`Answer::Updated`].
    UpdateTasks(Arc<BulkUpdate>),
    /// Cancel, requeue or delete one task. Answers [`Answer::Task`], or [`Answer::Done`] for a deletion.
    Act { queue: QueueName, id: TaskId, action: Action },
    /// Claims the first pending task of a route. Answers [`Answer::Claimed`].
    Claim {
        queue: QueueName,
        route: Route,
        /// The claimant's token.
        run_id: RunId,
    },
    /// Heartbeat, complete, fail or unclaim of a run. Answers [`Answer::Lease`] or [`Answer::Done`].
    ReportRun { queue: QueueName, id: TaskId, action: Action },
    /// Records an observation. Answers [`Answer::Done`].
    ReportWorker {
        queue: QueueName,
        id: WorkerId,
        /// What it says.
        report: Report,
    },
    /// Forgets an observation. Answers [`Answer::Done`].
    WithdrawWorker { queue: QueueName, id: WorkerId },
    /// Ends leases that are over, grants the outage credit, drops expired observations, forgets run ids of tasks that
    /// were deleted long ago. Answers [`Answer::Scanned`].
    Scan,
}

/// The answer to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Done; there is nothing to tell.
    Done,
    /// Whether the queue is new.
    Created(bool),
    /// The task, and whether it is new.
    Task {
        /// Whether it was created just now.
        created: bool,
        /// As it is now.
        task: Box<Task>,
    },
    /// How many tasks a bulk update matched and changed.
    Updated {
        /// Matching tasks that are not running.
        matched: u64,
        /// Those whose values changed.
        updated: u64,
    },
    /// The claimed task, if there was one.
    Claimed(Option<Box<Claimed>>),
    /// The renewed end of the lease.
    Lease(Timestamp),
    /// What a scan did.
    Scanned(Scanned),
}

impl Answer {
    /// What the texts of its task take in memory, if it has one.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Task { task, .. } => task.bytes(),
            Self::Claimed(Some(claimed)) => claimed.task.bytes(),
            _ => 0,
        }
    }
}

/// A claimed task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// As it is now.
    pub task: Task,
    /// The claimant's token.
    pub run_id: RunId,
    /// When the lease is over unless a heartbeat renews it.
    pub lease_expires_at: Timestamp,
}

/// What a scan did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scanned {
    /// Runs whose lease was over.
    pub expired_runs: u64,
    /// Runs whose lease was lengthened because the service had been out.
    pub credited_runs: u64,
    /// Observations that were dropped.
    pub expired_observations: u64,
}

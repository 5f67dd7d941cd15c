//! Every reason for which a rule refuses a request, one variant each, with the values for `error.details`. The `api` and
//! `server` crates decide the code, status and message of each.

use crate::ids::{QueueName, RunId, TaskId, WorkerId};
use crate::status::{RunEnd, Status};

/// A request that is understood and refused; nothing has been changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such queue.
    QueueNotFound {
        /// The name that was asked for.
        queue: QueueName,
    },
    /// The queue has tasks and the deletion does not cascade.
    QueueNotEmpty {
        queue: QueueName,
        /// How many tasks it has.
        tasks: u64,
    },
    /// The queue has running tasks, which block its deletion.
    QueueHasRunningTasks {
        queue: QueueName,
        /// How many are running.
        running: u64,
    },
    /// The queue has no such task.
    TaskNotFound {
        /// The queue, which exists.
        queue: QueueName,
        /// The id that was asked for.
        task_id: TaskId,
    },
    /// The id is taken by a task with another definition.
    TaskIdConflict { queue: QueueName, task_id: TaskId },
    /// A running task takes no update and no deletion.
    TaskRunning { task_id: TaskId },
    /// The state machine has no such transition.
    TaskStateConflict {
        task_id: TaskId,
        status: Status,
        /// The refused transition.
        transition: Transition,
    },
    /// The update would leave a pending task without a remaining attempt.
    UpdateConflict {
        task_id: TaskId,
        /// The field that conflicts.
        field: &'static str,
        /// The attempts already used.
        attempt: i64,
    },
    /// Only a task that has ended can be archived.
    NotArchivable { task_id: TaskId, status: Status },
    /// The stored data of the task would exceed its limit.
    TaskDataTooLarge,
    /// The run is neither active nor the latest finished one; or its id was used before.
    StaleRun { run_id: RunId },
    /// The run has ended in another way.
    RunFinalized {
        /// Its end.
        end: RunEnd,
    },
    /// The run id is active for another queue or route.
    RunIdConflict { run_id: RunId },
    /// A known worker reported another route.
    WorkerRouteConflict { worker_id: WorkerId },
    /// There is no live observation of the worker.
    WorkerNotFound { queue: QueueName, worker_id: WorkerId },
    /// No output of the task is kept.
    OutputNotFound { task_id: TaskId },
    /// The cursor belongs to another selection or to an earlier queue of the same name.
    InvalidCursor,
    /// The settings of a queue would limit more routes than they may.
    TooManyRouteLimits,
    /// A bulk update would write more dependencies and routes than one transaction may take.
    BulkUpdateTooLarge {
        /// How many tasks were found when it was clear, of perhaps more that match.
        tasks: u64,
        /// How many dependencies of these it would look up, note and forget.
        dependencies: u64,
        /// How many entries of the pending order it would write for these.
        routes: u64,
        /// About how many tasks like these it may change at once.
        most_tasks: u64,
    },
    /// A bulk action found another number of tasks than its client expects.
    ExpectationFailed { expected: u64, matched: u64 },
}

/// A transition from outside of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transition {
    Claim,
    Cancel,
    Requeue,
}

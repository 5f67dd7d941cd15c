//! Every reason for which a rule refuses a request, one variant each, with its message and the values for `error.details`.
//! The `api` and `server` crates decide the code and status of each.

use crate::ids::{QueueName, RunId, TaskId, WorkerId};
use crate::limits::ROUTE_LIMITS_MAX;
use crate::status::{RunEnd, Status};

/// A request that is understood and refused; nothing has been changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is no such queue.
    #[error("there is no queue {queue}; create it first, or correct the name")]
    QueueNotFound {
        /// The name that was asked for.
        queue: QueueName,
    },
    /// The queue has tasks and the deletion does not cascade.
    #[error("queue {queue} has tasks; delete them first, or together with it (cascade)")]
    QueueNotEmpty {
        queue: QueueName,
        /// How many tasks it has.
        tasks: u64,
    },
    /// The queue has running tasks, which block its deletion.
    #[error("queue {queue} has running tasks; wait for them or cancel them first")]
    QueueHasRunningTasks {
        queue: QueueName,
        /// How many are running.
        running: u64,
    },
    /// The queue has no such task.
    #[error("there is no task {task_id} in the queue {queue}")]
    TaskNotFound {
        /// The queue, which exists.
        queue: QueueName,
        /// The id that was asked for.
        task_id: TaskId,
    },
    /// The id is taken by a task with another definition.
    #[error("{task_id} is taken by a task with another definition; choose another id")]
    TaskIdConflict { queue: QueueName, task_id: TaskId },
    /// A running task takes no update and no deletion.
    #[error("{task_id} is running; wait for it or cancel it first")]
    TaskRunning { task_id: TaskId },
    /// The state machine has no such transition.
    #[error("{task_id} is {}, {}", .status.as_str(), state_advice(.transition, .status))]
    TaskStateConflict {
        task_id: TaskId,
        status: Status,
        /// The refused transition.
        transition: Transition,
    },
    /// The update would leave a pending task without a remaining attempt.
    #[error("task {task_id} is pending and has used {attempt} attempts; use a larger {field}")]
    UpdateConflict {
        task_id: TaskId,
        /// The field that conflicts.
        field: &'static str,
        /// The attempts already used.
        attempt: i64,
    },
    /// Only a task that has ended can be archived.
    #[error("task {task_id} is {}; only a task that has ended can be archived", .status.as_str())]
    NotArchivable { task_id: TaskId, status: Status },
    /// The stored data of the task would exceed its limit.
    #[error("the stored data of the task would exceed 1 MiB; keep large data elsewhere")]
    TaskDataTooLarge,
    /// The run is neither active nor the latest finished one; or its id was used before.
    #[error("this run does not own the task; stop working on it and claim with a new run_id")]
    StaleRun { run_id: RunId },
    /// The run has ended in another way.
    #[error("the run has already ended by {}; stop working on it", .end.as_str())]
    RunFinalized {
        /// Its end.
        end: RunEnd,
    },
    /// The run id is active for another queue or route.
    #[error("the run_id is active for another queue or route; choose a new one")]
    RunIdConflict { run_id: RunId },
    /// A known worker reported another route.
    #[error("the worker is known with another route; withdraw it first or use a new id")]
    WorkerRouteConflict { worker_id: WorkerId },
    /// There is no live observation of the worker.
    #[error("no live worker {worker_id} is known in the queue {queue}; report the worker first")]
    WorkerNotFound { queue: QueueName, worker_id: WorkerId },
    /// No output of the task is kept.
    #[error("no output of the task {task_id} is kept")]
    OutputNotFound { task_id: TaskId },
    /// The cursor belongs to another selection or to an earlier queue of the same name.
    #[error(
        "use next_cursor of the page before, with the same queue, selection and order; or start from the first page"
    )]
    InvalidCursor,
    /// The settings of a queue would limit more routes than they may.
    #[error("limit at most {ROUTE_LIMITS_MAX} routes; remove limits by null")]
    TooManyRouteLimits,
    /// A bulk update would write more dependencies and routes than one transaction may take.
    #[error(
        "nothing was changed: this is more than one transaction may take; narrow the filter to at most {most_tasks} tasks"
    )]
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
    #[error("{matched} tasks match instead of {expected}, so nothing was changed; count again")]
    ExpectationFailed { expected: u64, matched: u64 },
}

/// A transition from outside of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transition {
    Claim,
    Cancel,
    Requeue,
}

/// Returns why a task of this status cannot be changed like this, and what can be done instead.
fn state_advice(transition: &Transition, status: &Status) -> &'static str {
    match (transition, status) {
        (Transition::Cancel, _) => "so it cannot be cancelled: it has already ended",
        (Transition::Requeue, Status::Running) => "so it cannot be requeued; cancel it first",
        (Transition::Requeue, _) => "so it cannot be requeued; to run it again, submit its args as a new task",
        (Transition::Claim, _) => "so it cannot be claimed; claim another",
    }
}

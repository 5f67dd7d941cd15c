//! The task resource and what the worker protocol answers.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::scalars::{JsonObject, QueueName, Route, RunId, TaskId, TaskName, Timestamp};

/// The five states of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// Waits to be claimed.
    Pending,
    /// Owned by an active run.
    Running,
    /// Completed.
    Succeeded,
    /// Out of attempts.
    Failed,
    /// Taken out by a client.
    Cancelled,
}

/// A task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Task {
    /// The identity of the task within its queue.
    pub id: TaskId,
    /// The queue it lives in.
    pub queue: QueueName,
    /// The state.
    pub status: TaskStatus,
    /// A label for people.
    #[schema(required = true)]
    pub name: Option<TaskName>,
    /// What the worker gets.
    #[schema(value_type = Object)]
    pub args: JsonObject,
    /// What the client keeps with the task.
    #[schema(value_type = Object)]
    pub metadata: JsonObject,
    /// Higher is claimed first.
    pub priority: i64,
    /// Claims minus unclaims since creation or requeue.
    #[schema(minimum = 0)]
    pub attempt: i64,
    /// The attempt budget.
    #[schema(minimum = 1)]
    pub max_attempts: i64,
    /// Who may claim it: distinct, sorted.
    #[schema(min_items = 1)]
    pub routes: Vec<Route>,
    /// `{}` until set by completion or update.
    #[schema(value_type = Object)]
    pub result: JsonObject,
    /// The last recorded failure; reset by requeue.
    #[schema(required = true)]
    pub last_error: Option<LastError>,
    /// The route of the latest claim.
    #[schema(required = true)]
    pub last_route: Option<Route>,
    /// When the task was created.
    pub created_at: Timestamp,
    /// When the task last changed.
    pub updated_at: Timestamp,
    /// When it was last claimed.
    #[schema(required = true)]
    pub started_at: Option<Timestamp>,
    /// When its latest run ended.
    #[schema(required = true)]
    pub finished_at: Option<Timestamp>,
}

/// The last recorded failure of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LastError {
    /// The kind of error.
    #[serde(rename = "type")]
    pub kind: String,
    /// What went wrong.
    pub message: String,
    /// Where, if known.
    #[schema(required = true)]
    pub traceback: Option<String>,
    /// When it was recorded.
    pub occurred_at: Timestamp,
    /// The attempt that failed.
    pub attempt: i64,
    /// The run that failed.
    pub run_id: RunId,
}

/// One page of tasks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TaskPage {
    /// The tasks, in the order asked for.
    pub items: Vec<Task>,
    /// The cursor of the next page; null exactly when no further task exists.
    #[schema(required = true)]
    pub next_cursor: Option<String>,
}

/// A claimed task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Claimed {
    /// The task, now running.
    pub task: Task,
    /// The token that the claimant chose.
    pub run_id: RunId,
    /// When the lease is over unless a heartbeat renews it.
    pub lease_expires_at: Timestamp,
}

/// A renewed lease.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Lease {
    /// When the lease is over unless another heartbeat renews it.
    pub lease_expires_at: Timestamp,
}

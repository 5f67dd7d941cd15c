//! Worker observations.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::scalars::{JsonObject, QueueName, Route, TaskId, Timestamp, WorkerId};

/// What a worker says it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkerStatus {
    /// Waits for work.
    Idle,
    /// From a confirmed claim through execution, reporting and cleanup.
    Busy,
}

/// The latest accepted report of one worker; advisory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Observation {
    /// The worker.
    pub id: WorkerId,
    /// The queue.
    pub queue: QueueName,
    /// The route it claims for.
    pub route: Route,
    /// What it does.
    pub status: WorkerStatus,
    /// The task it works on; may be stale.
    #[schema(required = true)]
    pub task_id: Option<TaskId>,
    /// When the report was accepted.
    pub last_seen_at: Timestamp,
    /// When it stops counting: 300 seconds later.
    pub expires_at: Timestamp,
    /// What else it says of itself; only there for workers that report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>, nullable = false)]
    pub metadata: Option<JsonObject>,
}

/// One page of observations, ordered by id.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ObservationPage {
    /// The observations.
    pub items: Vec<Observation>,
    /// The cursor of the next page; null exactly when no further observation exists.
    #[schema(required = true)]
    pub next_cursor: Option<String>,
}

//! Worker observations: the latest report of one worker loop and when it stops counting
//! (docs/reference/http-api.md §10). They never touch tasks, runs or leases.

use crate::ids::{QueueName, Route, TaskId, WorkerId};
use crate::json::JsonObject;
use crate::limits::OBSERVATION_SECONDS;
use crate::refusal::Refusal;
use crate::time::Timestamp;

pub use crate::status::WorkerStatus;

/// A report of a worker about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The route it claims for.
    pub route: Route,
    /// Its state.
    pub status: WorkerStatus,
    /// The task it works on; never looked up.
    pub task_id: Option<TaskId>,
    /// Other facts about the worker; beyond the contract, and `{}` for workers that report none.
    pub metadata: JsonObject,
}

/// The latest accepted report of one worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation {
    /// The worker, unique within its queue.
    pub id: WorkerId,
    pub queue: QueueName,
    /// Its latest report.
    pub report: Report,
    /// Its latest measurements; beyond the contract, and nothing for workers that measure nothing.
    pub telemetry: Option<Telemetry>,
    /// When the report was accepted.
    pub last_seen_at: Timestamp,
    /// When it stops counting.
    pub expires_at: Timestamp,
}

/// The measurements of a worker of its machine and its run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Telemetry {
    pub value: JsonObject,
    /// When it was accepted.
    pub updated_at: Timestamp,
}

impl Observation {
    /// Returns whether it still counts.
    pub fn is_current(&self, now: Timestamp) -> bool {
        self.expires_at > now
    }
}

/// Accepts a report, given what was known of the worker.
pub fn observe(
    known: Option<&Observation>,
    queue: &QueueName,
    id: WorkerId,
    report: Report,
    now: Timestamp,
) -> Result<Observation, Refusal> {
    let current = known.filter(|known| known.is_current(now));
    if current.is_some_and(|known| known.report.route != report.route) {
        return Err(Refusal::WorkerRouteConflict { worker_id: id });
    }
    let telemetry = current.and_then(|known| known.telemetry.clone());
    let expires_at = now.plus_seconds(OBSERVATION_SECONDS);
    Ok(Observation { id, queue: queue.clone(), report, telemetry, last_seen_at: now, expires_at })
}

/// Accepts telemetry of a worker that is observed. It prolongs nothing.
pub fn measure(
    known: Option<Observation>,
    queue: &QueueName,
    id: WorkerId,
    value: JsonObject,
    now: Timestamp,
) -> Result<Observation, Refusal> {
    let Some(known) = known.filter(|known| known.is_current(now)) else {
        return Err(Refusal::WorkerNotFound { queue: queue.clone(), worker_id: id });
    };
    Ok(Observation { telemetry: Some(Telemetry { value, updated_at: now }), ..known })
}

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

#[cfg(test)]
mod tests {
    use super::*;

    fn report(route: &str) -> Report {
        let route = Route::parse(route).unwrap();
        Report { route, status: WorkerStatus::Idle, task_id: None, metadata: JsonObject::empty() }
    }

    #[test]
    fn the_route_of_a_current_observation_cannot_change_but_an_expired_one_can() {
        let queue = QueueName::parse("q").unwrap();
        let id = WorkerId::parse("w_abcdefghijkl").unwrap();
        let start = Timestamp::from_micros(0);
        let first = observe(None, &queue, id, report("a"), start).unwrap();
        assert_eq!(first.expires_at, start.plus_seconds(300));

        let just_before = Timestamp::from_micros(first.expires_at.as_micros() - 1);
        let moved = observe(Some(&first), &queue, id, report("b"), just_before);
        assert_eq!(moved, Err(Refusal::WorkerRouteConflict { worker_id: id }));
        assert!(observe(Some(&first), &queue, id, report("a"), just_before).is_ok());
        assert!(observe(Some(&first), &queue, id, report("b"), first.expires_at).is_ok());
    }

    #[test]
    fn telemetry_is_kept_by_reports_and_prolongs_nothing() {
        let queue = QueueName::parse("q").unwrap();
        let id = WorkerId::parse("w_abcdefghijkl").unwrap();
        let [start, soon, later] = [0, 10, 20].map(|seconds| Timestamp::from_micros(0).plus_seconds(seconds));
        let value = |text| JsonObject::from_canonical(text);
        let seen = observe(None, &queue, id, report("a"), start).unwrap();
        let measured = measure(Some(seen.clone()), &queue, id, value(r#"{"cpu":1}"#), soon).unwrap();
        let telemetry = Some(Telemetry { value: value(r#"{"cpu":1}"#), updated_at: soon });
        assert_eq!(measured, Observation { telemetry: telemetry.clone(), ..seen.clone() });
        let again = measure(Some(measured.clone()), &queue, id, value("{}"), later).unwrap();
        assert_eq!(again.telemetry, Some(Telemetry { value: value("{}"), updated_at: later }), "replaced as a whole");
        let reported = observe(Some(&measured), &queue, id, report("a"), later).unwrap();
        assert_eq!((reported.telemetry, reported.last_seen_at), (telemetry, later));
        let back = observe(Some(&measured), &queue, id, report("a"), measured.expires_at).unwrap();
        assert_eq!(back.telemetry, None, "it goes with the observation");
    }

    #[test]
    fn telemetry_of_a_worker_that_is_not_observed_is_refused() {
        let queue = QueueName::parse("q").unwrap();
        let id = WorkerId::parse("w_abcdefghijkl").unwrap();
        let refused = Err(Refusal::WorkerNotFound { queue: queue.clone(), worker_id: id });
        let seen = observe(None, &queue, id, report("a"), Timestamp::from_micros(0)).unwrap();
        let end = seen.expires_at;
        let just_before = Timestamp::from_micros(end.as_micros() - 1);
        assert_eq!(measure(None, &queue, id, JsonObject::empty(), just_before), refused);
        assert_eq!(measure(Some(seen.clone()), &queue, id, JsonObject::empty(), end), refused);
        assert!(measure(Some(seen), &queue, id, JsonObject::empty(), just_before).is_ok());
    }
}

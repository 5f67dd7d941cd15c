//! What nearly every test of the rules begins with: moments, names, documents, a task and an observation. Compiled into the unit tests
//! and into the tests beside this file.

use crate::definition::Definition;
use crate::ids::{QueueName, Route, RunId, TaskId, WorkerId};
use crate::json::{self, JsonObject};
use crate::observation::{Observation, Report, WorkerStatus};
use crate::task::{ActiveRun, Failure, FinishedRun, LastError, Lifecycle, Outcome, RunEnd, Status, Task};
use crate::time::Timestamp;

pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_micros(0).plus_seconds(seconds)
}

pub(crate) fn object(text: &str) -> JsonObject {
    JsonObject::from_value(&json::parse(text.as_bytes()).unwrap()).unwrap()
}

pub(crate) fn route(name: &str) -> Route {
    Route::parse(name).unwrap()
}

pub(crate) fn run(name: &str) -> RunId {
    RunId::parse(&format!("r_{name:_<12}")).unwrap()
}

pub(crate) fn failure() -> Failure {
    Failure { kind: "E".into(), message: "m".into(), traceback: None }
}

/// A task that was created at 100 s and to which nothing has happened.
pub(crate) fn new_task() -> Task {
    Task {
        queue: QueueName::parse("q").unwrap(),
        id: TaskId::parse("t_abcdefghijkl").unwrap(),
        definition: Definition::default(),
        lifecycle: Lifecycle::created(at(100), 7),
        outcome: Outcome::empty(),
    }
}

/// A task that was created at 100 s, as it is after a claim by the run `active` at 130 s, and after what a status needs at 140 s.
pub(crate) fn task_in(status: Status) -> Task {
    let (run_id, mut task) = (run("active"), new_task());
    if status == Status::Pending {
        return task;
    }
    let end = match status {
        Status::Succeeded => Some(RunEnd::Complete),
        Status::Failed => Some(RunEnd::Fail),
        Status::Cancelled => Some(RunEnd::Cancel),
        Status::Pending | Status::Running => None,
    };
    let active = ActiveRun { run_id, lease_expires_at: at(430), times_out_at: None };
    task.lifecycle = Lifecycle {
        status,
        attempt: 1,
        last_route: Some(route("default")),
        started_at: Some(at(130)),
        updated_at: at(if end.is_some() { 140 } else { 130 }),
        finished_at: end.map(|_| at(140)),
        run: end.is_none().then_some(active),
        finished_run: end.map(|end| FinishedRun { run_id, end }),
        ..task.lifecycle
    };
    let error = LastError { failure: failure(), occurred_at: at(140), attempt: 1, run_id: Some(run_id) };
    task.outcome.last_error = (status == Status::Failed).then_some(error);
    task
}

/// A worker that was seen at 0 s and waits for work.
pub(crate) fn idle_worker() -> Observation {
    let metadata = JsonObject::empty();
    Observation {
        id: WorkerId::parse("w_abcdefghijkl").unwrap(),
        queue: QueueName::parse("q").unwrap(),
        report: Report { route: route("default"), status: WorkerStatus::Idle, task_id: None, metadata },
        telemetry: None,
        last_seen_at: at(0),
        expires_at: at(300),
    }
}

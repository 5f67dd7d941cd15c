//! What the databases of older schemas hold (`tests/schemas/` of each backend): a task in every state, run ids of earlier runs and
//! of a deleted task, an observation. After an upgrade everything reads back as it was, and work goes on.

use taskqueue_core::definition::Definition;
use taskqueue_core::ids::{RunId, TaskId};
use taskqueue_core::task::{
    ActiveRun, Failure, FinishedRun, LastError, LastRun, Lifecycle, Outcome, Progress, RunEnd, Status, Task,
};
use taskqueue_core::time::Timestamp;

use super::commands::{claim, complete, create, object, queue, route, routes};
use super::fixture::Fixture;
use crate::clock::ManualClock;
use crate::command::Claim;

/// 2026-01-01T00:00:00Z, from which the times of the tasks count.
const START: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);

/// What a schema could hold that earlier ones could not.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    pub deleted_runs: bool,
    pub last_runs: bool,
    pub progress_and_output: bool,
}

/// A clock shortly after the last thing that happened there.
pub fn clock() -> ManualClock {
    ManualClock::new(at(160))
}

fn at(seconds: i64) -> Timestamp {
    START.plus_seconds(seconds)
}

fn id(number: usize) -> TaskId {
    TaskId::parse(&format!("t_upgraded{number:04}")).unwrap()
}

fn run(number: usize) -> RunId {
    RunId::parse(&format!("r_upgraded{number:04}")).unwrap()
}

fn definition(number: usize) -> Definition {
    match number {
        1 => Definition {
            name: Some("first".into()),
            args: object(r#"{"lr":0.1,"seed":7}"#),
            metadata: object(r#"{"owner":"é"}"#),
            priority: 5,
            routes: routes(&["cpu", "gpu"]),
            ..Definition::default()
        },
        _ => Definition::default(),
    }
}

/// The tasks of queue `q`.
fn expected(held: Held) -> Vec<Task> {
    (1..=6).map(|number| expected_task(number, held)).collect()
}

fn expected_task(number: usize, held: Held) -> Task {
    let seconds = i64::try_from(number).unwrap();
    let mut lifecycle = Lifecycle::created(at(seconds), seconds);
    let mut outcome = Outcome::empty();
    let mut ended = |status, attempt, end, finished| {
        (lifecycle.status, lifecycle.attempt) = (status, attempt);
        (lifecycle.started_at, lifecycle.finished_at) = (Some(at(100)), Some(at(finished)));
        lifecycle.updated_at = at(finished);
        lifecycle.last_route = Some(route("default"));
        lifecycle.finished_run = Some(FinishedRun { run_id: run(number), end });
    };
    let last_run = |worker| held.last_runs.then(|| LastRun { attempt: 1, worker: object(worker) });
    match number {
        2 => {
            (lifecycle.status, lifecycle.attempt) = (Status::Running, 1);
            (lifecycle.started_at, lifecycle.updated_at) = (Some(at(100)), at(100));
            lifecycle.last_route = Some(route("default"));
            lifecycle.run = Some(ActiveRun { run_id: run(2), lease_expires_at: at(400), times_out_at: None });
            outcome.last_run = last_run(r#"{"host":"gpu-3"}"#);
            let progress = || Progress { value: object(r#"{"step":3}"#), updated_at: at(150), attempt: 1 };
            outcome.progress = held.progress_and_output.then(progress);
        }
        3 => {
            ended(Status::Succeeded, 1, RunEnd::Complete, 110);
            outcome.result = object(r#"{"loss":0.25}"#);
            outcome.last_run = last_run(r#"{"host":"gpu-4"}"#);
        }
        4 => {
            ended(Status::Failed, 3, RunEnd::Fail, 120);
            let traceback = Some("line 1\nline 2".into());
            let failure = Failure { kind: "ValueError".into(), message: "no \"good\"".into(), traceback };
            outcome.last_error = Some(LastError { failure, occurred_at: at(120), attempt: 3, run_id: Some(run(4)) });
        }
        5 => (lifecycle.status, lifecycle.updated_at) = (Status::Cancelled, at(130)),
        6 => {
            ended(Status::Pending, 0, RunEnd::Unclaim, 140);
            lifecycle.pending_seq = 9;
        }
        _ => {}
    }
    Task { queue: queue("q"), id: id(number), definition: definition(number), lifecycle, outcome }
}

/// Everything is there as it was, and work goes on.
pub async fn assert_upgraded(fixture: &Fixture, held: Held) {
    let store = &*fixture.store;
    assert_eq!(store.list_queues().await.unwrap(), [queue("empty"), queue("q")]);
    for task in expected(held) {
        assert_eq!(store.get_task(&queue("q"), task.id).await.unwrap(), task, "{held:?}");
    }
    assert_eq!(fixture.count_by_status().await, [2, 1, 1, 1, 1]);
    assert_eq!(store.count_workers(&queue("q"), None).await, Ok(1));
    if held.progress_and_output {
        let output = store.read_output(&queue("q"), id(2), 0, 1_000).await.unwrap();
        assert_eq!((output.start, output.text.as_str()), (3, "epoch 3"));
    }
    assert_work_goes_on(fixture, held).await;
}

async fn assert_work_goes_on(fixture: &Fixture, held: Held) {
    let again = fixture.ok(create_task(1)).await;
    assert!(!again.created, "the same creation finds the task");
    let used = [2, 3, 4, 6, 7, 41, 42, 61].into_iter().chain(held.deleted_runs.then_some(99));
    for number in used {
        let by = Claim { run_id: run(number), ..claim("q", "elsewhere", 1) };
        assert!(fixture.write(by).await.is_err(), "run id {number} was used");
    }
    let mut report = complete("q", 1, 1, object("{}"));
    (report.id, report.run_id) = (id(2), run(2));
    fixture.ok(report).await;
    for (route, number) in [("gpu", 1), ("default", 6)] {
        let claimed = fixture.ok(claim("q", route, 100 + number)).await.expect("a task");
        assert_eq!(claimed.task.id, id(number));
        let mut report = complete("q", 1, 100 + number, object(r#"{"done":true}"#));
        report.id = id(number);
        fixture.ok(report).await;
    }
    fixture.create("new", Definition::default()).await;
    assert_eq!(fixture.count_by_status().await, [1, 0, 4, 1, 1]);
}

fn create_task(number: usize) -> crate::command::CreateTask {
    crate::command::CreateTask { id: id(number), ..create("q", "any", definition(number)) }
}

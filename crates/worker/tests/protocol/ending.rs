//! When a worker ends: guard, idle time, number of tasks, requests to stop.

use std::time::Instant;

use async_trait::async_trait;
use taskqueue_client::TaskId;
use taskqueue_worker::{Handler, TaskRun};
use tokio::sync::mpsc;

use crate::prelude::*;

/// Settings of a worker that pauses for so long after failures in a row.
fn pausing(pause: Duration) -> Settings {
    let failure_pause = BackoffLimits { first: pause, longest: pause };
    Settings { intervals: Intervals { failure_pause, ..settings().intervals }, ..settings() }
}

const HOUR: Duration = Duration::from_secs(3600);

/// Tasks of which the first succeeds and the next five fail.
async fn five_failures_after_a_success(server: &Server, settings: Settings) -> TestWorker {
    server.script("claim", (1..=7).map(task));
    let mut worker = TestWorker::start(server, settings);
    worker.next_run().await.succeed();
    for _ in 0..5 {
        worker.next_run().await.end(failure());
    }
    worker
}

#[tokio::test]
async fn failures_in_a_row_after_a_success_slow_the_worker_down_and_do_not_end_it() {
    let server = Server::start().await;
    let mut worker = five_failures_after_a_success(&server, settings()).await;
    worker.next_run().await.end(failure());
    worker.next_run().await.succeed();
    worker.next_run().await.end(failure());
    let last = worker.next_run().await;
    let events = worker.events.all();
    let slowed = events.iter().position(|event| event.starts_with("SlowedDown")).unwrap();
    assert!(events[slowed - 1].starts_with("ended t_000000000006"), "after the end of the run: {events:?}");
    let told: Vec<&String> = events.iter().filter(|event| event.starts_with("SlowedDown")).collect();
    assert!(told[0].starts_with("SlowedDown { failures: 5, pause: 20ms"), "{told:?}");
    assert!(told[1].starts_with("SlowedDown { failures: 6, pause: 40ms"), "{told:?}");
    assert_eq!(told.len(), 2, "a success resets it: {told:?}");
    worker.stop(StopMode::Finish);
    last.succeed();
    assert_eq!(worker.end().await.0, EndReason::Stopped);
}

#[tokio::test]
async fn a_worker_that_pauses_after_failures_claims_nothing_and_stops_at_once() {
    let server = Server::start().await;
    let worker = five_failures_after_a_success(&server, pausing(HOUR)).await;
    worker.until_told("SlowedDown").await;
    assert_eq!(worker.stopped(StopMode::Finish).await.0, EndReason::Stopped);
    assert_eq!(server.asked("claim").len(), 6);
}

/// A worker with two slots in a pause of an hour: one slot has failed, and the claim of the other waited for a task, in vain, until the
/// pause began. `last` answers what is claimed after that.
async fn paused_while_a_claim_waits(server: &Server, last: Reply) -> TestWorker {
    server.tasks(|tasks| tasks.pending = 1);
    server.script("claim", [Reply::Silence].into_iter().chain((2..=6).map(task)).chain([last]));
    let intervals = Intervals { wait: HOUR, ..pausing(HOUR).intervals };
    let mut worker = TestWorker::patient(server, Settings { slots: vec![0, 1], intervals, ..settings() }, HOUR);
    let first = worker.next_run().await;
    server.until("claim", 1).await;
    first.succeed();
    for _ in 0..5 {
        worker.next_run().await.end(failure());
    }
    // What waited may own a task, so it is repeated at once.
    server.until("claim", 7).await;
    let claims: Vec<String> = server.asked("claim").iter().map(|claim| claim.member("run_id")).collect();
    assert_eq!(claims[6], claims[0], "{claims:?}");
    worker
}

#[tokio::test]
async fn a_pause_after_failures_holds_idle_slots_too() {
    let server = Server::start().await;
    let worker = paused_while_a_claim_waits(&server, empty()).await;
    worker.until_told("SlowedDown").await;
    assert_eq!(worker.stopped(StopMode::Finish).await.0, EndReason::Stopped);
    let claims: Vec<String> = server.asked("claim").iter().map(|claim| claim.member("run_id")).collect();
    // The stop may have come before the answer, and then it is repeated once more.
    assert!(claims[6..].iter().all(|run_id| *run_id == claims[0]), "nothing else is claimed: {claims:?}");
}

#[tokio::test]
async fn a_task_that_a_claim_may_have_got_when_a_pause_began_is_given_back_and_not_tried() {
    let server = Server::start().await;
    let worker = paused_while_a_claim_waits(&server, task(7)).await;
    server.until("unclaim", 1).await;
    assert_eq!(worker.stopped(StopMode::Finish).await.0, EndReason::Stopped);
    let (claims, given_back) = (server.asked("claim"), server.asked("unclaim"));
    assert_eq!((claims.len(), given_back.len()), (7, 1), "nothing else is claimed");
    assert_eq!(given_back[0].member("run_id"), claims[6].member("run_id"));
}

#[tokio::test]
async fn a_worker_that_has_run_its_number_of_tasks_does_not_wait_for_the_end_of_a_pause() {
    let server = Server::start().await;
    let settings = Settings { max_tasks: Some(6), ..pausing(HOUR) };
    let worker = five_failures_after_a_success(&server, settings).await;
    assert_eq!(worker.end().await.0, EndReason::MaxTasks);
}

#[tokio::test]
async fn a_pause_after_failures_is_no_idle_time() {
    let server = Server::start().await;
    let (pause, idle_timeout) = (Duration::from_millis(400), Duration::from_millis(300));
    let settings = Settings { idle_timeout: Some(idle_timeout), ..pausing(pause) };
    server.script("claim", (1..=6).map(task).chain([empty()]));
    let (began, mut worker) = (Instant::now(), TestWorker::start(&server, settings));
    worker.next_run().await.succeed();
    for _ in 0..5 {
        worker.next_run().await.end(failure());
    }
    assert_eq!(worker.end().await.0, EndReason::Idle);
    assert!(began.elapsed() >= pause + idle_timeout, "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_worker_that_cannot_run_anything_gives_back_and_ends() {
    let server = Server::claiming([task(1)]).await;
    let settings = Settings { on_failures: OnFailures::StopAfter(2), ..settings() };
    let (end, counts) =
        TestWorker::always(&server, settings, HandlerResult::CannotRun("disk full".to_owned())).end().await;
    let task_id = TaskId::parse("t_000000000001").unwrap();
    assert_eq!((end, counts.released, counts.failed), (EndReason::FailureGuard { failures: 2, task_id }, 2, 0));
    assert_eq!(server.asked("unclaim").len(), 2);
}

#[tokio::test]
async fn an_idle_worker_ends_after_its_time_and_not_while_something_runs() {
    let server = Server::with_batches(1).await;
    let settings = Settings { idle_timeout: Some(Duration::from_millis(60)), slots: vec![0, 1], ..settings() };
    let (worker, run) = TestWorker::running(&server, settings).await;
    // Much more than the idle time, counted in heartbeats and polls.
    server.until("heartbeat", 10).await;
    let ended = Instant::now();
    run.succeed();
    assert_eq!(worker.end().await.0, EndReason::Idle);
    assert!(ended.elapsed() >= Duration::from_millis(60), "{:?}", ended.elapsed());
}

#[tokio::test]
async fn a_first_request_lets_runs_finish_a_second_gives_back_a_third_kills() {
    let server = Server::with_batches(2).await;
    let mut worker = TestWorker::start(&server, Settings { slots: vec![0, 1], ..settings() });
    let (one, mut two) = (worker.next_run().await, worker.next_run().await);
    worker.stop(StopMode::Finish);
    let asked = |verbs: [&str; 2]| verbs.map(|verb| server.asked(verb).len()).iter().sum::<usize>();
    let claims = asked(["claim", "batch/claim"]);
    until(|| asked(["heartbeat", "batch/report"]) >= 6).await;
    assert_eq!((*one.run.control.borrow(), *two.run.control.borrow()), (RunControl::Continue, RunControl::Continue));
    one.succeed();
    until(|| server.tasks(|tasks| tasks.ended.len()) == 1).await;
    worker.stop(StopMode::Release);
    two.run.stop_requested().await;
    assert_eq!(*two.run.control.borrow(), RunControl::Stop);
    worker.stop(StopMode::Kill);
    two.run.control.wait_for(|control| *control == RunControl::Kill).await.unwrap();
    two.end(HandlerResult::Stopped);
    let (end, counts) = worker.end().await;
    assert_eq!((end, counts.succeeded, counts.released), (EndReason::Stopped, 1, 1));
    assert_eq!(asked(["claim", "batch/claim"]), claims, "claimed after it was told to stop");
}

struct Panicking;

#[async_trait]
impl Handler for Panicking {
    async fn run(&self, _: TaskRun) -> HandlerResult {
        panic!("a bug in the handler")
    }
}

#[tokio::test]
async fn a_handler_that_panics_fails_its_run_and_nothing_else() {
    let server = Server::claiming([task(1)]).await;
    let (_, runs) = mpsc::unbounded_channel();
    let worker = TestWorker::with(&server, for_tasks(2), Arc::new(Panicking), runs);
    assert_eq!(worker.end().await.1.failed, 2);
    assert_eq!(server.asked("fail")[0].member("type"), "HandlerPanicked");
}

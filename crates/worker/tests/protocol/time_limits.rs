//! The limit that a task sets for the time of its runs: since when it counts, and that the server may be the first to end a run by it.

use std::time::Duration;

use taskqueue_worker::{EndReason, HandlerResult, OnFailures, Settings};
use tokio::time::Instant;

use crate::server::{Server, empty, held, lease, limited_task, task, timed_out};
use crate::test_worker::{TestWorker, failure, settings};

const LIMIT: Duration = Duration::from_secs(7200);

#[tokio::test]
async fn the_time_of_a_run_counts_from_before_its_claim_was_sent() {
    let server = Server::start().await;
    let (told, claimed) = held(limited_task(1, LIMIT.as_secs()));
    server.script("claim", [claimed]);
    let mut worker = TestWorker::patient(&server, Settings { max_tasks: Some(1), ..settings() }, LIMIT);
    server.until("claim", 1).await;
    let arrived = Instant::now();
    told.notify_one();
    let run = worker.next_run().await;
    assert!(run.run.times_out_at.unwrap() <= arrived + LIMIT, "the server cannot have counted from earlier");
    run.succeed();
    assert_eq!(worker.end().await.1.succeeded, 1);
}

#[tokio::test]
async fn a_claim_that_waits_for_its_task_takes_nothing_of_the_time_of_the_run() {
    let server = Server::start().await;
    let (told, claimed) = held(limited_task(1, LIMIT.as_secs()));
    server.script("claim", [empty(), claimed]);
    let mut worker = TestWorker::patient(&server, Settings { max_tasks: Some(1), ..settings() }, LIMIT);
    server.until("claim", 2).await;
    let answered = Instant::now();
    told.notify_one();
    let run = worker.next_run().await;
    assert!(run.run.times_out_at.unwrap() >= answered + LIMIT);
    run.succeed();
    assert_eq!(worker.end().await.1.succeeded, 1);
}

#[tokio::test]
async fn a_task_without_a_limit_gives_its_run_any_time() {
    let server = Server::start().await;
    server.script("claim", [task(1)]);
    let mut worker = TestWorker::start(&server, Settings { max_tasks: Some(1), ..settings() });
    let run = worker.next_run().await;
    assert_eq!(run.run.times_out_at, None);
    run.succeed();
    assert_eq!(worker.end().await.1.succeeded, 1);
}

#[tokio::test]
async fn a_run_that_the_server_ended_by_its_time_is_stopped_and_has_failed() {
    let server = Server::start().await;
    server.script("claim", [limited_task(1, 1)]);
    server.script("heartbeat", [lease(), timed_out()]);
    let mut worker = TestWorker::start(&server, Settings { max_tasks: Some(1), ..settings() });
    let mut run = worker.next_run().await;
    run.run.stop_requested().await;
    run.end(failure());
    let (_, counts) = worker.end().await;
    assert_eq!((counts.revoked, counts.failed), (0, 1));
    assert!(server.asked("fail").is_empty());
}

#[tokio::test]
async fn a_failure_that_comes_after_the_server_ended_the_run_by_its_time_is_not_repeated() {
    let server = Server::start().await;
    server.script("claim", [limited_task(1, 1)]);
    server.script("fail", [timed_out()]);
    let mut worker = TestWorker::start(&server, Settings { max_tasks: Some(1), ..settings() });
    let run = worker.next_run().await;
    run.end(failure());
    let (_, counts) = worker.end().await;
    assert_eq!((counts.revoked, counts.failed), (0, 1));
    assert_eq!(server.asked("fail").len(), 1);
}

#[tokio::test]
async fn runs_that_the_server_ended_by_their_time_are_failures_in_a_row() {
    let server = Server::start().await;
    server.script("claim", [limited_task(1, 1), limited_task(2, 1), limited_task(3, 1)]);
    server.script("fail", [timed_out()]);
    let settings = Settings { on_failures: OnFailures::StopAfter(2), ..settings() };
    let (end, counts) = TestWorker::always(&server, settings, failure()).end().await;
    assert!(matches!(end, EndReason::FailureGuard { failures: 2, .. }), "{end:?}");
    assert_eq!(counts.failed, 2);
}

#[tokio::test]
async fn a_run_that_ends_within_its_time_is_reported_as_ever() {
    let server = Server::start().await;
    server.script("claim", [limited_task(1, 3600)]);
    let worker = TestWorker::always(
        &server,
        Settings { max_tasks: Some(1), ..settings() },
        HandlerResult::Complete(taskqueue_client::JsonObject::empty()),
    );
    assert_eq!(worker.end().await.1.succeeded, 1);
    assert_eq!(server.asked("complete").len(), 1);
}

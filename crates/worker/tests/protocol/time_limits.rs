//! The limit that a task sets for the time of its runs: since when it counts, and that the server may be the first to end a run by it.

use tokio::time::Instant;

use crate::prelude::*;

const LIMIT: Duration = Duration::from_secs(7200);

#[tokio::test]
async fn the_time_of_a_run_counts_from_before_its_claim_was_sent_unless_that_waited_for_a_task() {
    for before in [None, Some(empty())] {
        let has_waited = before.is_some();
        let (told, claimed) = held(limited_task(1, LIMIT.as_secs()));
        let server = Server::claiming(before.into_iter().chain([claimed])).await;
        let mut worker = TestWorker::patient(&server, for_tasks(1), LIMIT);
        server.until("claim", 1 + usize::from(has_waited)).await;
        let arrived = Instant::now();
        told.notify_one();
        let run = worker.next_run().await;
        let ends = run.run.times_out_at.unwrap();
        // The server cannot have counted from earlier than the arrival; nor does it before it has answered.
        assert!(if has_waited { ends >= arrived + LIMIT } else { ends <= arrived + LIMIT }, "{has_waited}");
        run.succeed();
        assert_eq!(worker.end().await.1.succeeded, 1);
    }
}

#[tokio::test]
async fn the_time_that_the_server_takes_to_say_what_it_has_is_not_that_of_a_run() {
    let (told, answer) = held(capabilities_without(&[]));
    let server = Server::claiming([limited_task(1, LIMIT.as_secs())]).await;
    server.script("capabilities", [answer]);
    let mut worker = TestWorker::patient(&server, for_tasks(1), LIMIT);
    server.until("capabilities", 1).await;
    let said = Instant::now();
    told.notify_one();
    let run = worker.next_run().await;
    assert!(run.run.times_out_at.unwrap() >= said + LIMIT);
    run.succeed();
    assert_eq!(worker.end().await.1.succeeded, 1);
}

#[tokio::test]
async fn a_task_without_a_limit_gives_its_run_any_time() {
    let server = Server::claiming([task(1)]).await;
    let (worker, run) = TestWorker::running(&server, for_tasks(1)).await;
    assert_eq!(run.run.times_out_at, None);
    run.succeed();
    assert_eq!(worker.end().await.1.succeeded, 1);
}

#[tokio::test]
async fn a_run_that_the_server_ended_by_its_time_is_stopped_and_has_failed() {
    let server = Server::claiming([limited_task(1, 1)]).await;
    server.script("heartbeat", [lease(), timed_out()]);
    let (worker, mut run) = TestWorker::running(&server, for_tasks(1)).await;
    run.run.stop_requested().await;
    run.end(failure());
    let (_, counts) = worker.end().await;
    assert_eq!((counts.revoked, counts.failed), (0, 1));
    assert!(server.asked("fail").is_empty());
}

#[tokio::test]
async fn a_failure_that_comes_after_the_server_ended_the_run_by_its_time_is_not_repeated() {
    let server = Server::claiming([limited_task(1, 1)]).await;
    server.script("fail", [timed_out()]);
    let (worker, run) = TestWorker::running(&server, for_tasks(1)).await;
    run.end(failure());
    let (_, counts) = worker.end().await;
    assert_eq!((counts.revoked, counts.failed), (0, 1));
    assert_eq!(server.asked("fail").len(), 1);
}

#[tokio::test]
async fn runs_that_the_server_ended_by_their_time_are_failures_in_a_row() {
    let server = Server::claiming([limited_task(1, 1), limited_task(2, 1), limited_task(3, 1)]).await;
    server.script("fail", [timed_out()]);
    let settings = Settings { on_failures: OnFailures::StopAfter(2), ..settings() };
    let (end, counts) = TestWorker::always(&server, settings, failure()).end().await;
    assert!(matches!(end, EndReason::FailureGuard { failures: 2, .. }), "{end:?}");
    assert_eq!(counts.failed, 2);
}

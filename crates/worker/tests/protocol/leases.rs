//! Heartbeats: which errors are tolerated, and which answers end a run.

use std::time::Instant;

use crate::prelude::*;

#[tokio::test]
async fn a_run_continues_whatever_goes_wrong_with_heartbeats() {
    let server = Server::claiming([task(1)]).await;
    server.script(
        "heartbeat",
        [
            disconnect(),
            refusal(500, "internal_error"),
            refusal(503, "database_busy"),
            Reply::Garbage("HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\noops"),
            refusal(401, "unauthorized"),
            refusal(422, "invalid_request"),
            refusal(429, "slow_down"),
            Reply::Garbage("\x16\x03\x01 this is not HTTP\r\n\r\n"),
            Reply::Garbage("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"half\":"),
            Reply::Answer(200, "", "<html>hello</html>".to_owned()),
            Reply::Answer(302, "Location: /login\r\n", String::new()),
            Reply::Answer(409, "", "[]".to_owned()),
            Reply::Silence,
            lease(),
        ],
    );
    let (worker, run) = TestWorker::running(&server, for_tasks(1)).await;
    server.until("heartbeat", 16).await;
    assert_eq!(*run.run.control.borrow(), RunControl::Continue);
    run.succeed();
    assert_eq!(worker.end().await.1.succeeded, 1);
}

#[tokio::test]
async fn the_servers_word_about_the_run_ends_it_and_nothing_is_reported() {
    let cases = [(409, "stale_run"), (409, "run_finalized"), (404, "task_not_found"), (404, "queue_not_found")];
    for (status, code) in cases {
        let server = Server::claiming([task(1)]).await;
        server.script("heartbeat", [lease(), refusal(status, code)]);
        let (worker, mut run) = TestWorker::running(&server, for_tasks(1)).await;
        run.run.stop_requested().await;
        assert_eq!(*run.run.control.borrow(), RunControl::Stop, "{code}");
        run.end(HandlerResult::Stopped);
        let (_, counts) = worker.end().await;
        assert_eq!((counts.revoked, counts.failed), (1, 0), "{code}");
        assert_eq!(server.verbs(), ["claim", "heartbeat", "heartbeat"], "{code}");
    }
}

#[tokio::test]
async fn a_success_that_comes_after_the_revocation_is_not_reported() {
    let server = Server::claiming([task(1)]).await;
    server.script("heartbeat", [refusal(409, "run_finalized")]);
    let (worker, mut run) = TestWorker::running(&server, for_tasks(1)).await;
    run.run.stop_requested().await;
    run.succeed();
    assert_eq!(worker.end().await.1.revoked, 1);
    assert!(server.asked("complete").is_empty());
}

#[tokio::test]
async fn a_run_that_is_given_back_keeps_its_lease_until_it_has_ended() {
    let server = Server::claiming([task(1)]).await;
    let (worker, mut run) = TestWorker::running(&server, settings()).await;
    worker.stop(StopMode::Release);
    run.run.stop_requested().await;
    let so_far = server.asked("heartbeat").len();
    server.until("heartbeat", so_far + 2).await;
    run.end(HandlerResult::Stopped);
    assert_eq!(worker.end().await.1.released, 1);
    assert_eq!(server.asked("unclaim").len(), 1);
}

#[tokio::test]
async fn a_run_that_ends_by_itself_while_it_is_being_given_back_counts_as_it_ended() {
    let server = Server::claiming([task(1)]).await;
    let (worker, mut run) = TestWorker::running(&server, settings()).await;
    worker.stop(StopMode::Release);
    run.run.stop_requested().await;
    run.succeed();
    assert_eq!(worker.end().await.1.succeeded, 1);
}

#[tokio::test]
async fn the_server_is_asked_to_hold_heartbeats_and_a_refusal_of_a_held_one_ends_the_run() {
    let server = Server::claiming([task(1)]).await;
    server.script("heartbeat", [lease_after_holding(), lease_after_holding(), refusal(409, "run_finalized")]);
    let intervals = Intervals { heartbeat: Duration::from_secs(1), ..intervals() };
    let (worker, mut run) =
        TestWorker::running(&server, Settings { max_tasks: Some(1), intervals, ..settings() }).await;
    run.run.stop_requested().await;
    run.end(HandlerResult::Stopped);
    assert_eq!(worker.end().await.1.revoked, 1);
    assert!(server.asked("heartbeat").iter().all(|heartbeat| heartbeat.text.contains("prefer: wait=1\r\n")));
}

#[tokio::test]
async fn a_heartbeat_that_is_held_delays_neither_the_end_of_the_run_nor_its_report() {
    let server = Server::claiming([task(1)]).await;
    server.script("heartbeat", [Reply::Silence]);
    let intervals = Intervals { heartbeat: Duration::from_secs(50), wait: Duration::from_secs(50), ..intervals() };
    let (worker, run) = TestWorker::running(&server, Settings { max_tasks: Some(1), intervals, ..settings() }).await;
    server.until("heartbeat", 1).await;
    let ended = Instant::now();
    run.succeed();
    assert_eq!(worker.end().await.1.succeeded, 1);
    // Half of the time for which it is held.
    assert!(ended.elapsed() < Duration::from_secs(25), "{:?}", ended.elapsed());
}

/// Something between worker and server cuts what is silent for long. The lease was renewed, and nothing is lost.
#[tokio::test]
async fn a_held_heartbeat_that_is_cut_off_is_followed_by_one_that_is_not_held_and_by_no_warning() {
    let server = Server::claiming([task(1)]).await;
    // Silence until the client gives up, some seconds after the one that it wanted.
    server.script("heartbeat", [Reply::Silence, lease()]);
    let intervals = Intervals { heartbeat: Duration::from_secs(1), ..intervals() };
    let settings = Settings { max_tasks: Some(1), intervals, ..settings() };
    let mut worker = TestWorker::patient(&server, settings, Duration::from_secs(4));
    let run = worker.next_run().await;
    server.until("heartbeat", 3).await;
    let held: Vec<bool> = server.asked("heartbeat").iter().map(|beat| beat.text.contains("prefer: wait")).collect();
    assert_eq!(held[..3], [true, false, true]);
    run.succeed();
    assert!(!worker.events.all().contains(&"server unreachable".to_owned()));
    assert_eq!(worker.end().await.1.succeeded, 1);
}

//! Which claims are sent, with which run id, and when a task runs.

use std::time::Instant;

use taskqueue_client::Error;

use crate::prelude::*;

#[tokio::test]
async fn a_claim_whose_answer_is_lost_is_repeated_with_its_run_id_and_confirmed_before_anything_runs() {
    let server = Server::start().await;
    let half = Reply::Garbage("HTTP/1.1 200 OK\r\n\r\n{");
    server.script("claim", [disconnect(), half, refusal(503, "database_busy"), task(1)]);
    let (worker, run) = TestWorker::running(&server, for_tasks(1)).await;
    assert_eq!(server.verbs()[..5], ["claim", "claim", "claim", "claim", "heartbeat"]);
    let claims = server.asked("claim");
    assert!(claims.iter().all(|claim| claim.member("run_id") == claims[0].member("run_id")), "{claims:?}");
    assert_eq!(server.asked("heartbeat")[0].member("run_id"), claims[0].member("run_id"));
    run.succeed();
    assert_eq!(worker.end().await.0, EndReason::MaxTasks);
}

#[tokio::test]
async fn a_claim_that_is_answered_needs_no_confirmation() {
    let server = Server::claiming([task(1)]).await;
    let worker = TestWorker::always(&server, for_tasks(2), empty_success());
    assert_eq!(worker.end().await.1.succeeded, 2);
    let claims = server.asked("claim");
    assert_ne!(claims[0].member("run_id"), claims[1].member("run_id"));
    assert!(server.asked("heartbeat").is_empty());
    assert_eq!(server.asked("capabilities").len(), 1, "it is asked once");
}

#[tokio::test]
async fn a_repeated_claim_whose_lease_has_ended_meanwhile_is_not_run() {
    let server = Server::claiming([disconnect(), task(1), task(2)]).await;
    server.script("heartbeat", [refusal(503, "database_busy"), refusal(409, "run_finalized"), crate::server::lease()]);
    let (worker, run) = TestWorker::running(&server, for_tasks(1)).await;
    assert_eq!(run.run.claim.task.id.as_str(), "t_000000000002");
    let claims = server.asked("claim");
    assert_eq!(claims[0].member("run_id"), claims[1].member("run_id"));
    assert_ne!(claims[1].member("run_id"), claims[2].member("run_id"));
    run.succeed();
    assert_eq!(worker.end().await.1.succeeded, 1);
}

/// Settings of a worker whose first pause between claims is this long.
fn backing_off(first: Duration) -> Settings {
    let backoff = BackoffLimits { first, longest: Duration::from_secs(60) };
    Settings { intervals: Intervals { backoff, ..intervals() }, ..settings() }
}

#[tokio::test]
async fn a_server_that_does_not_wait_even_if_it_says_so_is_asked_less_and_less_often() {
    // The pauses between the claims are up to a tenth shorter.
    for (reply, first, claims, least) in [(empty(), 20, 6, 18 + 36 + 72 + 144), (empty_after_waiting(), 40, 4, 36 + 72)]
    {
        let server = Server::claiming([reply]).await;
        let started = Instant::now();
        let worker = TestWorker::start(&server, backing_off(Duration::from_millis(first)));
        server.until("claim", claims).await;
        assert!(started.elapsed() >= Duration::from_millis(least), "{least}: {:?}", started.elapsed());
        worker.stopped(StopMode::Finish).await;
    }
}

#[tokio::test]
async fn a_first_claim_is_repeated_no_earlier_than_the_server_asked_for() {
    for code in ["database_busy", "database_unavailable"] {
        let (server, body) =
            (Server::start().await, format!(r#"{{"error":{{"code":"{code}","message":"no","details":{{}}}}}}"#));
        server.script("claim", [Reply::Answer(503, "Retry-After: 1\r\n", body), task(1)]);
        let started = Instant::now();
        let (worker, run) = TestWorker::running(&server, for_tasks(1)).await;
        assert!(started.elapsed() >= Duration::from_secs(1), "{code}: {:?}", started.elapsed());
        run.succeed();
        assert_eq!(worker.end().await.1.succeeded, 1);
    }
}

#[tokio::test]
async fn a_refused_claim_ends_the_worker_with_the_reason() {
    for (status, code) in [(401, "unauthorized"), (404, "queue_not_found"), (422, "invalid_request")] {
        let server = Server::claiming([refusal(status, code)]).await;
        let (end, _) = TestWorker::start(&server, settings()).end().await;
        let EndReason::Refused(error) = end else { panic!("{code}: {end:?}") };
        assert!(error.to_string().contains(code), "{error}");
    }
}

#[tokio::test]
async fn a_run_id_that_somebody_else_has_used_is_replaced() {
    let server = Server::claiming([refusal(409, "stale_run"), refusal(409, "run_id_conflict"), task(1)]).await;
    let worker = TestWorker::always(&server, for_tasks(1), empty_success());
    assert_eq!(worker.end().await.1.succeeded, 1);
    let mut ids: Vec<String> = server.asked("claim").iter().map(|claim| claim.member("run_id")).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 3);
}

#[tokio::test]
async fn a_task_that_arrives_while_the_worker_stops_is_given_back() {
    let server = Server::start().await;
    // The first claim finds no task, the waiting one is never answered, and its repetition gives a task.
    server.script("claim", [empty(), Reply::Silence, task(1)]);
    let worker = TestWorker::start(&server, settings());
    server.until("claim", 2).await;
    let (end, counts) = worker.stopped(StopMode::Finish).await;
    assert_eq!((end, counts.succeeded), (EndReason::Stopped, 0));
    let claims = server.asked("claim");
    assert_eq!(claims[1].member("run_id"), claims[2].member("run_id"));
    assert_eq!(server.asked("unclaim")[0].member("run_id"), claims[2].member("run_id"));
}

#[tokio::test]
async fn an_unreachable_server_is_one_event_and_its_return_another() {
    let server = Server::claiming([disconnect(), disconnect(), disconnect(), task(1)]).await;
    let worker = TestWorker::always(&server, for_tasks(1), empty_success());
    let events = std::sync::Arc::clone(&worker.events);
    worker.end().await;
    until(|| events.all().iter().any(|line| line.starts_with("ended"))).await;
    assert_eq!(events.all()[..3], ["server unreachable", "server reachable", "started t_000000000001"]);
}

#[tokio::test]
async fn a_slot_whose_claim_is_in_doubt_does_not_wait_for_the_one_that_waits_for_all() {
    let server = Server::with_batches(1).await;
    server.script("claim", [Reply::Silence, disconnect(), Reply::Silence]);
    let settings = Settings { slots: vec![0, 1], ..settings() };
    let mut worker = TestWorker::patient(&server, settings, Duration::from_secs(20));
    let run = worker.next_run().await;
    // The other slot waits.
    server.until("claim", 1).await;
    run.succeed();
    server.until("claim", 2).await;
    let in_doubt = server.asked("claim")[1].member("run_id");
    until(|| server.asked("claim").iter().filter(|claim| claim.member("run_id") == in_doubt).count() > 1).await;
    worker.stopped(StopMode::Kill).await;
}

#[tokio::test]
async fn a_claim_in_doubt_is_settled_before_the_worker_leaves() {
    let cases = [(None, EndReason::Stopped), (Some(Duration::from_millis(50)), EndReason::ServerUnreachable)];
    for (idle_timeout, expected) in cases {
        let server = Server::claiming([disconnect(), disconnect(), task(1)]).await;
        let settings = Settings { idle_timeout, ..backing_off(Duration::from_secs(60)) };
        let worker = TestWorker::patient(&server, settings, Duration::from_secs(20));
        server.until("claim", 2).await;
        worker.until_told("server unreachable").await;
        if idle_timeout.is_none() {
            worker.stop(StopMode::Finish);
        }
        assert_eq!(worker.end().await.0, expected);
        let claims = server.asked("claim");
        assert_eq!(claims[0].member("run_id"), claims[2].member("run_id"));
        assert_eq!(server.asked("unclaim")[0].member("run_id"), claims[0].member("run_id"));
    }
}

#[tokio::test]
async fn a_server_that_lacks_an_extension_ends_the_worker_before_any_claim() {
    for (answer, missing) in [(refusal(404, "not_found"), "archive"), (capabilities_without(&["run-info"]), "run-info")]
    {
        let server = Server::start().await;
        server.script("capabilities", [answer]);
        let (end, _) = TestWorker::start(&server, Settings { slots: vec![0, 1], ..settings() }).end().await;
        assert_eq!(end, EndReason::Refused(Error::ServerTooOld { missing }));
        assert_eq!((server.verbs(), server.asked("capabilities").len()), (Vec::new(), 1));
    }
}

#[tokio::test]
async fn a_server_that_does_not_say_what_it_has_is_asked_again_before_the_first_claim() {
    let page = Reply::Answer(404, "", "<html>".to_owned());
    for answer in [page, refusal(500, "internal_error"), refusal(503, "database_busy"), disconnect(), Reply::Silence] {
        let server = Server::start().await;
        server.script("capabilities", [answer.clone(), answer.clone(), capabilities_without(&[])]);
        server.script("claim", [task(1)]);
        let settings = for_tasks(2);
        let worker = TestWorker::always(&server, settings, empty_success());
        assert_eq!(worker.end().await.1.succeeded, 2, "{answer:?}");
        assert_eq!(server.asked("capabilities").len(), 3, "{answer:?}");
    }
}

#[tokio::test]
async fn a_claim_that_the_worker_could_not_send_is_in_doubt_for_nobody() {
    for answer in [refusal(503, "database_busy"), Reply::Answer(502, "", "<html>".to_owned())] {
        let server = Server::start().await;
        server.script("capabilities", [answer.clone()]);
        let worker = TestWorker::start(&server, Settings { slots: vec![0, 1], ..backing_off(Duration::from_secs(60)) });
        worker.until_told("server unreachable").await;
        assert_eq!(worker.stopped(StopMode::Finish).await.0, EndReason::Stopped, "{answer:?}");
        assert_eq!(server.verbs(), Vec::<String>::new(), "{answer:?}");
    }
}

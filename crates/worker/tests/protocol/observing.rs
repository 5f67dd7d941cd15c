//! The content of observations, and that nothing depends on them.

use tokio::time::timeout;

use crate::prelude::*;

fn status(report: &Request) -> String {
    report.member("status")
}

#[tokio::test]
async fn a_slot_is_idle_busy_with_its_task_idle_and_then_withdrawn() {
    let server = Server::claiming([crate::server::empty(), task(1), crate::server::empty()]).await;
    let (worker, run) = TestWorker::running(&server, settings()).await;
    crate::test_worker::until(|| server.asked("PUT").last().is_some_and(|report| status(report) == "busy")).await;
    let busy = server.asked("PUT").pop().unwrap();
    assert_eq!(busy.member("task_id"), "t_000000000001");
    let so_far = server.asked("PUT").len();
    server.until("PUT", so_far + 2).await;
    run.succeed();
    crate::test_worker::until(|| server.asked("PUT").last().is_some_and(|report| status(report) == "idle")).await;
    assert!(server.asked("PUT").pop().unwrap().text.contains("\"task_id\":null"));
    worker.stopped(StopMode::Finish).await;
    assert_eq!(server.asked("DELETE").len(), 1);
    let line = |request: &Request| request.text.lines().next().unwrap().split(' ').nth(1).unwrap().to_owned();
    let path = line(&server.asked("DELETE")[0]);
    assert!(server.asked("PUT").iter().all(|report| line(report) == path), "one worker id per slot");
}

/// The server may still be at an observation that nobody waits for any more: done behind the withdrawal, it would bring the worker back.
#[tokio::test]
async fn a_slot_is_withdrawn_after_its_last_observation_was_answered() {
    let server = Server::start().await;
    let (answer, reply) = held(done());
    server.script("PUT", [reply]);
    let hour = Duration::from_secs(3_600);
    let intervals = Intervals { shutdown_timeout: hour, ..intervals() };
    let worker = TestWorker::patient(&server, Settings { intervals, ..settings() }, hour);
    server.until("PUT", 1).await;
    worker.stop(StopMode::Finish);
    let early = timeout(Duration::from_millis(200), server.until("DELETE", 1)).await;
    assert!(early.is_err(), "it was withdrawn while the server was at it");
    answer.notify_one();
    worker.end().await;
    assert_eq!(server.asked("DELETE").len(), 1);
}

/// No request gives up by itself: a worker that waited for an answer to an observation would hang.
#[tokio::test]
async fn observations_that_fail_touch_neither_runs_nor_guard_nor_end() {
    let hour = Duration::from_secs(3_600);
    for reply in [disconnect(), refusal(404, "queue_not_found"), refusal(409, "worker_route_conflict"), Reply::Silence]
    {
        let server = Server::claiming([task(1)]).await;
        server.script("PUT", [reply.clone()]);
        server.script("DELETE", [reply.clone()]);
        let settings = Settings { max_tasks: Some(3), on_failures: OnFailures::StopAfter(1), ..settings() };
        let mut worker = TestWorker::patient(&server, settings, hour);
        for _ in 0..3 {
            let run = worker.next_run().await;
            // It is under way, or has failed, before the first run ends.
            server.until("PUT", 1).await;
            run.succeed();
        }
        assert_eq!(worker.end().await.1.succeeded, 3, "{reply:?}");
    }
}

#[tokio::test]
async fn observations_say_where_the_slot_is_unless_the_server_refuses_that() {
    let server = Server::start().await;
    server.script("PUT", [refusal(422, "invalid_request"), done()]);
    let worker = TestWorker::start(&server, settings());
    server.until("PUT", 3).await;
    let told: Vec<bool> = server.asked("PUT").iter().map(|report| report.text.contains("metadata")).collect();
    assert_eq!(told[..3], [true, false, false]);
    worker.stopped(StopMode::Finish).await;
}

//! What an idle worker asks, of whom, and how often.

use crate::prelude::*;

/// Settings of a worker that asks soon.
fn curious() -> Settings {
    let intervals = Intervals { idle_reason: Duration::from_millis(20), ..settings().intervals };
    Settings { intervals, ..settings() }
}

fn stats(routes: &str) -> Reply {
    let counts = r#"{"created":0,"claimed":0,"succeeded":0,"failed":0,"released":0,"expired":0,"cancelled":0}"#;
    let body = format!(
        r#"{{"tasks":{{"pending":5,"running":0,"succeeded":0,"failed":0,"cancelled":0}},"routes":[{routes}],"activity":{{"last_minute":{counts},"last_5_minutes":{counts},"last_hour":{counts}}},"wait_seconds":null,"run_seconds":null,"since":"2026-01-01T00:00:00.000000Z"}}"#
    );
    Reply::Answer(200, "", body)
}

fn told(worker: &TestWorker) -> Vec<String> {
    worker.events.all().into_iter().filter(|event| event.starts_with("Idle")).collect()
}

#[tokio::test]
async fn a_worker_that_is_not_told_why_it_is_idle_says_that_and_goes_on() {
    for answer in [refusal(401, "unauthorized"), refusal(403, "forbidden"), refusal(404, "not_found")] {
        let server = Server::start().await;
        server.script("stats", [answer]);
        let mut worker = TestWorker::start(&server, curious());
        until(|| !told(&worker).is_empty()).await;
        assert_eq!(told(&worker), ["Idle(Untold)"]);
        server.script("claim", [task(1), empty()]);
        worker.next_run().await.succeed();
        server.until("complete", 1).await;
        worker.stopped(StopMode::Finish).await;
    }
}

#[tokio::test]
async fn an_answer_that_says_to_ask_later_says_nothing_about_tasks() {
    let server = Server::start().await;
    server.script("stats", [refusal(408, "timeout"), refusal(429, "slow_down"), refusal(503, "busy"), stats("")]);
    let worker = TestWorker::start(&server, curious());
    until(|| !told(&worker).is_empty()).await;
    assert_eq!(told(&worker), ["Idle(NoTask)"]);
    assert!(server.asked("stats").len() >= 4);
    worker.stopped(StopMode::Finish).await;
}

#[tokio::test]
async fn a_worker_that_has_work_asks_nothing() {
    let server = Server::claiming([task(1)]).await;
    let (worker, run) = TestWorker::running(&server, curious()).await;
    server.until("heartbeat", 10).await;
    worker.stop(StopMode::Finish);
    run.succeed();
    worker.end().await;
    assert!(server.asked("stats").is_empty());
}

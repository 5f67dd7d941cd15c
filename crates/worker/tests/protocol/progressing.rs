//! The progress of runs: the newest is sent, not too often, the last one before the final report, and never at its cost.

use std::time::Instant;

use taskqueue_client::JsonObject;

use crate::batch_server::actions;
use crate::prelude::*;

fn report(run: &WaitingRun, step: u32) {
    run.run.progress.report(JsonObject::from_canonical(&format!("{{\"step\":{step}}}")));
}

/// The steps that the server was told.
fn steps(server: &Server) -> Vec<u32> {
    let bodies = server.asked("progress").into_iter().map(|request| request.body().to_owned());
    let step = |body: String| body.split("\"step\":").nth(1).unwrap().split('}').next().unwrap().parse().unwrap();
    bodies.map(step).collect()
}

#[tokio::test]
async fn the_newest_progress_is_sent_once_and_the_last_one_before_the_report() {
    let server = Server::with_tasks([task(1)]).await;
    let (worker, run) = TestWorker::running(&server, for_tasks(1)).await;
    report(&run, 1);
    server.until("progress", 1).await;
    let request = &server.asked("progress")[0];
    assert!(request.text.starts_with("POST /api/v2/queues/q/tasks/t_000000000001/progress "), "{}", request.text);
    assert_eq!(request.member("run_id"), run.run.claim.run_id.as_str());
    report(&run, 1);
    let heartbeats = server.asked("heartbeat").len();
    server.until("heartbeat", heartbeats + 5).await;
    assert_eq!(steps(&server), [1], "the same is not sent again");
    (2..=50).for_each(|step| report(&run, step));
    run.succeed();
    worker.end().await;
    assert_eq!(steps(&server).last(), Some(&50));
    let verbs = server.verbs();
    let of = |verb: &str| verbs.iter().rposition(|seen| seen == verb).unwrap();
    assert!(of("progress") < of("complete"), "{verbs:?}");
}

#[tokio::test]
async fn progress_is_sent_no_more_often_than_the_interval() {
    let server = Server::with_tasks([task(1)]).await;
    let intervals = Intervals { progress: Duration::from_millis(200), ..intervals() };
    let (worker, run) = TestWorker::running(&server, Settings { intervals, ..for_tasks(1) }).await;
    let (begin, mut step) = (Instant::now(), 0);
    until(|| {
        step += 1;
        report(&run, step);
        begin.elapsed() > Duration::from_secs(1)
    })
    .await;
    let (requests, most) = (server.asked("progress").len() as u128, begin.elapsed().as_millis() / 200 + 1);
    assert!((2..=most).contains(&requests), "{requests} requests");
    run.succeed();
    worker.end().await;
    assert_eq!(steps(&server).last(), Some(&step));
}

#[tokio::test]
async fn after_an_error_the_newest_is_sent_instead() {
    let server = Server::with_tasks([task(1)]).await;
    server.script("progress", [disconnect(), refusal(503, "database_busy"), done()]);
    let (worker, run) = TestWorker::running(&server, for_tasks(1)).await;
    report(&run, 1);
    server.until("progress", 2).await;
    report(&run, 2);
    until(|| steps(&server).last() == Some(&2)).await;
    run.succeed();
    worker.end().await;
}

#[tokio::test]
async fn refused_progress_is_noted_once_and_costs_the_run_nothing() {
    let server = Server::with_tasks([task(1)]).await;
    server.script("progress", [refusal(422, "task_data_too_large")]);
    let (worker, run) = TestWorker::running(&server, for_tasks(1)).await;
    report(&run, 1);
    worker.until_told("refused its progress").await;
    let heartbeats = server.asked("heartbeat").len();
    server.until("heartbeat", heartbeats + 5).await;
    assert_eq!(steps(&server), [1]);
    for step in 2..5 {
        report(&run, step);
        server.until("progress", step as usize).await;
    }
    run.succeed();
    let events = Arc::clone(&worker.events);
    assert_eq!(worker.end().await.1.succeeded, 1);
    assert_eq!(events.all().iter().filter(|event| event.contains("refused its progress")).count(), 1);
}

#[tokio::test]
async fn a_server_that_does_not_answer_delays_the_report_by_no_more_than_a_second() {
    let server = Server::with_tasks([task(1)]).await;
    server.script("progress", [Reply::Silence]);
    let mut worker = TestWorker::patient(&server, for_tasks(1), Duration::from_secs(60));
    let run = worker.next_run().await;
    report(&run, 1);
    server.until("progress", 1).await;
    let begin = Instant::now();
    run.succeed();
    assert_eq!(worker.end().await.1.succeeded, 1);
    // Half of the time that the request takes which is not answered.
    assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
}

/// The last one is not sent beside an earlier one, which could arrive later and replace it.
#[tokio::test]
async fn the_last_progress_waits_for_the_answer_to_the_one_before() {
    let server = Server::with_tasks([task(1)]).await;
    let (answer, held) = held(done());
    server.script("progress", [held, done()]);
    let (worker, run) = TestWorker::running(&server, for_tasks(1)).await;
    report(&run, 1);
    server.until("progress", 1).await;
    report(&run, 2);
    let (begin, heartbeats) = (Instant::now(), server.asked("heartbeat").len());
    run.succeed();
    server.until("heartbeat", heartbeats + 5).await;
    // After half a second it waits no longer.
    assert!(steps(&server) == [1] || begin.elapsed() > Duration::from_millis(500), "{:?}", steps(&server));
    answer.notify_one();
    worker.end().await;
    assert_eq!(steps(&server), [1, 2]);
    let verbs = server.verbs();
    let of = |verb: &str| verbs.iter().rposition(|seen| seen == verb).unwrap();
    assert!(of("progress") < of("complete"), "{verbs:?}");
}

#[tokio::test]
async fn the_progress_of_many_slots_goes_with_few_requests() {
    let server = Server::with_batches(16).await;
    server.script("progress", [Reply::Honest]);
    let settings = Settings { slots: (0..16).collect(), ..settings() };
    let mut worker = TestWorker::patient(&server, settings, Duration::from_secs(20));
    let mut runs = Vec::new();
    for _ in 0..16 {
        runs.push(worker.next_run().await);
    }
    runs.iter().for_each(|run| report(run, 1));
    until(|| server.tasks(|tasks| tasks.progress.len()) >= 16).await;
    let requests = server.asked("batch/report");
    let with_progress = requests.iter().filter(|request| actions(request).contains(&"progress".to_owned())).count();
    assert!(with_progress + server.asked("progress").len() < 8, "{with_progress} requests");
    runs.iter().for_each(|run| report(run, 2));
    runs.into_iter().for_each(WaitingRun::succeed);
    until(|| server.tasks(|tasks| tasks.ended.len()) == 16).await;
    assert_eq!(server.tasks(|tasks| tasks.progress.len()), 32, "the last ones too");
    worker.stopped(StopMode::Finish).await;
}

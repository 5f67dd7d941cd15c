//! Reports: sent until the server accepts or refuses them, if necessary by the next worker.

use std::net::SocketAddr;

use taskqueue_client::{Client, Config, Error, Failure, JsonObject, QueueName, Retries, RunId, TaskId};
use taskqueue_worker::keeper::LeftRun;
use taskqueue_worker::{LeftTasks, settle_left_runs};
use tempfile::tempdir;

use crate::prelude::*;

fn success() -> HandlerResult {
    HandlerResult::Complete(JsonObject::from_canonical("{\"loss\":0.5}"))
}

#[tokio::test]
async fn a_report_is_repeated_until_the_server_takes_it_and_the_lease_is_kept_meanwhile() {
    let server = Server::claiming([task(1)]).await;
    let garbage = Reply::Garbage("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    let failing = [disconnect(), refusal(500, "internal_error"), garbage, refusal(401, "unauthorized"), Reply::Silence];
    server.script("complete", failing.into_iter().chain([done()]));
    let worker = TestWorker::always(&server, for_tasks(1), success());
    let (_, counts) = worker.end().await;
    assert_eq!(counts.succeeded, 1);
    let reports = server.asked("complete");
    assert_eq!(reports.len(), 6);
    assert!(reports.iter().all(|report| report.text.contains("{\"loss\":0.5}")), "{reports:?}");
    assert!(!server.asked("heartbeat").is_empty(), "no heartbeat while reporting");
}

#[tokio::test]
async fn a_result_that_the_server_refuses_becomes_a_failure_that_says_so() {
    for (status, code) in
        [(422, "task_data_too_large"), (413, "request_too_large"), (422, "json_too_deep"), (422, "invalid_request")]
    {
        let server = Server::claiming([task(1)]).await;
        server.script("complete", [refusal(status, code)]);
        let worker = TestWorker::always(&server, for_tasks(1), success());
        assert_eq!(worker.end().await.1.failed, 1, "{code}");
        let report = &server.asked("fail")[0];
        assert_eq!(report.member("type"), "ResultRefused");
        assert!(report.text.contains(code), "{}", report.text);
    }
}

#[tokio::test]
async fn a_report_that_comes_too_late_is_revoked_and_no_failure_of_this_worker() {
    let server = Server::claiming([task(1)]).await;
    server.script("fail", [refusal(409, "stale_run")]);
    let settings = Settings { max_tasks: Some(3), on_failures: OnFailures::StopAfter(1), ..settings() };
    let (end, counts) = TestWorker::always(&server, settings, failure()).end().await;
    assert_eq!((end, counts.revoked, counts.failed), (EndReason::MaxTasks, 3, 0));
}

#[tokio::test]
async fn what_could_not_be_delivered_is_delivered_by_the_next_worker() {
    for (outcome, verb) in [(success(), "complete"), (failure(), "fail"), (HandlerResult::Release, "unclaim")] {
        let folder = tempdir().unwrap();
        let server = Server::claiming([task(1)]).await;
        server.script(verb, [disconnect()]);
        let worker = TestWorker::always(&server, spooling(&folder), outcome);
        server.until(verb, 2).await;
        assert_eq!(worker.stopped(StopMode::Kill).await.1.undelivered, 1);

        server.script("claim", [crate::server::empty()]);
        server.script(verb, [refusal(503, "database_busy"), done()]);
        let worker = TestWorker::start(&server, spooling(&folder));
        worker.until_told("earlier report t_000000000001 false").await;
        let reports = server.asked(verb);
        let bodies: Vec<&str> = reports.iter().map(|report| report.text.split("\r\n\r\n").nth(1).unwrap()).collect();
        assert_eq!(bodies.first(), bodies.last());
        worker.stopped(StopMode::Kill).await;
        assert_eq!(std::fs::read_dir(folder.path().join("undelivered")).unwrap().count(), 0);
    }
}

/// Answers that decide nothing about a run: the server is down, busy or broken, or refuses something else than this run.
fn undecided() -> Vec<Reply> {
    let page = Reply::Answer(404, "", "<html>no such page</html>".to_owned());
    let half = Reply::Garbage("HTTP/1.1 204 No");
    let no_http = Reply::Garbage("\x16\x03\x01 this is not HTTP\r\n\r\n");
    let redirect = Reply::Answer(302, "Location: /login\r\n", String::new());
    let no_json = Reply::Answer(200, "", "<html>hello</html>".to_owned());
    let no_error = Reply::Answer(409, "", "[]".to_owned());
    let mut replies = vec![disconnect(), half, page, Reply::Silence, no_http, redirect, no_json, no_error];
    let codes = [
        (401, "unauthorized"),
        (403, "forbidden"),
        (404, "not_found"),
        (405, "method_not_allowed"),
        (408, "timeout"),
        (409, "task_state_conflict"),
        (409, "of_a_newer_server"),
        (429, "slow_down"),
        (500, "internal_error"),
        (503, "database_busy"),
        (503, "database_unavailable"),
        (503, "stale_run"),
    ];
    replies.extend(codes.map(|(status, code)| refusal(status, code)));
    replies
}

fn stored(folder: &tempfile::TempDir) -> usize {
    let files = std::fs::read_dir(folder.path().join("undelivered")).unwrap();
    files.filter(|file| file.as_ref().unwrap().path().extension().is_some_and(|end| end == "json")).count()
}

/// A worker with a short shutdown timeout.
fn hurried(folder: &tempfile::TempDir) -> Settings {
    let shutdown_timeout = std::time::Duration::from_millis(20);
    Settings { intervals: Intervals { shutdown_timeout, ..intervals() }, ..spooling(folder) }
}

/// Runs a worker that leaves one undelivered report in the folder.
async fn leave_a_report(server: &Server, folder: &tempfile::TempDir) {
    server.script("claim", [task(1)]);
    server.script("complete", [disconnect()]);
    let worker = TestWorker::always(server, hurried(folder), success());
    server.until("complete", 1).await;
    assert_eq!((worker.stopped(StopMode::Kill).await.1.undelivered, stored(folder)), (1, 1));
    server.script("claim", [crate::server::empty()]);
}

#[tokio::test]
async fn a_left_over_report_is_kept_until_the_server_has_taken_it() {
    for reply in undecided() {
        let (folder, server) = (tempdir().unwrap(), Server::start().await);
        leave_a_report(&server, &folder).await;
        let before = server.asked("complete").len();
        server.script("complete", [reply.clone()]);
        let worker = TestWorker::start(&server, hurried(&folder));
        // The second try shows that the first answer was understood.
        server.until("complete", before + 2).await;
        assert_eq!(stored(&folder), 1, "{reply:?}");
        worker.stopped(StopMode::Kill).await;
        assert_eq!(stored(&folder), 1, "{reply:?}");
        // The next worker delivers the stored report.
        server.script("complete", [done()]);
        let worker = TestWorker::start(&server, hurried(&folder));
        worker.until_told("earlier report t_000000000001 false").await;
        assert!(server.asked("complete").last().unwrap().text.contains("{\"loss\":0.5}"), "{reply:?}");
        assert_eq!(stored(&folder), 0, "{reply:?}");
        worker.stopped(StopMode::Kill).await;
    }
}

#[tokio::test]
async fn a_report_is_kept_from_before_it_is_sent_until_the_server_has_taken_it() {
    for reply in undecided() {
        let (folder, server) = (tempdir().unwrap(), Server::start().await);
        server.script("claim", [task(1)]);
        server.script("complete", [reply.clone()]);
        let worker = TestWorker::always(&server, hurried(&folder), success());
        server.until("complete", 1).await;
        assert_eq!(stored(&folder), 1, "{reply:?}");
        server.until("complete", 2).await;
        assert_eq!(stored(&folder), 1, "{reply:?}");
        server.script("complete", [done()]);
        assert_eq!(worker.end().await.1.succeeded, 1, "{reply:?}");
        assert_eq!(stored(&folder), 0, "{reply:?}");
    }
}

#[tokio::test]
async fn a_left_over_result_that_the_server_refuses_is_kept_until_the_failure_is_taken() {
    let (folder, server) = (tempdir().unwrap(), Server::start().await);
    leave_a_report(&server, &folder).await;
    server.script("complete", [refusal(422, "task_data_too_large")]);
    server.script("fail", [refusal(503, "database_busy")]);
    let worker = TestWorker::start(&server, hurried(&folder));
    server.until("fail", 2).await;
    assert_eq!(stored(&folder), 1);
    server.script("fail", [done()]);
    worker.until_told("earlier report t_000000000001 false").await;
    assert_eq!((stored(&folder), server.asked("fail")[0].member("type").as_str()), (0, "ResultRefused"));
    worker.stopped(StopMode::Kill).await;
}

#[tokio::test]
async fn a_report_that_is_refused_as_stale_is_an_event_and_is_removed() {
    let (folder, server) = (tempdir().unwrap(), Server::start().await);
    leave_a_report(&server, &folder).await;
    server.script("complete", [refusal(409, "stale_run")]);
    let worker = TestWorker::start(&server, spooling(&folder));
    worker.until_told("earlier report t_000000000001 true").await;
    assert_eq!(std::fs::read_dir(folder.path().join("undelivered")).unwrap().count(), 0);
    worker.stopped(StopMode::Kill).await;
}

#[tokio::test]
async fn a_task_that_no_run_can_do_is_not_tried_again() {
    let failure = || Failure { kind: "MissingArgument".into(), message: "m".into(), traceback: None };
    for (result, is_final) in [(HandlerResult::Reject(failure()), true), (HandlerResult::Fail(failure()), false)] {
        let server = Server::claiming([task(1)]).await;
        let worker = TestWorker::always(&server, for_tasks(1), result);
        assert_eq!(worker.end().await.1.failed, 1);
        assert_eq!(server.asked("fail")[0].text.contains("\"retry\":false"), is_final);
    }
}

/// What a keeper is told that gives a left run back within this time, and the task of the run.
async fn give_back(address: SocketAddr, time: Duration) -> (TaskId, LeftTasks) {
    let mut config = Config::new(&format!("http://{address}")).unwrap();
    config.retries = Retries::NONE;
    let client = Client::new(config).unwrap();
    let (queue, task_id) = (QueueName::parse("q").unwrap(), TaskId::parse("t_000000000001").unwrap());
    let runs = vec![LeftRun { task_id, run_id: RunId::parse("r_000000000001").unwrap() }];
    (task_id, settle_left_runs(&client, &queue, None, runs, time).await)
}

#[tokio::test]
async fn why_a_left_run_could_not_be_given_back_is_what_the_server_said() {
    let server = Server::start().await;
    server.script("unclaim", [refusal(403, "forbidden")]);
    let (task_id, left) = give_back(server.address, Duration::from_secs(1)).await;
    assert_eq!(left.undelivered, [task_id]);
    assert!(matches!(left.last_error, Some(Error::Api { status: 403, .. })), "{left:?}");
}

/// The keeper gives a person its five seconds. A refused connection is faster than any timeout, so a timeout alone would not end them.
#[tokio::test]
async fn no_left_run_is_tried_when_the_time_is_over() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let (task_id, left) = give_back(listener.local_addr().unwrap(), Duration::ZERO).await;
    assert_eq!(left.undelivered, [task_id]);
    assert!(listener.accept().is_err(), "it has connected");
}

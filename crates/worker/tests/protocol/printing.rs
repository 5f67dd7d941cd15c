//! What runs print is sent, whatever the server does: to whom, in which pieces, how often, and until when.

use std::time::Instant;

use taskqueue_core::json::{Value, parse};
use taskqueue_worker::SendOutput;
use taskqueue_worker::process::Stream;

use crate::batch_server::{member, text};
use crate::prelude::*;

/// The offset and the text of a request.
fn piece(request: &Request) -> (i64, String) {
    let body = parse(request.body().as_bytes()).unwrap();
    let Value::Int(offset) = member(&body, "offset") else { panic!("{body:?}") };
    (*offset, text(member(&body, "text")).to_owned())
}

fn pieces(server: &Server) -> Vec<(i64, String)> {
    server.asked("output").iter().map(piece).collect()
}

/// Everything that was sent, if there is no gap and nothing came twice.
#[track_caller]
fn whole(server: &Server) -> String {
    let mut all = String::new();
    for (offset, text) in pieces(server) {
        assert_eq!(offset, i64::try_from(all.len()).unwrap(), "{text:?} behind {all:?}");
        all += &text;
    }
    all
}

fn print(run: &WaitingRun, text: impl AsRef<[u8]>) {
    run.run.output.print(Stream::Stdout, text.as_ref());
}

fn unsent(worker: &TestWorker) -> Vec<String> {
    worker.events.all().into_iter().filter(|event| event.starts_with("OutputNotSent")).collect()
}

#[tokio::test]
async fn what_a_run_prints_is_sent_while_it_goes_on_and_its_end_behind_the_report() {
    let server = Server::with_tasks([task(1)]).await;
    let (worker, run) = TestWorker::running(&server, for_tasks(1)).await;
    print(&run, "one\n");
    server.until("output", 1).await;
    assert_eq!(pieces(&server), [(0, "one\n".to_owned())]);
    let request = &server.asked("output")[0];
    assert!(request.text.starts_with("POST /api/v2/queues/q/tasks/t_000000000001/output "), "{}", request.text);
    assert_eq!(request.member("run_id"), run.run.claim.run_id.as_str());
    print(&run, "two\nlast");
    run.succeed();
    worker.end().await;
    assert_eq!(whole(&server), "one\ntwo\nlast");
}

#[tokio::test]
async fn requests_are_no_more_frequent_than_the_interval() {
    let server = Server::with_tasks([task(1)]).await;
    let intervals = Intervals { output: Duration::from_millis(200), ..intervals() };
    let (worker, run) = TestWorker::running(&server, Settings { intervals, ..for_tasks(1) }).await;
    let begin = Instant::now();
    let mut count = 0;
    until(|| {
        print(&run, format!("line {count}\n"));
        count += 1;
        begin.elapsed() > Duration::from_secs(1)
    })
    .await;
    let most = begin.elapsed().as_millis() / 200 + 1;
    let requests = server.asked("output").len();
    assert!((2..=most).contains(&(requests as u128)), "{requests} requests");
    run.succeed();
    worker.end().await;
    let expected: String = (0..count).map(|count| format!("line {count}\n")).collect();
    assert_eq!(whole(&server), expected);
}

#[tokio::test]
async fn a_server_without_output_and_a_worker_that_shall_not_get_none() {
    for (left_out, send_output) in [(&["output"][..], SendOutput::On), (&[], SendOutput::Off)] {
        let server = Server::with_tasks([task(1)]).await;
        server.script("capabilities", [capabilities_without(left_out)]);
        let (worker, run) = TestWorker::running(&server, Settings { send_output, ..for_tasks(1) }).await;
        print(&run, "secret\n");
        run.succeed();
        let events = Arc::clone(&worker.events);
        worker.end().await;
        assert!(server.asked("output").is_empty(), "{left_out:?}");
        assert!(!events.all().iter().any(|event| event.contains("OutputNotSent")), "{:?}", events.all());
    }
}

#[tokio::test]
async fn a_piece_whose_answer_was_lost_is_sent_again_with_the_same_offset() {
    let server = Server::with_tasks([task(1)]).await;
    server.script("output", [done(), disconnect(), refusal(503, "database_busy"), done()]);
    let (worker, run) = TestWorker::running(&server, for_tasks(1)).await;
    print(&run, "one\n");
    server.until("output", 1).await;
    print(&run, "two\n");
    server.until("output", 2).await;
    print(&run, "three\n");
    server.until("output", 4).await;
    run.succeed();
    worker.end().await;
    let sent = pieces(&server);
    assert_eq!(sent[..2], [(0, "one\n".to_owned()), (4, "two\n".to_owned())]);
    assert_eq!((&sent[2], &sent[3]), (&sent[1], &sent[1]), "the same again");
    assert_eq!(sent[4], (8, "three\n".to_owned()));
}

#[tokio::test]
async fn a_server_that_does_not_answer_delays_neither_the_report_nor_the_next_claim() {
    let server = Server::with_tasks([task(1), task(2)]).await;
    server.script("output", [Reply::Silence]);
    let mut worker = TestWorker::patient(&server, for_tasks(2), Duration::from_secs(3_600));
    let run = worker.next_run().await;
    let begin = Instant::now();
    for _ in 0..100 {
        print(&run, [b'x'; 100_000]);
    }
    // The request that is not answered takes an hour.
    assert!(begin.elapsed() < Duration::from_secs(1_800), "printing waited: {:?}", begin.elapsed());
    server.until("output", 1).await;
    run.succeed();
    let next = worker.next_run().await;
    assert_eq!(server.asked("complete").len(), 1);
    until(|| !unsent(&worker).is_empty()).await;
    assert!(unsent(&worker)[0].contains("t_000000000001"), "{:?}", unsent(&worker));
    next.succeed();
    worker.end().await;
}

#[tokio::test]
async fn a_worker_that_ends_waits_for_the_rest_but_not_for_long() {
    let server = Server::with_tasks([task(1)]).await;
    server.script("output", [Reply::Silence]);
    let settings =
        Settings { intervals: Intervals { late_output: Duration::from_secs(60), ..intervals() }, ..for_tasks(1) };
    let mut worker = TestWorker::patient(&server, settings, Duration::from_secs(60));
    let run = worker.next_run().await;
    print(&run, "unheard\n");
    run.succeed();
    let events = Arc::clone(&worker.events);
    let begin = Instant::now();
    assert_eq!(worker.end().await.1.succeeded, 1);
    // Half of the time that it has, and that the request takes which is not answered.
    assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
    let event = events.all().into_iter().find(|event| event.contains("OutputNotSent")).unwrap();
    assert!(event.contains("bytes: 8"), "{event}");
}

#[tokio::test]
async fn a_refusal_ends_the_sending_and_nothing_else() {
    for refused in [refusal(409, "stale_run"), refusal(404, "task_not_found"), refusal(422, "invalid_request")] {
        let server = Server::with_tasks([task(1)]).await;
        server.script("output", [refused.clone()]);
        let (worker, run) = TestWorker::running(&server, for_tasks(1)).await;
        print(&run, "one\n");
        server.until("output", 1).await;
        let heartbeats = server.asked("heartbeat").len();
        for _ in 0..100 {
            print(&run, "more\n");
        }
        server.until("heartbeat", heartbeats + 10).await;
        assert_eq!(server.asked("output").len(), 1, "{refused:?}");
        run.succeed();
        assert_eq!(worker.end().await.1.succeeded, 1, "{refused:?}");
    }
}

#[tokio::test]
async fn each_attempt_begins_at_offset_zero() {
    let server = Server::with_tasks([task(1), task(1)]).await;
    let mut worker = TestWorker::start(&server, for_tasks(2));
    let mut runs = Vec::new();
    for attempt in ["first", "second"] {
        let run = worker.next_run().await;
        runs.push(run.run.claim.run_id.as_str().to_owned());
        print(&run, attempt);
        run.end(failure());
    }
    worker.end().await;
    let mut sent: Vec<(String, (i64, String))> =
        server.asked("output").iter().map(|request| (request.member("run_id"), piece(request))).collect();
    sent.sort_by_key(|(_, (_, text))| text.clone());
    assert_eq!(sent, [(runs[0].clone(), (0, "first".to_owned())), (runs[1].clone(), (0, "second".to_owned()))]);
}

#[tokio::test]
async fn a_run_that_was_revoked_still_sends_what_it_printed() {
    let server = Server::with_tasks([task(1)]).await;
    let (worker, mut run) = TestWorker::running(&server, settings()).await;
    server.script("heartbeat", [refusal(409, "run_finalized")]);
    run.run.stop_requested().await;
    print(&run, "stopping\n");
    run.succeed();
    server.until("output", 1).await;
    assert_eq!(whole(&server), "stopping\n");
    worker.stopped(StopMode::Finish).await;
}

/// A server that answers no longer is asked again when it has taken the report, and not some seconds later.
#[tokio::test]
async fn when_the_report_was_accepted_the_rest_is_sent_at_once() {
    let server = Server::with_tasks([task(1)]).await;
    // The pauses become longer than a worker that ends waits.
    server.script("output", [disconnect(), disconnect(), disconnect(), done()]);
    let (worker, run) = TestWorker::running(&server, for_tasks(1)).await;
    print(&run, "all of it\n");
    server.until("output", 3).await;
    run.succeed();
    worker.end().await;
    assert_eq!(pieces(&server), vec![(0, "all of it\n".to_owned()); 4]);
}

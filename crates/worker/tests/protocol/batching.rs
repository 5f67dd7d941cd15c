//! A worker with several slots: what is sent together, and that nothing is lost, done twice or mixed up when the server
//! stalls, lies, refuses or goes away in between.

use std::collections::BTreeSet;

use taskqueue_client::Error;
use tempfile::tempdir;

use crate::batch_server::{actions, run_ids};
use crate::prelude::*;

fn with_slots(count: usize) -> Settings {
    Settings { slots: (0..count).collect(), ..settings() }
}

/// So many tasks, one for each slot, and then the end.
fn one_each(count: usize) -> Settings {
    Settings { max_tasks: Some(count as u64), ..with_slots(count) }
}

async fn runs(worker: &mut TestWorker, count: usize) -> Vec<WaitingRun> {
    let mut runs = Vec::new();
    for _ in 0..count {
        runs.push(worker.next_run().await);
    }
    runs.sort_by_key(|run| run.run.claim.task.id.to_string());
    runs
}

/// A worker with as many runs.
async fn started(server: &Server, settings: Settings, count: usize) -> (TestWorker, Vec<WaitingRun>) {
    let mut worker = TestWorker::start(server, settings);
    let runs = runs(&mut worker, count).await;
    (worker, runs)
}

/// Lets the last runs of a worker succeed.
async fn all_succeed(worker: TestWorker, runs: Vec<WaitingRun>) {
    let count = runs.len() as u64;
    runs.into_iter().for_each(WaitingRun::succeed);
    assert_eq!(worker.end().await.1.succeeded, count);
}

/// The tasks of these runs, and that there are as many.
fn task_ids(runs: &[WaitingRun]) -> BTreeSet<String> {
    let ids: BTreeSet<String> = runs.iter().map(|run| run.run.claim.task.id.to_string()).collect();
    assert_eq!(ids.len(), runs.len(), "one task runs twice");
    ids
}

/// How the tasks ended, sorted.
fn ended(server: &Server) -> Vec<(String, String)> {
    server.tasks(|tasks| {
        tasks.ended.sort();
        tasks.ended.clone()
    })
}

/// Each of the tasks 1 to `count` was completed, once or repeatedly.
fn assert_completed(server: &Server, count: usize) {
    let mut ended = ended(server);
    ended.dedup();
    let expected: Vec<_> = (1..=count).map(|number| (format!("t_{number:012}"), "complete".to_owned())).collect();
    assert_eq!(ended, expected);
}

#[tokio::test]
async fn slots_that_are_free_together_claim_with_one_request_and_report_with_one_or_two() {
    let server = Server::with_batches(8).await;
    let (worker, runs) = started(&server, one_each(8), 8).await;
    assert_eq!(task_ids(&runs).len(), 8);
    assert_eq!(server.verbs(), ["batch/claim"]);
    let of_claims: BTreeSet<String> = run_ids(&server.asked("batch/claim")[0]).into_iter().collect();
    let of_runs: BTreeSet<String> = runs.iter().map(|run| run.run.claim.run_id.to_string()).collect();
    assert_eq!(of_claims, of_runs);
    all_succeed(worker, runs).await;
    assert_completed(&server, 8);
    // The first may be sent before the others have ended.
    let requests = server.verbs().iter().filter(|verb| ["complete", "batch/report"].contains(&verb.as_str())).count();
    assert!(requests <= 2, "{:?}", server.verbs());
}

#[tokio::test]
async fn one_slot_sends_what_it_sends_without_batches() {
    let server = Server::with_batches(2).await;
    let worker = TestWorker::always(&server, for_tasks(2), empty_success());
    assert_eq!(worker.end().await.1.succeeded, 2);
    assert_eq!(server.verbs(), ["claim", "complete", "claim", "complete"]);
}

#[tokio::test]
async fn reports_are_sent_alone_at_once_when_only_their_batch_is_refused() {
    let server = Server::with_batches(3).await;
    server.script("batch/report", [refusal(413, "request_too_large")]);
    let (worker, runs) = started(&server, one_each(3), 3).await;
    all_succeed(worker, runs).await;
    assert_completed(&server, 3);
    assert!(server.asked("batch/report").len() <= 1, "{:?}", server.verbs());
}

#[tokio::test]
async fn a_missing_queue_or_a_wrong_token_ends_the_worker_with_the_reason() {
    for (status, code) in [(404, "queue_not_found"), (401, "unauthorized")] {
        let server = Server::with_batches(3).await;
        server.script("batch/claim", [refusal(status, code)]);
        let (end, _) = TestWorker::start(&server, with_slots(3)).end().await;
        let EndReason::Refused(Error::Api { code: told, .. }) = end else { panic!("{code}: {end:?}") };
        assert_eq!(told.as_str(), code);
        assert_eq!(server.verbs(), ["batch/claim"]);
    }
}

/// What a broken or hostile server may make of an answer. That nothing is believed that is not about the items of a request is proven
/// in the crate `client`.
fn lies() -> Vec<(&'static str, Reply)> {
    vec![
        ("missing", Reply::Lie(|mut items| items.split_off(1))),
        ("disconnected", disconnect()),
        ("cut", Reply::Garbage("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"items\":[")),
        ("stalled", Reply::Silence),
        ("broken", refusal(500, "internal_error")),
        ("busy", refusal(503, "database_busy")),
    ]
}

#[tokio::test]
async fn claims_whose_answer_is_a_lie_or_lost_are_repeated_with_their_run_ids_and_confirmed() {
    for (what, lie) in lies() {
        let server = Server::with_batches(3).await;
        server.script("batch/claim", [lie, Reply::Honest]);
        let (worker, runs) = started(&server, one_each(3), 3).await;
        assert_eq!(task_ids(&runs).len(), 3, "{what}");
        let claims: BTreeSet<BTreeSet<String>> =
            server.asked("batch/claim").iter().map(|claim| run_ids(claim).into_iter().collect()).collect();
        assert_eq!(claims.len(), 1, "{what}: other run ids");
        // Each was confirmed before it ran.
        let confirmed: usize = server.asked("batch/report").iter().map(|report| actions(report).len()).sum();
        assert!(confirmed + server.asked("heartbeat").len() >= 3, "{what}: {:?}", server.verbs());
        assert_eq!(server.tasks(|tasks| tasks.runs.len()), 3, "{what}: claimed more");
        all_succeed(worker, runs).await;
        assert_completed(&server, 3);
    }
}

#[tokio::test]
async fn claims_whose_answers_are_lost_again_are_repeated_alone() {
    let server = Server::with_batches(3).await;
    server.script("batch/claim", [disconnect()]);
    let (worker, runs) = started(&server, one_each(3), 3).await;
    assert_eq!(task_ids(&runs).len(), 3);
    assert_eq!((server.asked("batch/claim").len(), server.asked("claim").len()), (2, 3));
    all_succeed(worker, runs).await;
}

/// The claims are done, and the answer says nothing of them.
fn lost() -> Reply {
    Reply::Lie(|_| Vec::new())
}

/// The item of a claim without a task, made of one that has a task.
fn without_task(item: &str) -> String {
    format!("{},\"outcome\":\"none\"}}", item.split(',').next().unwrap())
}

/// Says of the last run that there is no task for it.
fn none_for_the_last() -> Reply {
    Reply::Lie(|mut items| {
        let last = items.pop().unwrap();
        items.push(without_task(&last));
        items
    })
}

#[tokio::test]
async fn none_for_a_claim_in_doubt_is_asked_again_alone_also_when_it_waited() {
    for waits in [false, true] {
        let server = Server::with_batches(if waits { 0 } else { 3 }).await;
        let doubtful = || [lost(), none_for_the_last(), Reply::Honest];
        if !waits {
            server.script("batch/claim", doubtful());
        }
        let mut worker = TestWorker::start(&server, one_each(3));
        if waits {
            server.until("batch/claim", 2).await;
            server.script("batch/claim", doubtful());
            server.tasks(|tasks| tasks.pending = 3);
        }
        let runs = runs(&mut worker, 3).await;
        assert_eq!(task_ids(&runs).len(), 3);
        assert_eq!(server.tasks(|tasks| tasks.runs.len()), 3, "claimed more");
        let alone = run_ids(&server.asked("claim")[0]);
        let together = server.asked("batch/claim").iter().filter(|claim| run_ids(claim).contains(&alone[0])).count();
        assert!(together >= 2, "{:?}", server.verbs());
        all_succeed(worker, runs).await;
    }
}

#[tokio::test]
async fn none_for_a_claim_that_was_refused_as_busy_counts() {
    let server = Server::with_batches(0).await;
    server.script("batch/claim", [refusal(503, "database_busy"), Reply::Honest]);
    let worker = TestWorker::start(&server, with_slots(3));
    server.until("batch/claim", 4).await;
    assert!(server.asked("claim").is_empty(), "{:?}", server.verbs());
    worker.stopped(StopMode::Finish).await;
}

#[tokio::test]
async fn reports_whose_answer_is_a_lie_or_lost_are_stored_and_repeated_alone_until_they_are_answered() {
    for (what, lie) in lies() {
        let (server, folder) = (Server::with_batches(3).await, tempdir().unwrap());
        server.script("batch/report", [lie, Reply::Honest]);
        let settings = Settings { max_tasks: Some(3), slots: vec![0, 1, 2], ..spooling(&folder) };
        // No heartbeats, which would get the lie.
        let intervals = Intervals { first_heartbeat: Duration::from_secs(60), ..settings.intervals };
        let (worker, runs) = started(&server, Settings { intervals, ..settings }, 3).await;
        all_succeed(worker, runs).await;
        assert_completed(&server, 3);
        assert_eq!(std::fs::read_dir(folder.path().join("undelivered")).unwrap().count(), 0, "{what}");
    }
}

#[tokio::test]
async fn a_refused_report_affects_only_its_run() {
    let server = Server::with_batches(3).await;
    let (worker, runs) = started(&server, one_each(3), 3).await;
    server.tasks(|tasks| tasks.cancelled.insert("t_000000000002".to_owned()));
    runs.into_iter().for_each(WaitingRun::succeed);
    let counts = worker.end().await.1;
    assert_eq!((counts.succeeded, counts.revoked), (2, 1));
    assert_eq!(ended(&server).len(), 2);
}

#[tokio::test]
async fn an_idle_worker_waits_once_for_all_its_slots_and_those_without_a_task_wait_again() {
    let server = Server::with_batches(0).await;
    // Nothing is there; the waiting claim gets one task; the next one waits.
    server.script("batch/claim", [Reply::Honest, Reply::Adding(1), Reply::Silence]);
    let mut worker = TestWorker::patient(&server, with_slots(4), Duration::from_secs(20));
    let run = worker.next_run().await;
    server.until("batch/claim", 3).await;
    let claims = server.asked("batch/claim");
    let slots: Vec<usize> = claims.iter().map(|claim| run_ids(claim).len()).collect();
    assert_eq!(slots, [4, 4, 3]);
    let waits: Vec<bool> = claims.iter().map(|claim| claim.text.contains("prefer: wait=1\r\n")).collect();
    assert_eq!(waits, [false, true, true]);
    let ids: BTreeSet<String> = claims[..2].iter().flat_map(run_ids).collect();
    assert_eq!(ids.len(), 8, "what found nothing gets new run ids");
    run.succeed();
    worker.stopped(StopMode::Finish).await;
}

#[tokio::test]
async fn what_a_stopping_worker_may_have_got_is_given_back_with_one_request() {
    let server = Server::with_batches(0).await;
    // The waiting claim is never answered, and its repetition gives tasks.
    server.script("batch/claim", [Reply::Honest, Reply::Silence, Reply::Honest]);
    let worker = TestWorker::patient(&server, with_slots(3), Duration::from_secs(20));
    server.until("batch/claim", 2).await;
    server.tasks(|tasks| tasks.pending = 2);
    let (end, counts) = worker.stopped(StopMode::Finish).await;
    assert_eq!((end, counts.succeeded), (EndReason::Stopped, 0));
    let claims = server.asked("batch/claim");
    assert_eq!((claims.len(), run_ids(&claims[1])), (3, run_ids(&claims[2])));
    let given_back = ["t_000000000001", "t_000000000002"].map(|id| (id.to_owned(), "unclaim".to_owned()));
    assert_eq!(ended(&server), given_back);
    assert_eq!(actions(&server.asked("batch/report")[0]), ["unclaim", "unclaim"]);
}

#[tokio::test]
async fn what_a_stopping_worker_has_claimed_is_given_back_and_what_a_batch_does_not_settle_is_asked_again_alone() {
    let none = Reply::Lie(|items| items.iter().map(|item| without_task(item)).collect());
    let busy = Reply::Lie(|items| {
        let error = r#""outcome":"refused","error":{"code":"database_busy","message":"no","details":{}}}"#;
        items.iter().map(|item| format!("{},{error}", item.split(',').next().unwrap())).collect()
    });
    let refused = refusal(404, "not_found");
    for (what, reply) in [("honest", Reply::Honest), ("refused", refused), ("none", none), ("busy", busy)] {
        let server = Server::with_batches(3).await;
        server.script("batch/claim", [Reply::Silence, reply]);
        let worker = TestWorker::patient(&server, with_slots(3), Duration::from_secs(20));
        server.until("batch/claim", 1).await;
        assert_eq!(worker.stopped(StopMode::Finish).await.0, EndReason::Stopped);
        assert_eq!(ended(&server).iter().filter(|(_, action)| action == "unclaim").count(), 3, "{what}");
        if what != "honest" {
            assert_eq!(server.asked("claim").len(), 3, "{what}");
        }
    }
}

/// Intervals with which the server is asked to hold heartbeats.
fn holding() -> Intervals {
    Intervals { heartbeat: Duration::from_secs(50), wait: Duration::from_secs(50), ..intervals() }
}

#[tokio::test]
async fn heartbeats_that_the_server_does_not_hold_are_sent_with_one_request_and_a_cancel_ends_only_its_run() {
    let server = Server::with_batches(4).await;
    server.script("heartbeat", [lease()]);
    // Short enough for a test, and long enough for the runs to come together on a busy machine.
    let intervals = Intervals { heartbeat_poll: Duration::from_millis(200), ..holding() };
    let (worker, mut runs) = started(&server, Settings { intervals, ..one_each(4) }, 4).await;
    until(|| server.asked("batch/report").iter().any(|report| actions(report).len() == 4)).await;
    assert!(server.asked("batch/report").iter().flat_map(actions).all(|action| action == "heartbeat"));
    server.tasks(|tasks| tasks.cancelled.insert("t_000000000003".to_owned()));
    let mut cancelled = runs.remove(2);
    cancelled.run.stop_requested().await;
    let so_far = server.asked("batch/report").len();
    server.until("batch/report", so_far + 2).await;
    assert!(runs.iter().all(|run| *run.run.control.borrow() == RunControl::Continue));
    cancelled.end(HandlerResult::Stopped);
    runs.into_iter().for_each(WaitingRun::succeed);
    let counts = worker.end().await.1;
    assert_eq!((counts.succeeded, counts.revoked), (3, 1));
}

#[tokio::test]
async fn a_server_that_holds_heartbeats_is_asked_to_for_each_run_and_a_cancel_arrives_with_its_answer() {
    let server = Server::with_batches(3).await;
    server.script("heartbeat", [refusal(409, "run_finalized"), Reply::Silence]);
    let (worker, runs) = started(&server, Settings { intervals: holding(), ..one_each(3) }, 3).await;
    server.until("heartbeat", 3).await;
    assert!(server.asked("heartbeat").iter().all(|heartbeat| heartbeat.text.contains("prefer: wait=50\r\n")));
    until(|| runs.iter().filter(|run| *run.run.control.borrow() == RunControl::Stop).count() == 1).await;
    assert!(server.asked("batch/report").is_empty());
    runs.into_iter().for_each(|run| run.end(HandlerResult::Stopped));
    let counts = worker.end().await.1;
    assert_eq!((counts.revoked, counts.released), (1, 2));
}

#[tokio::test]
async fn a_heartbeat_that_failed_with_others_is_repeated_alone() {
    let server = Server::with_batches(2).await;
    server.script("heartbeat", [lease()]);
    server.script("batch/report", [refusal(500, "internal_error")]);
    let (worker, runs) = started(&server, Settings { intervals: holding(), ..one_each(2) }, 2).await;
    server.until("batch/report", 1).await;
    let alone = || server.asked("heartbeat").len();
    let so_far = alone();
    until(|| alone() >= so_far + 2).await;
    all_succeed(worker, runs).await;
}

#[tokio::test]
async fn a_worker_with_any_number_of_slots_runs_no_more_than_max_tasks() {
    let server = Server::with_batches(50).await;
    let settings = Settings { max_tasks: Some(11), ..with_slots(4) };
    let worker = TestWorker::always(&server, settings, empty_success());
    let counts = taskqueue_worker::Counts { succeeded: 11, ..Default::default() };
    assert_eq!(worker.end().await, (EndReason::MaxTasks, counts));
    assert_completed(&server, 11);
    assert_eq!(server.tasks(|tasks| tasks.pending), 39);
}

#[tokio::test]
async fn an_outage_of_an_idle_worker_is_asked_about_with_one_request_at_a_time() {
    let server = Server::with_batches(0).await;
    let busy = refusal(503, "database_busy");
    server.script("batch/claim", [Reply::Honest, busy.clone(), busy.clone(), busy, Reply::Honest]);
    let worker = TestWorker::start(&server, with_slots(5));
    server.until("batch/claim", 7).await;
    assert!(server.asked("batch/claim").iter().all(|claim| run_ids(claim).len() == 5));
    assert!(server.asked("claim").is_empty());
    worker.stopped(StopMode::Finish).await;
}

#[tokio::test]
async fn reports_of_an_earlier_worker_are_delivered_together_and_what_is_left_of_them_alone() {
    let (server, folder) = (Server::with_batches(3).await, tempdir().unwrap());
    let gone = [disconnect()];
    server.script("batch/report", gone.clone());
    server.script("complete", gone);
    let settings = Settings { max_tasks: Some(3), slots: vec![0, 1, 2], ..spooling(&folder) };
    let shutdown_timeout = Duration::from_millis(20);
    let settings = Settings { intervals: Intervals { shutdown_timeout, ..settings.intervals }, ..settings };
    let worker = TestWorker::always(&server, settings.clone(), empty_success());
    until(|| std::fs::read_dir(folder.path().join("undelivered")).unwrap().count() == 3).await;
    assert_eq!(worker.stopped(StopMode::Kill).await.1.undelivered, 3);

    server.script("batch/report", [Reply::Honest]);
    server.script("complete", [Reply::Honest]);
    server.tasks(|tasks| tasks.cancelled.insert("t_000000000002".to_owned()));
    let (batches, alone) = (server.asked("batch/report").len(), server.asked("complete").len());
    let worker = TestWorker::start(&server, settings);
    until(|| worker.events.all().iter().filter(|line| line.starts_with("earlier report")).count() == 3).await;
    let told = worker.events.all();
    assert!(told.contains(&"earlier report t_000000000002 true".to_owned()), "{told:?}");
    assert_eq!((server.asked("batch/report").len() - batches, server.asked("complete").len() - alone), (1, 1));
    assert_eq!(ended(&server).len(), 2);
    assert_eq!(std::fs::read_dir(folder.path().join("undelivered")).unwrap().count(), 0);
    worker.stopped(StopMode::Kill).await;
}

/// A claim in doubt does not delay other slots.
#[tokio::test]
async fn a_claim_without_an_answer_delays_no_other_slot() {
    let server = Server::with_batches(6).await;
    let long = BackoffLimits { first: Duration::from_secs(60), longest: Duration::from_secs(60) };
    let settings = with_slots(3);
    let intervals = Intervals { backoff: long, ..settings.intervals };
    let mut worker = TestWorker::patient(&server, Settings { intervals, ..settings }, Duration::from_secs(60));
    let mut running = runs(&mut worker, 3).await;
    // The slot of the first run claims, and is not answered; the others go on.
    server.script("claim", [Reply::Silence, Reply::Honest]);
    running.remove(0).succeed();
    server.until("claim", 1).await;
    running.into_iter().for_each(WaitingRun::succeed);
    assert_eq!(task_ids(&runs(&mut worker, 2).await).len(), 2);
    worker.stopped(StopMode::Kill).await;
}

#[tokio::test]
async fn claims_that_are_too_large_together_are_sent_one_by_one() {
    let server = Server::with_batches(2).await;
    server.script("batch/claim", [refusal(413, "request_too_large")]);
    let (worker, runs) = started(&server, one_each(2), 2).await;
    assert_eq!(task_ids(&runs).len(), 2);
    assert_eq!(server.asked("claim").len(), 2);
    all_succeed(worker, runs).await;
}

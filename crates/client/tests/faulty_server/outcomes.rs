//! Calls that change something are sent once. When the answer is lost, the error says that the outcome is unknown, and what
//! to do.

use taskqueue_client::{
    BulkUpdateRequest, ClaimRequest, Error, ErrorCode, Failure, Report, RunKey, RunReport, SettingsPatch, Update,
    WorkerId, WorkerStatus,
};

use crate::server::{
    FaultyServer, NO_RESULT, Reply, TASK, answer, close_connection, cut, ok, queue, refusal, route, run_id, task_id,
};

/// Makes every call that changes something, each against a server of its own; gives the name of the call, its error and
/// how many requests were sent.
async fn changes(reply: &Reply) -> Vec<(&'static str, Error, usize)> {
    let mut ends = Vec::new();
    macro_rules! change {
        ($call:ident($($argument:expr),*)) => {{
            let server = FaultyServer::start([reply.clone()]).await;
            let error = server.client().$call($($argument),*).await.expect_err(stringify!($call));
            ends.push((stringify!($call), error, server.requests().len()));
        }};
    }
    let run = RunKey::new(&queue(), task_id(), run_id());
    let (queue, update) = (queue(), Update { priority: Some(1), ..Update::default() });
    let bulk = BulkUpdateRequest { filter: "priority == 0".into(), changes: update.clone(), include_archived: false };
    let failure = Failure { kind: "E".into(), message: "m".into(), traceback: None };
    let worker = WorkerId::parse("w_000000000001").unwrap();
    let report = Report { route: route(), status: WorkerStatus::Idle, task_id: None, metadata: NO_RESULT };
    change!(delete_queue(&queue));
    change!(delete_queue_with_tasks(&queue));
    change!(update_task(&queue, task_id(), &update));
    change!(update_tasks(&queue, &bulk));
    change!(cancel_task(&queue, task_id()));
    change!(requeue_task(&queue, task_id()));
    change!(delete_task(&queue, task_id()));
    change!(report_worker(&queue, worker, &report));
    change!(withdraw_worker(&queue, worker));
    change!(claim(&queue, &ClaimRequest::new(route(), run_id())));
    change!(heartbeat(&run, None));
    change!(report_run(&run, &RunReport::Complete { result: NO_RESULT }));
    for retry in [true, false] {
        let report = RunReport::Fail { failure: failure.clone(), retry, retry_after: None };
        change!(report_run(&run, &report));
    }
    change!(report_run(&run, &RunReport::Unclaim { delay: None }));
    change!(change_settings(&queue, &SettingsPatch::default()));
    ends
}

#[tokio::test]
async fn a_change_whose_answer_is_lost_has_an_unknown_outcome_and_is_sent_once() {
    let failed = refusal(503, "database_unavailable", "Retry-After: 0\r\n");
    for reply in [close_connection(), cut(200, TASK), failed, answer(502, "", "<html>"), answer(202, "", "")] {
        // Spawned, because workers spawn: every call must be able to move to another thread.
        let ends = tokio::spawn({
            let reply = reply.clone();
            async move { changes(&reply).await }
        });
        for (call, error, requests) in ends.await.unwrap() {
            assert_eq!(requests, 1, "{call} after {reply:?}");
            let Error::OutcomeUnknown { advice, .. } = &error else { panic!("{call} after {reply:?}: {error:?}") };
            assert!(!advice.is_empty() && error.to_string().contains(advice), "{error}");
        }
    }
}

#[tokio::test]
async fn a_change_on_a_kept_connection_that_is_then_closed_is_sent_once() {
    let server = FaultyServer::start([Reply::Kept("[]"), close_connection()]).await;
    let client = server.client();
    assert_eq!(client.queues().await, Ok(Vec::new()));
    assert!(client.cancel_task(&queue(), task_id()).await.unwrap_err().is_outcome_unknown());
    assert_eq!(server.requests().len(), 2);
}

/// `database_busy` = nothing was done and nothing will be (docs/reference/errors.md §3.5).
#[tokio::test]
async fn a_change_that_was_refused_or_answered_busy_is_known_not_to_be_done() {
    let busy = refusal(503, "database_busy", "Retry-After: 0\r\n");
    for (reply, code) in [(refusal(409, "task_running", ""), ErrorCode::TaskRunning), (busy, ErrorCode::DatabaseBusy)] {
        for (call, error, requests) in changes(&reply).await {
            assert_eq!((error.code(), requests), (Some(code), 1), "{call}");
            assert!(!error.is_outcome_unknown(), "{call}: {error}");
        }
    }
}

#[tokio::test]
async fn a_change_that_never_arrived_is_known_not_to_be_done() {
    let server = FaultyServer::start([ok(TASK)]).await;
    let unused = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = unused.local_addr().unwrap();
    drop(unused);
    let config = taskqueue_client::Config::new(&format!("http://{address}")).unwrap();
    let error = taskqueue_client::Client::new(config).unwrap().cancel_task(&queue(), task_id()).await.unwrap_err();
    assert!(matches!(error, Error::Transport { may_have_arrived: false, .. }), "{error:?}");
    assert_eq!(server.requests().len(), 0);
}

#[tokio::test]
async fn the_cause_of_an_unknown_outcome_can_be_asked_for() {
    let server = FaultyServer::start([refusal(503, "database_unavailable", "")]).await;
    let error = server.client().delete_task(&queue(), task_id()).await.unwrap_err();
    assert!(error.is_outcome_unknown());
    assert_eq!(error.code(), Some(ErrorCode::DatabaseUnavailable));
}

#[tokio::test(start_paused = true)]
async fn a_change_without_any_answer_is_given_up_after_30_seconds() {
    let server = FaultyServer::start([Reply::Silence]).await;
    let start = tokio::time::Instant::now();
    let complete = RunReport::Complete { result: NO_RESULT };
    let error = server.client().report_run(&RunKey::new(&queue(), task_id(), run_id()), &complete).await.unwrap_err();
    assert!(error.is_outcome_unknown(), "{error:?}");
    assert_eq!(start.elapsed().as_secs(), 30);
    assert_eq!(server.requests().len(), 1);
}

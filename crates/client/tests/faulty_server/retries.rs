//! Reads, creations and claims that were asked to be repeated survive lost answers and busy servers, within bounds.

use std::time::Duration;

use taskqueue_client::{ClaimRequest, Definition, Error, ErrorCode, RunKey, TaskQuery, TaskSelection};

use crate::server::{
    FaultyServer, Reply, TASK, answer, close_connection, cut, ok, queue, refusal, route, run_id, task_id,
};

#[tokio::test]
async fn a_read_whose_answer_is_cut_is_repeated() {
    for lost in [cut(200, TASK), close_connection()] {
        let server = FaultyServer::start([lost, ok(TASK)]).await;
        assert_eq!(server.client().task(&queue(), task_id()).await.unwrap().id, task_id());
        let requests = server.requests();
        assert_eq!(requests.len(), 2);
        assert_eq!(requests[0], requests[1]);
    }
}

#[tokio::test]
async fn a_creation_whose_answer_is_cut_is_repeated_byte_for_byte() {
    let definition = Definition { name: Some("é".into()), priority: 7, ..Definition::default() };
    // The first try may or may not have created the task: the answer to the second says which.
    for (status, created) in [(200, false), (201, true)] {
        let server = FaultyServer::start([cut(201, TASK), answer(status, "", TASK)]).await;
        let result = server.client().create_task(&queue(), task_id(), &definition).await.unwrap();
        assert_eq!((result.created, result.value.id), (created, task_id()));
        let requests = server.requests();
        assert_eq!(requests.len(), 2);
        assert_eq!(requests[0], requests[1]);
        assert!(requests[0].starts_with("PUT /api/v2/queues/q/tasks/t_000000000001 HTTP/1.1\r\n"), "{}", requests[0]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_busy_server_is_asked_again_when_it_wants_to_be() {
    let busy = refusal(503, "database_busy", "Retry-After: 7\r\n");
    let server = FaultyServer::start([busy, ok("[]")]).await;
    let start = tokio::time::Instant::now();
    assert_eq!(server.client().queues().await, Ok(Vec::new()));
    assert_eq!(start.elapsed().as_secs(), 7);
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn a_server_that_is_always_busy_is_asked_so_often_and_no_more() {
    let server = FaultyServer::start([refusal(503, "database_busy", "")]).await;
    let error = server.client().page(&queue(), &TaskQuery::of(TaskSelection::all())).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::DatabaseBusy));
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn a_server_that_wants_too_long_a_pause_is_not_asked_again() {
    let server = FaultyServer::start([refusal(503, "database_unavailable", "Retry-After: 61\r\n")]).await;
    let error = server.client().queues().await.unwrap_err();
    let asked = Some(Duration::from_secs(61));
    assert!(matches!(&error, Error::Api { status: 503, retry_after, .. } if *retry_after == asked), "{error:?}");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_proxy_without_a_server_behind_it_is_asked_again() {
    let server = FaultyServer::start([answer(503, "", "<html>"), ok("[]")]).await;
    assert_eq!(server.client().queues().await, Ok(Vec::new()));
}

#[tokio::test]
async fn refusals_and_bugs_are_not_asked_for_again() {
    let cases = [(401, "unauthorized"), (404, "task_not_found"), (422, "invalid_filter"), (500, "internal_error")];
    for (status, code) in cases {
        let server = FaultyServer::start([refusal(status, code, "")]).await;
        assert!(matches!(server.client().queues().await, Err(Error::Api { status: told, .. }) if told == status));
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn a_server_that_is_not_well_is_asked_once_how_it_is() {
    let unwell = r#"{"status":"error","api_version":"2","database":"error"}"#;
    let server = FaultyServer::start([answer(503, "", unwell)]).await;
    assert!(!server.client().health().await.unwrap().is_ok);
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_wait_is_asked_for_and_the_server_s_word_on_it_is_passed_on() {
    let request = ClaimRequest::new(route(), run_id());
    let waiting = ClaimRequest { wait_seconds: Some(20), ..request.clone() };
    for (headers, applied) in [("Preference-Applied: wait=20\r\n", Some(20)), ("", None)] {
        let server = FaultyServer::start([answer(204, headers, "")]).await;
        let given = server.client().claim(&queue(), &waiting).await.unwrap();
        assert_eq!((given.value, given.wait_applied), (None, applied));
        assert!(server.requests()[0].contains("prefer: wait=20\r\n"));

        let output = r#"{"attempt":1,"start":7,"end":10,"text":"abc","ended":false}"#;
        let server = FaultyServer::start([answer(200, headers, output)]).await;
        let given = server.client().output(&queue(), task_id(), 7, Some(20)).await.unwrap();
        assert_eq!((&*given.value.text, given.value.end, given.wait_applied), ("abc", 10, applied));
        let request = &server.requests()[0];
        assert!(request.starts_with("GET /api/v2/queues/q/tasks/t_000000000001/output?offset=7 "), "{request}");
        assert!(request.contains("prefer: wait=20\r\n"), "{request}");
    }
    let server = FaultyServer::start([answer(204, "", "")]).await;
    server.client().claim(&queue(), &request).await.unwrap();
    assert!(!server.requests()[0].contains("prefer:"), "who does not wait does not say so");
}

#[tokio::test(start_paused = true)]
async fn a_waiting_claim_may_take_so_much_longer() {
    let server = FaultyServer::start([Reply::Silence]).await;
    let start = tokio::time::Instant::now();
    let request = ClaimRequest { wait_seconds: Some(100), ..ClaimRequest::new(route(), run_id()) };
    assert!(server.client().claim(&queue(), &request).await.unwrap_err().is_outcome_unknown());
    assert_eq!(start.elapsed().as_secs(), 130);
}

#[tokio::test(start_paused = true)]
async fn a_held_heartbeat_may_take_so_much_longer_and_the_server_s_word_on_it_is_passed_on() {
    let lease = r#"{"lease_expires_at":"2026-01-01T00:05:00Z"}"#;
    for (headers, applied) in [("Preference-Applied: wait=20\r\n", Some(20)), ("", None)] {
        let server = FaultyServer::start([answer(200, headers, lease)]).await;
        let given = server.client().heartbeat(&RunKey::new(&queue(), task_id(), run_id()), Some(20)).await.unwrap();
        assert_eq!(given.wait_applied, applied);
        assert!(server.requests()[0].contains("prefer: wait=20\r\n"));
    }
    let server = FaultyServer::start([answer(200, "", lease)]).await;
    server.client().heartbeat(&RunKey::new(&queue(), task_id(), run_id()), None).await.unwrap();
    assert!(!server.requests()[0].contains("prefer:"), "who does not wait does not say so");

    let server = FaultyServer::start([Reply::Silence]).await;
    let start = tokio::time::Instant::now();
    let lost = server.client().heartbeat(&RunKey::new(&queue(), task_id(), run_id()), Some(60)).await.unwrap_err();
    assert!(lost.is_outcome_unknown(), "{lost:?}");
    assert_eq!((start.elapsed().as_secs(), server.requests().len()), (90, 1), "it is not repeated here");
}

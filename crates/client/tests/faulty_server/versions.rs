//! An older server is warned of once, and its results and errors count all the same. It need not know our extensions.

use taskqueue_client::{Capabilities, ErrorCode, Failure, Version, capabilities};

use crate::server::{FaultyServer, answer, ok, queue, refusal, run_id, task_id};

const OLD: &str = "Taskqueue-Server-Version: 0.0.1\r\n";

#[tokio::test]
async fn an_older_server_is_warned_of_once_and_its_answers_count() {
    let server = FaultyServer::start([answer(200, OLD, "[]"), refusal(401, "unauthorized", OLD)]).await;
    let client = server.client();
    assert_eq!(client.queues().await, Ok(Vec::new()));
    assert_eq!(client.queues().await.unwrap_err().code(), Some(ErrorCode::Unauthorized));
    let warning = client.clone().take_warning().unwrap();
    assert_eq!(warning.server, Version { major: 0, minor: 0, patch: 1 });
    assert!(warning.to_string().contains("0.0.1"), "{warning}");
    assert_eq!(client.take_warning(), None);
}

#[tokio::test]
async fn every_older_version_has_its_own_warning() {
    let other = answer(200, "Taskqueue-Server-Version: 0.0.2\r\n", "[]");
    let server = FaultyServer::start([answer(200, OLD, "[]"), other, answer(200, OLD, "[]")]).await;
    let client = server.client();
    for _ in 0..3 {
        client.queues().await.unwrap();
    }
    let warned: Vec<u64> = std::iter::from_fn(|| client.take_warning()).map(|warning| warning.server.patch).collect();
    assert_eq!(warned, [1, 2]);
}

#[tokio::test]
async fn a_missing_strange_equal_or_newer_version_proves_nothing() {
    let version = |text: &str| answer(200, &format!("Taskqueue-Server-Version: {text}\r\n"), "[]");
    let replies = [ok("[]"), version("unknown"), version(""), version(env!("CARGO_PKG_VERSION")), version("99.0.0")];
    let server = FaultyServer::start(replies).await;
    let client = server.client();
    for _ in 0..5 {
        assert_eq!(client.queues().await, Ok(Vec::new()));
    }
    assert_eq!(client.take_warning(), None);
}

#[tokio::test]
async fn a_server_that_does_not_know_capabilities_has_none() {
    let unknown = r#"{"detail":"Not Found"}"#;
    for reply in [refusal(404, "not_found", ""), answer(404, "", unknown)] {
        let server = FaultyServer::start([reply]).await;
        assert_eq!(server.client().capabilities().await, Ok(Capabilities::default()));
    }
    let server = FaultyServer::start([ok(r#"{"features":["merge-updates","new"],"more":1}"#)]).await;
    let found = server.client().capabilities().await.unwrap();
    assert!(found.has(capabilities::MERGE_UPDATES) && found.has("new") && !found.has("delay"));
    let request = &server.requests()[0];
    assert!(request.starts_with("GET /api/v2/capabilities ") && request.contains("Bearer s3cret-token"), "{request}");
    let server = FaultyServer::start([refusal(401, "unauthorized", "")]).await;
    assert_eq!(server.client().capabilities().await.unwrap_err().code(), Some(ErrorCode::Unauthorized));
}

#[tokio::test]
async fn a_server_that_refuses_retry_gets_the_failure_without_it() {
    let failure = Failure { kind: "E".into(), message: "m".into(), traceback: None };
    let (refused, done) = (refusal(422, "invalid_request", ""), answer(204, "", ""));
    let server = FaultyServer::start([refused.clone(), done.clone()]).await;
    server.client().fail(&queue(), task_id(), run_id(), &failure, false).await.unwrap();
    let sent: Vec<bool> = server.requests().iter().map(|request| request.contains(r#""retry":false"#)).collect();
    assert_eq!(sent, [true, false]);
    // What is wrong with the failure itself is refused again, and a failure that may be retried is sent once.
    for (retry, requests) in [(false, 2), (true, 1)] {
        let server = FaultyServer::start([refused.clone()]).await;
        let error = server.client().fail(&queue(), task_id(), run_id(), &failure, retry).await.unwrap_err();
        assert_eq!((error.code(), server.requests().len()), (Some(ErrorCode::InvalidRequest), requests));
    }
    let server = FaultyServer::start([done]).await;
    server.client().fail(&queue(), task_id(), run_id(), &failure, true).await.unwrap();
    assert!(!server.requests()[0].contains("retry"), "the contract's body");
}

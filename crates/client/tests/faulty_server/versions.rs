//! An older server is warned of once, and its results and errors count all the same. One that lacks our extensions is too old.

use taskqueue_client::{Capabilities, Error, ErrorCode, Version, capabilities};

use crate::server::{FaultyServer, answer, ok, refusal};

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
    let server = FaultyServer::start([refusal(404, "not_found", "")]).await;
    assert_eq!(server.client().capabilities().await, Ok(Capabilities::default()));
    let server = FaultyServer::start([answer(404, "", "<html>")]).await;
    let other_program = server.client().capabilities().await;
    assert!(matches!(other_program, Err(Error::Protocol { status: 404, .. })), "{other_program:?}");
    let server = FaultyServer::start([ok(r#"{"features":["merge-updates","new"],"more":1}"#)]).await;
    let found = server.client().capabilities().await.unwrap();
    assert!(found.has(capabilities::MERGE_UPDATES) && found.has("new") && !found.has("delay"));
    let request = &server.requests()[0];
    assert!(request.starts_with("GET /api/v2/capabilities ") && request.contains("Bearer s3cret-token"), "{request}");
    let server = FaultyServer::start([refusal(401, "unauthorized", "")]).await;
    assert_eq!(server.client().capabilities().await.unwrap_err().code(), Some(ErrorCode::Unauthorized));
}

#[tokio::test]
async fn a_server_that_lacks_an_extension_is_too_old_and_output_may_be_turned_off() {
    let without = |left_out: &str| {
        let features: Vec<&str> = capabilities::FEATURES.into_iter().filter(|name| *name != left_out).collect();
        ok(&format!(r#"{{"features":{features:?}}}"#))
    };
    let server = FaultyServer::start([without("output")]).await;
    assert!(!server.client().require_extensions().await.unwrap().has(capabilities::OUTPUT));
    for (reply, missing) in [(without("explain"), "explain"), (refusal(404, "not_found", ""), "archive")] {
        let error = FaultyServer::start([reply]).await.client().require_extensions().await.unwrap_err();
        assert_eq!(error, Error::ServerTooOld { missing });
        let sentence = format!("the server has no {missing}; taskqueue {} or newer is", env!("CARGO_PKG_VERSION"));
        assert!(error.to_string().starts_with(&sentence), "{error}");
    }
}

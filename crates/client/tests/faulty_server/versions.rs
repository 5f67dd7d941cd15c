//! An older server is warned of once, and its results and errors count all the same.

use taskqueue_client::{ErrorCode, Version};

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

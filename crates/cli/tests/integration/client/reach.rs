//! Servers that want a token or none, and of the same version.

use taskqueue_client::{Client, Config, ErrorCode};

use super::support::Server;
use super::{client, queue};

#[tokio::test]
async fn a_server_that_wants_a_token_gets_it() {
    let server = Server::with_token("s3cret");
    assert!(client(&server).create_queue(&queue("q")).await.unwrap().created);
    let url = format!("http://{}", server.address);
    for config in [Config::new(&url).unwrap(), Config::new(&url).unwrap().token("wrong").unwrap()] {
        let client = Client::new(config).unwrap();
        assert_eq!(client.queues().await.unwrap_err().code(), Some(ErrorCode::Unauthorized));
        assert!(client.health().await.unwrap().is_ok, "health is open to everybody");
    }
}

#[tokio::test]
async fn a_server_of_the_same_version_is_nothing_to_warn_of() {
    let server = Server::start();
    let client = client(&server);
    client.queues().await.unwrap();
    assert_eq!(client.take_warning(), None);
}

//! The ways to a server: with a token, over a Unix socket, and none at all.

use taskqueue_client::{Client, Config, Error, ErrorCode, Retries};

use super::support::Server;
use super::{client, queue, task_id};

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

#[tokio::test]
async fn a_unix_socket_is_as_good_as_a_port() {
    let directory = tempfile::tempdir().unwrap();
    let address = format!("unix:{}", directory.path().join("q.sock").display());
    let _server = Server::with_arguments(&["--listen", &address]);
    let client = Client::new(Config::new(&address).unwrap()).unwrap();
    assert!(client.create_queue(&queue("q")).await.unwrap().created);
    assert_eq!(client.queues().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_server_that_is_not_reached_has_certainly_done_nothing() {
    let mut server = Server::alone();
    let config = Config::new(&format!("http://{}", server.address)).unwrap().retries(Retries::NONE);
    let client = Client::new(config).unwrap();
    server.kill();
    let error = client.cancel_task(&queue("q"), task_id(1)).await.unwrap_err();
    assert!(matches!(error, Error::Transport { may_have_arrived: false, .. }), "{error:?}");
}

//! The token goes to the configured server only, not over plain HTTP to other machines, and into no text.

use std::sync::{Arc, Mutex};

use taskqueue_client::{Client, Config, ConfigError, Error};
use tokio::net::UnixListener;

use crate::server::{FaultyServer, TASK, answer, ok, queue, serve, task_id};

const SHOWN: &str = "authorization: Bearer s3cret-token\r\n";

#[tokio::test]
async fn redirects_are_not_followed_and_the_other_host_sees_nothing() {
    for status in [301, 302, 303, 307, 308] {
        let other = FaultyServer::start([ok(TASK)]).await;
        let server = FaultyServer::start([answer(status, &format!("Location: {}/\r\n", other.url()), "")]).await;
        let error = server.client().task(&queue(), task_id()).await.unwrap_err();
        assert!(matches!(&error, Error::Protocol { status: told, .. } if *told == status), "{error:?}");
        let error = server.client().cancel_task(&queue(), task_id()).await.unwrap_err();
        assert!(matches!(&error, Error::Protocol { .. }), "whoever redirects has done nothing: {error:?}");
        assert_eq!(other.requests(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn the_token_is_shown_where_it_is_needed_and_nowhere_else() {
    let health = r#"{"status":"ok","api_version":"2","database":"ok"}"#;
    let server = FaultyServer::start([ok(health), ok("[]")]).await;
    let client = server.client();
    assert!(client.health().await.unwrap().is_ok);
    client.queues().await.unwrap();
    let shown: Vec<bool> = server.requests().iter().map(|request| request.contains(SHOWN)).collect();
    assert_eq!(shown, [false, true]);
    let agent = concat!("user-agent: taskqueue/", env!("CARGO_PKG_VERSION"), "\r\n");
    assert!(server.requests().iter().all(|request| request.contains(agent)));
}

#[tokio::test]
async fn no_text_shows_the_token() {
    let server = FaultyServer::start([answer(500, "", "")]).await;
    let config = Config::new(&server.url()).unwrap().token("s3cret-token").unwrap();
    let client = server.client();
    let error = client.cancel_task(&queue(), task_id()).await.unwrap_err();
    for text in [format!("{config:?}"), format!("{client:?}"), format!("{error:?}"), error.to_string()] {
        assert!(!text.contains("s3cret"), "{text}");
    }
}

#[test]
fn a_token_is_not_sent_readably_to_another_machine_unless_allowed() {
    let with_token = |url: &str| Config::new(url).unwrap().token("x").unwrap();
    assert_eq!(Client::new(with_token("http://queue.example")).err(), Some(ConfigError::InsecureToken));
    let mut allowing = with_token("http://queue.example");
    allowing.allow_insecure_token = true;
    assert!(Client::new(allowing).is_ok());
    assert!(Client::new(Config::new("http://queue.example").unwrap()).is_ok());
    for private in ["http://127.0.0.1:1", "http://localhost:1", "http://[::1]:1", "unix:/x", "https://queue.example"] {
        assert!(Client::new(with_token(private)).is_ok(), "{private}");
    }
    for token in ["", "a b", "a\n", "ä"] {
        assert_eq!(Config::new("http://localhost").unwrap().token(token).err(), Some(ConfigError::Token));
    }
}

#[tokio::test]
async fn nothing_is_sent_readably_to_a_server_that_should_encrypt() {
    let server = FaultyServer::start([ok("[]")]).await;
    let mut config = Config::new(&format!("https://{}", server.address)).unwrap().token("s3cret-token").unwrap();
    config.retries = taskqueue_client::Retries::NONE;
    let client = Client::new(config).unwrap();
    let error = client.queues().await.unwrap_err();
    assert!(matches!(error, Error::Transport { may_have_arrived: false, .. }), "{error:?}");
    assert_eq!(server.requests(), Vec::<String>::new());
}

#[tokio::test]
async fn a_unix_socket_is_spoken_to_like_a_port() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("q.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        serve(stream, vec![ok(r#"[{"name":"q"}]"#)], noted).await;
    });
    let config = Config::new(&format!("unix:{}", path.display())).unwrap().token("s3cret-token").unwrap();
    let queues = Client::new(config).unwrap().queues().await.unwrap();
    assert_eq!(queues[0].name, queue());
    let requests = seen.lock().unwrap().clone();
    assert!(requests[0].starts_with("GET /api/v2/queues HTTP/1.1\r\n") && requests[0].contains(SHOWN), "{requests:?}");
}

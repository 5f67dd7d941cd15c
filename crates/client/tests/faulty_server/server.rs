//! A server that sends scripted replies, one after the other, and records the requests. It implements just enough HTTP: one
//! request per connection, unless the script keeps it open.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use taskqueue_client::{Client, Config, JsonObject, QueueName, Retries, Route, RunId, TaskId};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;

/// A task as the contract shows it.
pub(crate) const TASK: &str = r#"{"id":"t_000000000001","queue":"q","status":"pending","name":null,"args":{},"metadata":{},"priority":0,"attempt":0,"max_attempts":3,"routes":["default"],"result":{},"last_error":null,"last_route":null,"created_at":"2026-01-01T00:00:00.000000Z","updated_at":"2026-01-01T00:00:00.000000Z","started_at":null,"finished_at":null}"#;

/// What the server does with one request, after it has read all of it.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// Sends these bytes and closes the connection, whether the answer is whole or not.
    Bytes(Vec<u8>),
    /// Sends a whole answer and waits for the next request on the same connection.
    Kept(&'static str),
    /// Never answers and never hangs up.
    Silence,
}

/// A whole answer. `headers` are complete lines.
pub(crate) fn answer(status: u16, headers: &str, body: impl AsRef<[u8]>) -> Reply {
    let body = body.as_ref();
    let length = if status == 204 { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    let head = format!("HTTP/1.1 {status} Said\r\nConnection: close\r\n{length}{headers}\r\n");
    Reply::Bytes([head.as_bytes(), body].concat())
}

pub(crate) fn ok(body: &str) -> Reply {
    answer(200, "", body)
}

/// An answer whose second half is lost.
pub(crate) fn cut(status: u16, body: &str) -> Reply {
    let Reply::Bytes(mut bytes) = answer(status, "", body) else { unreachable!("an answer has bytes") };
    bytes.truncate(bytes.len() - body.len() / 2 - 1);
    Reply::Bytes(bytes)
}

/// The connection is closed without a single byte.
pub(crate) fn close_connection() -> Reply {
    Reply::Bytes(Vec::new())
}

/// An error in the envelope of the contract.
pub(crate) fn refusal(status: u16, code: &str, headers: &str) -> Reply {
    answer(status, headers, format!(r#"{{"error":{{"code":"{code}","message":"no","details":{{}}}}}}"#))
}

pub(crate) struct FaultyServer {
    pub(crate) address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl FaultyServer {
    /// Replies in this order; the last reply is given again and again.
    pub(crate) async fn start(replies: impl IntoIterator<Item = Reply>) -> Self {
        let replies: Vec<Reply> = replies.into_iter().collect();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, replies.clone(), Arc::clone(&seen)));
            }
        });
        Self { address, requests }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A client that wastes no time between its tries.
    pub(crate) fn client(&self) -> Client {
        let (first_pause, longest_pause) = (Duration::from_millis(1), Duration::from_secs(60));
        let mut config = Config::new(&self.url()).unwrap().token("s3cret-token").unwrap();
        config.retries = Retries { tries: 3, first_pause, longest_pause };
        Client::new(config).unwrap()
    }

    /// Everything that was asked, head and body as they came.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

/// Reads requests, notes them, and gives the reply whose turn it is, as long as the connection is kept.
pub(crate) async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    replies: Vec<Reply>,
    seen: Arc<Mutex<Vec<String>>>,
) {
    while let Some(request) = read_request(&mut stream).await {
        let turn = {
            let mut seen = seen.lock().unwrap();
            seen.push(request);
            seen.len() - 1
        };
        match &replies[turn.min(replies.len() - 1)] {
            Reply::Bytes(bytes) => {
                // The client may already have disconnected, which is allowed.
                let _ = stream.write_all(bytes).await;
                let _ = stream.shutdown().await;
                return;
            }
            Reply::Kept(body) => {
                let answer = format!("HTTP/1.1 200 Said\r\nContent-Length: {}\r\n\r\n{body}", body.len());
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
            Reply::Silence => std::future::pending().await,
        }
    }
}

async fn read_request(stream: &mut (impl AsyncRead + Unpin)) -> Option<String> {
    let mut text = String::new();
    loop {
        let mut chunk = [0; 4096];
        let count = stream.read(&mut chunk).await.ok()?;
        text.push_str(std::str::from_utf8(&chunk[..count]).ok()?);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                return Some(text);
            }
        }
        if count == 0 {
            return None;
        }
    }
}

pub(crate) fn queue() -> QueueName {
    QueueName::parse("q").unwrap()
}

pub(crate) fn task_id() -> TaskId {
    TaskId::parse("t_000000000001").unwrap()
}

pub(crate) fn run_id() -> RunId {
    RunId::parse("r_000000000001").unwrap()
}

pub(crate) fn route() -> Route {
    Route::parse("default").unwrap()
}

pub(crate) const NO_RESULT: JsonObject = JsonObject::empty();

//! A server that answers the first batches of new tasks and then no more, to see what a command does that is interrupted while it
//! waits.

use std::io::Write;
use std::net::TcpListener;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use taskqueue_client::capabilities::FEATURES;

use crate::support::read_message;

/// Longer than the slowest machine needs for a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// The thread ends with the test process.
pub(crate) struct HoldingServer {
    pub(crate) url: String,
    requests: Receiver<()>,
}

impl HoldingServer {
    /// Answers so many batches.
    pub(crate) fn start(answers: usize) -> Self {
        let capabilities = json!({"features": FEATURES}).to_string();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (sender, requests) = mpsc::channel();
        thread::spawn(move || {
            let (mut held, mut answered) = (Vec::new(), 0);
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                let request = String::from_utf8(read_message(&stream).unwrap()).unwrap();
                let (head, body) = request.split_once("\r\n\r\n").unwrap();
                if head.contains("/capabilities ") {
                    (&stream).write_all(answer(&capabilities).as_bytes()).unwrap();
                    continue;
                }
                if answered < answers {
                    (&stream).write_all(created(body).as_bytes()).unwrap();
                    answered += 1;
                } else {
                    held.push(stream);
                }
                let _ = sender.send(());
            }
        });
        Self { url, requests }
    }

    /// Waits until so many requests have come.
    #[track_caller]
    pub(crate) fn wait_for_requests(&self, count: usize) {
        for _ in 0..count {
            self.requests.recv_timeout(REQUEST_TIMEOUT).unwrap();
        }
    }
}

fn created(body: &str) -> String {
    let request: Value = serde_json::from_str(body).unwrap();
    let items = request["tasks"].as_array().unwrap().iter();
    let items: Vec<Value> = items.map(|task| json!({"id": task["id"], "outcome": "created"})).collect();
    answer(&json!({"items": items}).to_string())
}

fn answer(body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n\
         {body}"
    )
}

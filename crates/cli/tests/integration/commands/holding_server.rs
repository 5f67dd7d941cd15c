//! A server that answers the first batches of new tasks and then no more, to see what a command does that is interrupted while it
//! waits.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use taskqueue_client::capabilities::FEATURES;

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
                let (path, body) = read_request(&stream);
                if path.ends_with("/capabilities") {
                    (&stream).write_all(answer(&capabilities).as_bytes()).unwrap();
                    continue;
                }
                if answered < answers {
                    (&stream).write_all(created(&body).as_bytes()).unwrap();
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

/// Reads one request and gives its path and its body.
fn read_request(stream: &TcpStream) -> (String, Vec<u8>) {
    let (mut reader, mut head) = (BufReader::new(stream), String::new());
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(reader.read_line(&mut head).unwrap(), 0, "{head}");
    }
    let length = head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length:").map(str::to_owned));
    let mut body = vec![0; length.map_or(0, |length| length.trim().parse().unwrap())];
    reader.read_exact(&mut body).unwrap();
    (head.split(' ').nth(1).unwrap().to_owned(), body)
}

fn created(body: &[u8]) -> String {
    let request: Value = serde_json::from_slice(body).unwrap();
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

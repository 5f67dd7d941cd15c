//! A server that records every request head and refuses each request, to see what a command sends.

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::support::read_message;

const REFUSAL: &str = r#"{"error":{"code":"unauthorized","message":"no","details":{}}}"#;

/// The recording server. Its thread ends with the test process.
pub(crate) struct Recorder {
    address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Recorder {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let heads = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&heads);
        thread::spawn(move || {
            for stream in listener.incoming() {
                record(stream.unwrap(), &kept);
            }
        });
        Self { address, heads }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The tokens of the requests since the last call, each once; none for a request without one.
    pub(crate) fn take_tokens(&self) -> Vec<Option<String>> {
        let heads = std::mem::take(&mut *self.heads.lock().unwrap());
        let mut tokens: Vec<Option<String>> = heads.iter().map(|head| token_in(head)).collect();
        tokens.dedup();
        tokens
    }
}

/// The head is kept before the answer is given: a command that has ended has left its trace.
fn record(stream: TcpStream, heads: &Mutex<Vec<String>>) {
    let Some(head) = read_message(&stream) else { return };
    heads.lock().unwrap().push(String::from_utf8(head).unwrap());
    let length = REFUSAL.len();
    let answer = format!(
        "HTTP/1.1 401 Unauthorized\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{REFUSAL}"
    );
    drop((&stream).write_all(answer.as_bytes()));
}

fn token_in(head: &str) -> Option<String> {
    let value = |line: &str| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("authorization").then(|| value.trim().to_owned())
    };
    let value = head.lines().find_map(value)?;
    Some(value.strip_prefix("Bearer ").unwrap_or(&value).to_owned())
}

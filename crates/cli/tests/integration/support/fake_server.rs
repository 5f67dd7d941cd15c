//! A server that answers as a test says, one request after the other, and keeps what it was asked: for what a real one never does.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use super::read_message;

pub(crate) struct FakeServer {
    address: String,
    requests: Arc<Mutex<Vec<String>>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl FakeServer {
    /// A server on a free port. What it gives nothing for stays without an answer; an empty answer ends the connection.
    pub(crate) fn start(replies: impl FnMut(&str) -> Option<Vec<u8>> + Send + 'static) -> Self {
        Self::at("127.0.0.1:0", replies)
    }

    pub(crate) fn at(address: &str, mut replies: impl FnMut(&str) -> Option<Vec<u8>> + Send + 'static) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (requests, is_over) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let (seen, over) = (Arc::clone(&requests), Arc::clone(&is_over));
        let thread = thread::spawn(move || {
            let mut waiting = Vec::new();
            for connection in listener.incoming().flatten() {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                let Some(request) = read_message(&connection) else { continue };
                let request = String::from_utf8_lossy(&request).into_owned();
                // Kept before the answer is given: who has one has left its trace.
                seen.lock().unwrap().push(request.clone());
                match replies(&request) {
                    Some(reply) => drop((&connection).write_all(&reply)),
                    None => waiting.push(connection),
                }
            }
        });
        Self { address, requests, is_over, thread: Some(thread) }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How many requests contain this text.
    pub(crate) fn count(&self, what: &str) -> usize {
        self.requests.lock().unwrap().iter().filter(|request| request.contains(what)).count()
    }

    /// The requests since the last call.
    pub(crate) fn take_requests(&self) -> Vec<String> {
        std::mem::take(&mut *self.requests.lock().unwrap())
    }
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        drop(TcpStream::connect(&self.address));
        drop(self.thread.take().map(JoinHandle::join));
    }
}

/// An answer behind which the connection ends; one with a body is announced as JSON.
pub(crate) fn reply(status: &str, body: &str) -> Option<Vec<u8>> {
    let kind = if body.starts_with('{') { "Content-Type: application/json\r\n" } else { "" };
    let length = body.len();
    Some(format!("HTTP/1.1 {status}\r\nConnection: close\r\n{kind}Content-Length: {length}\r\n\r\n{body}").into_bytes())
}

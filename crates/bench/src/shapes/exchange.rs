//! A connection that is kept: sends a request and reads its answer, also one that comes in chunks. It blocks, so that clients and
//! probes, each on a thread of its own, do not wait for each other.

use std::borrow::Cow;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::answer_parser;

/// Longer than any answer may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// What is kept of the body of an answer.
const KEPT_BYTES: usize = 24 << 20;
/// What a page of the dashboard says that stands for `database_busy`.
const BUSY_TITLE: &str = "The server is busy";
const BUSY_PROMISE: &str = "Nothing was changed.";

pub(super) struct Answer {
    pub(super) status: u16,
    head: Vec<u8>,
    pub(super) body: Vec<u8>,
}

impl Answer {
    /// `database_busy`, or whatever an error says; empty for others.
    pub(super) fn code(&self) -> &str {
        if self.status < 400 { "" } else { answer_parser::error_code(&self.body).unwrap_or("") }
    }

    /// A 503 that says that nothing was done, and when to try again.
    pub(super) fn is_truthful_busy(&self) -> bool {
        let has_retry_after = answer_parser::header(&self.head, b"retry-after:").is_some();
        self.status == 503 && has_retry_after && (self.is_busy_page() || self.code() == "database_busy")
    }

    /// Whether it is the page that stands for `database_busy`. Pages have no code, and others are 503, too: one says that only a part
    /// was done.
    fn is_busy_page(&self) -> bool {
        let is_page =
            answer_parser::header(&self.head, b"content-type:").is_some_and(|kind| kind.starts_with(b"text/html"));
        let text = self.text();
        is_page && text.contains(&format!("<h1>{BUSY_TITLE}</h1>")) && text.contains(BUSY_PROMISE)
    }

    pub(super) fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.body)
    }

    #[cfg(test)]
    pub(super) fn with_body(body: &[u8]) -> Self {
        Self { status: 200, head: Vec::new(), body: body.to_vec() }
    }

    /// The beginning of the body, for people.
    pub(super) fn excerpt(&self) -> String {
        String::from_utf8_lossy(&self.body[..self.body.len().min(300)]).into_owned()
    }
}

pub(super) struct Connection {
    address: SocketAddr,
    stream: Option<BufReader<TcpStream>>,
}

impl Connection {
    pub(super) fn new(address: SocketAddr) -> Self {
        Self { address, stream: None }
    }

    pub(super) fn send(&mut self, request: &[u8]) -> io::Result<Answer> {
        // A kept connection may have been closed as idle just before.
        if self.stream.is_some() {
            match self.exchange(request) {
                Err(error) if is_closed(&error) => self.stream = None,
                answered => return answered,
            }
        }
        self.exchange(request)
    }

    fn exchange(&mut self, request: &[u8]) -> io::Result<Answer> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => {
                let stream = TcpStream::connect(self.address)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                BufReader::new(stream)
            }
        };
        // Who is refused early may find the connection closed, and the answer there.
        let written = stream.get_mut().write_all(request);
        let answer = read_answer(&mut stream).map_err(|error| written.err().unwrap_or(error))?;
        let is_last = answer_parser::header(&answer.head, b"connection:").is_some_and(|value| value == b"close");
        self.stream = (!is_last).then_some(stream);
        Ok(answer)
    }
}

fn is_closed(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

fn read_answer(stream: &mut BufReader<TcpStream>) -> io::Result<Answer> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read_until(b'\n', &mut head)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    let number = |text: Option<&[u8]>| std::str::from_utf8(text?).ok()?.parse::<usize>().ok();
    let status = number(head.get(9..12)).ok_or(io::ErrorKind::InvalidData)?;
    let mut body = Vec::new();
    match number(answer_parser::header(&head, b"content-length:")) {
        Some(length) => take(stream, length, &mut body)?,
        None if answer_parser::header(&head, b"transfer-encoding:").is_some() => loop {
            let mut line = String::new();
            stream.read_line(&mut line)?;
            let length = usize::from_str_radix(line.trim(), 16).map_err(|_| io::ErrorKind::InvalidData)?;
            take(stream, length, &mut body)?;
            stream.read_line(&mut line)?;
            if length == 0 {
                break;
            }
        },
        None => {}
    }
    Ok(Answer { status: status as u16, head, body })
}

/// Reads so many bytes, and keeps what there is room for.
fn take(stream: &mut BufReader<TcpStream>, length: usize, body: &mut Vec<u8>) -> io::Result<()> {
    let kept = length.min(KEPT_BYTES.saturating_sub(body.len()));
    let read = stream.take(kept as u64).read_to_end(body)?
        + io::copy(&mut stream.take((length - kept) as u64), &mut io::sink())? as usize;
    if read == length { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page for people and the error for programs are written there.
    const PROBLEMS: &str = include_str!("../../../dashboard/src/problem.rs");

    fn answered(status: u16, head: &str, body: &str) -> Answer {
        let head = format!("HTTP/1.1 {status} x\r\n{head}\r\n\r\n");
        Answer { status, head: head.into_bytes(), body: body.as_bytes().to_vec() }
    }

    #[test]
    fn a_503_is_busy_only_if_it_says_so_and_when_to_come_again() {
        let page = "content-type: text/html; charset=utf-8\r\nretry-after: 2";
        let json = "content-type: application/json\r\nretry-after: 1";
        let busy = "<h1>The server is busy</h1>\n<p>Too much to do. Nothing was changed. Reload.</p>";
        let code = r#"{"error":{"code":"database_busy"}}"#;
        for (answer, expected) in [
            (answered(503, page, busy), true),
            (answered(503, json, code), true),
            (answered(503, "content-type: text/html", busy), false),
            (answered(500, page, busy), false),
            (answered(503, page, "<h1>The database does not answer</h1>\n<p>Nothing was changed.</p>"), false),
            (answered(503, page, "<h1>Only a part of this was done</h1>"), false),
            (answered(503, json, r#"{"error":{"code":"database_unavailable"}}"#), false),
        ] {
            assert_eq!(answer.is_truthful_busy(), expected, "{}", answer.text());
        }
    }

    #[test]
    fn the_dashboard_has_the_page_that_is_looked_for() {
        let busy = PROBLEMS.split("fn busy()").nth(1).and_then(|rest| rest.split("\n    }").next()).unwrap_or_default();
        assert!(busy.contains(&format!("\"{BUSY_TITLE}\"")) && busy.contains(BUSY_PROMISE), "{busy}");
    }
}

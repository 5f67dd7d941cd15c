//! A connection that is kept: sends a request and reads its answer, also one that comes in chunks. It blocks, so that clients and
//! probes, each on a thread of its own, do not wait for each other.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::answer_parser;

/// Longer than any answer may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// What is kept of the body of an answer.
const KEPT_BYTES: usize = 24 << 20;

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
        let is_page =
            answer_parser::header(&self.head, b"content-type:").is_some_and(|kind| kind.starts_with(b"text/html"));
        let has_retry_after = answer_parser::header(&self.head, b"retry-after:").is_some();
        self.status == 503 && has_retry_after && (is_page || self.code() == "database_busy")
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

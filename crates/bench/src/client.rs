//! One keep-alive connection: sends a request, reads its answer. Nothing is pipelined or retried.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::answer_parser;
use crate::encryption::{Endpoint, encrypt};
use crate::failure::{Failure, Result};
use crate::operation::Operation;
use crate::request::Requests;

/// Enough for every answer but pages; the buffer grows once for those.
const BUFFER_BYTES: usize = 4096;

#[derive(Debug)]
enum Stream {
    Plain(TcpStream),
    Encrypted(Box<TlsStream<TcpStream>>),
}

#[derive(Debug)]
pub(crate) struct Client {
    stream: Stream,
    buffer: Vec<u8>,
}

/// An answer, still in the connection's buffer.
#[derive(Debug)]
pub(crate) struct Answer<'a> {
    pub(crate) status: u16,
    /// The head, with its empty line.
    pub(crate) head: &'a [u8],
    pub(crate) body: &'a [u8],
}

impl Answer<'_> {
    /// An error unless it was done; of a batch, every item.
    pub(crate) fn require_done(&self) -> Result<()> {
        let is_refused = self.body.windows(7).any(|part| part == b"refused");
        if matches!(self.status, 200 | 204) && !is_refused {
            return Ok(());
        }
        let body = String::from_utf8_lossy(self.body).chars().take(300).collect::<String>();
        Err(Failure::new(format!("the server answered {}: {body}", self.status)))
    }
}

impl Client {
    pub(crate) async fn connect(endpoint: impl Into<Endpoint>) -> io::Result<Self> {
        let Endpoint { address, is_encrypted } = endpoint.into();
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let stream = match is_encrypted {
            true => Stream::Encrypted(Box::new(encrypt(stream, address).await?)),
            false => Stream::Plain(stream),
        };
        Ok(Self { stream, buffer: vec![0; BUFFER_BYTES] })
    }

    /// Sends a request and reads its answer.
    pub(crate) async fn send(&mut self, request: &[u8]) -> io::Result<Answer<'_>> {
        self.write(request).await?;
        self.answer().await
    }

    /// Sends a request whose answer may take its time.
    pub(crate) async fn write(&mut self, request: &[u8]) -> io::Result<()> {
        match &mut self.stream {
            Stream::Plain(stream) => stream.write_all(request).await,
            Stream::Encrypted(stream) => {
                stream.write_all(request).await?;
                stream.flush().await
            }
        }
    }

    pub(crate) async fn answer(&mut self) -> io::Result<Answer<'_>> {
        let mut filled = 0;
        let head = loop {
            filled += self.read(filled).await?;
            if let Some(head) = answer_parser::parse_head(&self.buffer[..filled])? {
                break head;
            }
        };
        let end = head.head_bytes + head.body_bytes;
        if self.buffer.len() < end {
            self.buffer.resize(end, 0);
        }
        while filled < end {
            filled += self.read(filled).await?;
        }
        let (head_bytes, body) = self.buffer[..end].split_at(head.head_bytes);
        Ok(Answer { status: head.status, head: head_bytes, body })
    }

    async fn read(&mut self, filled: usize) -> io::Result<usize> {
        let free = &mut self.buffer[filled..];
        let read = match &mut self.stream {
            Stream::Plain(stream) => stream.read(free).await?,
            Stream::Encrypted(stream) => stream.read(free).await?,
        };
        match read {
            0 => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection")),
            count => Ok(count),
        }
    }
}

/// A connection with the requests for one queue.
#[derive(Debug)]
pub(crate) struct QueueClient {
    client: Client,
    requests: Requests,
}

impl QueueClient {
    pub(crate) async fn connect(endpoint: impl Into<Endpoint>, queue: &str) -> io::Result<Self> {
        let endpoint = endpoint.into();
        Ok(Self::new(Client::connect(endpoint).await?, endpoint.address, queue))
    }

    pub(crate) fn new(client: Client, address: SocketAddr, queue: &str) -> Self {
        Self { client, requests: Requests::new(address, queue) }
    }

    pub(crate) async fn send(&mut self, operation: Operation, task: u64, run: u64) -> io::Result<Answer<'_>> {
        self.client.send(self.requests.of(operation).fill(task, run)).await
    }

    /// Sends a request that must succeed.
    pub(crate) async fn succeed(&mut self, operation: Operation, task: u64, run: u64) -> Result<Answer<'_>> {
        let answer = self.send(operation, task, run).await?;
        if operation.expects(answer.status) {
            return Ok(answer);
        }
        let code = answer_parser::error_code(answer.body).unwrap_or_default();
        Err(Failure::new(format!("{operation:?} was answered with {} {code}", answer.status)))
    }

    /// Sends a claim that waits for a task.
    pub(crate) async fn claim_waiting(&mut self, run: u64, seconds: u32) -> io::Result<Answer<'_>> {
        self.client.send(&self.requests.waiting_claim(run, seconds)).await
    }
}

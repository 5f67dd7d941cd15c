//! One keep-alive connection: sends the bytes of a request, reads one answer. Nothing is pipelined or retried.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::wire;

/// Enough for every answer but pages; the buffer grows once for those.
const BUFFER_BYTES: usize = 4096;

/// A connection to a server.
#[derive(Debug)]
pub(crate) struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// An answer, still in the connection's buffer.
#[derive(Debug)]
pub(crate) struct Answer<'a> {
    /// The status code.
    pub(crate) status: u16,
    /// The body.
    pub(crate) body: &'a [u8],
}

impl Client {
    /// Connects.
    pub(crate) async fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: vec![0; BUFFER_BYTES] })
    }

    /// Sends a request and reads its answer.
    pub(crate) async fn send(&mut self, request: &[u8]) -> io::Result<Answer<'_>> {
        self.stream.write_all(request).await?;
        let mut filled = 0;
        let head = loop {
            filled += self.read(filled).await?;
            if let Some(head) = wire::parse_head(&self.buffer[..filled])? {
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
        Ok(Answer { status: head.status, body: &self.buffer[head.head_bytes..end] })
    }

    async fn read(&mut self, filled: usize) -> io::Result<usize> {
        match self.stream.read(&mut self.buffer[filled..]).await? {
            0 => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection")),
            count => Ok(count),
        }
    }
}

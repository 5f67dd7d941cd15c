//! A connected socket of either kind, so that everything behind the listener exists once.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// Bytes read at once by [`Stream::next_bytes`]: enough for most requests of workers.
const FIRST_BYTES: usize = 1024;

/// A connected socket.
#[derive(Debug)]
pub enum Stream {
    /// Over TCP.
    Tcp(TcpStream),
    /// Over a socket file.
    Unix(UnixStream),
}

impl Stream {
    /// Waits for the next bytes without holding a buffer meanwhile; none at the end of the stream.
    pub(crate) async fn next_bytes(&self) -> io::Result<Bytes> {
        loop {
            match self {
                Self::Tcp(stream) => stream.readable().await?,
                Self::Unix(stream) => stream.readable().await?,
            }
            // A fresh socket counts as readable until a read says otherwise.
            match self.try_next_bytes() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                bytes => return bytes,
            }
        }
    }

    fn try_next_bytes(&self) -> io::Result<Bytes> {
        let mut space = [0; FIRST_BYTES];
        let count = match self {
            Self::Tcp(stream) => stream.try_read(&mut space)?,
            Self::Unix(stream) => stream.try_read(&mut space)?,
        };
        Ok(Bytes::copy_from_slice(&space[..count]))
    }

    fn reader(self: Pin<&mut Self>) -> Pin<&mut (dyn AsyncRead + Unpin)> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream as _),
            Self::Unix(stream) => Pin::new(stream as _),
        }
    }

    fn writer(self: Pin<&mut Self>) -> Pin<&mut (dyn AsyncWrite + Unpin)> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream as _),
            Self::Unix(stream) => Pin::new(stream as _),
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.reader().poll_read(cx, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.writer().poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.writer().poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.writer().poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.writer().poll_shutdown(cx)
    }
}

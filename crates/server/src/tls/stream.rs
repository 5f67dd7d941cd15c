//! An encrypted connection. What the connection code asks of a socket beyond reading and writing is answered by the socket
//! below.

use std::io::{self, IoSlice, Write};
use std::pin::Pin;
use std::task::{Context, Poll};

use rustls::ServerConnection;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// On the heap, so that a plain connection is not as large.
#[derive(Debug)]
pub struct TlsStream(Box<tokio_rustls::server::TlsStream<TcpStream>>);

impl TlsStream {
    pub(crate) fn new(stream: tokio_rustls::server::TlsStream<TcpStream>) -> Self {
        Self(Box::new(stream))
    }

    pub(crate) fn socket(&self) -> &TcpStream {
        self.0.get_ref().0
    }

    /// Encrypts a few bytes and sends them without waiting; whether the socket took them all.
    pub(crate) fn sends_at_once(&mut self, bytes: &[u8]) -> bool {
        let (socket, session) = self.0.get_mut();
        session.writer().write_all(bytes).is_ok() && send_encrypted(socket, session)
    }
}

/// Sends what the session has encrypted without waiting; whether the socket took it all.
fn send_encrypted(socket: &TcpStream, session: &mut ServerConnection) -> bool {
    while session.wants_write() {
        if !matches!(session.write_tls(&mut WithoutWaiting(socket)), Ok(1..)) {
            return false;
        }
    }
    true
}

struct WithoutWaiting<'a>(&'a TcpStream);

impl Write for WithoutWaiting<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Says that this is the end (`close_notify`), unless a part of an answer is still unsent: then it is not.
impl Drop for TlsStream {
    fn drop(&mut self) {
        let (socket, session) = self.0.get_mut();
        if !session.wants_write() {
            session.send_close_notify();
            send_encrypted(socket, session);
        }
    }
}

impl AsyncRead for TlsStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for TlsStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    /// The head and the body of an answer become one record.
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

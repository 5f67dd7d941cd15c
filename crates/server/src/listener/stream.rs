//! A connection as the listener accepts it: over TCP, with or without TLS, or over a Unix socket; and the address that it comes from.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use crate::tls::TlsStream;

/// Bytes read at once by [`Stream::next_bytes`]: enough for most requests of workers.
const FIRST_BYTES: usize = 1024;

/// Less than any receive buffer holds (16 KiB and more): a close behind fewer bytes has arrived.
const MANY_UNREAD_BYTES: usize = 4096;

/// The state of the other side, as the socket shows it without sending anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PeerState {
    /// It may send more.
    Open,
    /// So many of its bytes are unread that its close may not have arrived.
    ManyUnread,
    /// It has closed its sending side. Over TCP this does not show whether it still receives.
    HalfClosed,
    /// It receives nothing any more.
    Closed,
}

#[derive(Debug)]
pub enum Stream {
    Tcp(TcpStream),
    Tls(TlsStream),
    Unix(UnixStream),
}

impl Stream {
    /// Waits for the next bytes without holding a buffer meanwhile; empty at the end of the stream. Nothing of what arrived
    /// is lost when the caller stops to wait.
    pub(crate) async fn next_bytes(&mut self) -> io::Result<Bytes> {
        poll_fn(|context| {
            let mut space = [0; FIRST_BYTES];
            let mut buffer = ReadBuf::new(&mut space);
            let polled = self.reader().poll_read(context, &mut buffer);
            polled.map_ok(|()| Bytes::copy_from_slice(buffer.filled()))
        })
        .await
    }

    /// Returns the state of the other side. A few unread bytes do not hide that it has closed. `context` is that of the task that
    /// reads this stream, in case a read is under way.
    pub(crate) fn peer_state(&self, context: &mut Context<'_>) -> PeerState {
        let ready = async {
            let interest = Interest::READABLE | Interest::WRITABLE;
            match self {
                Self::Tcp(stream) => stream.ready(interest).await,
                Self::Tls(stream) => stream.socket().ready(interest).await,
                Self::Unix(stream) => stream.ready(interest).await,
            }
        };
        match pin!(ready).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(ready)) if ready.is_write_closed() => PeerState::Closed,
            Poll::Ready(Ok(ready)) if ready.is_read_closed() => PeerState::HalfClosed,
            Poll::Ready(Ok(_)) | Poll::Pending if self.has_many_unread(context) => PeerState::ManyUnread,
            Poll::Ready(Ok(_)) | Poll::Pending => PeerState::Open,
            Poll::Ready(Err(_)) => PeerState::Closed,
        }
    }

    /// Never over a Unix socket, whose close does not arrive behind unread bytes.
    fn has_many_unread(&self, context: &mut Context<'_>) -> bool {
        let Some(stream) = self.tcp() else { return false };
        let mut space = [0; MANY_UNREAD_BYTES];
        let mut buffer = ReadBuf::new(&mut space);
        matches!(stream.poll_peek(context, &mut buffer), Poll::Ready(Ok(count)) if count == MANY_UNREAD_BYTES)
    }

    /// Sends a few bytes without waiting. Returns whether the socket took them all.
    pub(crate) fn sends_at_once(&mut self, bytes: &[u8]) -> bool {
        let sent = match self {
            Self::Tcp(stream) => stream.try_write(bytes),
            Self::Tls(stream) => return stream.sends_at_once(bytes),
            Self::Unix(stream) => stream.try_write(bytes),
        };
        sent.is_ok_and(|count| count == bytes.len())
    }

    /// Makes the close drop what is not sent yet, and send a reset to the client.
    pub(crate) fn reset_when_closed(&self) {
        if let Some(stream) = self.tcp()
            && let Err(error) = stream.set_zero_linger()
        {
            tracing::debug!(%error, "a connection is closed with unsent bytes");
        }
    }

    fn tcp(&self) -> Option<&TcpStream> {
        match self {
            Self::Tcp(stream) => Some(stream),
            Self::Tls(stream) => Some(stream.socket()),
            Self::Unix(_) => None,
        }
    }

    pub(crate) fn reader(&mut self) -> Pin<&mut (dyn AsyncRead + Send + Unpin)> {
        match self {
            Self::Tcp(stream) => Pin::new(stream as _),
            Self::Tls(stream) => Pin::new(&mut *stream.0 as _),
            Self::Unix(stream) => Pin::new(stream as _),
        }
    }

    pub(crate) fn writer(&mut self) -> Pin<&mut (dyn AsyncWrite + Send + Unpin)> {
        match self {
            Self::Tcp(stream) => Pin::new(stream as _),
            Self::Tls(stream) => Pin::new(&mut *stream.0 as _),
            Self::Unix(stream) => Pin::new(stream as _),
        }
    }
}

/// The address that a connection comes from, for the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ClientAddress {
    Tcp(SocketAddr),
    /// A process on this machine.
    Unix,
    /// The client has already gone, or there is no connection.
    #[default]
    Unknown,
}

impl ClientAddress {
    pub(crate) fn of(stream: &Stream) -> Self {
        match stream {
            Stream::Tcp(stream) => stream.peer_addr().map_or(Self::Unknown, Self::Tcp),
            Stream::Tls(stream) => stream.socket().peer_addr().map_or(Self::Unknown, Self::Tcp),
            Stream::Unix(_) => Self::Unix,
        }
    }
}

impl fmt::Display for ClientAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix => f.write_str("unix"),
            Self::Unknown => f.write_str("unknown"),
        }
    }
}

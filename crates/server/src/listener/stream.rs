//! A connected socket of either kind, so that everything behind the listener exists once.

use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// Bytes read at once by [`Stream::next_bytes`]: enough for most requests of workers.
const FIRST_BYTES: usize = 1024;

/// Less than any receive buffer holds (16 KiB and more): an end behind fewer bytes has arrived.
const CROWD_BYTES: usize = 4096;

/// What is known of the other side of a connection, without sending it anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// It may send more.
    Open,
    /// So much of it waits to be read that its end may not have arrived.
    Crowding,
    /// It sends nothing more. Over TCP nobody can tell whether it still takes something.
    Ended,
    /// It takes nothing any more.
    Gone,
}

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

    /// What is known of the other side. A few bytes that nobody has read yet do not hide that it has ended. `context` is
    /// that of whoever reads this stream, in case somebody does at this moment.
    pub(crate) fn peer(&self, context: &mut Context<'_>) -> Peer {
        let ready = async {
            let interest = Interest::READABLE | Interest::WRITABLE;
            match self {
                Self::Tcp(stream) => stream.ready(interest).await,
                Self::Unix(stream) => stream.ready(interest).await,
            }
        };
        match pin!(ready).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(ready)) if ready.is_write_closed() => Peer::Gone,
            Poll::Ready(Ok(ready)) if ready.is_read_closed() => Peer::Ended,
            Poll::Ready(Ok(_)) | Poll::Pending if self.has_unread(CROWD_BYTES, context) => Peer::Crowding,
            Poll::Ready(Ok(_)) | Poll::Pending => Peer::Open,
            Poll::Ready(Err(_)) => Peer::Gone,
        }
    }

    /// Whether at least so many bytes wait to be read. Never over a Unix socket, whose end does not come behind them.
    fn has_unread(&self, bytes: usize, context: &mut Context<'_>) -> bool {
        let Self::Tcp(stream) = self else { return false };
        let mut space = [0; CROWD_BYTES];
        let mut buffer = ReadBuf::new(&mut space);
        matches!(stream.poll_peek(context, &mut buffer), Poll::Ready(Ok(count)) if count >= bytes)
    }

    /// Sends bytes that are few enough to leave at once; whether they did.
    pub(crate) fn sends_at_once(&self, bytes: &[u8]) -> bool {
        let sent = match self {
            Self::Tcp(stream) => stream.try_write(bytes),
            Self::Unix(stream) => stream.try_write(bytes),
        };
        sent.is_ok_and(|count| count == bytes.len())
    }

    /// What was not sent when this is closed is forgotten, and the client is told of a reset.
    pub(crate) fn reset_when_closed(&self) {
        if let Self::Tcp(stream) = self
            && let Err(error) = stream.set_zero_linger()
        {
            tracing::debug!(%error, "a connection is closed with bytes on their way");
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

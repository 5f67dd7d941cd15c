//! The thin layer between hyper and the socket that notes what the connection is doing.
//! It also keeps back the bare answers that hyper writes by itself to what is not HTTP; ours replace them.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use super::READ_BUFFER_BYTES;
use super::activity::SharedActivity;
use super::client_check::Step;
use crate::listener::Stream;
use crate::memory_budget::{Budgets, Reservation};

/// An interim answer that says nothing. Who did not ask for it ignores it (RFC 9110, section 15.2.1).
const PROBE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// What is read at once. Hyper makes its buffer larger, up to 128 KiB, when reads fill it; the first piece of a body would
/// then be that large before anybody has asked whether there is room for it.
const READ_BYTES: usize = 8 * 1024 - 1;
/// A head of this size fits into the first buffer of the HTTP layer.
const SMALL_HEAD_BYTES: usize = 8 * 1024;
/// What a larger one may take: the buffer it is read into, and the smaller one it is copied from while that grows.
const LARGE_HEAD_BYTES: usize = 2 * READ_BUFFER_BYTES;

/// A socket under observation.
pub(super) struct Io {
    pub(super) stream: Stream,
    pub(super) activity: SharedActivity,
    /// Bytes that were read from the socket before and have yet to be looked at.
    unread: Bytes,
    budgets: Arc<Budgets>,
    /// What has arrived of the head of the request under way.
    head_bytes: usize,
    /// The share of a large head, until its request is answered.
    head_share: Option<Reservation>,
}

impl Io {
    pub(super) fn new(stream: Stream, budgets: Arc<Budgets>) -> Self {
        let (activity, unread) = (SharedActivity::new(Instant::now()), Bytes::new());
        Self { stream, activity, unread, budgets, head_bytes: 0, head_share: None }
    }

    /// What requests and answers may hold.
    pub(super) fn budgets(&self) -> Arc<Budgets> {
        Arc::clone(&self.budgets)
    }

    /// Gives back bytes that were read too early. They are the beginning of a request head, and come before those that
    /// were given back earlier and that nobody has looked at since.
    pub(super) fn unread(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.activity.get().bytes_arrived(Instant::now());
            self.unread = if self.unread.is_empty() { bytes } else { [bytes, self.take_unread()].concat().into() };
        }
    }

    /// Takes them away again.
    pub(super) fn take_unread(&mut self) -> Bytes {
        std::mem::take(&mut self.unread)
    }

    /// Whether bytes wait that the socket no longer has.
    pub(super) fn has_unread(&self) -> bool {
        !self.unread.is_empty()
    }

    /// Whether what is to be written is a refusal of hyper's own; it is noted instead of written.
    fn keeps_back(&self, answer: &[u8]) -> bool {
        let mut activity = self.activity.get();
        if activity.is_answering() {
            return false;
        }
        activity.refused(answer);
        true
    }

    /// Looks whether the client of the read under way has gone, if it is time for that.
    fn look_for_client(&self, context: &mut Context<'_>) {
        let mut activity = self.activity.get();
        let Some(read) = activity.read_to_look_at() else { return };
        let probes = read.look(self.stream.peer(context), Instant::now()) == Step::Probe;
        // Who has not even taken its earlier answers and has ended its stream is not waited for.
        if probes && !self.stream.sends_at_once(PROBE) {
            read.client_goes();
        }
    }

    fn note_write(&self, written: &Poll<io::Result<usize>>) {
        match written {
            Poll::Ready(Ok(bytes)) => self.activity.get().wrote(*bytes, Instant::now()),
            Poll::Pending => self.activity.get().wrote(0, Instant::now()),
            Poll::Ready(Err(_)) => {}
        }
    }

    /// Notes bytes that were read. A head that grows large needs room: the HTTP layer keeps it until it is complete, and
    /// the handler until it has answered.
    fn note_read(&mut self, bytes: usize) -> io::Result<()> {
        let in_head = {
            let mut activity = self.activity.get();
            activity.bytes_arrived(Instant::now());
            activity.is_in_head()
        };
        if !in_head {
            return Ok(());
        }
        self.head_bytes += bytes;
        if self.head_bytes > SMALL_HEAD_BYTES && self.head_share.is_none() {
            self.head_share = self.budgets.heads.try_take(LARGE_HEAD_BYTES);
            if self.head_share.is_none() {
                self.activity.get().refuse_for_room();
                return Err(io::ErrorKind::OutOfMemory.into());
            }
        }
        Ok(())
    }

    /// Nothing of a request is left.
    pub(super) fn forget_head(&mut self) {
        self.head_bytes = 0;
        self.head_share = None;
    }
}

impl AsyncRead for Io {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.has_unread() {
            let count = self.unread.len().min(buffer.remaining());
            buffer.put_slice(&self.unread[..count]);
            self.unread.advance(count);
            return Poll::Ready(Ok(()));
        }
        let most = READ_BYTES.min(buffer.remaining());
        let mut part = ReadBuf::new(buffer.initialize_unfilled_to(most));
        let polled = Pin::new(&mut self.stream).poll_read(cx, &mut part);
        let read = part.filled().len();
        buffer.advance(read);
        if read > 0 {
            self.note_read(read)?;
        }
        polled
    }
}

impl AsyncWrite for Io {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.keeps_back(bytes) {
            return Poll::Ready(Ok(bytes.len()));
        }
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.note_write(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.keeps_back(slices.first().map_or(&[], |slice| slice)) {
            return Poll::Ready(Ok(slices.iter().map(|slice| slice.len()).sum()));
        }
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.note_write(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Hyper flushes the socket at each of its turns, and only when it has handed over everything it had: nothing can
        // get between the parts of an answer here.
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        if let Poll::Ready(Ok(())) = flushed {
            let idle = {
                let mut activity = self.activity.get();
                activity.flushed(Instant::now());
                activity.is_idle()
            };
            if idle {
                self.forget_head();
            }
            self.look_for_client(cx);
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    #[tokio::test]
    async fn what_is_given_back_comes_before_what_was_given_back_earlier() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let mut io = Io::new(Stream::Tcp(client), Arc::default());
        io.unread(Bytes::from_static(b"abcdef"));
        let (mut space, mut context) = ([0; 4], Context::from_waker(std::task::Waker::noop()));
        let mut buffer = ReadBuf::new(&mut space);
        assert!(Pin::new(&mut io).poll_read(&mut context, &mut buffer).is_ready());
        assert_eq!(buffer.filled(), b"abcd");
        io.unread(Bytes::from_static(b"cd"));
        assert_eq!(io.take_unread(), "cdef");
    }
}

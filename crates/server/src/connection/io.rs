//! The layer between hyper and the socket that tracks what the connection is doing. It also holds back the responses that
//! hyper writes by itself to what is not HTTP; `ends.rs` replaces them.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use super::activity::{Activity, NextStep, Phase, SharedActivity};
use crate::listener::Stream;
use crate::memory_budget::{Budgets, Reservation};

/// Largest request head, and how much of a body is read at once. The longest URI of the contract (a filter and a
/// cursor, percent-encoded) takes 72 KiB.
pub(super) const READ_BUFFER_BYTES: usize = 128 * 1024;
/// An interim response without content. A client that did not ask for it ignores it (RFC 9110, section 15.2.1).
const PROBE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// How much is read at once. Hyper enlarges its buffer, up to 128 KiB, when reads fill it; the first piece of a body would
/// then be that large before memory for it was reserved.
const READ_BYTES: usize = 8 * 1024 - 1;

thread_local! {
    /// Where reads arrive. Hyper's buffer is larger, and a part of it could not be lent without filling it with zeros at every read.
    static ARRIVED: RefCell<[u8; READ_BYTES]> = const { RefCell::new([0; READ_BYTES]) };
}
/// A head of this size fits into the first buffer of the HTTP layer.
const SMALL_HEAD_BYTES: usize = 8 * 1024;
/// The most that a larger one takes: the buffer it is read into, and the smaller one it is copied from while that grows.
const LARGE_HEAD_BYTES: usize = 2 * READ_BUFFER_BYTES;

pub(super) struct ConnectionIo {
    pub(super) stream: Stream,
    pub(super) activity: SharedActivity,
    /// Bytes that were read from the socket and given back; they are read again first.
    unread: Bytes,
    budgets: Arc<Budgets>,
    /// How much of the head of the current request has arrived.
    head_bytes: usize,
    /// For a large head, until its request is answered.
    head_reservation: Option<Reservation>,
    /// The status with which hyper refused what it read, or 503 where there was no room for a head.
    pub(super) refused_status: Option<u16>,
    /// True if hyper refused it because of its target.
    pub(super) has_invalid_target: bool,
}

impl ConnectionIo {
    pub(super) fn new(stream: Stream, budgets: Arc<Budgets>) -> Self {
        let (activity, unread) = (Arc::new(Mutex::new(Activity::new(Instant::now()))), Bytes::new());
        let (head_bytes, head_reservation, refused_status, has_invalid_target) = (0, None, None, false);
        Self { stream, activity, unread, budgets, head_bytes, head_reservation, refused_status, has_invalid_target }
    }

    pub(super) fn budgets(&self) -> Arc<Budgets> {
        Arc::clone(&self.budgets)
    }

    /// Gives back bytes that were read too early. They are the beginning of a request head, and come before bytes that were
    /// given back earlier and not read since.
    pub(super) fn unread(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.activity.lock().bytes_arrived(Instant::now);
            self.unread = if self.unread.is_empty() { bytes } else { [bytes, self.take_unread()].concat().into() };
        }
    }

    pub(super) fn take_unread(&mut self) -> Bytes {
        std::mem::take(&mut self.unread)
    }

    pub(super) fn has_unread(&self) -> bool {
        !self.unread.is_empty()
    }

    /// Returns whether hyper writes a refusal of its own, not the response of a handler. Its status is noted instead.
    fn holds_back(&mut self, response: &[u8]) -> bool {
        let is_refusal = !self.activity.lock().has_request();
        if is_refusal {
            self.refused_status = self.refused_status.or_else(|| status_of(response));
        }
        is_refusal
    }

    /// Checks whether the client of the current read is still connected, if that is due.
    fn check_client(&mut self, context: &mut Context<'_>) {
        let Self { activity, stream, .. } = self;
        let mut activity = activity.lock();
        let Some(check) = activity.due_client_check() else { return };
        let step = check.check(stream.peer_state(context), Instant::now());
        // A client that has closed its sending side and has not even taken its earlier responses counts as disconnected.
        if step == NextStep::Probe && !stream.sends_at_once(PROBE) {
            check.has_disconnected = true;
        }
    }

    fn note_write(&self, written: &Poll<io::Result<usize>>) {
        match written {
            Poll::Ready(Ok(bytes)) => self.activity.lock().wrote(*bytes, Instant::now),
            Poll::Pending => self.activity.lock().wrote(0, Instant::now),
            Poll::Ready(Err(_)) => {}
        }
    }

    /// Notes bytes that were read. Memory is reserved for a head that grows large: hyper holds it until it is complete, and
    /// the handler until it has answered.
    fn note_read(&mut self, bytes: usize) -> io::Result<()> {
        let phase = {
            let mut activity = self.activity.lock();
            activity.bytes_arrived(Instant::now);
            activity.phase
        };
        if phase != Phase::Head {
            return Ok(());
        }
        self.head_bytes += bytes;
        if self.head_bytes > SMALL_HEAD_BYTES && self.head_reservation.is_none() {
            self.head_reservation = self.budgets.heads.try_reserve(LARGE_HEAD_BYTES);
            if self.head_reservation.is_none() {
                self.refused_status = Some(503);
                return Err(io::ErrorKind::OutOfMemory.into());
            }
        }
        Ok(())
    }

    pub(super) fn free_head(&mut self) {
        self.head_bytes = 0;
        self.head_reservation = None;
    }
}

/// Returns the status of a response that begins with these bytes.
fn status_of(response: &[u8]) -> Option<u16> {
    let rest = response.strip_prefix(b"HTTP/1.1 ").or_else(|| response.strip_prefix(b"HTTP/1.0 "))?;
    std::str::from_utf8(rest.get(..3)?).ok()?.parse().ok()
}

impl AsyncRead for ConnectionIo {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.has_unread() {
            let count = self.unread.len().min(buffer.remaining());
            buffer.put_slice(&self.unread[..count]);
            self.unread.advance(count);
            return Poll::Ready(Ok(()));
        }
        ARRIVED.with_borrow_mut(|arrived| {
            let most = READ_BYTES.min(buffer.remaining());
            let mut part = ReadBuf::new(&mut arrived[..most]);
            let polled = self.stream.reader().poll_read(cx, &mut part);
            let read = part.filled();
            buffer.put_slice(read);
            if !read.is_empty() {
                self.note_read(read.len())?;
            }
            polled
        })
    }
}

impl AsyncWrite for ConnectionIo {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.holds_back(bytes) {
            return Poll::Ready(Ok(bytes.len()));
        }
        let written = self.stream.writer().poll_write(cx, bytes);
        self.note_write(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.holds_back(slices.first().map_or(&[], |slice| slice)) {
            return Poll::Ready(Ok(slices.iter().map(|slice| slice.len()).sum()));
        }
        let written = self.stream.writer().poll_write_vectored(cx, slices);
        self.note_write(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Hyper flushes the socket each time it is polled, but only when it has written all of its bytes: a probe that is
        // sent here does not get between the parts of a response.
        let flushed = self.stream.writer().poll_flush(cx);
        if flushed.is_pending() {
            // Over TLS the last record of a response may wait in memory for a client that takes nothing.
            self.activity.lock().wrote(0, Instant::now);
        }
        if let Poll::Ready(Ok(())) = flushed {
            let phase = {
                let mut activity = self.activity.lock();
                activity.flushed(Instant::now);
                activity.phase
            };
            if phase == Phase::Idle {
                self.free_head();
            }
            self.check_client(cx);
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.writer().poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    async fn connected() -> ConnectionIo {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        ConnectionIo::new(Stream::Tcp(client), Arc::default())
    }

    #[tokio::test]
    async fn what_is_given_back_comes_before_what_was_given_back_earlier() {
        let mut io = connected().await;
        io.unread(Bytes::from_static(b"abcdef"));
        let (mut space, mut context) = ([0; 4], Context::from_waker(std::task::Waker::noop()));
        let mut buffer = ReadBuf::new(&mut space);
        assert!(Pin::new(&mut io).poll_read(&mut context, &mut buffer).is_ready());
        assert_eq!(buffer.filled(), b"abcd");
        io.unread(Bytes::from_static(b"cd"));
        assert_eq!(io.take_unread(), "cdef");
    }

    #[tokio::test]
    async fn the_status_of_a_refusal_of_the_http_layer_is_remembered() {
        let cases: [(&[u8], Option<u16>); 4] = [
            (b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n", Some(400)),
            (b"HTTP/1.0 431 Request Header Fields Too Large\r\n", Some(431)),
            (b"HTTP/1.1 4", None),
            (b"", None),
        ];
        for (answer, status) in cases {
            let mut io = connected().await;
            assert!(io.holds_back(answer));
            assert_eq!(io.refused_status, status);
        }
    }
}

//! The end of a connection: the envelope for what was not HTTP, and a close that does not destroy the last answer.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;

use taskqueue_api::ErrorCode;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::select;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::Stop;
use super::io::Io;
use crate::config::Timeouts;
use crate::error::NO_ROOM;
use crate::listener::Stream;

/// Bytes that a client may still send behind its last answer: a body of the size that gets 413, a few times over.
const LINGER_BYTES: usize = 16 * 1_048_576;

/// Ends a connection whose last answer is out.
///
/// A socket that is closed while the client still sends resets the connection, and the reset may overtake the
/// answer (a 413, say). So: no more from our side, then read and forget until the client is done too.
pub(super) async fn linger(mut io: Io, timeouts: &Timeouts, stop: &mut watch::Receiver<Stop>) {
    let unread = io.take_unread();
    let refused = Refusal::of(io.activity.get().refused_status(), &unread);
    let goodbye = async {
        if let Some(refusal) = refused {
            write_all(&mut io.stream, refusal.answer().as_bytes()).await?;
        }
        poll_fn(|cx| Pin::new(&mut io.stream).poll_shutdown(cx)).await?;
        let mut forgotten = 0;
        while forgotten < LINGER_BYTES {
            match timeout(timeouts.linger, read_some(&mut io.stream)).await {
                Ok(Ok(count @ 1..)) => forgotten += count,
                _ => break,
            }
        }
        Ok::<(), io::Error>(())
    };
    // However slowly a client may trickle, it does not hold its place longer than one that is slow in taking answers.
    select! {
        _ = goodbye => {}
        _ = stop.wait_for(|stop| *stop != Stop::Run) => {}
        () = sleep(timeouts.write) => {}
    }
}

/// How HTTP/2 begins when a client takes it for granted (RFC 9113, section 3.4). Hyper has no answer to it.
const HTTP_2: &[u8] = b"PRI * HTTP/2.0";

/// How TLS begins: a handshake record of version 3.
const TLS: &[u8] = b"\x16\x03";

/// An answer to what no handler ever saw.
struct Refusal {
    status: u16,
    reason: &'static str,
    code: ErrorCode,
    message: &'static str,
}

impl Refusal {
    /// The refusal of what was read last, if it was refused: `status` is hyper's, or 503 where there was no room; `unread` is
    /// where it gave up.
    fn of(status: Option<u16>, unread: &[u8]) -> Option<Self> {
        let bad_request = |message| ("Bad Request", ErrorCode::InvalidRequest, message);
        let (status, (reason, code, message)) = match status? {
            503 => (503, ("Service Unavailable", ErrorCode::DatabaseBusy, NO_ROOM)),
            _ if unread.starts_with(HTTP_2) => {
                let message = "this server speaks HTTP/1.1, not HTTP/2; tell the client to use HTTP/1.1";
                (400, bad_request(message))
            }
            _ if unread.starts_with(TLS) => {
                let message =
                    "this server speaks plain HTTP, not TLS; use http://, or put a proxy with TLS in front of it";
                (400, bad_request(message))
            }
            414 => (414, ("URI Too Long", ErrorCode::InvalidRequest, "the request target is too long")),
            431 => {
                (431, ("Request Header Fields Too Large", ErrorCode::InvalidRequest, "the request head is too large"))
            }
            status => (status, bad_request("the request is not valid HTTP/1.1")),
        };
        Some(Self { status, reason, code, message })
    }

    /// The whole answer, in the error envelope of the contract.
    fn answer(&self) -> String {
        let Self { status, reason, code, message } = self;
        let body = format!(r#"{{"error":{{"code":"{code}","message":"{message}","details":{{}}}}}}"#);
        let (length, retry) = (body.len(), if *status == 503 { "retry-after: 1\r\n" } else { "" });
        format!(
            "HTTP/1.1 {status} {reason}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
             {retry}connection: close\r\n\r\n{body}"
        )
    }
}

async fn write_all(stream: &mut Stream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match poll_fn(|cx| Pin::new(&mut *stream).poll_write(cx, bytes)).await? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            count => bytes = &bytes[count..],
        }
    }
    Ok(())
}

/// Reads some bytes and forgets them; 0 at the end.
async fn read_some(stream: &mut Stream) -> io::Result<usize> {
    let mut space = [0; 4096];
    let mut buffer = ReadBuf::new(&mut space);
    poll_fn(|cx| Pin::new(&mut *stream).poll_read(cx, &mut buffer)).await?;
    Ok(buffer.filled().len())
}

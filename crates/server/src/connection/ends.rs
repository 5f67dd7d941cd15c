//! The two ends of a connection. At the beginning of one to a listener with TLS: the handshake, or an answer to a client that speaks plain
//! HTTP; until its first byte arrives, such a connection holds no buffers either. At the end: the error envelope for what was not HTTP,
//! and a close that does not destroy the last response.

use std::io;

use taskqueue_api::ErrorCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::select;
use tokio::time::{sleep, timeout};

use super::handler::{Handler, Orders, StopSignal};
use super::io::ConnectionIo;
use crate::config::Timeouts;
use crate::error::{HOLD_BUSY, NO_ROOM};
use crate::listener::{ClientAddress, Stream};
use crate::tls::{Tls, TlsStream};

/// How much a client may still send after its last response: a body of the size that gets 413, a few times over.
const LINGER_BYTES: usize = 16 * 1_048_576;

/// Closes a connection whose last response is sent, or answers what was refused before there was one.
pub(super) async fn linger(mut io: ConnectionIo, handler: &impl Handler, timeouts: &Timeouts, stop: &mut Orders) {
    let refusal = Refusal::new(io.refused_status, io.has_invalid_target, &io.take_unread());
    if let Some(Refusal { status, code, .. }) = refusal {
        handler.refused(status, code);
        if code == ErrorCode::DatabaseBusy {
            sleep(HOLD_BUSY).await;
        }
    }
    let last_response = refusal.map(|refusal| refusal.response()).unwrap_or_default();
    close_in_order(io.stream, &last_response, timeouts, stop).await;
}

/// Sends a last response, if there is one, and closes the connection.
///
/// Closing a socket while the client still sends resets the connection, and the reset may overtake the response (a 413,
/// for example). So only the sending side is closed, and what the client sends is read and dropped until it closes too.
pub(super) async fn close_in_order(mut stream: Stream, last_response: &str, timeouts: &Timeouts, stop: &mut Orders) {
    let closing = async {
        stream.writer().write_all(last_response.as_bytes()).await?;
        stream.writer().shutdown().await?;
        let (mut dropped, mut buffer) = (0, [0; 4096]);
        while dropped < LINGER_BYTES {
            match timeout(timeouts.linger, stream.reader().read(&mut buffer)).await {
                Ok(Ok(count @ 1..)) => dropped += count,
                _ => break,
            }
        }
        Ok::<(), io::Error>(())
    };
    // A client that sends slowly does not hold its connection longer than one that takes its response slowly.
    select! {
        _ = closing => {}
        _ = stop.wait_for(|stop| *stop != StopSignal::None) => {}
        () = sleep(timeouts.write) => {}
    }
}

/// How HTTP/2 begins without negotiation (RFC 9113, section 3.4). Hyper does not answer it.
const HTTP_2: &[u8] = b"PRI * HTTP/2.0";

/// How TLS begins: a handshake record of version 3.
const TLS: &[u8] = b"\x16\x03";

const ENCODE_TARGET: &str = "the request target has characters that must be percent-encoded; encode the query, for example \
    with curl -G --data-urlencode 'filter=priority >= 0'";

/// The response to bytes that never reached a handler.
pub(super) struct Refusal {
    pub(super) status: u16,
    reason: &'static str,
    pub(super) code: ErrorCode,
    message: &'static str,
}

impl Refusal {
    /// Describes why a request was refused, if it was: `status` is hyper's, or 503 where there was no room. The request is at
    /// the beginning of `unread`, unless only its target was wrong: then hyper has taken its head.
    fn new(status: Option<u16>, has_invalid_target: bool, unread: &[u8]) -> Option<Self> {
        let bad_request = |message| ("Bad Request", ErrorCode::InvalidRequest, message);
        let (status, (reason, code, message)) = match status? {
            503 => (503, ("Service Unavailable", ErrorCode::DatabaseBusy, NO_ROOM)),
            _ if unread.starts_with(HTTP_2) => {
                let message = "this server speaks HTTP/1.1, not HTTP/2; tell the client to use HTTP/1.1";
                (400, bad_request(message))
            }
            _ if unread.starts_with(TLS) => {
                let message = "this server speaks plain HTTP, not TLS; use http://, or start the server with --tls-cert and --tls-key";
                (400, bad_request(message))
            }
            414 => (414, ("URI Too Long", ErrorCode::InvalidRequest, "the request target is too long")),
            431 => {
                (431, ("Request Header Fields Too Large", ErrorCode::InvalidRequest, "the request head is too large"))
            }
            status if has_invalid_target || has_blank_in_target(unread) => (status, bad_request(ENCODE_TARGET)),
            status => (status, bad_request("the request is not valid HTTP/1.1")),
        };
        Some(Self { status, reason, code, message })
    }

    /// Returns the answer to a client that speaks plain HTTP to a port with TLS.
    pub(super) fn without_tls() -> Self {
        let message = "this port speaks TLS, not plain HTTP; use https:// instead of http://";
        Self { status: 400, reason: "Bad Request", code: ErrorCode::InvalidRequest, message }
    }

    /// Returns the whole response, with the error envelope of the contract.
    pub(super) fn response(&self) -> String {
        let Self { status, reason, code, message } = self;
        let body = format!(r#"{{"error":{{"code":"{code}","message":"{message}","details":{{}}}}}}"#);
        let (length, retry) = (body.len(), if *status == 503 { "retry-after: 1\r\n" } else { "" });
        format!(
            "HTTP/1.1 {status} {reason}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
             {retry}connection: close\r\n\r\n{body}"
        )
    }
}

/// Returns whether something else than a version follows the first blank behind a target.
fn has_blank_in_target(head: &[u8]) -> bool {
    let line = head.split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
    let mut parts = line.splitn(3, |byte| *byte == b' ').skip(1);
    let (Some(target), Some(rest)) = (parts.next(), parts.next()) else { return false };
    (target.starts_with(b"/") || target.starts_with(b"http://")) && !rest.starts_with(b"HTTP/")
}

/// The first byte of every TLS connection: the type of a handshake record. No request of HTTP begins with it.
const HANDSHAKE_RECORD: u8 = 0x16;

/// How a connection began.
enum TlsBeginning {
    Encrypted(TlsStream),
    /// Something else than TLS was sent.
    NotTls(TcpStream),
    /// The client has closed the connection before it sent anything, as port checks do.
    Ended,
    /// The text says why there is no encryption. The alert that tells the client is sent.
    Failed(TcpStream, String),
}

/// Makes the handshake; `None` when the connection has ended with it. From the first moment on it counts like any other
/// idle connection: it is closed for a new one when there are too many.
pub(crate) async fn open_tls(
    tls: &Tls,
    stream: Stream,
    handler: &impl Handler,
    timeouts: &Timeouts,
    stop: &mut Orders,
) -> Option<Stream> {
    let client = ClientAddress::of(&stream);
    let Stream::Tcp(socket) = stream else { return Some(stream) };
    let beginning = select! {
        biased;
        beginning = begin_tls(tls, socket) => beginning,
        _ = stop.wait_for(|stop| *stop != StopSignal::None) => return None,
        () = sleep(timeouts.handshake) => {
            tls.failures.note(client, "the client was too slow");
            return None;
        }
    };
    match beginning {
        TlsBeginning::Encrypted(stream) => return Some(Stream::Tls(stream)),
        TlsBeginning::NotTls(socket) => {
            let refusal = Refusal::without_tls();
            handler.refused(refusal.status, refusal.code);
            close_in_order(Stream::Tcp(socket), &refusal.response(), timeouts, stop).await;
        }
        TlsBeginning::Ended => {}
        TlsBeginning::Failed(socket, reason) => {
            tls.failures.note(client, &reason);
            close_in_order(Stream::Tcp(socket), "", timeouts, stop).await;
        }
    }
    None
}

async fn begin_tls(tls: &Tls, socket: TcpStream) -> TlsBeginning {
    let mut first = [0];
    match socket.peek(&mut first).await {
        Ok(1) if first[0] == HANDSHAKE_RECORD => {}
        Ok(1) => return TlsBeginning::NotTls(socket),
        _ => return TlsBeginning::Ended,
    }
    match Box::pin(tls.accept(socket).into_fallible()).await {
        Ok(stream) => TlsBeginning::Encrypted(TlsStream(Box::new(stream))),
        Err((error, socket)) => TlsBeginning::Failed(socket, error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blank_in_a_target_is_told_from_other_nonsense() {
        let cases: [(&[&str], bool); 4] = [
            (&["GET /?filter=a == 1 HTTP/1.1\r\nhost: x\r\n\r\n", "GET /a b"], true),
            (&["GET http://host/a b HTTP/1.1\r\n"], true),
            (&["GET /a HTTP/1.1\r\nx: a b c\r\n", "GET /a HTTP/3.0\r\n\r\n", "GET /a\r\nb c d\r\n"], false),
            (&["not HTTP at all\r\n", ""], false),
        ];
        for (heads, expected) in cases {
            for head in heads {
                assert_eq!(has_blank_in_target(head.as_bytes()), expected, "{head:?}");
            }
        }
    }
}

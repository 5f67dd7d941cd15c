//! The beginning of a connection to a listener with TLS: the handshake, or an answer to a client that speaks plain HTTP.
//! Until its first byte arrives, such a connection holds no buffers either.

use tokio::net::TcpStream;
use tokio::select;
use tokio::sync::watch;
use tokio::time::sleep;

use super::client_address::ClientAddress;
use super::close::{self, Refusal};
use super::{Handler, StopSignal};
use crate::config::Timeouts;
use crate::listener::Stream;
use crate::tls::{Tls, TlsStream};

/// The first byte of every TLS connection: the type of a handshake record. No request of HTTP begins with it.
const HANDSHAKE_RECORD: u8 = 0x16;

/// How a connection began.
enum Beginning {
    Encrypted(TlsStream),
    /// Something else than TLS was sent.
    NotTls(TcpStream),
    /// The client has closed the connection before it sent anything, as port checks do.
    Nothing,
    /// The text says why there is no encryption. The alert that tells the client is sent.
    Failed(TcpStream, String),
}

/// Makes the handshake; nothing when the connection has ended with it. From the first moment on it counts like any other
/// idle connection: it is closed for a new one when there are too many.
pub(crate) async fn open(
    tls: &Tls,
    stream: Stream,
    handler: &impl Handler,
    timeouts: &Timeouts,
    stop: &mut watch::Receiver<StopSignal>,
) -> Option<Stream> {
    let client = ClientAddress::of(&stream);
    let Stream::Tcp(socket) = stream else { return Some(stream) };
    let beginning = select! {
        biased;
        beginning = begin(tls, socket) => beginning,
        _ = stop.wait_for(|stop| *stop != StopSignal::None) => return None,
        () = sleep(timeouts.handshake) => {
            tls.failures.note(client, "the client was too slow");
            return None;
        }
    };
    match beginning {
        Beginning::Encrypted(stream) => return Some(Stream::Tls(stream)),
        Beginning::NotTls(socket) => {
            let refusal = Refusal::without_tls();
            handler.refused(refusal.status, refusal.code);
            close::close_in_order(Stream::Tcp(socket), &refusal.response(), timeouts, stop).await;
        }
        Beginning::Nothing => {}
        Beginning::Failed(socket, reason) => {
            tls.failures.note(client, &reason);
            close::close_in_order(Stream::Tcp(socket), "", timeouts, stop).await;
        }
    }
    None
}

async fn begin(tls: &Tls, socket: TcpStream) -> Beginning {
    let mut first = [0];
    match socket.peek(&mut first).await {
        Ok(1) if first[0] == HANDSHAKE_RECORD => {}
        Ok(1) => return Beginning::NotTls(socket),
        _ => return Beginning::Nothing,
    }
    match Box::pin(tls.accept(socket).into_fallible()).await {
        Ok(stream) => Beginning::Encrypted(TlsStream::new(stream)),
        Err((error, socket)) => Beginning::Failed(socket, error.to_string()),
    }
}

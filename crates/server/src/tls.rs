//! TLS of a listener: which versions are spoken, the certificate that is shown, which can be exchanged while connections are open, the
//! encrypted stream, and the log of failed handshakes. Files are read by the command line; a handshake is made in `connection/ends.rs`.

mod identity;

use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::{Mutex, RwLock};
use rustls::crypto::ring;
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use rustls::{ServerConfig, ServerConnection};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::{TlsAcceptor, server};
use tracing::{debug, info};

pub use self::identity::{Identity, IdentityError, Validity};
use crate::throttled_line::ThrottledLine;

/// The only protocol behind the encryption. Clients that name none get it, too.
const HTTP_1: &[u8] = b"http/1.1";

/// How much of an answer is encrypted ahead of a client that does not take it: one record of the largest size, so that
/// what the client has taken is known as exactly as over plain HTTP.
const SEND_BUFFER_BYTES: usize = 16 * 1024;

/// The TLS of a server. Clones share their certificate.
#[derive(Clone)]
pub struct Tls {
    acceptor: TlsAcceptor,
    shown: Arc<ShownIdentity>,
    pub(crate) failures: Arc<FailureLog>,
}

impl Tls {
    /// TLS 1.2 and 1.3 with this identity.
    ///
    /// Sessions are not resumed: clients of this server keep their connections, and each new one costs the server a
    /// signature, but no memory between connections and no ticket that outlives its certificate.
    pub fn new(identity: Identity) -> Result<Self, IdentityError> {
        let shown = Arc::new(ShownIdentity(RwLock::new(identity)));
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_protocol_versions(&[&TLS13, &TLS12]);
        let builder = builder.map_err(|error| IdentityError::Key(error.to_string()))?;
        let mut config = builder.with_no_client_auth().with_cert_resolver(shown.clone());
        config.alpn_protocols = vec![HTTP_1.to_vec()];
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Self { acceptor: Arc::new(config).into(), shown, failures: Arc::default() })
    }

    /// Shows another identity from the next handshake on. Open connections go on.
    pub fn replace(&self, identity: Identity) {
        *self.shown.0.write() = identity;
    }

    /// Returns for how many seconds the certificate that is shown is valid; below 0 if it has expired.
    pub(crate) fn expires_in_seconds(&self, now: SystemTime) -> f64 {
        self.shown.0.read().expires_in_seconds(now)
    }

    pub(crate) fn accept(&self, stream: TcpStream) -> tokio_rustls::Accept<TcpStream> {
        let limit = |session: &mut ServerConnection| session.set_buffer_limit(Some(SEND_BUFFER_BYTES));
        self.acceptor.accept_with(stream, limit)
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

/// The identity that is shown to the next client, whatever name it asks for: one server has one name for its clients, and a
/// client that meant another sees that from the certificate.
#[derive(Debug)]
struct ShownIdentity(RwLock<Identity>);

impl ResolvesServerCert for ShownIdentity {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.read().certified_key())
    }
}

/// An encrypted connection. What the connection code asks of a socket beyond reading and writing is answered by the socket below. It is
/// on the heap, so that a plain connection is not as large.
#[derive(Debug)]
pub struct TlsStream(pub(crate) Box<server::TlsStream<TcpStream>>);

impl TlsStream {
    pub(crate) fn new(stream: server::TlsStream<TcpStream>) -> Self {
        Self(Box::new(stream))
    }

    pub(crate) fn socket(&self) -> &TcpStream {
        self.0.get_ref().0
    }

    /// Encrypts a few bytes and sends them without waiting. Returns whether the socket took them all.
    pub(crate) fn sends_at_once(&mut self, bytes: &[u8]) -> bool {
        let (socket, session) = self.0.get_mut();
        session.writer().write_all(bytes).is_ok() && send_encrypted(socket, session)
    }
}

/// Sends what the session has encrypted without waiting. Returns whether the socket took it all.
fn send_encrypted(socket: &TcpStream, session: &mut ServerConnection) -> bool {
    while session.wants_write() {
        if !matches!(session.write_tls(&mut NonBlockingSocket(socket)), Ok(1..)) {
            return false;
        }
    }
    true
}

struct NonBlockingSocket<'a>(&'a TcpStream);

impl Write for NonBlockingSocket<'_> {
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

/// Failed handshakes in the log. Everybody who reaches the port can cause them, so each one alone is worth a debug line only.
#[derive(Debug, Default)]
pub(crate) struct FailureLog(Mutex<ThrottledLine>);

impl FailureLog {
    pub(crate) fn note(&self, client: impl fmt::Display, reason: &str) {
        let unlogged = self.0.lock().count(Instant::now());
        match unlogged {
            Some(earlier) => info!(%client, reason, earlier, "a TLS handshake failed"),
            None => debug!(%client, reason, "a TLS handshake failed"),
        }
    }
}

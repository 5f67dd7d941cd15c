//! TLS of a listener: which versions are spoken, and the certificate that is shown, which can be exchanged while connections
//! are open. Files are read by the command line; a handshake is made in `connection/handshake.rs`.

mod failure_log;
mod identity;
mod stream;

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

use rustls::crypto::ring;
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use rustls::{ServerConfig, ServerConnection};
use tokio_rustls::TlsAcceptor;

pub(crate) use self::failure_log::FailureLog;
pub use self::identity::{Identity, IdentityError, Validity};
pub use self::stream::TlsStream;

/// The only protocol behind the encryption. Clients that name none get it, too.
const HTTP_1: &[u8] = b"http/1.1";

/// How much of an answer is encrypted ahead of a client that does not take it: one record of the largest size, so that
/// what the client has taken is known as exactly as over plain HTTP.
const SEND_BUFFER_BYTES: usize = 16 * 1024;

/// The TLS of a server. Clones share their certificate.
#[derive(Clone)]
pub struct Tls {
    acceptor: TlsAcceptor,
    shown: Arc<Shown>,
    pub(crate) failures: Arc<FailureLog>,
}

impl Tls {
    /// TLS 1.2 and 1.3 with this identity.
    ///
    /// Sessions are not resumed: clients of this server keep their connections, and each new one costs the server a
    /// signature, but no memory between connections and no ticket that outlives its certificate.
    pub fn new(identity: Identity) -> Result<Self, IdentityError> {
        let shown = Arc::new(Shown(RwLock::new(identity)));
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
        *self.shown.0.write().unwrap_or_else(PoisonError::into_inner) = identity;
    }

    /// For how long the certificate that is shown is valid; below 0 if it has expired.
    pub(crate) fn expires_in_seconds(&self, now: SystemTime) -> f64 {
        self.shown.0.read().unwrap_or_else(PoisonError::into_inner).expires_in_seconds(now)
    }

    pub(crate) fn accept<IO>(&self, stream: IO) -> tokio_rustls::Accept<IO>
    where
        IO: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    {
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
struct Shown(RwLock<Identity>);

impl ResolvesServerCert for Shown {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.read().unwrap_or_else(PoisonError::into_inner).certified_key())
    }
}

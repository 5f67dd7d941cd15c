//! TLS of a listener: which versions are spoken, the encrypted stream, and the log of failed handshakes; and the certificate that is shown,
//! with its private key: read from PEM text, checked before anybody sees it, and exchanged while connections are open. Files are read by
//! the command line; a handshake is made in `connection/ends.rs`.

use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::{Mutex, RwLock};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use rustls::{Error, InconsistentKeys, ServerConfig, ServerConnection};
use sha2::{Digest, Sha256};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::{TlsAcceptor, server};
use tracing::{debug, info};
use x509_cert::Certificate;
use x509_cert::der::{Decode, Encode};

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
        Some(Arc::clone(&self.0.read().key))
    }
}

/// An encrypted connection. What the connection code asks of a socket beyond reading and writing is answered by the socket below. It is
/// on the heap, so that a plain connection is not as large.
#[derive(Debug)]
pub struct TlsStream(pub(crate) Box<server::TlsStream<TcpStream>>);

impl TlsStream {
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

/// Renewals are overdue by then: certificates of public authorities are renewed 30 days before they end.
const SOON: Duration = Duration::from_secs(14 * 86_400);

/// A certificate with its key, by which a server proves who it is. Its key is in no debug output.
#[derive(Clone)]
pub struct Identity {
    key: Arc<CertifiedKey>,
    not_before: SystemTime,
    not_after: SystemTime,
    pin: String,
}

/// The validity of a certificate by its dates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    Valid,
    /// It is for the future, or the clock is wrong.
    NotYet,
    /// It ends within so many days, counted in full ones.
    EndsInDays(u64),
    Expired,
}

/// The reason why a certificate and a key cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// About the certificate.
    #[error("{0}")]
    Certificate(String),
    /// About the key.
    #[error("{0}")]
    Key(String),
    /// Each can be used, but the key is not that of the certificate.
    #[error("the key is not that of the certificate")]
    Mismatch,
}

impl Identity {
    /// Reads a chain, the server's own certificate first, and its key.
    pub fn from_pem(certificates: &[u8], key: &[u8]) -> Result<Self, IdentityError> {
        let chain: Result<Vec<CertificateDer<'static>>, _> = CertificateDer::pem_slice_iter(certificates).collect();
        let chain = chain.map_err(|error| IdentityError::Certificate(format!("it is not valid PEM: {error}")))?;
        let Some(own) = chain.first() else {
            return Err(IdentityError::Certificate("it has no PEM section CERTIFICATE".to_owned()));
        };
        let own = Certificate::from_der(own)
            .map_err(|error| IdentityError::Certificate(format!("its certificate cannot be read: {error}")))?;
        let tbs = &own.tbs_certificate;
        let public_key = tbs.subject_public_key_info.to_der();
        let public_key = public_key.map_err(|error| IdentityError::Certificate(error.to_string()))?;
        let (not_before, not_after) =
            (tbs.validity.not_before.to_system_time(), tbs.validity.not_after.to_system_time());
        let wrong = |error: Error| match error {
            Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => IdentityError::Mismatch,
            Error::InvalidCertificate(reason) => IdentityError::Certificate(format!("{reason:?}")),
            error => IdentityError::Key(format!("it cannot be used: {error}")),
        };
        let key = CertifiedKey::from_der(chain, private_key(key)?, &ring::default_provider()).map_err(wrong)?;
        Ok(Self { key: Arc::new(key), not_before, not_after, pin: pin_of(&public_key) })
    }

    /// `sha256:` and the hash of the public key, which a renewed certificate with the same key keeps.
    pub fn pin(&self) -> &str {
        &self.pin
    }

    pub fn validity(&self, now: SystemTime) -> Validity {
        match self.not_after.duration_since(now) {
            _ if now < self.not_before => Validity::NotYet,
            Err(_) => Validity::Expired,
            Ok(left) if left < SOON => Validity::EndsInDays(left.as_secs() / 86_400),
            Ok(_) => Validity::Valid,
        }
    }

    /// Returns how long the certificate is valid from now on; zero when it has expired.
    pub fn time_left(&self, now: SystemTime) -> Duration {
        self.not_after.duration_since(now).unwrap_or_default()
    }

    /// Returns how many seconds the certificate is valid from now on; below 0 when it has expired.
    fn expires_in_seconds(&self, now: SystemTime) -> f64 {
        let ago = || now.duration_since(self.not_after).unwrap_or_default().as_secs_f64();
        self.not_after.duration_since(now).map_or_else(|_| -ago(), |left| left.as_secs_f64())
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("pin", &self.pin).finish_non_exhaustive()
    }
}

fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, IdentityError> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| {
        let is_encrypted = pem.windows(9).any(|part| part == b"ENCRYPTED");
        IdentityError::Key(match error {
            _ if is_encrypted => "it is encrypted; decrypt it with: openssl pkey -in KEY -out NEW_KEY".to_owned(),
            rustls::pki_types::pem::Error::NoItemsFound => "it has no PEM section PRIVATE KEY".to_owned(),
            error => format!("it is not valid PEM: {error}"),
        })
    })
}

fn pin_of(public_key: &[u8]) -> String {
    let digest = Sha256::digest(public_key);
    digest.iter().fold("sha256:".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    fn day(number: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(number * 86_400)
    }

    /// The certificate of a key, valid in 2020 (days 18,262 to 18,628).
    fn pems() -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2021, 1, 1));
        (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
    }

    fn read(certificate: &str, key: &str) -> Result<Identity, IdentityError> {
        Identity::from_pem(certificate.as_bytes(), key.as_bytes())
    }

    #[test]
    fn a_pair_is_accepted_and_what_is_none_is_refused_with_the_side_that_is_wrong() {
        let ((certificate, key), (other, _)) = (pems(), pems());
        assert!(read(&certificate, &key).is_ok());
        assert!(read(&format!("{certificate}{other}"), &key).is_ok(), "a chain");
        assert_eq!(read(&other, &key).unwrap_err(), IdentityError::Mismatch);
        let cut = &certificate[..certificate.len() / 2];
        let garbled = certificate.replace("-----BEGIN CERTIFICATE-----\nMII", "-----BEGIN CERTIFICATE-----\nAAA");
        for wrong in ["", "nonsense", &key, cut, &garbled] {
            assert!(matches!(read(wrong, &key), Err(IdentityError::Certificate(_))), "{wrong}");
        }
        let encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
        for (wrong, expected) in [("", "no PEM section"), (&certificate, "no PEM section"), (encrypted, "openssl pkey")]
        {
            let error = read(&certificate, wrong).unwrap_err();
            assert!(matches!(&error, IdentityError::Key(reason) if reason.contains(expected)), "{error}");
        }
    }

    #[test]
    fn an_identity_shows_no_key() {
        let (certificate, key) = pems();
        let identity = read(&certificate, &key).unwrap();
        assert!(identity.pin().len() == 7 + 64 && identity.pin().starts_with("sha256:"), "{}", identity.pin());
        assert_eq!(format!("{identity:?}"), format!("Identity {{ pin: {:?}, .. }}", identity.pin()));
    }

    #[test]
    fn the_dates_of_a_certificate_decide_by_the_clock() {
        let (certificate, key) = pems();
        let identity = read(&certificate, &key).unwrap();
        let cases = [
            (18_000, Validity::NotYet),
            (18_262, Validity::Valid),
            (18_613, Validity::Valid),
            (18_615, Validity::EndsInDays(13)),
            (18_627, Validity::EndsInDays(1)),
            (18_629, Validity::Expired),
        ];
        for (number, expected) in cases {
            assert_eq!(identity.validity(day(number)), expected, "day {number}");
        }
        let days = [18_262, 18_627, 18_628, 18_630].map(|number| identity.expires_in_seconds(day(number)) / 86_400.0);
        assert_eq!(days, [366.0, 1.0, 0.0, -2.0]);
    }
}

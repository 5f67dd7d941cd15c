//! TLS with libpq's meaning of `sslmode`: `prefer` and `require` encrypt, `verify-ca` also checks who signed the server's
//! certificate, `verify-full` also its host name. Signatures of the handshake are verified in every mode.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{
    CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature, verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use tokio_postgres::config::SslMode;
use tokio_postgres_rustls::MakeRustlsConnect;
use x509_cert::Certificate;
use x509_cert::der::{Decode, Encode};

use crate::address::{Address, AddressError};
use crate::open::OpenError;

/// The ALPN name that a server requires when a connection begins with the TLS handshake.
const ALPN_PROTOCOL: &[u8] = b"postgresql";

/// The TLS settings of an address.
#[derive(Clone)]
pub(crate) struct Encryption {
    mode: Mode,
    roots: Option<Roots>,
    identity: Option<Identity>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Disable,
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

#[derive(Clone)]
enum Roots {
    System,
    File(PathBuf),
}

/// The client's certificate.
#[derive(Clone)]
struct Identity {
    certificate: PathBuf,
    key: PathBuf,
}

impl Encryption {
    /// Removes the TLS parameters, which the driver does not know.
    pub(crate) fn take(given: &mut BTreeMap<String, String>) -> Result<Self, AddressError> {
        let mut take = |name: &str| given.remove(name).filter(|value| !value.is_empty());
        let roots =
            take("sslrootcert").map(|text| if text == "system" { Roots::System } else { Roots::File(text.into()) });
        let mode = match (take("sslmode").as_deref(), &roots) {
            (Some("disable"), None | Some(Roots::File(_))) => Mode::Disable,
            (Some("prefer") | None, None | Some(Roots::File(_))) => Mode::Prefer,
            // As in libpq: a root certificate that is named is checked.
            (Some("require"), Some(Roots::File(_))) => Mode::VerifyCa,
            (Some("require"), None) => Mode::Require,
            (Some("verify-ca"), _) => Mode::VerifyCa,
            (Some("verify-full"), _) | (None, Some(Roots::System)) => Mode::VerifyFull,
            // As in libpq: with the system's authorities, anything less than a check is a mistake.
            (Some("disable" | "prefer" | "require"), Some(Roots::System)) => {
                return Err(AddressError::value("sslrootcert"));
            }
            (Some(_), _) => return Err(AddressError::value("sslmode")),
        };
        let identity = match (take("sslcert"), take("sslkey")) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some(Identity { certificate: certificate.into(), key: key.into() }),
            (Some(_), None) => return Err(AddressError::value("sslcert")),
            (None, Some(_)) => return Err(AddressError::value("sslkey")),
        };
        Ok(Self { mode, roots, identity })
    }

    pub(crate) fn ssl_mode(&self) -> SslMode {
        match self.mode {
            Mode::Disable => SslMode::Disable,
            Mode::Prefer => SslMode::Prefer,
            Mode::Require | Mode::VerifyCa | Mode::VerifyFull => SslMode::Require,
        }
    }
}

/// Reads the certificates that an address names.
pub(crate) fn connector(address: &Address) -> Result<MakeRustlsConnect, OpenError> {
    Ok(MakeRustlsConnect::new(client_config(address)?))
}

fn client_config(address: &Address) -> Result<ClientConfig, OpenError> {
    let encryption = &address.encryption;
    let provider = Arc::new(ring::default_provider());
    let verifier = Arc::new(Verifier::new(encryption, Arc::clone(&provider))?);
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| OpenError::Tls(address.hosts(), error.to_string()))?;
    let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
    let mut config = match encryption.identity.as_ref().filter(|_| encryption.mode != Mode::Disable) {
        None => builder.with_no_client_auth(),
        Some(identity) => {
            let chain = certificates("sslcert", &identity.certificate)?;
            let key = PrivateKeyDer::from_pem_file(&identity.key);
            let key = key.map_err(|error| unusable("sslkey", &identity.key, error))?;
            let config = builder.with_client_auth_cert(chain, key);
            config.map_err(|error| unusable("sslkey", &identity.key, error))?
        }
    };
    if address.is_direct() {
        config.alpn_protocols = vec![ALPN_PROTOCOL.to_vec()];
    }
    Ok(config)
}

fn unusable(parameter: &'static str, file: &Path, why: impl Display) -> OpenError {
    OpenError::Certificate(parameter, file.into(), why.to_string())
}

fn certificates(parameter: &'static str, file: &Path) -> Result<Vec<CertificateDer<'static>>, OpenError> {
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let read = read.map_err(|error| unusable(parameter, file, error))?;
    if read.is_empty() { Err(unusable(parameter, file, "it holds no certificate in PEM")) } else { Ok(read) }
}

/// Checks a server's certificate as the mode requires.
#[derive(Debug)]
struct Verifier {
    provider: Arc<CryptoProvider>,
    /// The trusted authorities; without them every certificate is accepted.
    roots: Option<RootCertStore>,
    /// The certificates of `sslrootcert`. A server may present one of them as its own: PostgreSQL's manual creates such a
    /// self-signed certificate, and rustls does not accept the certificate of an authority as a server's.
    pinned: Vec<CertificateDer<'static>>,
    checks_name: bool,
}

impl Verifier {
    fn new(encryption: &Encryption, provider: Arc<CryptoProvider>) -> Result<Self, OpenError> {
        let checks_name = encryption.mode == Mode::VerifyFull;
        let mut verifier = Self { provider, roots: None, pinned: Vec::new(), checks_name };
        match (&encryption.roots, encryption.mode) {
            (_, Mode::Disable) | (None, Mode::Prefer | Mode::Require) => {}
            (Some(Roots::File(file)), _) => {
                verifier.pinned = certificates("sslrootcert", file)?;
                let mut roots = RootCertStore::empty();
                for certificate in &verifier.pinned {
                    roots.add(certificate.clone()).map_err(|error| unusable("sslrootcert", file, error))?;
                }
                verifier.roots = Some(roots);
            }
            (None | Some(Roots::System), _) => verifier.roots = Some(system_roots()?),
        }
        Ok(verifier)
    }
}

/// rustls checks the validity period first, so any other error means that the period is valid.
fn is_about_time(error: &Error) -> bool {
    use CertificateError::{Expired, ExpiredContext, NotValidYet, NotValidYetContext};
    let Error::InvalidCertificate(error) = error else { return false };
    matches!(error, Expired | ExpiredContext { .. } | NotValidYet | NotValidYetContext { .. })
}

fn public_key(certificate: &CertificateDer<'_>) -> Result<SubjectPublicKeyInfoDer<'static>, Error> {
    let key = Certificate::from_der(certificate).and_then(|read| read.tbs_certificate.subject_public_key_info.to_der());
    key.map(SubjectPublicKeyInfoDer::from).map_err(|_| Error::InvalidCertificate(CertificateError::BadEncoding))
}

fn system_roots() -> Result<RootCertStore, OpenError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Certificates that rustls cannot parse are skipped.
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added > 0 {
        return Ok(roots);
    }
    let why = found.errors.first().map_or_else(|| "it holds no certificate".to_owned(), ToString::to_string);
    Err(OpenError::Certificate("sslrootcert", "system".into(), why))
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        own: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Some(roots) = &self.roots {
            let (parsed, algorithms) =
                (ParsedCertificate::try_from(own)?, &self.provider.signature_verification_algorithms);
            match verify_server_cert_signed_by_trust_anchor(&parsed, roots, others, now, algorithms.all) {
                Err(error) if self.pinned.contains(own) && !is_about_time(&error) => {}
                answer => answer?,
            }
        }
        if self.checks_name {
            verify_server_name(&ParsedCertificate::try_from(own)?, name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        match verify_tls13_signature(message, certificate, signature, algorithms) {
            // rustls does not parse X.509 version 1. `openssl x509 -req` creates it where it is called as in PostgreSQL's
            // manual ("Creating Certificates") and OpenSSL is not recent, so servers that were set up by the manual have
            // it. Without authorities to check, the key of the certificate is enough.
            Err(Error::InvalidCertificate(_)) if self.roots.is_none() => {
                verify_tls13_signature_with_raw_key(message, &public_key(certificate)?, signature, algorithms)
            }
            answer => answer,
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
#[path = "tls_tests.rs"]
mod tests;

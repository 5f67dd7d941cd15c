//! TLS of the generator. It trusts every certificate: what is measured is the server, and nothing secret is sent.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use rustls::ClientConfig;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Where a server listens, and whether connections to it are encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) address: SocketAddr,
    pub(crate) is_encrypted: bool,
}

impl From<SocketAddr> for Endpoint {
    fn from(address: SocketAddr) -> Self {
        Self { address, is_encrypted: false }
    }
}

pub(crate) async fn encrypt(stream: TcpStream, address: SocketAddr) -> io::Result<TlsStream<TcpStream>> {
    static CONFIG: OnceLock<Option<Arc<ClientConfig>>> = OnceLock::new();
    let config = CONFIG.get_or_init(|| config().ok().map(Arc::new)).clone();
    let config = config.ok_or_else(|| io::Error::other("TLS cannot be set up"))?;
    TlsConnector::from(config).connect(ServerName::from(address.ip()), stream).await
}

fn config() -> Result<ClientConfig, Error> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions()?.dangerous();
    Ok(builder.with_custom_certificate_verifier(Arc::new(TrustAll)).with_no_client_auth())
}

#[derive(Debug)]
struct TrustAll;

impl ServerCertVerifier for TrustAll {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = ring::default_provider().signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, &algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = ring::default_provider().signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, &algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

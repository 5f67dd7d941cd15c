//! TLS of the tests' own client, which trusts every certificate, and certificates for servers. Whom the product's client
//! trusts is tested with that client.

use std::fs;
use std::io;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{CertificateParams, KeyPair};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme, StreamOwned,
    SupportedProtocolVersion,
};

/// Trusts every certificate.
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

/// The stream behind a finished handshake.
pub(crate) fn encrypted(
    mut stream: TcpStream,
    version: &'static SupportedProtocolVersion,
) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_protocol_versions(&[version]).map_err(io::Error::other)?;
    let config = builder.dangerous().with_custom_certificate_verifier(Arc::new(TrustAll)).with_no_client_auth();
    let name = "localhost".try_into().map_err(io::Error::other)?;
    let mut session = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
    while session.is_handshaking() {
        session.complete_io(&mut stream)?;
    }
    Ok(StreamOwned::new(session, stream))
}

/// The certificate that a server shows now.
pub(crate) fn shown_certificate(address: &str) -> Vec<u8> {
    let stream = encrypted(TcpStream::connect(address).unwrap(), &rustls::version::TLS13).unwrap();
    stream.conn.peer_certificates().unwrap()[0].to_vec()
}

/// A certificate of its own authority and its key, as files of a folder.
pub(crate) struct PairFiles {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl PairFiles {
    /// For `localhost` and 127.0.0.1, with changes.
    pub(crate) fn make(folder: &Path, name: &str, change: impl FnOnce(&mut CertificateParams)) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(["localhost", "127.0.0.1"].map(str::to_owned)).unwrap();
        change(&mut params);
        let certificate = params.self_signed(&key).unwrap();
        let files = Self { certificate: folder.join(format!("{name}.cert")), key: folder.join(format!("{name}.key")) };
        fs::write(&files.certificate, certificate.pem()).unwrap();
        fs::write(&files.key, key.serialize_pem()).unwrap();
        fs::set_permissions(&files.key, fs::Permissions::from_mode(0o600)).unwrap();
        files
    }

    /// The flags of a server that uses them.
    pub(crate) fn flags(&self) -> [&str; 4] {
        ["--tls-cert", self.certificate.to_str().unwrap(), "--tls-key", self.key.to_str().unwrap()]
    }
}

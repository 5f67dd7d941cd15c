//! Certificates for servers, as files, and the one that a server shows.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};

use rcgen::{CertificateParams, KeyPair};

use super::support::{encrypted, put_in_place};

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
        put_in_place(&files.key, &key.serialize_pem(), 0o600);
        files
    }

    /// Puts another pair in place of this one.
    pub(crate) fn exchange(&self, change: impl FnOnce(&mut CertificateParams)) {
        let next = Self::make(self.key.parent().unwrap(), "next", change);
        fs::rename(&next.certificate, &self.certificate).unwrap();
        fs::rename(&next.key, &self.key).unwrap();
    }

    /// The flags of a server that uses them.
    pub(crate) fn flags(&self) -> [&str; 4] {
        ["--tls-cert", self.certificate.to_str().unwrap(), "--tls-key", self.key.to_str().unwrap()]
    }
}

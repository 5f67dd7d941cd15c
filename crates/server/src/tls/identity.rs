//! A certificate chain with its private key, read from PEM text and checked before anybody is shown it; and what the
//! certificate says about itself. Files and the clock belong to the caller.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys};
use sha2::{Digest, Sha256};
use x509_cert::Certificate;
use x509_cert::der::{Decode, Encode};

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
        let key =
            CertifiedKey::from_der(chain, private_key(key)?, &ring::default_provider()).map_err(
                |error| match error {
                    Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => IdentityError::Mismatch,
                    Error::InvalidCertificate(reason) => IdentityError::Certificate(format!("{reason:?}")),
                    error => IdentityError::Key(format!("it cannot be used: {error}")),
                },
            )?;
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
    pub(super) fn expires_in_seconds(&self, now: SystemTime) -> f64 {
        let ago = || now.duration_since(self.not_after).unwrap_or_default().as_secs_f64();
        self.not_after.duration_since(now).map_or_else(|_| -ago(), |left| left.as_secs_f64())
    }

    pub(super) fn certified_key(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.key)
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

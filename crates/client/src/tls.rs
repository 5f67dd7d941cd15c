//! TLS: rustls with ring, and whom it trusts: authorities, or the pin of a server, which is the hash of its public key. Nothing is installed process-wide, so the rest of the program may use another
//! provider.

use std::str::FromStr;
use std::sync::Arc;
use std::{fmt, io};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme,
};
use sha2::{Digest, Sha256};
use webpki::EndEntityCert;

use crate::error::ConfigError;

/// The text by which the message of a transport error tells that the server's certificate is not trusted; the reason and the pin follow.
pub const UNTRUSTED_CERTIFICATE: &str = "the server's certificate is not trusted";
/// The reason that no list of authorities can mend: `openssl req -x509` makes such certificates.
pub const SHOWN_AUTHORITY: &str = "it is the certificate of an authority (CA:TRUE), not of a server";
/// The text by which it tells that the server has another key than the pinned one; its own pin follows.
pub const UNEXPECTED_KEY: &str = "the server has another key than the pinned one";

/// The trust in servers behind `https://`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Trust {
    /// The authorities that the operating system trusts.
    #[default]
    System,
    /// These certificate authorities and no others.
    Authorities(Vec<CertificateDer<'static>>),
    /// Servers with one of these keys and no others, whatever their certificates say.
    Pins(Vec<Pin>),
}

impl Trust {
    pub(crate) fn authorities(pem: &[u8]) -> Result<Self, ConfigError> {
        let wrong = |reason: String| ConfigError::Authorities { reason };
        let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
        let read = read.map_err(|error| wrong(format!("it is not valid PEM: {error}")))?;
        if read.is_empty() {
            return Err(wrong("it has no PEM section CERTIFICATE".to_owned()));
        }
        roots(&read).map_err(|error| wrong(error.to_string()))?;
        Ok(Self::Authorities(read))
    }
}

pub(crate) fn for_https(trust: &Trust) -> Result<ClientConfig, ConfigError> {
    let provider = Arc::new(ring::default_provider());
    let check = match trust {
        Trust::System => {
            let verifier = rustls_platform_verifier::Verifier::new(provider.clone()).map_err(tls_error)?;
            CertificateCheck::Authorities(Arc::new(verifier))
        }
        Trust::Authorities(authorities) => {
            let roots = Arc::new(roots(authorities).map_err(tls_error)?);
            let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider.clone()).build();
            CertificateCheck::Authorities(verifier.map_err(tls_error)?)
        }
        Trust::Pins(pins) => CertificateCheck::Pins(pins.clone()),
    };
    let verifier = Arc::new(Verifier { check, provider: provider.clone() });
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().map_err(tls_error)?;
    Ok(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
}

/// A configuration that trusts no certificate. The HTTP library requires one also for plain HTTP, and with this one the
/// system's certificates are not read.
pub(crate) fn for_plain_http() -> Result<ClientConfig, ConfigError> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(tls_error)?;
    Ok(builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
}

fn roots(authorities: &[CertificateDer<'static>]) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    authorities.iter().try_for_each(|authority| roots.add(authority.clone()))?;
    Ok(roots)
}

fn tls_error(error: impl fmt::Display) -> ConfigError {
    ConfigError::Tls { reason: error.to_string() }
}

/// A verifier whose refusals say why, and which key the server has, so that people can compare it. That the server has the key
/// is proved by the handshake, whose signatures are verified as usual.
#[derive(Debug)]
struct Verifier {
    check: CertificateCheck,
    provider: Arc<CryptoProvider>,
}

#[derive(Debug)]
enum CertificateCheck {
    Authorities(Arc<dyn ServerCertVerifier>),
    /// Only the key matters.
    Pins(Vec<Pin>),
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match (&self.check, Pin::of(end_entity)) {
            (CertificateCheck::Authorities(verifier), pin) => {
                let verified = verifier.verify_server_cert(end_entity, intermediates, name, ocsp_response, now);
                verified.map_err(|error| {
                    let pin = pin.map_or_else(String::new, |pin| format!("; its key is {pin}"));
                    Untrusted::error(format!("{UNTRUSTED_CERTIFICATE} ({}){pin}", reason(&error)))
                })
            }
            (CertificateCheck::Pins(_), None) => Err(CertificateError::BadEncoding.into()),
            (CertificateCheck::Pins(pins), Some(pin)) if pins.contains(&pin) => Ok(ServerCertVerified::assertion()),
            (CertificateCheck::Pins(_), Some(pin)) => {
                Err(Untrusted::error(format!("{UNEXPECTED_KEY}; its own is {pin}")))
            }
        }
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
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

fn reason(error: &Error) -> String {
    use CertificateError as Problem;
    let Error::InvalidCertificate(problem) = error else { return error.to_string() };
    match problem {
        Problem::UnknownIssuer => "no trusted authority has signed it".to_owned(),
        Problem::Expired | Problem::ExpiredContext { .. } => "it has expired".to_owned(),
        Problem::NotValidYet | Problem::NotValidYetContext { .. } => {
            "it is not valid yet; is the clock right?".to_owned()
        }
        Problem::NotValidForName | Problem::NotValidForNameContext { .. } => "it is for another host name".to_owned(),
        Problem::Other(OtherError(other)) if matches!(other.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity)) => {
            SHOWN_AUTHORITY.to_owned()
        }
        other => other.to_string(),
    }
}

/// Returns the words of this file for a certificate that is not trusted, if that is the error: the TLS library shows it in quotes and in the names of
/// its types. It may come inside errors of reading, whose cause it then is not.
pub(crate) fn own_words(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    if let Some(of_reading) = error.downcast_ref::<io::Error>() {
        return own_words(of_reading.get_ref()?);
    }
    let Error::InvalidCertificate(CertificateError::Other(OtherError(reason))) = error.downcast_ref::<Error>()? else {
        return None;
    };
    reason.downcast_ref::<Untrusted>().map(ToString::to_string)
}

/// The reason in an error of the TLS library.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Untrusted(String);

impl Untrusted {
    fn error(text: String) -> Error {
        CertificateError::Other(OtherError(Arc::new(Self(text)))).into()
    }
}

const PREFIX: &str = "sha256:";
const BYTES: usize = 32;

/// SHA-256 of the public key of a certificate (its `SubjectPublicKeyInfo`): `sha256:` and 64 hexadecimal digits. A
/// certificate that was renewed with the same key has the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pin([u8; BYTES]);

impl Pin {
    /// Returns the pin of a certificate; `None` for what is none.
    pub(crate) fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let certificate = EndEntityCert::try_from(certificate).ok()?;
        Some(Self(Sha256::digest(certificate.subject_public_key_info()).into()))
    }
}

impl FromStr for Pin {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const FORM: &str = "write sha256: and 64 hexadecimal digits, as the server prints it";
        let digits = text.strip_prefix(PREFIX).filter(|digits| digits.len() == 2 * BYTES).ok_or(FORM)?;
        let mut bytes = [0; BYTES];
        for (byte, pair) in bytes.iter_mut().zip(digits.as_bytes().chunks(2)) {
            let digit = |at: usize| char::from(pair[at]).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
            *byte = 16 * digit(0).ok_or(FORM)? + digit(1).ok_or(FORM)?;
        }
        Ok(Self(bytes))
    }
}

impl fmt::Display for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(PREFIX)?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_a_certificate_is_found_in_errors_of_the_library() {
        let error = || Untrusted::error("it is \"not\" trusted".to_owned());
        let errors: [Box<dyn std::error::Error>; 2] =
            [Box::new(error()), Box::new(io::Error::new(io::ErrorKind::InvalidData, error()))];
        for error in errors {
            assert_eq!(own_words(&*error).as_deref(), Some("it is \"not\" trusted"), "{error:?}");
        }
        let others: [Box<dyn std::error::Error>; 2] =
            [Box::new(Error::from(CertificateError::Expired)), Box::new(io::Error::from(io::ErrorKind::InvalidData))];
        for error in others {
            assert_eq!(own_words(&*error), None, "{error:?}");
        }
    }

    #[test]
    fn a_pin_is_read_as_it_is_written_and_anything_else_is_refused() {
        let text = format!("sha256:{}", "0123456789abcdef".repeat(4));
        assert_eq!(text.parse::<Pin>().unwrap().to_string(), text);
        let upper = format!("sha256:{}", "0123456789ABCDEF".repeat(4));
        assert_eq!(upper.parse::<Pin>().unwrap().to_string(), text);
        let long = format!("{text}0");
        let sign = format!("sha256:+{}", "0".repeat(63));
        let wide = format!("sha256:{}", "é".repeat(32));
        for wrong in ["", "sha256:", &text[7..], &text[..70], &long, "sha1:0123", &sign, &wide] {
            assert!(wrong.parse::<Pin>().is_err(), "{wrong}");
        }
    }
}

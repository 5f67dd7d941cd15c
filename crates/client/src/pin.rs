//! The pin of a server: the hash of its public key. A client that is told it trusts that key and nothing else.

use std::fmt;
use std::str::FromStr;

use rustls::pki_types::CertificateDer;
use sha2::{Digest, Sha256};
use webpki::EndEntityCert;

const PREFIX: &str = "sha256:";
const BYTES: usize = 32;

/// SHA-256 of the public key of a certificate (its `SubjectPublicKeyInfo`): `sha256:` and 64 hexadecimal digits. A
/// certificate that was renewed with the same key has the same one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Pin([u8; BYTES]);

impl Pin {
    /// None for what is no certificate.
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

impl fmt::Debug for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

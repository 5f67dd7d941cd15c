//! The secret that all servers of one installation share. It is made once, by the first store that opens the database, and is a part
//! of what keeps sessions of the dashboard from being forged (docs/decisions/0061). Each backend keeps it in a table of one row.

use std::{fmt, io};

/// Bytes of the secret: nobody guesses 256 bits.
const BYTES: usize = 32;

/// The secret of an installation. It is never shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct InstallationSecret([u8; BYTES]);

impl InstallationSecret {
    /// A new one, of random bytes of the system.
    pub fn random() -> io::Result<Self> {
        let mut bytes = [0; BYTES];
        getrandom::fill(&mut bytes)
            .map_err(|error| io::Error::other(format!("the system gives no random numbers: {error}")))?;
        Ok(Self(bytes))
    }

    /// One that was kept; none if it has another length.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().map(Self).ok()
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for InstallationSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InstallationSecret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_random_reads_back_and_is_never_shown() {
        let (one, other) = (InstallationSecret::random().unwrap(), InstallationSecret::random().unwrap());
        assert_ne!(one, other);
        assert_eq!(InstallationSecret::from_bytes(one.as_bytes()), Some(one));
        assert_eq!(InstallationSecret::from_bytes(&one.as_bytes()[1..]), None);
        assert_eq!(format!("{one:?}"), "InstallationSecret(..)");
    }
}

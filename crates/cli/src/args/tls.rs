//! The flags of `taskqueue serve` about TLS, by which `backup` and `restore` find the same files.

use std::path::PathBuf;

use clap::Args;

/// The heading of these flags in the help.
const HEADING: &str = "TLS";

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct TlsArgs {
    /// Encrypt connections with this certificate (PEM, with its chain); read again when the file changes
    #[arg(long, env = "TASKQUEUE_TLS_CERT", value_name = "FILE", requires = "tls_key", help_heading = HEADING)]
    pub(crate) tls_cert: Option<PathBuf>,

    /// The private key of the certificate (PEM, not encrypted, for its owner only)
    #[arg(long, env = "TASKQUEUE_TLS_KEY", value_name = "FILE", requires = "tls_cert", help_heading = HEADING)]
    pub(crate) tls_key: Option<PathBuf>,

    /// Encrypt connections with a key that this server makes for itself, and print the --tls-pin by which clients trust
    /// it. It is kept in this folder: DATABASE.tls unless one is named, which PostgreSQL needs. A variable says true for that
    #[arg(long, env = "TASKQUEUE_TLS_SELF_SIGNED", value_name = "DIR", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_parser = own_key, conflicts_with = "tls_cert", help_heading = HEADING)]
    pub(crate) tls_self_signed: Option<OwnKey>,
}

impl TlsArgs {
    /// Whether connections are to be encrypted.
    pub(crate) fn is_given(&self) -> bool {
        self.tls_cert.is_some() || self.tls_self_signed.as_ref().is_some_and(|own| *own != OwnKey::No)
    }
}

/// Whether the server makes its key itself, and where that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OwnKey {
    No,
    BesideDatabase,
    In(PathBuf),
}

/// A variable and a key of a file cannot say "without a value" as the flag does, so they say `true`.
fn own_key(text: &str) -> Result<OwnKey, &'static str> {
    match text {
        "" => Err("name a folder, or write true or false"),
        "true" => Ok(OwnKey::BesideDatabase),
        "false" => Ok(OwnKey::No),
        folder => Ok(OwnKey::In(folder.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_own_key_is_wanted_or_not_or_has_a_folder() {
        let cases = [
            ("true", Ok(OwnKey::BesideDatabase)),
            ("false", Ok(OwnKey::No)),
            ("./true", Ok(OwnKey::In("./true".into()))),
            ("/etc/keys", Ok(OwnKey::In("/etc/keys".into()))),
        ];
        for (text, expected) in cases {
            assert_eq!(own_key(text), expected, "{text}");
        }
        assert!(own_key("").is_err());
    }
}

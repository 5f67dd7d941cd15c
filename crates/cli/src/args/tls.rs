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
    /// it. It is kept in this folder: DATABASE.tls unless one is named, which PostgreSQL needs
    #[arg(long, value_name = "DIR", num_args = 0..=1, require_equals = true, conflicts_with = "tls_cert",
          help_heading = HEADING)]
    pub(crate) tls_self_signed: Option<Option<PathBuf>>,
}

impl TlsArgs {
    /// Whether one of the flags, or of their variables, is given.
    pub(crate) fn is_given(&self) -> bool {
        self.tls_cert.is_some() || self.tls_self_signed.is_some()
    }
}

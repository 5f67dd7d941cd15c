//! The flags that name the secrets of an installation, the same for `serve`, `backup` and `restore`.

use std::path::{Path, PathBuf};

use clap::Args;

use super::tls::TlsArgs;

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct SecretArgs {
    /// A file with the token that clients must send; TASKQUEUE_TOKEN may hold the token itself instead
    #[arg(long, env = "TASKQUEUE_TOKEN_FILE", value_name = "PATH")]
    pub(crate) token_file: Option<PathBuf>,

    /// A file with more tokens, each for some scopes and queues; see taskqueue help token
    #[arg(long, env = "TASKQUEUE_TOKENS", value_name = "FILE")]
    pub(crate) tokens: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) tls: TlsArgs,
}

impl SecretArgs {
    /// The first of these flags that stands in the command line. A variable may be set for another command.
    pub(crate) fn first_flag(&self) -> Option<&'static str> {
        let is_set = |variable| std::env::var_os(variable).is_some();
        let is_flag = |value: &Option<PathBuf>, variable: &str| {
            let in_environment = std::env::var_os(variable);
            value.is_some() && value.as_deref().map(Path::as_os_str) != in_environment.as_deref()
        };
        let flags = [
            ("--token-file", is_flag(&self.token_file, "TASKQUEUE_TOKEN_FILE")),
            ("--tokens", is_flag(&self.tokens, "TASKQUEUE_TOKENS")),
            ("--tls-cert", is_flag(&self.tls.tls_cert, "TASKQUEUE_TLS_CERT")),
            ("--tls-key", is_flag(&self.tls.tls_key, "TASKQUEUE_TLS_KEY")),
            ("--tls-self-signed", self.tls.tls_self_signed.is_some() && !is_set("TASKQUEUE_TLS_SELF_SIGNED")),
        ];
        flags.into_iter().find(|(_, is_given)| *is_given).map(|(name, _)| name)
    }
}

//! `taskqueue backup`, `restore`, `check` and `migrate`, which work on a database without a server, and the flags that name the secrets of
//! an installation, which `serve` has, too.

use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{ArgMatches, Args};

use super::connection::OutputArgs;
use crate::open_store::Database;

/// The database of commands that are given none.
pub(super) const DATABASE_DEFAULT: &str = "taskqueue.db";

#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// The database: a path or sqlite:PATH
    #[arg(long, env = "TASKQUEUE_DATABASE", hide_env_values = true, value_name = "DATABASE", default_value = DATABASE_DEFAULT)]
    pub(crate) database: Database,

    /// The file for the backup, in a folder that exists; with --with-secrets the folder for it
    #[arg(long, value_name = "FILE")]
    pub(crate) to: PathBuf,

    /// Make a folder, and copy the TLS certificate and key, the token and the tokens file into it, too
    #[arg(long)]
    pub(crate) with_secrets: bool,

    /// Replace an earlier backup of this name, when the new one is whole
    #[arg(long)]
    pub(crate) replace: bool,

    /// Copy at most so many MiB per second
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) rate: u32,

    #[command(flatten)]
    pub(crate) secrets: SecretArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// The backup: a file, or a folder of backup --with-secrets
    #[arg(long, value_name = "FILE")]
    pub(crate) from: PathBuf,

    /// Where the database shall be: a path or sqlite:PATH; for a backup of secrets alone the URL of PostgreSQL
    #[arg(long, value_name = "DATABASE")]
    pub(crate) database: Database,

    /// Replace a database that is there, and lose what it holds
    #[arg(long)]
    pub(crate) replace: bool,

    #[command(flatten)]
    pub(crate) secrets: SecretArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// A folder of backup --with-secrets, to be checked instead of a database
    #[arg(value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,

    /// The database: a path, sqlite:PATH or postgres://USER@HOST/DATABASE
    #[arg(long, env = "TASKQUEUE_DATABASE", hide_env_values = true, value_name = "DATABASE", default_value = DATABASE_DEFAULT)]
    pub(crate) database: Database,

    /// The schema with the tables in PostgreSQL [default: taskqueue]
    #[arg(long, env = "TASKQUEUE_DATABASE_SCHEMA", value_name = "SCHEMA")]
    pub(crate) database_schema: Option<String>,

    #[command(flatten)]
    pub(crate) output: OutputArgs,

    /// The flag that names the database.
    #[arg(skip)]
    pub(crate) database_flag: Option<&'static str>,
}

/// Returns the flag about a database that stands in the command line. A variable may be set for another command.
pub(super) fn database_flag(matches: &ArgMatches) -> Option<&'static str> {
    let flags = [("database", "--database"), ("database_schema", "--database-schema")];
    let is_given = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
    flags.into_iter().find(|(id, _)| is_given(id)).map(|(_, flag)| flag)
}

#[derive(Debug, Args)]
pub(crate) struct MigrateArgs {
    /// The database to copy: a path, sqlite:PATH or postgres://USER@HOST/DATABASE
    #[arg(long, env = "TASKQUEUE_MIGRATE_FROM", hide_env_values = true, value_name = "DATABASE")]
    pub(crate) from: Database,

    /// The database to copy to; an SQLite file is created if it is missing
    #[arg(long, env = "TASKQUEUE_MIGRATE_TO", hide_env_values = true, value_name = "DATABASE")]
    pub(crate) to: Database,

    /// The schema with the tables in a PostgreSQL source [default: taskqueue]
    #[arg(long, value_name = "SCHEMA")]
    pub(crate) from_schema: Option<String>,

    /// The schema for the tables in a PostgreSQL target, created if it is missing [default: taskqueue]
    #[arg(long, value_name = "SCHEMA")]
    pub(crate) to_schema: Option<String>,
}

/// The flags that name the secrets of an installation.
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

/// The heading of the flags about TLS in the help.
const TLS_HEADING: &str = "TLS";

/// The flags about TLS, by which `backup` and `restore` find the files of `serve`.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct TlsArgs {
    /// Encrypt connections with this certificate (PEM, with its chain); read again when the file changes
    #[arg(long, env = "TASKQUEUE_TLS_CERT", value_name = "FILE", requires = "tls_key", help_heading = TLS_HEADING)]
    pub(crate) tls_cert: Option<PathBuf>,

    /// The private key of the certificate (PEM, not encrypted, for its owner only)
    #[arg(long, env = "TASKQUEUE_TLS_KEY", value_name = "FILE", requires = "tls_cert", help_heading = TLS_HEADING)]
    pub(crate) tls_key: Option<PathBuf>,

    /// Encrypt connections with a key that this server makes for itself, and print the --tls-pin by which clients trust
    /// it. It is kept in this folder: DATABASE.tls unless one is named, which PostgreSQL needs. A variable says true for that
    #[arg(long, env = "TASKQUEUE_TLS_SELF_SIGNED", value_name = "DIR", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_parser = own_key, conflicts_with = "tls_cert", help_heading = TLS_HEADING)]
    pub(crate) tls_self_signed: Option<OwnKey>,
}

impl TlsArgs {
    /// Returns whether connections are to be encrypted.
    pub(crate) fn is_given(&self) -> bool {
        self.tls_cert.is_some() || self.tls_self_signed.as_ref().is_some_and(|own| *own != OwnKey::No)
    }
}

/// The place of a key that the server makes itself, if it is to make one.
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

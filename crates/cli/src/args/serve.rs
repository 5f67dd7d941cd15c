//! `taskqueue serve`, and `taskqueue token`, which makes the tokens that it accepts; `taskqueue backup`, `restore`, `check` and `migrate`, which
//! work on a database without a server; and the flags that name the secrets of an installation.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::BoolishValueParser;
use clap::error::ContextKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Subcommand, ValueEnum};
use taskqueue_core::access::{QueuePattern, Scope};
use taskqueue_core::ids::QueueName;
use taskqueue_core::limits::{OUTAGE_CREDIT_SECONDS, TASK_OUTPUT_BYTES};
use taskqueue_core::time::Timestamp;
use taskqueue_server::browser_check::HostName;
use taskqueue_server::{DashboardMode, ListenAddress};

use super::values::{context_text, duration, nonzero_duration, queue_name, queue_pattern, scope, time, token_name};
use super::{Format, OutputArgs};
use crate::config::Setting;
use crate::open_store::Database;

/// One day; more is probably a mistake.
const OUTAGE_CREDIT_MAX: i64 = 86_400;

/// 16 MiB. Every task may keep that much, so ten thousand tasks would take 160 GiB of disk; more belongs into the log of the run,
/// which the worker keeps in full. In memory there is never more than one answer of it, 1 MiB.
const TASK_OUTPUT_MAX: i64 = 16 * 1024 * 1024;

/// Returns what to tell who gives the token itself, which is not a file of `--tokens`.
pub(super) fn token_hint(error: &clap::Error) -> Option<String> {
    (context_text(error, ContextKind::InvalidArg)? == "--token")
        .then(|| "; the token itself comes from --token-file or TASKQUEUE_TOKEN".to_owned())
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// The address to listen on: HOST:PORT (port 0 picks a free one) or unix:PATH; without a token only this machine
    #[arg(long, env = "TASKQUEUE_LISTEN", value_name = "ADDRESS", default_value = "127.0.0.1:8000")]
    pub(crate) listen: ListenAddress,

    /// Serve metrics on another address, too, to everybody who reaches it and without a token: HOST:PORT or unix:PATH
    #[arg(long, env = "TASKQUEUE_METRICS_LISTEN", value_name = "ADDRESS")]
    pub(crate) metrics_listen: Option<ListenAddress>,

    /// The database: a path or sqlite:PATH, created if it is missing, or postgres://USER@HOST/DATABASE
    #[arg(long, env = "TASKQUEUE_DATABASE", hide_env_values = true, value_name = "DATABASE", default_value = DATABASE_DEFAULT)]
    pub(crate) database: Database,

    /// The schema for the tables in PostgreSQL, created if it is missing [default: taskqueue]
    #[arg(long, env = "TASKQUEUE_DATABASE_SCHEMA", value_name = "SCHEMA")]
    pub(crate) database_schema: Option<String>,

    /// At the start, wait for PostgreSQL for so long if it does not answer; requests get 503 meanwhile, /livez 200
    #[arg(long, env = "TASKQUEUE_DATABASE_WAIT", value_name = "DURATION", default_value = "60s", value_parser = duration)]
    pub(crate) database_wait: Duration,

    /// Create this queue unless it exists (repeatable); a new database has no queue
    // Not TASKQUEUE_QUEUE: that is the queue of client commands, which a shell may have for all of them.
    #[arg(long = "queue", env = "TASKQUEUE_QUEUES", value_name = "NAME", value_delimiter = ',',
          value_parser = queue_name)]
    pub(crate) queues: Vec<QueueName>,

    /// Delete the ended tasks of queues that are created from now on after so long, such as 30d; see taskqueue help
    /// queue retention for those that exist [default: keep them]
    #[arg(long, env = "TASKQUEUE_DEFAULT_RETENTION", value_name = "DURATION", value_parser = nonzero_duration)]
    pub(crate) default_retention: Option<Duration>,

    #[command(flatten)]
    pub(crate) secrets: SecretArgs,

    /// Without a token: accept requests for this host, too, not only for loopback and localhost (repeatable)
    #[arg(long = "allow-host", env = "TASKQUEUE_ALLOW_HOST", value_name = "NAME", value_delimiter = ',')]
    pub(crate) allowed_hosts: Vec<HostName>,

    /// The pages for browsers under /ui/
    #[arg(long, env = "TASKQUEUE_DASHBOARD", value_enum, value_name = "PAGES", default_value_t = Dashboard::Full)]
    pub(crate) dashboard: Dashboard,

    /// After an outage every running lease lasts at least this many seconds from now; 0 turns that off
    #[arg(long, env = "TASKQUEUE_OUTAGE_CREDIT", value_name = "SECONDS", default_value_t = OUTAGE_CREDIT_SECONDS,
          allow_negative_numbers = true, value_parser = clap::value_parser!(i64).range(0..=OUTAGE_CREDIT_MAX))]
    pub(crate) outage_credit: i64,

    /// Keep the last bytes of what the latest run of each task printed, at most 16777216; 0 keeps nothing
    #[arg(long, env = "TASKQUEUE_TASK_OUTPUT_BYTES", value_name = "BYTES", default_value_t = TASK_OUTPUT_BYTES as i64,
          allow_negative_numbers = true, value_parser = clap::value_parser!(i64).range(0..=TASK_OUTPUT_MAX))]
    pub(crate) task_output_bytes: i64,

    /// At a stop, first answer /readyz with 503 for so long and everything else as usual, so that a balancer notices; a second
    /// signal ends that
    #[arg(long, env = "TASKQUEUE_STOP_DELAY", value_name = "DURATION", default_value = "0s", value_parser = duration)]
    pub(crate) stop_delay: Duration,

    /// The format of log lines
    #[arg(long, env = "TASKQUEUE_LOG_FORMAT", value_enum, value_name = "FORMAT", default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,

    /// Log this level and everything more severe
    #[arg(long, env = "TASKQUEUE_LOG_LEVEL", value_enum, value_name = "LEVEL", default_value_t = LogLevel::Info)]
    pub(crate) log_level: LogLevel,

    /// Log each request: queue, status, error code, duration, client address, request id
    #[arg(long, env = "TASKQUEUE_LOG_REQUESTS", value_parser = BoolishValueParser::new())]
    pub(crate) log_requests: bool,

    /// Take settings from this file, whose keys are the names of flags; flags and variables count before it
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Start nothing: check all settings and the files that they name, and print what would count and where from
    #[arg(long)]
    pub(crate) check: bool,

    /// With --check: the format of what is printed; a table if none is named
    #[arg(short, long, value_enum, value_name = "FORMAT", requires = "check")]
    pub(crate) output: Option<Format>,

    /// What counts, and where it comes from.
    #[arg(skip)]
    pub(crate) settings: Vec<Setting>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Dashboard {
    /// No pages
    Off,
    /// Pages on which nothing can be changed
    ReadOnly,
    /// Pages on which everybody can do what their token opens
    Full,
}

impl From<Dashboard> for DashboardMode {
    fn from(dashboard: Dashboard) -> Self {
        match dashboard {
            Dashboard::Off => Self::Off,
            Dashboard::ReadOnly => Self::ReadOnly,
            Dashboard::Full => Self::Full,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people
    Text,
    /// For machines: one object per line
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogLevel {
    /// Failures
    Error,
    /// Possible problems
    Warn,
    /// Start, stop, migrations, slow requests, background work; each request with --log-requests
    Info,
    /// For debugging
    Debug,
    /// Everything
    Trace,
}

#[derive(Debug, Args)]
pub(crate) struct TokenArgs {
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(subcommand)]
    pub(crate) command: TokenCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a random token, and its lines for the file of serve --tokens
    Create(CreateTokenArgs),
    /// Check a file of tokens and list them
    Check {
        /// The file
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

#[derive(Debug, Args)]
pub(crate) struct CreateTokenArgs {
    /// The name of the token, for the file and for log lines
    #[arg(value_name = "NAME", value_parser = token_name)]
    pub(crate) name: String,

    /// What it opens: read, submit, work or admin (repeatable)
    #[arg(long = "scope", value_name = "SCOPE", value_parser = scope, required = true, value_delimiter = ',')]
    pub(crate) scopes: Vec<Scope>,

    /// The queues it opens, with * for any characters; all if none is named (repeatable)
    #[arg(long = "queue", short, value_name = "PATTERN", value_parser = queue_pattern)]
    pub(crate) queues: Vec<QueuePattern>,

    /// How long it is valid, such as 12h or 90d; for ever without an end
    #[arg(long, value_name = "DURATION", value_parser = nonzero_duration, conflicts_with = "expires_at")]
    pub(crate) expires_in: Option<Duration>,

    /// Until when it is valid, such as 2027-01-31T00:00:00Z
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) expires_at: Option<Timestamp>,

    /// Add it to this file of tokens, which is created if it is missing
    #[arg(long, value_name = "FILE")]
    pub(crate) append: Option<PathBuf>,
}

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

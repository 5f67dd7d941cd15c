//! The command line: flags, their environment variables, their help. Nothing is opened or started here.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand, ValueEnum};
use taskqueue_core::ids::QueueName;
use taskqueue_core::limits::OUTAGE_CREDIT_SECONDS;
use taskqueue_server::ListenAddress;

use crate::failure::Failure;
use crate::open_store::Database;

/// The longest outage credit that is still a credit and not a mistake: one day.
const OUTAGE_CREDIT_MAX: i64 = 86_400;

const EXAMPLES: &str = "\
Examples:
  taskqueue serve
  taskqueue serve --queue default --database /var/lib/taskqueue/taskqueue.db
  taskqueue serve --listen 0.0.0.0:8000 --token-file /etc/taskqueue/token
  taskqueue serve --listen unix:/run/taskqueue.sock --log-format json

The token comes from --token-file or the environment variable TASKQUEUE_TOKEN, never
from the command line, where every user of the machine could read it.

When the server is ready it prints one line: its base URL. Logs go to standard error.
It stops on SIGTERM or SIGINT after finishing the requests under way.

Exit codes: 0 stopped in good order, 1 refused to start, 2 wrong arguments.";

/// A durable task queue with an HTTP JSON API.
#[derive(Debug, Parser)]
#[command(
    name = "taskqueue",
    version,
    disable_help_subcommand = true,
    subcommand_required = true,
    arg_required_else_help = false
)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start the server
    #[command(after_help = EXAMPLES)]
    Serve(ServeArgs),
}

/// How to serve.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Where to listen: HOST:PORT (port 0 picks one) or unix:PATH; other machines need a token
    #[arg(long, env = "TASKQUEUE_LISTEN", value_name = "ADDRESS", default_value = "127.0.0.1:8000")]
    pub(crate) listen: ListenAddress,

    /// The database: a path or sqlite:PATH; created when it is missing
    #[arg(long, env = "TASKQUEUE_DATABASE", value_name = "DATABASE", default_value = "taskqueue.db")]
    pub(crate) database: Database,

    /// Make sure that this queue exists (repeatable); a fresh database has none
    #[arg(long = "queue", value_name = "NAME", value_parser = queue_name)]
    pub(crate) queues: Vec<QueueName>,

    /// A file with the token that callers must show [env: TASKQUEUE_TOKEN, the token itself]
    #[arg(long, value_name = "PATH")]
    pub(crate) token_file: Option<PathBuf>,

    /// After an outage every running lease is good for at least this long; 0 turns that off
    #[arg(long, value_name = "SECONDS", default_value_t = OUTAGE_CREDIT_SECONDS, allow_negative_numbers = true,
          value_parser = clap::value_parser!(i64).range(0..=OUTAGE_CREDIT_MAX))]
    pub(crate) outage_credit: i64,

    /// How log lines look
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,

    /// What is logged: this and everything more severe
    #[arg(long, value_enum, value_name = "LEVEL", default_value_t = LogLevel::Info)]
    pub(crate) log_level: LogLevel,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people
    Text,
    /// For machines: one object per line
    Json,
}

/// The least severe thing that is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogLevel {
    /// What went wrong
    Error,
    /// What may go wrong
    Warn,
    /// Requests and what the server does by itself
    Info,
    /// For those who look for a bug
    Debug,
    /// Everything
    Trace,
}

/// What a command line comes to.
#[derive(Debug)]
pub(crate) enum Parsed {
    /// Something to do.
    Command(Command),
    /// Something to show: help or the version.
    Text(String),
}

/// Reads a command line, the name of the program first.
pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Parsed, Failure> {
    match CommandLine::try_parse_from(arguments) {
        Ok(line) => Ok(Parsed::Command(line.command)),
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            Ok(Parsed::Text(error.render().to_string()))
        }
        Err(error) => Err(Failure::Usage(one_line(&error))),
    }
}

/// What clap says in paragraphs (problem, tips, usage, pointer to the help), as one line without the usage.
fn one_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let paragraphs = text.split("\n\n").take_while(|paragraph| !paragraph.trim_start().starts_with("Usage:"));
    let told = paragraphs.filter(|paragraph| !paragraph.starts_with("For more information"));
    let told: Vec<String> = told.map(|text| text.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    format!("{}; see taskqueue serve --help", told.join("; "))
}

fn queue_name(text: &str) -> Result<QueueName, &'static str> {
    QueueName::parse(text).ok_or("a queue name has 1 to 128 of A-Z a-z 0-9 . _ - and begins with a letter or digit")
}

#[cfg(test)]
mod tests;

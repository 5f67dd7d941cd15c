//! `taskqueue token ...`

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use taskqueue_core::access::{QueuePattern, Scope};
use taskqueue_core::time::Timestamp;

use super::connection::OutputArgs;
use super::values::{nonzero_duration, queue_pattern, scope, time, token_name};

pub(super) const HELP: &str = "\
Examples:
  taskqueue token create gpu-workers --scope work --queue 'exp-*' --append tokens.toml
  taskqueue token check tokens.toml
  taskqueue serve --tokens tokens.toml

A token of the file has a name, which stands in the log lines of its requests, scopes, and patterns
of queues. The file holds only the SHA-256 of each token. The server looks at it every second.";

const CREATE_HELP: &str = "\
Examples:
  taskqueue token create gpu-workers --scope work --queue 'exp-*'
  taskqueue token create ann --scope read --scope submit --expires-in 90d --append tokens.toml
  taskqueue token create ops --scope admin --output json

The scopes: read (see everything), submit (create, change, cancel and delete tasks), work (what a
worker needs), admin (create and delete queues, and all of the others).

The token is printed to standard output, once: nothing keeps it. The lines for the file of
serve --tokens are printed to standard error, or added to the file with --append.";

const CHECK_HELP: &str = "\
Examples:
  taskqueue token check /etc/taskqueue/tokens.toml
  taskqueue token check tokens.toml --output json

Exit codes: 0 a server would accept the file, 1 it would not.";

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
    #[command(after_help = CREATE_HELP)]
    Create(CreateTokenArgs),
    /// Check a file of tokens and list them
    #[command(after_help = CHECK_HELP)]
    Check(CheckTokensArgs),
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

#[derive(Debug, Args)]
pub(crate) struct CheckTokensArgs {
    /// The file
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

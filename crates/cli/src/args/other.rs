//! The commands without a noun: health, configuration, completions, manual pages.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use clap_complete::Shell;

use super::connection::{ConnectionArgs, OutputArgs, QueueArg};

/// The health of the server.
#[derive(Debug, Args)]
pub(crate) struct HealthArgs {
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// The configuration of the client commands.
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    #[command(flatten)]
    pub(crate) queue: QueueArg,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(subcommand)]
    pub(crate) command: ConfigCommand,
}

/// What to do with the configuration.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show each value and where it comes from; the token itself is never shown
    Show,
}

/// Completions for a shell.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum, value_name = "SHELL")]
    pub(crate) shell: Shell,
}

/// The manual.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Write one page per command into this folder, instead of the first page to standard output
    #[arg(long, value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,
}

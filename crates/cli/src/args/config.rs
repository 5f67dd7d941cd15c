//! `taskqueue config ...`

use clap::{Args, Subcommand};

use super::connection::{ConnectionArgs, OutputArgs, QueueArg};

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

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show each value and where it comes from; the token itself is never shown
    Show,
}

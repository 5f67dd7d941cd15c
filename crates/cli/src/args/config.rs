//! `taskqueue config ...`

use clap::{Args, Subcommand};

use super::connection::{ConnectionArgs, OutputArgs, QueueArg};

pub(super) const HELP: &str = "\
Examples:
  taskqueue config show";

const SHOW_HELP: &str = "\
Examples:
  taskqueue config show
  taskqueue config show --url http://127.0.0.1:8000    # which token would be sent there

A configuration file has lines such as url = \"https://queue.example\", queue = \"experiments\"
and token_file = \"queue-token\".";

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
    #[command(after_help = SHOW_HELP)]
    Show,
}

//! The commands about this program itself: `taskqueue config ...`, `completions`, `man` and `help`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use clap_complete::Shell;

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

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum, value_name = "SHELL")]
    pub(crate) shell: Shell,
}

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Write one page per command into this folder, instead of the main page to standard output
    #[arg(long, value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct HelpArgs {
    /// The command, such as: task list
    #[arg(value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

impl HelpArgs {
    /// The arguments that show the help.
    pub(super) fn arguments(&self) -> Vec<OsString> {
        let program = OsString::from("taskqueue");
        std::iter::once(program).chain(self.command.iter().cloned()).chain([OsString::from("--help")]).collect()
    }
}

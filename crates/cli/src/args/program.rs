//! The commands about this program itself: `taskqueue config ...`, `completions`, `man` and `help`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use clap_complete::Shell;

use super::connection::{ConnectionArgs, OutputArgs, QueueArg};

pub(super) const CONFIG_HELP: &str = "\
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

pub(super) const COMPLETIONS_HELP: &str = "\
Examples:
  taskqueue completions bash > ~/.local/share/bash-completion/completions/taskqueue
  taskqueue completions zsh > ~/.zfunc/_taskqueue    # a folder of fpath
  taskqueue completions fish > ~/.config/fish/completions/taskqueue.fish";

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum, value_name = "SHELL")]
    pub(crate) shell: Shell,
}

pub(super) const MAN_HELP: &str = "\
Examples:
  taskqueue man > taskqueue.1 && man ./taskqueue.1
  taskqueue man --directory ~/.local/share/man/man1    # man taskqueue-task-list

taskqueue help COMMAND shows the same on the screen.";

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Write one page per command into this folder, instead of the main page to standard output
    #[arg(long, value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,
}

pub(super) const HELP_HELP: &str = "\
Examples:
  taskqueue help
  taskqueue help task list";

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

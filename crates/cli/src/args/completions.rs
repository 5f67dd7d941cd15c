//! `taskqueue completions`

use clap::Args;
use clap_complete::Shell;

pub(super) const HELP: &str = "\
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

//! `taskqueue man`

use std::path::PathBuf;

use clap::Args;

pub(super) const HELP: &str = "\
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

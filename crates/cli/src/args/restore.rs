//! `taskqueue restore`

use std::path::PathBuf;

use clap::Args;

use super::connection::OutputArgs;
use crate::open_store::Database;

pub(super) const HELP: &str = "\
Examples:
  taskqueue restore --from /backup/taskqueue.db --database /var/lib/taskqueue/taskqueue.db
  taskqueue restore --from /backup/taskqueue.db --database taskqueue.db --replace

Stop the server first. The backup is checked, copied, and the copy is checked again before it takes
the place of the database. Whatever was done since the backup is gone. Runs that were active then
are running again, and their workers have 90 seconds from the start of the server to be heard of.

Exit codes: 0 restored, 1 nothing was changed, 2 wrong arguments.";

#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// The backup
    #[arg(long, value_name = "FILE")]
    pub(crate) from: PathBuf,

    /// Where the database shall be: a path or sqlite:PATH
    #[arg(long, value_name = "DATABASE")]
    pub(crate) database: Database,

    /// Replace a database that is there, and lose what it holds
    #[arg(long)]
    pub(crate) replace: bool,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

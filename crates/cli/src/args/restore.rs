//! `taskqueue restore`

use std::path::PathBuf;

use clap::Args;

use super::connection::OutputArgs;
use super::secrets::SecretArgs;
use crate::open_store::Database;

pub(super) const HELP: &str = "\
Examples:
  taskqueue restore --from /backup/taskqueue.db --database /var/lib/taskqueue/taskqueue.db
  taskqueue restore --from /backup/taskqueue.db --database taskqueue.db --replace
  taskqueue restore --from /backup/taskqueue --database taskqueue.db --token-file /etc/taskqueue/token

Stop the server first. The backup is checked, copied, and the copy is checked again before it takes
the place of the database. Whatever was done since the backup is gone. Runs that were active then
are running again, and their workers have 90 seconds from the start of the server to be heard of.

A folder of backup --with-secrets is put back as a whole: name the places of its token, tokens file and
TLS certificate and key with the flags of the server; without a TLS flag the key goes to DATABASE.tls. A
secret that is there with other content is never replaced. If anything is refused, nothing was changed;
if the command was killed, run it again. To restore the database alone, name its file: DIR/taskqueue.db.

Exit codes: 0 restored, 1 nothing was changed, 2 wrong arguments.";

#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// The backup: a file, or a folder of backup --with-secrets
    #[arg(long, value_name = "FILE")]
    pub(crate) from: PathBuf,

    /// Where the database shall be: a path or sqlite:PATH; for a backup of secrets alone the URL of PostgreSQL
    #[arg(long, value_name = "DATABASE")]
    pub(crate) database: Database,

    /// Replace a database that is there, and lose what it holds
    #[arg(long)]
    pub(crate) replace: bool,

    #[command(flatten)]
    pub(crate) secrets: SecretArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

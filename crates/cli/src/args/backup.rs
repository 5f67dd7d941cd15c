//! `taskqueue backup`

use std::path::PathBuf;

use clap::Args;

use super::connection::OutputArgs;
use super::secrets::SecretArgs;
use crate::open_store::Database;

pub(super) const HELP: &str = "\
Examples:
  taskqueue backup --database /var/lib/taskqueue/taskqueue.db --to /backup/taskqueue.db --replace
  taskqueue backup --to \"/backup/taskqueue-$(date +%F).db\" --output json
  taskqueue backup --with-secrets --to /backup/taskqueue --token-file /etc/taskqueue/token

The server may run and go on writing: the backup is the database as it was when the command began,
in one file that only you can read. It is checked before it gets its name, so a file of that name
is always whole. Kill the command, or let the disk be full: the database and an earlier backup stay
as they are. Copying at a higher --rate takes more of the disk's time from the server.

The TLS key that clients pin and the tokens are no part of the database. With --with-secrets the backup
is a folder that only you can enter, with the database, the TLS certificate and key, the token and the
tokens file, and manifest.json with the size and the SHA-256 of each. Name them with the flags that
the server was started with; without a TLS flag the key in DATABASE.tls is taken, if there is one. What
is not there is said. Whoever has that folder can be the server: encrypt it.

To put it back: taskqueue restore. PostgreSQL has its own tools: pg_dump, and continuous archiving; of
such a server --with-secrets copies the secrets alone.

Exit codes: 0 the backup is whole, 1 there is none, 2 wrong arguments.";

#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// The database: a path or sqlite:PATH
    #[arg(
        long,
        env = "TASKQUEUE_DATABASE",
        hide_env_values = true,
        value_name = "DATABASE",
        default_value = "taskqueue.db"
    )]
    pub(crate) database: Database,

    /// The file for the backup, in a folder that exists; with --with-secrets the folder for it
    #[arg(long, value_name = "FILE")]
    pub(crate) to: PathBuf,

    /// Make a folder, and copy the TLS certificate and key, the token and the tokens file into it, too
    #[arg(long)]
    pub(crate) with_secrets: bool,

    /// Replace an earlier backup of this name, when the new one is whole
    #[arg(long)]
    pub(crate) replace: bool,

    /// Copy at most so many MiB per second
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) rate: u32,

    #[command(flatten)]
    pub(crate) secrets: SecretArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

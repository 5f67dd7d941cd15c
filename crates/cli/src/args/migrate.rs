//! `taskqueue migrate`

use clap::Args;

use crate::open_store::Database;

pub(super) const HELP: &str = "\
Examples:
  taskqueue migrate --from taskqueue.db --to postgres://taskqueue@db.example/taskqueue
  taskqueue migrate --from postgres://localhost/old --from-schema lab --to /var/lib/taskqueue/taskqueue.db

Stop every server on both databases first. Queues, tasks and observations are copied with
everything that is known of them, read back and compared; the source stays as it is. A run
that was active before still is after: its worker goes on when a server runs on the target.
Until the last moment the target is empty; when the command is interrupted, run it again.

A password that must not be read by every user of the machine comes from PGPASSWORD, or
with the whole URL in TASKQUEUE_MIGRATE_FROM or TASKQUEUE_MIGRATE_TO.

Exit codes: 0 everything was copied, 1 nothing was copied, 2 wrong arguments.";

/// What to copy where.
#[derive(Debug, Args)]
pub(crate) struct MigrateArgs {
    /// The database to copy: a path, sqlite:PATH or postgres://USER@HOST/DATABASE
    #[arg(long, env = "TASKQUEUE_MIGRATE_FROM", hide_env_values = true, value_name = "DATABASE")]
    pub(crate) from: Database,

    /// The database to copy to, created when it is an SQLite file that is missing
    #[arg(long, env = "TASKQUEUE_MIGRATE_TO", hide_env_values = true, value_name = "DATABASE")]
    pub(crate) to: Database,

    /// The schema that holds our tables in a PostgreSQL source [default: taskqueue]
    #[arg(long, value_name = "SCHEMA")]
    pub(crate) from_schema: Option<String>,

    /// The schema for our tables in a PostgreSQL target, created when it is missing [default: taskqueue]
    #[arg(long, value_name = "SCHEMA")]
    pub(crate) to_schema: Option<String>,
}

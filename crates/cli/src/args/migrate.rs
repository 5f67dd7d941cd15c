//! `taskqueue migrate`

use clap::Args;

use crate::open_store::Database;

pub(super) const HELP: &str = "\
Examples:
  taskqueue migrate --from taskqueue.db --to postgres://taskqueue@db.example/taskqueue
  taskqueue migrate --from postgres://localhost/old --from-schema lab --to /var/lib/taskqueue.db

Stop every server on both databases first. All queues, tasks and observations are copied, read
back and compared; the source is not changed. Active runs stay active: their workers go on as
soon as a server runs on the target. What was counted so far is not copied, and who was signed in to
the dashboard signs in again. The copy is committed at the very end; if the command is
interrupted, the target is still empty and the command can be run again.

Every user of the machine can read command lines. Give a password in PGPASSWORD, or the whole
URL in TASKQUEUE_MIGRATE_FROM or TASKQUEUE_MIGRATE_TO.

Exit codes: 0 everything was copied, 1 nothing was copied, 2 wrong arguments.";

#[derive(Debug, Args)]
pub(crate) struct MigrateArgs {
    /// The database to copy: a path, sqlite:PATH or postgres://USER@HOST/DATABASE
    #[arg(long, env = "TASKQUEUE_MIGRATE_FROM", hide_env_values = true, value_name = "DATABASE")]
    pub(crate) from: Database,

    /// The database to copy to; an SQLite file is created if it is missing
    #[arg(long, env = "TASKQUEUE_MIGRATE_TO", hide_env_values = true, value_name = "DATABASE")]
    pub(crate) to: Database,

    /// The schema with the tables in a PostgreSQL source [default: taskqueue]
    #[arg(long, value_name = "SCHEMA")]
    pub(crate) from_schema: Option<String>,

    /// The schema for the tables in a PostgreSQL target, created if it is missing [default: taskqueue]
    #[arg(long, value_name = "SCHEMA")]
    pub(crate) to_schema: Option<String>,
}

//! `taskqueue check`

use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches};

use super::connection::OutputArgs;
use crate::open_store::Database;

pub(super) const HELP: &str = "\
Examples:
  taskqueue check --database /var/lib/taskqueue/taskqueue.db
  taskqueue check /backup/taskqueue
  taskqueue check --database postgres://taskqueue@db.example/taskqueue --output json

Reads the whole database and changes nothing. Servers may run: one moment of the database is
checked. Each problem is one line: the rule, then what it is about. With PostgreSQL, indexes are
checked by the extension amcheck where it is installed; a standby can be checked instead.

Of a folder of backup --with-secrets each file is compared with the size and the SHA-256 in its
manifest, and its database is checked.

Exit codes: 0 the database or the backup is sound, 1 there are problems or it cannot be read, 2 wrong arguments.";

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    // First, because the others take their values away when they are read.
    #[command(flatten)]
    pub(crate) given: GivenFlag,

    /// A folder of backup --with-secrets, to be checked instead of a database
    #[arg(value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,

    /// The database: a path, sqlite:PATH or postgres://USER@HOST/DATABASE
    #[arg(
        long,
        env = "TASKQUEUE_DATABASE",
        hide_env_values = true,
        value_name = "DATABASE",
        default_value = "taskqueue.db"
    )]
    pub(crate) database: Database,

    /// The schema with the tables in PostgreSQL [default: taskqueue]
    #[arg(long, env = "TASKQUEUE_DATABASE_SCHEMA", value_name = "SCHEMA")]
    pub(crate) database_schema: Option<String>,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// The flag about a database that stands in the command line. A variable may be set for another command.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GivenFlag(pub(crate) Option<&'static str>);

impl FromArgMatches for GivenFlag {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let flags = [("database", "--database"), ("database_schema", "--database-schema")];
        let is_given = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
        Ok(Self(flags.into_iter().find(|(id, _)| is_given(id)).map(|(_, flag)| flag)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// It adds no flag of its own.
impl Args for GivenFlag {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}

//! The command line: flags, their environment variables, their help. Nothing is opened or started here.
//! One file per noun in `args/`; here are the list of commands, `serve`, and what is made of a wrong command line.

mod connection;
mod definition;
mod live;
mod other;
mod queue;
mod run_loop;
mod selection;
mod task;
mod values;
mod worker;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use taskqueue_core::ids::QueueName;
use taskqueue_core::limits::OUTAGE_CREDIT_SECONDS;
use taskqueue_server::ListenAddress;
use taskqueue_server::browser::HostName;

use crate::failure::Failure;
use crate::open_store::Database;

pub(crate) use self::connection::{ConnectionArgs, Format, OutputArgs, QueueArg};
pub(crate) use self::definition::{ChangeArgs, DefinitionArgs, ObjectArgs};
pub(crate) use self::live::TopArgs;
pub(crate) use self::other::{CompletionsArgs, ConfigArgs, ConfigCommand, HealthArgs, ManArgs};
pub(crate) use self::queue::{DeleteQueueArgs, QueueArgs, QueueCommand};
pub(crate) use self::run_loop::{LoopArgs, OnStop};
pub(crate) use self::selection::{ExtentArgs, ListArgs, TargetArgs};
pub(crate) use self::task::{
    ActionArgs, ConsentArgs, CountArgs, SubmitArgs, SweepArgs, TaskArgs, TaskCommand, UpdateArgs, WaitArgs,
};
pub(crate) use self::values::queue_name;
pub(crate) use self::worker::{CountWorkersArgs, ListWorkersArgs, WorkerArgs, WorkerCommand};

/// The longest outage credit that is still a credit and not a mistake: one day.
const OUTAGE_CREDIT_MAX: i64 = 86_400;

const EXAMPLES: &str = "\
Examples:
  taskqueue serve
  taskqueue serve --queue default --database /var/lib/taskqueue/taskqueue.db
  taskqueue serve --listen 0.0.0.0:8000 --token-file /etc/taskqueue/token
  taskqueue serve --listen unix:/run/taskqueue.sock --log-format json
  taskqueue serve --database postgres://taskqueue@db.example/taskqueue?sslmode=verify-full

The token comes from --token-file or the environment variable TASKQUEUE_TOKEN, never
from the command line, where every user of the machine could read it. So should the
password of PostgreSQL: from PGPASSWORD, or with the whole URL in TASKQUEUE_DATABASE.

Without a token the server listens on this machine only and answers 403 to requests for
other hosts than 127.0.0.1, [::1] and localhost, and to web pages of other origins, so that
no page in a browser can use it. Behind a proxy or under another name: --allow-host NAME.

When the server is ready it prints one line: its base URL. Logs go to standard error.
It stops on SIGTERM or SIGINT after finishing the requests under way.

Exit codes: 0 stopped in good order, 1 refused to start, 2 wrong arguments.";

const MIGRATE_EXAMPLES: &str = "\
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

const CLIENT_HELP: &str = "\
A first session:
  taskqueue serve --queue default &
  taskqueue task submit --name hello --arg seed=1
  taskqueue task list

The server that commands talk to, their queue and their token come from flags, then from the
environment (TASKQUEUE_URL, TASKQUEUE_QUEUE, TASKQUEUE_TOKEN), then from ./taskqueue.toml or the
nearest one above, then from the user's taskqueue/config.toml; taskqueue config show tells.
A URL that a taskqueue.toml names gets no token but that of the same file.

Results go to standard output, everything else to standard error.
Exit codes: 0 done, 1 refused or failed, 2 wrong arguments, 3 the server was not reached.";

/// A durable task queue with an HTTP JSON API.
#[derive(Debug, Parser)]
#[command(
    name = "taskqueue",
    version,
    disable_help_subcommand = true,
    subcommand_required = true,
    arg_required_else_help = false,
    after_help = CLIENT_HELP
)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start the server
    #[command(after_help = EXAMPLES)]
    Serve(ServeArgs),
    /// Copy everything to another, empty database
    #[command(after_help = MIGRATE_EXAMPLES)]
    Migrate(MigrateArgs),
    /// Create, list and delete queues
    #[command(arg_required_else_help = false)]
    Queue(QueueArgs),
    /// Create, find, change and wait for tasks
    #[command(arg_required_else_help = false)]
    Task(TaskArgs),
    /// Work: claim tasks and run a command for each of them
    #[command(name = "loop", after_help = run_loop::HELP)]
    Loop(LoopArgs),
    /// See what workers report of themselves
    #[command(arg_required_else_help = false)]
    Worker(WorkerArgs),
    /// Watch queues, routes, rates, running tasks and workers
    #[command(after_help = live::TOP_HELP)]
    Top(TopArgs),
    /// Ask the server whether it and its database work
    Health(HealthArgs),
    /// See how client commands are configured
    #[command(arg_required_else_help = false)]
    Config(ConfigArgs),
    /// Print completions for a shell
    Completions(CompletionsArgs),
    /// Print the manual page
    Man(ManArgs),
}

/// How to serve.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Where to listen: HOST:PORT (port 0 picks one) or unix:PATH; other machines need a token
    #[arg(long, env = "TASKQUEUE_LISTEN", value_name = "ADDRESS", default_value = "127.0.0.1:8000")]
    pub(crate) listen: ListenAddress,

    /// The database: a path or sqlite:PATH, created when it is missing, or postgres://USER@HOST/DATABASE
    #[arg(
        long,
        env = "TASKQUEUE_DATABASE",
        hide_env_values = true,
        value_name = "DATABASE",
        default_value = "taskqueue.db"
    )]
    pub(crate) database: Database,

    /// The schema that holds our tables in PostgreSQL, created when it is missing [default: taskqueue]
    #[arg(long, env = "TASKQUEUE_DATABASE_SCHEMA", value_name = "SCHEMA")]
    pub(crate) database_schema: Option<String>,

    /// Make sure that this queue exists (repeatable); a fresh database has none
    #[arg(long = "queue", value_name = "NAME", value_parser = queue_name)]
    pub(crate) queues: Vec<QueueName>,

    /// A file with the token that callers must show [env: TASKQUEUE_TOKEN, the token itself]
    #[arg(long, value_name = "PATH")]
    pub(crate) token_file: Option<PathBuf>,

    /// Without a token: take requests for this host, too, besides loopback and localhost (repeatable)
    #[arg(long = "allow-host", env = "TASKQUEUE_ALLOW_HOST", value_name = "NAME", value_delimiter = ',')]
    pub(crate) allowed_hosts: Vec<HostName>,

    /// After an outage every running lease is good for at least this long; 0 turns that off
    #[arg(long, value_name = "SECONDS", default_value_t = OUTAGE_CREDIT_SECONDS, allow_negative_numbers = true,
          value_parser = clap::value_parser!(i64).range(0..=OUTAGE_CREDIT_MAX))]
    pub(crate) outage_credit: i64,

    /// How log lines look
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,

    /// What is logged: this and everything more severe
    #[arg(long, value_enum, value_name = "LEVEL", default_value_t = LogLevel::Info)]
    pub(crate) log_level: LogLevel,
}

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

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people
    Text,
    /// For machines: one object per line
    Json,
}

/// The least severe thing that is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogLevel {
    /// What went wrong
    Error,
    /// What may go wrong
    Warn,
    /// Requests and what the server does by itself
    Info,
    /// For those who look for a bug
    Debug,
    /// Everything
    Trace,
}

/// What a command line comes to.
#[derive(Debug)]
pub(crate) enum Parsed {
    /// Something to do.
    Command(Box<Command>),
    /// Something to show: help or the version.
    Text(String),
}

/// Reads a command line, the name of the program first.
pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Parsed, Failure> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    match CommandLine::try_parse_from(&arguments) {
        Ok(line) => Ok(Parsed::Command(line.command.into())),
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            Ok(Parsed::Text(error.render().to_string()))
        }
        Err(error) => Err(Failure::Usage(one_line(&without_password(error), &arguments))),
    }
}

/// The same error, but it does not show what was written for the database, which may hold a password.
fn without_password(mut error: clap::Error) -> clap::Error {
    let argument = error.get(ContextKind::InvalidArg).map(ToString::to_string).unwrap_or_default();
    if ["--database ", "--from ", "--to "].iter().any(|flag| argument.contains(flag)) {
        error.insert(ContextKind::InvalidValue, ContextValue::String("...".to_owned()));
    }
    error
}

/// The whole command line, for completions and manual pages.
pub(crate) fn command_line() -> clap::Command {
    CommandLine::command()
}

/// What clap says in paragraphs (problem, tips, usage, pointer to the help), as one line without the usage.
fn one_line(error: &clap::Error, arguments: &[OsString]) -> String {
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let paragraphs = text.split("\n\n").take_while(|paragraph| !paragraph.trim_start().starts_with("Usage:"));
    let told = paragraphs.filter(|paragraph| !paragraph.starts_with("For more information"));
    let told: Vec<String> = told.map(|text| text.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    format!("{}; see {} --help", told.join("; "), command_of(arguments))
}

/// The command that a command line is about, as far as its words name one.
fn command_of(arguments: &[OsString]) -> String {
    let root = command_line();
    let (mut command, mut names) = (&root, vec![root.get_name()]);
    for word in arguments.iter().skip(1) {
        if let Some(found) = command.find_subcommand(word) {
            command = found;
            names.push(found.get_name());
        }
    }
    names.join(" ")
}

#[cfg(test)]
mod tests;

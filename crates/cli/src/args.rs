//! The command line: flags, their environment variables, their help, and the file of `serve --config`, which says flags. Nothing else is
//! opened or started here. One file per command in `args/`; this file lists the commands and turns a clap error into one line.

mod backup;
mod change;
mod check;
mod columns;
mod completions;
mod config;
mod connection;
mod definition;
mod duration_words;
mod health;
mod leading;
mod live;
mod logs;
mod man;
mod migrate;
mod progress;
mod queue;
mod restore;
mod run_loop;
mod scheduling;
mod secrets;
mod selection;
mod serve;
mod serve_file;
mod serve_settings;
mod submit;
mod task;
mod tls;
mod token;
mod values;
mod wait;
mod worker;

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use self::leading::LeadingArgs;
use self::serve_file::ServeFile;
use self::serve_settings::SERVE;
use crate::failure::Failure;

pub(crate) use self::backup::BackupArgs;
pub(crate) use self::change::{ArchiveArgs, ChangeArgs, ConfirmArgs, PatchArgs, RequeueArgs, RerunArgs, UpdateArgs};
pub(crate) use self::check::CheckArgs;
pub(crate) use self::columns::Sort;
pub(crate) use self::completions::CompletionsArgs;
pub(crate) use self::config::{ConfigArgs, ConfigCommand};
pub(crate) use self::connection::{ConnectionArgs, Format, OutputArgs, QueueArg};
pub(crate) use self::definition::{DefinitionArgs, ObjectArgs};
pub(crate) use self::health::HealthArgs;
pub(crate) use self::leading::HelpArgs;
pub(crate) use self::live::TopArgs;
pub(crate) use self::logs::LogsArgs;
pub(crate) use self::man::ManArgs;
pub(crate) use self::migrate::MigrateArgs;
pub(crate) use self::progress::ProgressArgs;
pub(crate) use self::queue::{
    DeleteQueueArgs, QueueArgs, QueueCommand, QueueLimitArgs, QueueRetentionArgs, QueueStatsArgs,
};
pub(crate) use self::restore::RestoreArgs;
pub(crate) use self::run_loop::{LoopArgs, OnOff, OnStop};
pub(crate) use self::scheduling::{SchedulingArgs, SchedulingChangeArgs};
pub(crate) use self::secrets::SecretArgs;
pub(crate) use self::selection::{ListArgs, SelectionArgs, TargetArgs, WorkerSelectionArgs};
pub(crate) use self::serve::{LogFormat, LogLevel, ServeArgs};
pub(crate) use self::submit::{SubmitArgs, SweepArgs};
pub(crate) use self::task::{CountArgs, TaskArgs, TaskCommand};
pub(crate) use self::tls::{OwnKey, TlsArgs};
pub(crate) use self::token::{CreateTokenArgs, TokenArgs, TokenCommand};
#[cfg(test)]
pub(crate) use self::values::OrNone;
pub(crate) use self::values::{TaskRef, queue_name};
pub(crate) use self::wait::WaitArgs;
pub(crate) use self::worker::{CountWorkersArgs, ListWorkersArgs, WorkerArgs, WorkerCommand};

const CLIENT_HELP: &str = "\
Examples:
  taskqueue serve --queue default &
  taskqueue task submit --name hello --arg seed=1
  taskqueue loop -- echo 'the seed is %{seed}'
  taskqueue task list
  taskqueue help task list

Client commands take the server, the queue and the token from flags, then from the environment
(TASKQUEUE_URL, TASKQUEUE_QUEUE, TASKQUEUE_TOKEN, TASKQUEUE_TLS_PIN or TASKQUEUE_TLS_CA), then from ./taskqueue.toml or the nearest one
in a parent folder, then from the user's taskqueue/config.toml. To see the values in use, run
taskqueue config show. A URL from a taskqueue.toml gets only the token of the same file.

Results go to standard output, everything else to standard error.
Exit codes: 0 done, 1 refused or failed, 2 wrong arguments, 3 the server was not reached,
130 ended by Ctrl-C.";

const TASK_HELP: &str = "\
Examples:
  taskqueue task submit --arg lr=0.1 --arg seed=1
  taskqueue task list --status failed --columns id,args.lr,last_error.type
  taskqueue task list --output csv > tasks.csv
  taskqueue task logs t_lZxL89_zReNB --follow

Each command has its own help: taskqueue help task list.";

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
    #[command(flatten)]
    _leading: LeadingArgs,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start the server
    #[command(after_help = serve::HELP)]
    Serve(ServeArgs),
    /// Copy a database to another, empty one
    #[command(after_help = migrate::HELP)]
    Migrate(MigrateArgs),
    /// Copy the database to a file while the server runs, or with its secrets to a folder
    #[command(after_help = backup::HELP)]
    Backup(BackupArgs),
    /// Put a backup in the place of the database, with the secrets that it holds
    #[command(after_help = restore::HELP)]
    Restore(RestoreArgs),
    /// Look for damage in a database or a backup
    #[command(after_help = check::HELP)]
    Check(CheckArgs),
    /// Create, list, pause, limit and delete queues
    #[command(arg_required_else_help = false, after_help = queue::HELP)]
    Queue(QueueArgs),
    /// Create, list, change and wait for tasks
    #[command(arg_required_else_help = false, after_help = TASK_HELP)]
    Task(Box<TaskArgs>),
    /// Run a worker: claim tasks and run a command for each of them
    #[command(name = "loop", after_help = run_loop::HELP)]
    Loop(LoopArgs),
    /// Inside a run: say how far it is
    #[command(after_help = progress::HELP)]
    Progress(ProgressArgs),
    /// List and count workers
    #[command(arg_required_else_help = false, after_help = worker::HELP)]
    Worker(WorkerArgs),
    /// Live view of queues, routes, rates, running tasks and workers
    #[command(after_help = live::TOP_HELP)]
    Top(TopArgs),
    /// Check that the server and its database work
    #[command(after_help = health::HELP)]
    Health(HealthArgs),
    /// Make tokens for a server, and check files of them
    #[command(arg_required_else_help = false, after_help = token::HELP)]
    Token(TokenArgs),
    /// Show the configuration of client commands
    #[command(arg_required_else_help = false, after_help = config::HELP)]
    Config(ConfigArgs),
    /// Print completions for a shell
    #[command(after_help = completions::HELP)]
    Completions(CompletionsArgs),
    /// Print the manual page
    #[command(after_help = man::HELP)]
    Man(ManArgs),
    /// Show the help of a command
    #[command(after_help = leading::HELP)]
    Help(HelpArgs),
}

#[derive(Debug)]
pub(crate) enum Parsed {
    Command {
        command: Box<Command>,
        /// What else to say about how it was written.
        hint: Option<String>,
    },
    /// Help or the version.
    Text(String),
}

/// The first argument is the name of the program. The file of `serve --config` is read here, because it says flags.
pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Parsed, Failure> {
    parse_with(arguments.into_iter().collect(), serve_file::read)
}

/// `read` gives the text of the file of `serve --config`.
fn parse_with(arguments: Vec<OsString>, read: serve_file::Read) -> Result<Parsed, Failure> {
    let (arguments, hint) = leading::add_noun(&command_line(), arguments);
    let arguments = leading::move_leading_flags(&command_line(), arguments);
    let (arguments, file) = serve_file::add_flags(arguments, read)?;
    match parse_line(&arguments, file.as_ref()) {
        Ok(CommandLine { command: Command::Help(args), .. }) => parse_with(args.arguments(), read),
        Ok(line) => Ok(Parsed::Command { command: line.command.into(), hint }),
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            Ok(Parsed::Text(error.render().to_string()))
        }
        Err(error) => {
            let place = file.as_ref().and_then(|file| file.place(&error)).unwrap_or_default();
            Err(Failure::Usage(format!("{place}{}", one_line(&without_password(error), &arguments))))
        }
    }
}

fn parse_line(arguments: &[OsString], file: Option<&ServeFile>) -> Result<CommandLine, clap::Error> {
    let matches = command_line().try_get_matches_from(arguments)?;
    let commands = std::iter::successors(Some(&matches), |matches| matches.subcommand().map(|(_, inner)| inner));
    if let Some(problem) = commands.last().and_then(OutputArgs::contradiction) {
        return Err(command_line().error(ErrorKind::ArgumentConflict, problem));
    }
    let mut line = CommandLine::from_arg_matches(&matches).map_err(|error| error.format(&mut command_line()))?;
    if let (Command::Serve(args), Some(matches)) = (&mut line.command, matches.subcommand_matches(SERVE)) {
        args.settings = serve_settings::settings(args, matches, file);
    }
    Ok(line)
}

/// Removes the value of a database flag from the error, because it may hold a password.
fn without_password(mut error: clap::Error) -> clap::Error {
    let argument = error.get(ContextKind::InvalidArg).map(ToString::to_string).unwrap_or_default();
    if ["--database ", "--from ", "--to "].iter().any(|flag| argument.contains(flag)) {
        error.insert(ContextKind::InvalidValue, ContextValue::String("...".to_owned()));
    }
    error
}

/// For completions and manual pages.
pub(crate) fn command_line() -> clap::Command {
    CommandLine::command()
}

/// clap's paragraphs (problem, tips, usage, pointer to the help) as one line without the usage.
fn one_line(error: &clap::Error, arguments: &[OsString]) -> String {
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let paragraphs = text.split("\n\n").take_while(|paragraph| !paragraph.trim_start().starts_with("Usage:"));
    let kept = paragraphs.filter(|paragraph| !paragraph.starts_with("For more information"));
    let kept: Vec<String> = kept.map(|text| text.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    let command = command_of(arguments);
    let hint = match command.as_str() {
        "taskqueue loop" => run_loop::hint(error),
        "taskqueue serve" => serve::hint(error),
        _ => None,
    };
    let hint = duration_words::hint(error, arguments).or(hint).unwrap_or_default();
    format!("{}{hint}; see {command} --help", kept.join("; "))
}

/// The command that the arguments name, as far as they are valid.
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
mod generated_pages_tests;
#[cfg(test)]
mod page_tests;
#[cfg(test)]
mod tests;

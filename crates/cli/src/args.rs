//! The command line: flags, their environment variables, their help, and the file of `serve --config`, which says flags. Nothing else is
//! opened or started here. One file per kind of command in `args/`, and `help.txt` with what is said below the flags; this file lists the
//! commands, has those about the program itself, and turns a clap error into one line.

mod connection;
mod installation;
mod queue;
mod selection;
mod serve;
mod serve_file;
mod submit;
mod task;
mod values;
mod worker;

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::LazyLock;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;

use self::serve_file::ServeFile;
use crate::failure::Failure;

pub(crate) use self::connection::*;
pub(crate) use self::installation::*;
pub(crate) use self::queue::*;
pub(crate) use self::selection::*;
pub(crate) use self::serve::*;
pub(crate) use self::submit::*;
pub(crate) use self::task::*;
pub(crate) use self::values::*;
pub(crate) use self::worker::*;

/// A durable task queue with an HTTP JSON API.
#[derive(Debug, Parser)]
#[command(name = "taskqueue", version, disable_help_subcommand = true)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start the server
    Serve(ServeArgs),
    /// Copy a database to another, empty one
    Migrate(MigrateArgs),
    /// Copy the database to a file while the server runs, or with its secrets to a folder
    Backup(BackupArgs),
    /// Put a backup in the place of the database, with the secrets that it holds
    Restore(RestoreArgs),
    /// Look for damage in a database or a backup
    Check(CheckArgs),
    /// Create, list, pause, limit and delete queues
    Queue(QueueArgs),
    /// Create, list, change and wait for tasks
    Task(Box<TaskArgs>),
    /// Run a worker: claim tasks and run a command for each of them
    #[command(name = "loop")]
    Loop(LoopArgs),
    /// Inside a run: say how far it is
    Progress(ProgressArgs),
    /// List and count workers
    Worker(WorkerArgs),
    /// Live view of queues, routes, rates, running tasks and workers
    Top(TopArgs),
    /// Check that the server and its database work
    Health(HealthArgs),
    /// Make tokens for a server, and check files of them
    Token(TokenArgs),
    /// Show the configuration of client commands
    Config(ConfigArgs),
    /// Print completions for a shell
    Completions(CompletionsArgs),
    /// Print the manual page
    Man(ManArgs),
    /// Show the help of a command
    Help(HelpArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    #[command(flatten)]
    pub(crate) queue: QueueArg,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(subcommand)]
    pub(crate) command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show each value and where it comes from; the token itself is never shown
    Show,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum, value_name = "SHELL")]
    pub(crate) shell: Shell,
}

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Write one page per command into this folder, instead of the main page to standard output
    #[arg(long, value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct HelpArgs {
    /// The command, such as: task list
    #[arg(value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

impl HelpArgs {
    /// The arguments that show the help.
    fn arguments(&self) -> Vec<OsString> {
        let program = OsString::from("taskqueue");
        std::iter::once(program).chain(self.command.iter().cloned()).chain([OsString::from("--help")]).collect()
    }
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

/// Parses a command line, whose first argument is the name of the program. The file of `serve --config` is read here, because it says flags.
pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Parsed, Failure> {
    parse_with(arguments.into_iter().collect(), serve_file::read)
}

/// Parses a command line; `read` gives the text of the file of `serve --config`.
fn parse_with(arguments: Vec<OsString>, read: serve_file::Read) -> Result<Parsed, Failure> {
    let (arguments, hint) = connection::in_usual_order(&command_line(), arguments);
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
    let innermost = commands.last();
    if let Some(problem) = innermost.and_then(OutputArgs::contradiction) {
        return Err(command_line().error(ErrorKind::ArgumentConflict, problem));
    }
    let filter = innermost.and_then(|matches| matches.try_get_one::<String>("filter").ok().flatten()).cloned();
    let mut line = CommandLine::from_arg_matches(&matches).map_err(|error| error.format(&mut command_line()))?;
    match (&mut line.command, matches.subcommand()) {
        (Command::Serve(args), Some((_, matches))) => args.settings = serve_file::settings(args, matches, file),
        (Command::Check(args), Some((_, matches))) => args.database_flag = installation::database_flag(matches),
        (Command::Task(args), _) => args.filter = filter,
        (Command::Worker(args), _) => args.filter = filter,
        _ => {}
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

/// Returns the definition of the command line, also for completions and manual pages.
pub(crate) fn command_line() -> clap::Command {
    with_help(CommandLine::command().args(connection::leading_flags()), "taskqueue")
}

/// The examples and explanations of each command, by its name.
static HELP: LazyLock<HashMap<&str, String>> = LazyLock::new(|| {
    let (columns, lines) = (selection::columns_help(), submit::lines_help());
    let sections = include_str!("args/help.txt").split("\n== ").filter_map(|section| section.split_once('\n')).skip(1);
    let filled = |text: &str| text.trim_end().replace("{COLUMNS}", &columns).replace("{LINES}", &lines);
    sections.map(|(name, text)| (name, filled(text))).collect()
});

/// Adds its help to a command and to those inside it. One that lacks its subcommand is refused like any other mistake.
fn with_help(command: clap::Command, name: &str) -> clap::Command {
    let inside = |inner: clap::Command| {
        let name = format!("{name} {}", inner.get_name());
        with_help(inner, &name)
    };
    let help = HELP.get(name).map_or("", String::as_str);
    command.arg_required_else_help(false).after_help(help).mut_subcommands(inside)
}

/// Makes clap's paragraphs (problem, tips, usage, pointer to the help) one line without the usage.
fn one_line(error: &clap::Error, arguments: &[OsString]) -> String {
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let paragraphs = text.split("\n\n").take_while(|paragraph| !paragraph.trim_start().starts_with("Usage:"));
    let kept = paragraphs.filter(|paragraph| !paragraph.starts_with("For more information"));
    let kept: Vec<String> = kept.map(|text| text.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    let command = command_of(arguments);
    let hint = match command.as_str() {
        "taskqueue loop" => worker::command_hint(error),
        "taskqueue serve" => serve::token_hint(error),
        _ => None,
    };
    let hint = values::duration_hint(error, arguments).or(hint).unwrap_or_default();
    format!("{}{hint}; see {command} --help", kept.join("; "))
}

/// Returns the command that the arguments name, as far as they are valid.
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
mod page_tests;
#[cfg(test)]
mod tests;

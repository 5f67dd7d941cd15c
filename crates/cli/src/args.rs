//! The command line: flags, their environment variables, their help, and the file of `serve --config`, which says flags. Nothing else is
//! opened or started here. One file per kind of command in `args/`, and `help.txt` with what is said below the flags; this file lists the
//! commands, has those about the program itself, and turns a clap error into one line.
//!
//! Every client command has the flags of the server, the queue and the output format; `config/` adds the environment and the configuration
//! files. They may stand before the command, as in `taskqueue --url URL health`, and commands for tasks may lack their noun, as in
//! `taskqueue logs ID`: both are brought into the form that every command understands.

mod selection;
mod serve;
mod serve_file;
mod task;
mod values;
mod worker;

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::LazyLock;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use taskqueue_core::ids::QueueName;

pub(crate) use self::selection::*;
pub(crate) use self::serve::*;
use self::serve_file::ServeFile;
pub(crate) use self::task::*;
pub(crate) use self::values::*;
pub(crate) use self::worker::*;
use crate::failure::Failure;

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
    Completions {
        /// The shell
        #[arg(value_enum, value_name = "SHELL")]
        shell: Shell,
    },
    /// Print the manual page
    Man {
        /// Write one page per command into this folder, instead of the main page to standard output
        #[arg(long, value_name = "DIR")]
        directory: Option<PathBuf>,
    },
    /// Show the help of a command
    Help {
        /// The command, such as: task list
        #[arg(value_name = "COMMAND")]
        command: Vec<OsString>,
    },
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
    let (arguments, hint) = in_usual_order(&command_line(), arguments);
    let (arguments, file) = serve_file::add_flags(arguments, read)?;
    match parse_line(&arguments, file.as_ref()) {
        Ok(CommandLine { command: Command::Help { command } }) => {
            let help = std::iter::once(OsString::from("taskqueue")).chain(command).chain([OsString::from("--help")]);
            parse_with(help.collect(), read)
        }
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
        (Command::Check(args), Some((_, matches))) => args.database_flag = serve::database_flag(matches),
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
    with_help(CommandLine::command().args(leading_flags()), "taskqueue")
}

/// The examples and explanations of each command, by its name.
static HELP: LazyLock<HashMap<&str, String>> = LazyLock::new(|| {
    let (columns, lines) = (selection::columns_help(), task::lines_help());
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

/// The heading of these flags in the help.
const HEADING: &str = "Connection and output";

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ConnectionArgs {
    /// The server: http://HOST:PORT, https://HOST or unix:PATH [env: TASKQUEUE_URL]
    #[arg(long, value_name = "URL", global = true, help_heading = HEADING)]
    pub(crate) url: Option<String>,

    /// A file with the token [env: TASKQUEUE_TOKEN, the token itself]
    #[arg(long, value_name = "PATH", global = true, help_heading = HEADING)]
    pub(crate) token_file: Option<PathBuf>,

    /// Trust the server with this key (https only), as it prints it: sha256:... [env: TASKQUEUE_TLS_PIN]
    #[arg(long, value_name = "PIN", global = true, conflicts_with = "tls_ca", help_heading = HEADING)]
    pub(crate) tls_pin: Option<String>,

    /// Trust certificates of the authorities in this PEM file only (https only) [env: TASKQUEUE_TLS_CA]
    #[arg(long, value_name = "FILE", global = true, help_heading = HEADING)]
    pub(crate) tls_ca: Option<PathBuf>,

    /// Send the token unencrypted (plain HTTP) to another machine
    #[arg(long, global = true, help_heading = HEADING)]
    pub(crate) allow_insecure_token: bool,
}

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct QueueArg {
    /// The queue, "default" if none is named [env: TASKQUEUE_QUEUE]
    #[arg(short, long, value_name = "NAME", global = true, value_parser = queue_name, help_heading = HEADING)]
    pub(crate) queue: Option<QueueName>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Args)]
pub(crate) struct OutputArgs {
    /// The format of results on standard output; a table if none is named
    #[arg(short, long, value_enum, value_name = "FORMAT", global = true, default_value_t = Format::Table,
          hide_default_value = true, help_heading = HEADING)]
    output: Format,

    /// CSV with every value as it is, also what a spreadsheet would run as a formula
    #[arg(long, global = true, help_heading = HEADING)]
    pub(crate) raw_csv: bool,
}

impl OutputArgs {
    /// For commands that only people call.
    pub(crate) const TABLE: Self = Self { output: Format::Table, raw_csv: false };

    /// For a command that has a flag of its own for the format.
    pub(crate) fn of(format: Option<Format>) -> Self {
        Self { output: format.unwrap_or(Format::Table), ..Self::TABLE }
    }

    /// Returns what is wrong if the flags of a command ask for raw CSV and for another format.
    fn contradiction(matches: &ArgMatches) -> Option<String> {
        // Commands without these flags, and with an output of another kind, have no contradiction.
        let is_raw = matches.try_get_one::<bool>("raw_csv").ok().flatten().copied()?;
        let format = matches.try_get_one::<Format>("output").ok().flatten().copied()?;
        let is_other = is_raw && !matches!(format, Format::Table | Format::Csv);
        let name = format.to_possible_value().filter(|_| is_other)?;
        Some(format!("the argument '--raw-csv' cannot be used with '--output {}'", name.get_name()))
    }

    /// Returns the format. Who asks for raw CSV asks for CSV.
    pub(crate) fn format(self) -> Format {
        if self.raw_csv { Format::Csv } else { self.output }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people: aligned columns, times as ages
    Table,
    /// For programs: one JSON value, with the fields of the HTTP API
    Json,
    /// For programs: one JSON object per line
    Jsonl,
    /// For spreadsheets and data frames: a header line, then comma-separated values
    Csv,
    /// For scripts: only ids, names or counts, one per line
    Quiet,
}

/// The heading of the flags of client commands in the help of the program.
const LEADING_HEADING: &str = "Flags of client commands, which may also stand behind the command";

/// Returns the flags of client commands, for the help of the program and for completions. They are moved before they are parsed, so that
/// each command refuses those that it does not have.
fn leading_flags() -> Vec<Arg> {
    let flags = ConnectionArgs::augment_args(clap::Command::new("flags"));
    let flags = OutputArgs::augment_args(QueueArg::augment_args(flags));
    flags.get_arguments().map(|flag| flag.clone().global(false).help_heading(LEADING_HEADING)).collect()
}

/// The commands that people write without their noun. None of these changes a task that is there.
const WITHOUT_NOUN: [&str; 5] = ["logs", "submit", "list", "get", "wait"];

/// Puts the noun before a command for tasks that stands alone, and tells how it is written; and moves flags that stand before the command
/// behind its name. Arguments that are not understood stay as they are, for the parser to refuse.
fn in_usual_order(root: &clap::Command, mut arguments: Vec<OsString>) -> (Vec<OsString>, Option<String>) {
    let mut at = 1;
    while let Some(length) = arguments.get(at).and_then(|word| flag_length(root, word.to_str()?)) {
        at += length;
    }
    let found = WITHOUT_NOUN.into_iter().find(|word| arguments.get(at).is_some_and(|given| given == word));
    let hint = found.map(|word| {
        arguments.insert(at, OsString::from("task"));
        format!("taskqueue {word} is taken for: taskqueue task {word}")
    });
    if arguments.get(at).is_some_and(|word| root.find_subcommand(word).is_some()) {
        arguments[1..=at].rotate_right(1);
    }
    (arguments, hint)
}

/// Returns how many arguments a leading flag and its value take; `None` if this is no such flag.
fn flag_length(root: &clap::Command, word: &str) -> Option<usize> {
    let (flag, has_value) = match word.strip_prefix("--") {
        Some(long) => {
            let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
            (root.get_arguments().find(|flag| flag.get_long() == Some(name))?, value.is_some())
        }
        None => {
            let mut letters = word.strip_prefix('-')?.chars();
            let letter = letters.next()?;
            (root.get_arguments().find(|flag| flag.get_short() == Some(letter))?, letters.next().is_some())
        }
    };
    match flag.get_action() {
        ArgAction::Set if !has_value => Some(2),
        ArgAction::Set | ArgAction::SetTrue => Some(1),
        // The help and the version of the program.
        _ => None,
    }
}

#[cfg(test)]
mod page_tests;
#[cfg(test)]
mod tests;

#[cfg(test)]
mod order_tests {
    use super::*;
    use crate::args::command_line;

    /// The arguments in the usual order, and whether the noun was missing.
    fn ordered(line: &str) -> (String, bool) {
        let words = line.split(' ').map(OsString::from).collect();
        let (words, hint) = in_usual_order(&command_line(), words);
        (words.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" "), hint.is_some())
    }

    #[test]
    fn a_command_for_tasks_gets_its_noun_and_nothing_else_does() {
        let cases = [
            ("tq logs t_x -f", "tq task logs t_x -f", true),
            ("tq --url X -q list list --all", "tq task --url X -q list list --all", true),
            ("tq task list", "tq task list", false),
            ("tq queue list", "tq queue list", false),
            ("tq cancel t_x", "tq cancel t_x", false),
            ("tq", "tq", false),
        ];
        for (line, expected, is_told) in cases {
            assert_eq!(ordered(line), (expected.to_owned(), is_told));
        }
    }

    #[test]
    fn flags_before_the_command_go_behind_it_and_everything_else_stays() {
        let cases = [
            ("tq --url X health", "tq health --url X"),
            ("tq --url=X -qgpu -o json task list --all", "tq task --url=X -qgpu -o json list --all"),
            ("tq --allow-insecure-token -q a loop -- --url Y", "tq loop --allow-insecure-token -q a -- --url Y"),
            ("tq --queue task task list", "tq task --queue task list"),
            ("tq task list --url X", "tq task list --url X"),
            ("tq --help", "tq --help"),
            ("tq --url X --help", "tq --url X --help"),
            ("tq --url", "tq --url"),
            ("tq --nonsense X health", "tq --nonsense X health"),
            ("tq --url X nonsense", "tq --url X nonsense"),
            ("tq -- health", "tq -- health"),
        ];
        for (line, expected) in cases {
            assert_eq!(ordered(line), (expected.to_owned(), false));
        }
    }
}

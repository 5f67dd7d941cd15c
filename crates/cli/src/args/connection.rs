//! Flags of every client command: the server, the queue, the output format. `config/` adds the environment and the configuration files.
//! They may stand before the command, as in `taskqueue --url URL health`, and commands for tasks may lack their noun, as in
//! `taskqueue logs ID`: both are brought into the form that every command understands.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, ValueEnum};
use taskqueue_core::ids::QueueName;

use super::values::queue_name;

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
    pub(super) fn contradiction(matches: &ArgMatches) -> Option<String> {
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
pub(super) fn leading_flags() -> Vec<Arg> {
    let flags = ConnectionArgs::augment_args(Command::new("flags"));
    let flags = OutputArgs::augment_args(QueueArg::augment_args(flags));
    flags.get_arguments().map(|flag| flag.clone().global(false).help_heading(LEADING_HEADING)).collect()
}

/// The commands that people write without their noun. None of these changes a task that is there.
const WITHOUT_NOUN: [&str; 5] = ["logs", "submit", "list", "get", "wait"];

/// Puts the noun before a command for tasks that stands alone, and tells how it is written; and moves flags that stand before the command
/// behind its name. Arguments that are not understood stay as they are, for the parser to refuse.
pub(super) fn in_usual_order(root: &Command, mut arguments: Vec<OsString>) -> (Vec<OsString>, Option<String>) {
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
fn flag_length(root: &Command, word: &str) -> Option<usize> {
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
mod tests {
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

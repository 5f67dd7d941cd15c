//! Flags that stand before the command, as in `taskqueue --url URL health`, commands for tasks without their noun, as in
//! `taskqueue logs ID`, and `taskqueue help COMMAND`. All are brought into the form that every command understands: flags behind the
//! command, `task` before what is done to a task, and `--help`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgAction, Args, Command};
use taskqueue_core::ids::QueueName;

use super::connection::Format;
use super::values::queue_name;

pub(super) const HELP: &str = "\
Examples:
  taskqueue help
  taskqueue help task list";

const HEADING: &str = "Flags of client commands, which may also stand behind the command";

/// Flags of the client commands, for the help and for completions. They are moved before they are parsed, so that each
/// command refuses those that it does not have.
#[derive(Debug, Args)]
pub(super) struct LeadingArgs {
    /// The server: http://HOST:PORT, https://HOST or unix:PATH [env: TASKQUEUE_URL]
    #[arg(long, value_name = "URL", help_heading = HEADING)]
    url: Option<String>,

    /// The queue [env: TASKQUEUE_QUEUE] [default: default]
    #[arg(short, long, value_name = "NAME", value_parser = queue_name, help_heading = HEADING)]
    queue: Option<QueueName>,

    /// The format of results on standard output
    #[arg(short, long, value_enum, value_name = "FORMAT", help_heading = HEADING)]
    output: Option<Format>,

    /// CSV with every value as it is, also what a spreadsheet would run as a formula
    #[arg(long, help_heading = HEADING)]
    raw_csv: bool,

    /// A file with the token [env: TASKQUEUE_TOKEN, the token itself]
    #[arg(long, value_name = "PATH", help_heading = HEADING)]
    token_file: Option<PathBuf>,

    /// Trust the server with this key (https only), as it prints it: sha256:... [env: TASKQUEUE_TLS_PIN]
    #[arg(long, value_name = "PIN", help_heading = HEADING)]
    tls_pin: Option<String>,

    /// Trust certificates of the authorities in this PEM file only (https only) [env: TASKQUEUE_TLS_CA]
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    tls_ca: Option<PathBuf>,

    /// Send the token unencrypted (plain HTTP) to another machine
    #[arg(long, help_heading = HEADING)]
    allow_insecure_token: bool,
}

#[derive(Debug, Args)]
pub(crate) struct HelpArgs {
    /// The command, such as: task list
    #[arg(value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

impl HelpArgs {
    /// The arguments that show the help.
    pub(super) fn arguments(&self) -> Vec<OsString> {
        let program = OsString::from("taskqueue");
        std::iter::once(program).chain(self.command.iter().cloned()).chain([OsString::from("--help")]).collect()
    }
}

/// What people leave the noun out of. None of these changes a task that is there.
const WITHOUT_NOUN: [&str; 5] = ["logs", "submit", "list", "get", "wait"];

/// Puts the noun before a command for tasks that stands alone, and tells how it is written.
pub(super) fn add_noun(root: &Command, mut arguments: Vec<OsString>) -> (Vec<OsString>, Option<String>) {
    let at = command_position(root, &arguments);
    let found = WITHOUT_NOUN.into_iter().find(|word| arguments.get(at).is_some_and(|given| given == word));
    let hint = found.map(|word| {
        arguments.insert(at, OsString::from("task"));
        format!("taskqueue {word} is taken for: taskqueue task {word}")
    });
    (arguments, hint)
}

/// Where the command stands, behind the leading flags.
fn command_position(root: &Command, arguments: &[OsString]) -> usize {
    let mut at = 1;
    while let Some(length) = arguments.get(at).and_then(|word| flag_length(root, word.to_str()?)) {
        at += length;
    }
    at
}

/// Moves flags that stand before the command behind its name. Arguments that are not understood stay as they are, for the
/// parser to refuse.
pub(super) fn move_leading_flags(root: &Command, mut arguments: Vec<OsString>) -> Vec<OsString> {
    let at = command_position(root, &arguments);
    let is_command = arguments.get(at).is_some_and(|word| root.find_subcommand(word).is_some());
    if is_command {
        arguments[1..=at].rotate_right(1);
    }
    arguments
}

/// How many arguments a leading flag and its value take; none if this is no such flag.
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

    fn moved(line: &str) -> String {
        let words = line.split(' ').map(OsString::from).collect();
        let moved = move_leading_flags(&command_line(), words);
        moved.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_command_for_tasks_gets_its_noun_and_nothing_else_does() {
        let cases = [
            ("tq logs t_x -f", "tq task logs t_x -f", true),
            ("tq --url X -q list list --all", "tq --url X -q list task list --all", true),
            ("tq task list", "tq task list", false),
            ("tq queue list", "tq queue list", false),
            ("tq cancel t_x", "tq cancel t_x", false),
            ("tq", "tq", false),
        ];
        for (line, expected, is_told) in cases {
            let words = line.split(' ').map(OsString::from).collect();
            let (words, hint) = add_noun(&command_line(), words);
            let words: Vec<&str> = words.iter().map(|word| word.to_str().unwrap()).collect();
            assert_eq!((words.join(" ").as_str(), hint.is_some()), (expected, is_told));
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
            assert_eq!(moved(line), expected);
        }
    }
}

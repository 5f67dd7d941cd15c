//! The pages and the command line say the same: every command that the pages and the help show is one that the program accepts; and what is
//! made of the definitions of the command line, the command reference, which `make book` has written and nobody keeps, and the tables of
//! docs/reference/configuration.md. A table that is not what the definitions say fails here, and is written anew with UPDATE_PAGES=1.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::{Arg, Command};

use super::*;
use crate::config::tests::file_keys;

/// The words of a line as a shell would split it. Words that stand between commands are `None`.
fn words(line: &str) -> Vec<Option<String>> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (Some(open), _) if character == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => word.get_or_insert_default().extend(characters.next()),
            (None, '#') if word.is_none() => break,
            (None, '|' | '&' | ';' | '>' | '<' | '(' | ')') => {
                // The `$` of `$(...)` is no word.
                words.extend(word.take().filter(|word| word != "$").map(Some));
                words.push(None);
            }
            (None, ' ') => words.extend(word.take().map(Some)),
            _ => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word.map(Some));
    words
}

/// The arguments of each call of the program in a line of a shell.
fn calls(line: &str) -> Vec<Vec<String>> {
    let words = words(line);
    let commands = words.split(Option::is_none).map(|command| command.iter().flatten().cloned().collect());
    let calls = commands.filter_map(|command: Vec<String>| {
        let is_before =
            |word: &String| word.contains('=') || ["$", "exec", "timeout", "8h", "30"].contains(&word.as_str());
        // What a variable stands for.
        let value = |word: String| if word == "$ids" { "t_aaaaaaaaaaaa".to_owned() } else { word };
        let call: Vec<String> = command.into_iter().skip_while(is_before).map(value).collect();
        (call.first().map(String::as_str) == Some("taskqueue")).then_some(call)
    });
    calls.collect()
}

/// Joins lines that end with a backslash.
fn lines(text: &str) -> Vec<String> {
    text.replace("\\\n", " ").lines().map(str::to_owned).collect()
}

/// The lines of the shell in a page: what is typed, without what is printed.
fn shell_lines(page: &str) -> Vec<String> {
    let blocks = page.split("\n```").skip(1).step_by(2);
    let typed = blocks.flat_map(|block| match block.split_once('\n') {
        Some(("sh", script)) => lines(script),
        Some(("console", session)) => {
            let lines = lines(session);
            let followed = lines.iter().zip(lines.iter().skip(1).map(String::as_str).chain([""]));
            // Some pages show what a mistake looks like.
            let accepted = followed.filter(|(_, next)| !next.starts_with("error: "));
            accepted.filter_map(|(line, _)| line.strip_prefix("$ ").map(str::to_owned)).collect()
        }
        _ => Vec::new(),
    });
    typed.collect()
}

#[track_caller]
fn check_commands(place: &str, line: &str) -> usize {
    let calls = calls(line);
    for call in &calls {
        // Files that a page names are not there.
        let parsed = parse_with(call.iter().map(OsString::from).collect(), |_| Ok(String::new()));
        assert!(parsed.is_ok(), "{place}: {line}\n{parsed:?}");
    }
    calls.len()
}

#[test]
fn the_commands_of_the_pages_are_accepted() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folders = ["docs", "docs/guides", "docs/reference"].map(|folder| std::fs::read_dir(root.join(folder)).unwrap());
    let documents = folders.into_iter().flatten().map(|entry| entry.unwrap().path());
    let pages =
        documents.filter(|path| path.extension().is_some_and(|kind| kind == "md")).chain([root.join("README.md")]);
    for page in pages {
        let text = std::fs::read_to_string(&page).unwrap();
        let found: usize =
            shell_lines(&text).iter().map(|line| check_commands(&page.display().to_string(), line)).sum();
        let is_expected =
            ["README", "recipes", "workers"].iter().any(|name| page.file_stem().is_some_and(|stem| stem == *name));
        assert!(found > 0 || !is_expected, "{}: no command found", page.display());
    }
}

#[test]
fn the_examples_of_the_help_are_accepted() {
    fn check_all(command: &Command, name: &str) -> usize {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let own: usize =
            lines(&help).iter().filter(|line| line.starts_with("  ")).map(|line| check_commands(name, line)).sum();
        let names = command.get_subcommands().map(|inner| (inner, format!("{name} {}", inner.get_name())));
        own + names.map(|(inner, name)| check_all(inner, &name)).sum::<usize>()
    }
    assert!(check_all(&command_line(), "taskqueue") > 10);
}

#[test]
fn a_line_is_split_as_a_shell_does() {
    let line = "A=1 taskqueue x 'a b' \"c\\\"d\" e\\ f  # rest";
    assert_eq!(calls(line), [["taskqueue", "x", "a b", "c\"d", "e f"].map(str::to_owned).to_vec()]);
    assert_eq!(calls("generate | taskqueue a && taskqueue b > c").len(), 2);
    let two = calls("ids=$(taskqueue a) && [ -n \"$ids\" ] && taskqueue b $ids");
    assert_eq!(two, [vec!["taskqueue", "a"], vec!["taskqueue", "b", "t_aaaaaaaaaaaa"]]);
    assert_eq!(calls("echo taskqueue"), [] as [Vec<String>; 0]);
}

const UPDATE: &str = "UPDATE_PAGES";
const CONFIGURATION: &str = "docs/reference/configuration.md";

/// Names the file that gets the command reference. Without it the reference is made and thrown away.
const REFERENCE_FILE: &str = "COMMAND_REFERENCE";

fn page(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}

/// Compares a page with what it should be, or writes it.
#[track_caller]
fn check(name: &str, expected: &str) {
    let path = page(name);
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&path, expected).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = found.lines().zip(expected.lines()).find(|(found, expected)| found != expected);
    assert!(
        found == expected,
        "{name} is not what the command line says; run: {UPDATE}=1 cargo test -p taskqueue --bin taskqueue page_tests\n{differs:?}"
    );
}

/// The commands with their names, those without subcommands and those with.
fn commands(command: &Command, name: &str) -> Vec<(String, Command)> {
    let inner = command.get_subcommands().filter(|inner| !inner.is_hide_set());
    let below = inner.flat_map(|inner| commands(inner, &format!("{name} {}", inner.get_name())));
    [(name.to_owned(), command.clone())].into_iter().chain(below).collect()
}

fn built() -> Command {
    let mut root = without_values(command_line()).term_width(100);
    root.build();
    root
}

/// Whatever the environment of the test holds, the page names variables only.
fn without_values(command: Command) -> Command {
    command.mut_args(|argument| argument.hide_env_values(true)).mut_subcommands(without_values)
}

#[test]
fn the_command_reference_has_the_help_of_every_command() {
    let mut text = String::new();
    let declared: BTreeSet<String> = commands(&command_line(), "taskqueue").into_iter().map(|(name, _)| name).collect();
    assert_eq!(declared, HELP.keys().map(|name| (*name).to_owned()).collect(), "the sections of help.txt");
    for (name, command) in commands(&built(), "taskqueue") {
        let help = command.clone().bin_name(&name).color(clap::ColorChoice::Never).render_long_help().to_string();
        assert!(help.contains(&format!("Usage: {name}")), "{name}: {help}");
        let example =
            help.split("\nExamples:\n").nth(1).and_then(|examples| examples.lines().next()).unwrap_or_default();
        assert!(example.contains(&name), "the help of {name} has no example: {help}");
        let body: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
        text.push_str(&format!("\n## {name}\n\n```text\n{}\n```\n", body.join("\n")));
    }
    assert!(text.contains("\n## taskqueue task sweep\n"), "{text}");
    if let Some(path) = std::env::var_os(REFERENCE_FILE) {
        std::fs::write(path, text).unwrap();
    }
}

/// What stands behind `[env: ` in a help text, for settings whose variable is read by the configuration.
fn variable_in_help(argument: &Arg) -> Option<String> {
    let help = argument.get_help()?.to_string();
    Some(help.split_once("[env: ")?.1.split([']', ',']).next()?.to_owned())
}

/// The help of a flag without what has a column of its own.
fn meaning(argument: &Arg) -> String {
    let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
    let help = help.split(" [env: ").next().unwrap_or_default();
    help.split(" [default: ").next().unwrap_or_default().replace('|', "\\|")
}

fn default(argument: &Arg) -> String {
    let in_help = argument.get_help().map(ToString::to_string).unwrap_or_default();
    let said = in_help.split_once("[default: ").and_then(|(_, rest)| rest.split(']').next()).map(str::to_owned);
    let values: Vec<String> =
        argument.get_default_values().iter().map(|value| format!("`{}`", value.to_string_lossy())).collect();
    match (values.is_empty() || !argument.get_action().takes_values(), said) {
        (false, _) => values.join(", "),
        (true, Some(said)) => said,
        (true, None) if !argument.get_action().takes_values() => "off".to_owned(),
        (true, None) => "-".to_owned(),
    }
}

/// One row for each flag of a command.
fn rows(command: &Command, with_key: bool) -> String {
    let flags = command.get_arguments().filter(|argument| argument.get_long().is_some() && !argument.is_hide_set());
    let flags = flags.filter(|argument| !["help", "version"].contains(&argument.get_id().as_str()));
    let mut text = String::new();
    for argument in flags {
        let flag = argument.get_long().unwrap_or_default();
        let code = |text: &str| if text.is_empty() { "-".to_owned() } else { format!("`{text}`") };
        let variable = argument.get_env().map(|name| name.to_string_lossy().into_owned());
        let variable = variable.or_else(|| variable_in_help(argument)).unwrap_or_default();
        let key = file_keys().into_iter().find(|key| key.replace('_', "-") == flag).unwrap_or_default();
        let key = if with_key { format!(" {} |", code(&key)) } else { String::new() };
        let (variable, value) = (code(&variable), default(argument));
        text.push_str(&format!("| `--{flag}` | {variable} |{key} {value} | {} |\n", meaning(argument)));
    }
    text
}

/// Replaces what stands between the marks of a table.
fn with_table(text: &str, name: &str, table: &str) -> String {
    let (begin, end) = (format!("<!-- table: {name} -->\n"), format!("<!-- end: {name} -->"));
    let (before, rest) = text.split_once(&begin).unwrap_or_else(|| panic!("{CONFIGURATION} has no {begin}"));
    let (_, behind) = rest.split_once(&end).unwrap_or_else(|| panic!("{CONFIGURATION} has no {end}"));
    format!("{before}{begin}{table}{end}{behind}")
}

#[test]
fn the_page_of_the_configuration_has_every_setting() {
    let root = built();
    let found = |name: &str| root.find_subcommand(name).unwrap().clone();
    let is_connection = |argument: &&Arg| argument.get_help_heading() == Some("Connection and output");
    let client = found("task");
    let connection = client.get_arguments().filter(is_connection).cloned();
    let connection = Command::new("connection").args(connection.map(|argument| argument.global(false)));
    let own = |name: &str| {
        let command = found(name);
        let own = command.get_arguments().filter(|argument| !is_connection(argument)).cloned();
        Command::new("own").args(own)
    };
    let head = |key: &str| {
        format!("| flag | variable |{key} default | |\n|---|---|{}---|---|\n", if key.is_empty() { "" } else { "---|" })
    };
    let mut text = std::fs::read_to_string(page(CONFIGURATION)).unwrap();
    text = with_table(&text, "client", &(head(" key in a file |") + &rows(&connection, true)));
    text = with_table(&text, "serve", &(head("") + &rows(&own("serve"), false)));
    text = with_table(&text, "loop", &(head("") + &rows(&own("loop"), false)));
    check(CONFIGURATION, &text);
    for key in file_keys() {
        assert!(text.contains(&format!("`{key}`")), "{CONFIGURATION} does not name the key {key}");
    }
}

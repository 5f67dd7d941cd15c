//! Every command line that the pages and the help show is one that the program accepts.

use std::path::Path;

use clap::CommandFactory;

use super::*;

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
fn check(place: &str, line: &str) -> usize {
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
        let found: usize = shell_lines(&text).iter().map(|line| check(&page.display().to_string(), line)).sum();
        let is_expected =
            ["README", "recipes", "workers"].iter().any(|name| page.file_stem().is_some_and(|stem| stem == *name));
        assert!(found > 0 || !is_expected, "{}: no command found", page.display());
    }
}

#[test]
fn the_examples_of_the_help_are_accepted() {
    fn check_all(command: &clap::Command, name: &str) -> usize {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let own: usize = lines(&help).iter().filter(|line| line.starts_with("  ")).map(|line| check(name, line)).sum();
        let names = command.get_subcommands().map(|inner| (inner, format!("{name} {}", inner.get_name())));
        own + names.map(|(inner, name)| check_all(inner, &name)).sum::<usize>()
    }
    assert!(check_all(&CommandLine::command(), "taskqueue") > 10);
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

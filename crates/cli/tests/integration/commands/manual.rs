//! Help, completions and manual pages, which need no server.

use std::path::Path;

use super::support::{Server, binary, finish, run_alone};

#[test]
fn completions_exist_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        run_alone(&format!("completions {shell}")).ok_with(&["taskqueue", "sweep"]);
    }
}

#[test]
fn the_manual_has_a_page_for_every_command() {
    run_alone("man").ok_with(&[".TH taskqueue", "Exit codes"]);
    let folder = tempfile::tempdir().unwrap();
    finish(binary(folder.path()).args(["man", "--directory", "pages"])).ok();
    let pages = std::fs::read_dir(folder.path().join("pages")).unwrap();
    let mut names: Vec<String> = pages.map(|page| page.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    for expected in ["taskqueue.1", "taskqueue-task-submit.1", "taskqueue-config-show.1"] {
        assert!(names.iter().any(|name| name == expected), "{names:?}");
    }
}

/// The help of a command, and the names of its subcommands.
fn help(folder: &Path, command: &[String]) -> (String, Vec<String>) {
    let help = finish(binary(folder).args(command).arg("--help")).ok();
    let listed = help.split("\nCommands:\n").nth(1).unwrap_or_default();
    let names = listed.lines().take_while(|line| line.starts_with("  ")).filter(|line| !line.starts_with("   "));
    let names = names.map(|line| line.split_whitespace().next().unwrap().to_owned()).collect();
    (help, names)
}

#[test]
fn every_command_has_help_with_examples() {
    let folder = tempfile::tempdir().unwrap();
    let mut open: Vec<Vec<String>> = vec![vec![]];
    let mut seen = Vec::new();
    while let Some(command) = open.pop() {
        let (help, names) = help(folder.path(), &command);
        let shown = command.join(" ");
        assert!(help.contains("Usage: taskqueue"), "{shown}: {help}");
        let examples = help.split("\nExamples:\n").nth(1).unwrap_or_default();
        let first = examples.lines().next().unwrap_or_default();
        assert!(first.contains(&format!("taskqueue {shown}")), "the help of {shown:?} has no example: {help}");
        // The help of a command is the same with `help` before it.
        assert_eq!(finish(binary(folder.path()).arg("help").args(&command)).ok(), help, "{shown}");
        open.extend(names.into_iter().map(|name| [command.clone(), vec![name]].concat()));
        seen.push(shown);
    }
    for expected in ["serve", "task list", "worker count", "config show", "help", "queue delete", "loop"] {
        assert!(seen.iter().any(|command| command == expected), "{expected} in {seen:?}");
    }
}

#[test]
fn help_of_something_unknown_is_an_error() {
    run_alone("help tsak").refuses_with(2, &["'task'"]);
}

#[test]
fn flags_of_client_commands_may_stand_before_the_command() {
    let server = Server::start();
    server.run("queue create other").ok();
    let url = &server.url;
    assert_eq!(run_alone(&format!("--url {url} -o quiet health")).ok(), "ok\n");
    run_alone(&format!("--url {url} --queue other task submit --id t_aaaaaaaaaaaa")).ok();
    assert_eq!(run_alone(&format!("-q other --output=quiet --url {url} task list")).ok(), "t_aaaaaaaaaaaa\n");
    run_alone(&format!("--url {url} health --url http://127.0.0.1:1")).fails_with(2, &["--url", "multiple times"]);
    run_alone("--queue q health").fails_with(2, &["'--queue'", "taskqueue health --help"]);
    run_alone(&format!("--url {url}")).fails_with(2, &["subcommand"]);
}

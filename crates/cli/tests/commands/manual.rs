//! Help, completions and manual pages, which need no server.

use crate::support::{binary, finish};

#[test]
fn completions_exist_for_every_shell() {
    let folder = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = finish(binary(folder.path()).args(["completions", shell])).ok();
        assert!(script.contains("taskqueue") && script.contains("sweep"), "{shell}");
    }
}

#[test]
fn the_manual_has_a_page_for_every_command() {
    let folder = tempfile::tempdir().unwrap();
    let page = finish(binary(folder.path()).arg("man")).ok();
    assert!(page.contains(".TH taskqueue") && page.contains("Exit codes"), "{page}");
    finish(binary(folder.path()).args(["man", "--directory", "pages"])).ok();
    let pages = std::fs::read_dir(folder.path().join("pages")).unwrap();
    let mut names: Vec<String> = pages.map(|page| page.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    for expected in ["taskqueue.1", "taskqueue-task-submit.1", "taskqueue-config-show.1"] {
        assert!(names.iter().any(|name| name == expected), "{names:?}");
    }
}

#[test]
fn every_command_has_help() {
    let folder = tempfile::tempdir().unwrap();
    let commands = [
        "",
        "serve",
        "queue",
        "queue create",
        "queue list",
        "queue delete",
        "task",
        "task submit",
        "task sweep",
        "task get",
        "task list",
        "task count",
        "task update",
        "task cancel",
        "task requeue",
        "task rerun",
        "task delete",
        "task wait",
        "worker",
        "worker list",
        "worker count",
        "health",
        "config",
        "config show",
        "completions",
        "man",
    ];
    for command in commands {
        let words = command.split(' ').filter(|word| !word.is_empty());
        let help = finish(binary(folder.path()).args(words).arg("--help")).ok();
        assert!(help.contains("Usage: taskqueue"), "{command}: {help}");
    }
}

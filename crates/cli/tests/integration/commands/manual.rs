//! Completions and manual pages, which need no server. The help of each command is tested beside its arguments.

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

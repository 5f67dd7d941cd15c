//! `taskqueue task list --watch`.

use std::process::Command;

use serde_json::{Value, json};

use super::terminal::Terminal;
use crate::commands::running::Running;
use crate::support::{Server, run, task_id};

#[test]
fn new_tasks_appear_and_q_gives_the_terminal_back() {
    let server = Server::alone();
    let arguments = ["task", "list", "--watch", "0.2", "--status", "pending"];
    let mut terminal = Terminal::for_queue(&server, 120, 24, &arguments);
    terminal.wait_for("no tasks");
    server.create(1, json!({"name": "first\u{200e}"}));
    let screen = terminal.wait_for(&task_id(1));
    assert!(screen.contains(r"first\u{200e}") && screen.contains("1 task in q"), "{screen}");
    server.cancel(1);
    terminal.wait_for("no tasks");
    assert_eq!(terminal.quit().trim(), "");
}

#[test]
fn a_wrong_filter_ends_with_a_line_that_shows_where() {
    let server = Server::alone();
    let arguments = ["task", "list", "--watch", "--filter", "stats == 1"];
    Terminal::for_queue(&server, 120, 24, &arguments).ends_with(1, &["invalid_filter", "  ^"]);
}

/// A program that reads what changes, line by line.
fn changes(server: &Server) -> Running {
    let mut command = Command::new(env!("CARGO_BIN_EXE_taskqueue"));
    command.args(["task", "list", "--watch", "0.2", "--output", "jsonl", "--queue", "q", "--url", &server.url()]);
    Running::start(&mut command)
}

/// The next change: a task and its status.
fn next(changes: &mut Running) -> (Value, Value) {
    let mut task: Value = serde_json::from_str(&changes.line()).unwrap();
    (task["id"].take(), task["status"].take())
}

#[test]
fn programs_get_a_line_for_each_task_that_is_new_or_changed() {
    let server = Server::alone();
    server.create(1, json!({}));
    let mut watching = changes(&server);
    assert_eq!(next(&mut watching), (json!(task_id(1)), json!("pending")));
    server.create(2, json!({}));
    assert_eq!(next(&mut watching), (json!(task_id(2)), json!("pending")));
    server.cancel(1);
    assert_eq!(next(&mut watching), (json!(task_id(1)), json!("cancelled")));
}

#[test]
fn programs_get_an_error_when_the_queue_is_deleted() {
    let server = Server::alone();
    server.create(1, json!({}));
    let mut watching = changes(&server);
    next(&mut watching);
    assert_eq!(server.delete("/api/v2/queues/q?cascade=true").status, 204);
    watching.end().fails(1);
}

#[test]
fn other_formats_and_endless_lists_are_refused() {
    let cases: [(&[&str], &str); 7] = [
        (&[], "--output jsonl"),
        (&["--output", "json"], "--output jsonl"),
        (&["--output", "csv"], "--output jsonl"),
        (&["--output", "jsonl", "--columns", "id"], "--columns is for tables"),
        (&["--sort", "args.lr"], "--watch does not load all tasks"),
        (&["--limit", "1001"], "1000"),
        (&["--all"], "--all"),
    ];
    for (flags, expected) in cases {
        run(&[&["task", "list", "--watch"], flags].concat(), &[]).fails_with(2, &[expected]);
    }
}

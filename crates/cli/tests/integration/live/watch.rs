//! `taskqueue task list --watch`.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use super::terminal::Terminal;
use crate::support::{Server, run, task_id};

fn url(server: &Server) -> String {
    format!("http://{}", server.address)
}

#[test]
fn new_tasks_appear_and_q_gives_the_terminal_back() {
    let server = Server::alone();
    let arguments = ["task", "list", "--watch", "0.2", "--queue", "q", "--status", "pending", "--url", &url(&server)];
    let mut terminal = Terminal::start(120, 24, &arguments, &[]);
    terminal.wait_for("no tasks");
    server.create(1, json!({"name": "first\u{200e}"}));
    let screen = terminal.wait_for(&task_id(1));
    assert!(screen.contains(r"first\u{200e}") && screen.contains("1 task in q"), "{screen}");
    server.cancel(1);
    terminal.wait_for("no tasks");
    assert_eq!(terminal.quit().trim(), "");
}

#[test]
fn columns_can_be_chosen() {
    let server = Server::alone();
    server.create(1, json!({"args": {"lr": 0.25}, "name": "first"}));
    let columns = ["--columns", "id,args.lr", "--sort", "-priority"];
    let arguments = ["task", "list", "--watch", "0.2", "--queue", "q", "--url", &url(&server)];
    let mut terminal = Terminal::start(80, 24, &[&arguments[..], &columns].concat(), &[]);
    let screen = terminal.wait_for("0.25");
    assert!(screen.contains("args.lr") && !screen.contains("first"), "{screen}");
    terminal.quit();
}

#[test]
fn a_wrong_filter_ends_with_a_line_that_shows_where() {
    let server = Server::alone();
    let arguments = ["task", "list", "--watch", "--queue", "q", "--filter", "stats == 1", "--url", &url(&server)];
    let (status, left) = Terminal::start(120, 24, &arguments, &[]).wait_for_end();
    assert_eq!(status.code(), Some(1));
    assert!(left.contains("invalid_filter") && left.contains("  ^"), "{left}");
}

/// A program that reads what changes, line by line.
struct Changes {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Changes {
    fn of(server: &Server) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_taskqueue"));
        command.args(["task", "list", "--watch", "0.2", "--output", "jsonl", "--queue", "q", "--url", &url(server)]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    fn next(&mut self) -> (Value, Value) {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        let mut task: Value = serde_json::from_str(&line).unwrap();
        (task["id"].take(), task["status"].take())
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[test]
fn programs_get_a_line_for_each_task_that_is_new_or_changed() {
    let server = Server::alone();
    server.create(1, json!({}));
    let mut changes = Changes::of(&server);
    assert_eq!(changes.next(), (json!(task_id(1)), json!("pending")));
    server.create(2, json!({}));
    assert_eq!(changes.next(), (json!(task_id(2)), json!("pending")));
    server.cancel(1);
    assert_eq!(changes.next(), (json!(task_id(1)), json!("cancelled")));
}

#[test]
fn programs_get_an_error_when_the_queue_is_deleted() {
    let server = Server::alone();
    server.create(1, json!({}));
    let mut changes = Changes::of(&server);
    changes.next();
    assert_eq!(server.delete("/api/v2/queues/q?cascade=true").status, 204);
    assert_eq!(changes.child.wait().unwrap().code(), Some(1));
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

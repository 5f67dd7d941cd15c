//! On a terminal: colours, cut lines, questions. The terminal is a pseudo-terminal of the system.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::Command;

use super::support::{A, Server};
use crate::live::terminal::open;

/// Runs a command on a terminal of 60 columns, types `typed`, and gives everything that it showed and its exit code.
fn on_terminal(command: &mut Command, typed: &str) -> (String, Option<i32>) {
    on_terminal_of(60, command, typed)
}

fn on_terminal_of(columns: u16, command: &mut Command, typed: &str) -> (String, Option<i32>) {
    let (mut terminal, name) = open(columns, 24);
    let theirs = || OwnedFd::from(File::options().read(true).write(true).open(&name).unwrap());
    let mut child = command.stdin(theirs()).stdout(theirs()).stderr(theirs()).spawn().unwrap();
    // The command itself holds copies of its side, which would keep the terminal open.
    *command = Command::new("true");
    terminal.write_all(typed.as_bytes()).unwrap();
    let mut shown = Vec::new();
    // A terminal whose other side is closed ends with an error instead of an end.
    drop(terminal.read_to_end(&mut shown));
    (String::from_utf8(shown).unwrap(), child.wait().unwrap().code())
}

#[test]
fn tables_are_coloured_and_cut_to_the_width() {
    let server = Server::with_task(&["--name", &"n".repeat(80), "--arg", &format!("x={}", "y".repeat(80))]);
    let (shown, code) = on_terminal(&mut server.command(&["task", "list"]), "");
    assert_eq!(code, Some(0));
    assert!(shown.contains("\u{1b}[33mpending\u{1b}[0m") && shown.contains('…'), "{shown:?}");
    let (plain, _) = on_terminal(server.command(&["task", "list"]).env("NO_COLOR", "1"), "");
    assert!(!plain.contains('\u{1b}') && plain.contains('…'), "{plain:?}");
    let (json, _) = on_terminal(&mut server.command(&["task", "list", "-o", "jsonl"]), "");
    assert!(json.contains(&"y".repeat(80)) && !json.contains('\u{1b}'), "{json:?}");
}

#[test]
fn csv_on_a_terminal_cannot_command_it() {
    let server = Server::with_task(&["--arg", "colour=\u{1b}[31mred"]);
    let shown =
        |flag: &str| on_terminal(&mut server.command(&["task", "list", "--columns", "args.colour", flag]), "").0;
    assert_eq!(shown("--output=csv"), "args.colour\r\n\\u{1b}[31mred\r\n");
    assert_eq!(shown("--raw-csv"), "args.colour\r\n\u{1b}[31mred\r\n");
}

#[test]
fn tables_leave_out_what_a_narrow_terminal_has_no_room_for() {
    let server = Server::with_task(&["--name", "n", "--max-attempts", "1", "--arg", &format!("x={}", "y".repeat(80))]);
    server.run_badly("default", "t_aaaaaaaaaaaa", 1);
    server.submit("t_bbbbbbbbbbbb", &["--name", "warm-up"]);
    let list = |flags: &[&str]| {
        let arguments = [&["task", "list"], flags].concat();
        let (shown, code) = on_terminal(server.command(&arguments).env("NO_COLOR", "1"), "");
        assert_eq!(code, Some(0));
        shown.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>()
    };
    let lines = list(&[]);
    assert!(lines.iter().all(|line| line.chars().count() <= 60), "{lines:#?}");
    let (head, failed) = (&lines[0], &lines[2]);
    assert!(head.starts_with("ID              STATUS   NAME") && !head.contains("PRIORITY"), "{lines:#?}");
    assert!(head.contains("ERROR") && failed.contains("ValueError"), "{lines:#?}");
    // Columns that were asked for are all there, cut where they are too wide.
    let lines = list(&["--columns", "id,args.x,name"]);
    assert!(lines[2].starts_with("t_aaaaaaaaaaaa  yyyy") && lines[2].contains('…'), "{lines:#?}");
    assert!(lines.iter().all(|line| line.chars().count() <= 60), "{lines:#?}");
}

#[test]
fn the_list_of_workers_fits_the_terminal_and_leaves_columns_out_where_it_is_narrow() {
    let server = Server::claimed();
    let metadata = r#"{"host":"gpu-node-0017.cluster.example.org","slot":3,"pid":1234567}"#;
    let report = |route: &str, rest: &str| format!(r#"{{"route":"{route}",{rest},"metadata":{metadata}}}"#);
    let busy = report("default", r#""status":"busy","task_id":"t_aaaaaaaaaaaa""#);
    assert_eq!(server.post("workers/w_worker000001", &busy), 204);
    let idle = report("a-route-with-a-long-name", r#""status":"idle","task_id":null"#);
    assert_eq!(server.post("workers/w_worker000002", &idle), 204);
    let heads = |columns: u16| {
        let mut command = server.command(&["worker", "list"]);
        let (shown, code) = on_terminal_of(columns, command.env("NO_COLOR", "1"), "");
        assert_eq!(code, Some(0), "{shown}");
        let fits = shown.lines().all(|line| line.trim_end().chars().count() <= usize::from(columns));
        assert!(fits && shown.contains("w_worker000001  busy"), "{columns}: {shown}");
        let names = shown.lines().next().unwrap().split("  ").map(str::trim).filter(|head| !head.is_empty());
        names.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(heads(140), "ID STATUS ROUTE TASK LAST SEEN EXPIRES WHERE");
    assert_eq!(heads(80), "ID STATUS ROUTE TASK LAST SEEN WHERE");
    assert_eq!(heads(60), "ID STATUS TASK WHERE");
    assert_eq!(heads(50), "ID STATUS WHERE");
}

#[test]
fn a_question_is_asked_and_its_answer_counts() {
    let server = Server::with_tasks(&[A]);
    let cancel = || server.command(&["task", "cancel", "--status", "pending"]);
    for answer in ["n\n", "\n", "yep\n"] {
        let (shown, code) = on_terminal(&mut cancel(), answer);
        assert!(shown.contains("Cancel 1 task of queue q? [y/N]") && shown.contains("nothing was changed"), "{shown}");
        assert_eq!(code, Some(1));
    }
    let (shown, code) = on_terminal(&mut cancel(), "y\n");
    assert!(shown.contains("1 cancelled"), "{shown}");
    assert_eq!((code, server.count("status == \"cancelled\"")), (Some(0), 1));
}

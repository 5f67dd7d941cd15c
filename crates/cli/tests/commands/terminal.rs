//! On a terminal: colours, cut lines, questions. The terminal is a pseudo-terminal of the system.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::Command;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::support::Server;

/// Runs a command on a terminal of 60 columns, types `typed`, and gives everything that it showed and its exit code.
fn on_terminal(command: &mut Command, typed: &str) -> (String, Option<i32>) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
    tcsetwinsize(&ours, Winsize { ws_row: 24, ws_col: 60, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    let theirs = || OwnedFd::from(File::options().read(true).write(true).open(&name).unwrap());
    let mut child = command.stdin(theirs()).stdout(theirs()).stderr(theirs()).spawn().unwrap();
    // The command itself holds copies of its side, which would keep the terminal open.
    *command = Command::new("true");
    let mut terminal = File::from(ours);
    terminal.write_all(typed.as_bytes()).unwrap();
    let mut shown = Vec::new();
    // A terminal whose other side is closed ends with an error instead of an end.
    drop(terminal.read_to_end(&mut shown));
    (String::from_utf8(shown).unwrap(), child.wait().unwrap().code())
}

#[test]
fn tables_are_coloured_and_cut_to_the_width() {
    let server = Server::start();
    server.submit("t_aaaaaaaaaaaa", &["--name", &"n".repeat(80), "--arg", &format!("x={}", "y".repeat(80))]);
    let (shown, code) = on_terminal(&mut server.command(&["task", "list"]), "");
    assert_eq!(code, Some(0));
    assert!(shown.contains("\u{1b}[33mpending\u{1b}[0m") && shown.contains('…'), "{shown:?}");
    let (plain, _) = on_terminal(server.command(&["task", "list"]).env("NO_COLOR", "1"), "");
    assert!(!plain.contains('\u{1b}') && plain.contains('…'), "{plain:?}");
    let (json, _) = on_terminal(&mut server.command(&["task", "list", "-o", "jsonl"]), "");
    assert!(json.contains(&"y".repeat(80)) && !json.contains('\u{1b}'), "{json:?}");
}

#[test]
fn tables_leave_out_what_a_narrow_terminal_has_no_room_for() {
    let server = Server::start();
    server.submit("t_aaaaaaaaaaaa", &["--name", "n", "--max-attempts", "1", "--arg", &format!("x={}", "y".repeat(80))]);
    server.claim("default", 1);
    server.fail("t_aaaaaaaaaaaa", 1);
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
fn a_question_is_asked_and_its_answer_counts() {
    let server = Server::start();
    server.submit("t_aaaaaaaaaaaa", &[]);
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

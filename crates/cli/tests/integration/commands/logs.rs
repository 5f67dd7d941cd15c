//! `task logs`: what is kept of the output of a task, and following it through retries and restarts.

use std::sync::mpsc;
use std::time::Instant;

use serde_json::{Value, json};

use super::running::{PATIENCE, Running};
use super::support::{A, Ran, Server};

/// A worker on another machine.
const ELSEWHERE: &str = r#"{"host":"gpu-3","folder":"/data/runs"}"#;

impl Server {
    /// A server with these flags and the task `A`.
    fn keeping_output(flags: &[&str]) -> Self {
        let server = Self::with_arguments(flags);
        server.submit(A, &[]);
        server
    }

    /// What a run printed behind `offset` bytes arrives.
    fn print(&self, run: u32, offset: u64, text: &str) {
        let body = json!({"run_id": format!("r_run000000{run:03}"), "offset": offset, "text": text});
        assert_eq!(self.post(&format!("tasks/{A}/output"), &body.to_string()), 204);
    }

    fn logs(&self, flags: &[&str]) -> Ran {
        self.run_with(&[&["task", "logs", A], flags].concat())
    }

    /// A `task logs --follow` that runs beside the test.
    fn follow(&self, flags: &[&str]) -> Running {
        Running::start(&mut self.command(&[&["task", "logs", A, "--follow"], flags].concat()))
    }
}

#[test]
fn what_a_run_printed_is_there_while_it_runs_and_after_it() {
    let server = Server::claimed();
    server.print(1, 0, "one\ntwo");
    assert_eq!(server.logs(&[]).ok_quietly(), "one\ntwo\n");
    server.print(1, 7, " and more\nlast\n");
    server.complete(A, 1);
    assert_eq!(server.logs(&[]).ok(), "one\ntwo and more\nlast\n");
    assert_eq!(server.logs(&["--tail", "2"]).ok(), "two and more\nlast\n");
    assert_eq!(server.logs(&["-n", "0"]).ok(), "");
    assert_eq!(server.logs(&["-n", "99"]).ok(), "one\ntwo and more\nlast\n");
    // The run is over, so following it ends.
    assert_eq!(server.logs(&["--follow", "--tail", "1"]).said(&[&format!("{A} is succeeded")]).ok(), "last\n");
}

#[test]
fn people_get_the_last_state_of_a_line_and_raw_gives_every_byte() {
    let server = Server::claimed();
    let printed = " 10%\r 50%\r100%\n\u{1b}[31mred\u{1b}[0m \u{1b}[2J\u{7}\u{0}\r\nno end ä漢\u{fffd}";
    server.print(1, 0, printed);
    assert_eq!(server.logs(&[]).ok(), "100%\nred \\u{7}\\u{0}\nno end ä漢\u{fffd}\n");
    assert_eq!(server.logs(&["--raw"]).ok(), printed);
    assert_eq!(server.logs(&["--raw", "-o", "quiet"]).ok(), printed);
    assert_eq!(server.logs(&["-o", "json"]).json()["text"], json!(printed));
}

#[test]
fn output_that_is_longer_than_an_answer_is_complete() {
    let server = Server::keeping_output(&["--task-output-bytes", "4000000"]);
    server.claim("default", 1);
    let mut printed = String::new();
    for piece in 0..40_u64 {
        // Each byte of the first half takes six in JSON.
        let character = if piece < 20 { '\u{1}' } else { 'x' };
        let text = format!("{piece:>9}{}\n", character.to_string().repeat(60_000));
        server.print(1, printed.len() as u64, &text);
        printed += &text;
    }
    assert!(server.logs(&["--raw"]).ok() == printed);
    assert!(server.logs(&["--raw", "--tail", "39"]).ok() == printed[60_010..]);
}

#[test]
fn older_output_that_is_gone_is_told_with_the_place_of_the_full_log() {
    let server = Server::keeping_output(&["--task-output-bytes", "10"]);
    server.claim_as(ELSEWHERE);
    server.print(1, 0, "first line\nlast one\n");
    let ran = server.logs(&[]).printed("\nlast one\n");
    let expected = format!(
        "note: 10 bytes of older output are no longer kept; the full log is on gpu-3: output.log below the folder /data/runs/{A}"
    );
    assert!(ran.stderr.starts_with(&expected), "{}", ran.stderr);
    server.complete(A, 1);
    let place = format!("output.log in the folder /data/runs/{A}/r_run000000001");
    server.logs(&["--raw"]).printed("\nlast one\n").said(&[&place]);
    assert_eq!(server.logs(&["--tail", "1"]).stderr, "", "nobody asked for it");
    assert_eq!(server.logs(&["-o", "quiet"]).stderr, "");
    assert_eq!(server.logs(&["-o", "json"]).json()["start"], 10);
}

#[test]
fn bytes_that_are_missing_are_marked_and_never_in_raw_output() {
    let server = Server::claimed();
    server.print(1, 0, "abc\nhalf");
    server.print(1, 1008, "def\n");
    assert_eq!(server.logs(&[]).ok_quietly(), "abc\nhalf\n[... 1,000 bytes are missing here ...]\ndef\n");
    assert_eq!(server.logs(&["--raw"]).printed("abc\nhalfdef\n").stderr, "note: 1,000 bytes are missing here\n");
    let expected =
        json!({"attempt": 1, "start": 0, "end": 1012, "text": "abc\nhalfdef\n", "ended": false, "missing_bytes": 1000});
    assert_eq!(server.logs(&["-o", "json"]).json(), expected);
    let pieces: Vec<Value> =
        server.logs(&["-o", "jsonl"]).ok().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let piece = |start, end, text| json!({"attempt": 1, "start": start, "end": end, "text": text, "ended": false});
    assert_eq!(pieces, [piece(0, 8, "abc\nhalf"), piece(1008, 1012, "def\n")]);
    server.print(1, 8, &"x".repeat(1000));
    assert!(!server.logs(&[]).ok().contains("missing"), "what came late fills the gap");
}

#[test]
fn where_nothing_is_kept_the_reason_is_told() {
    let server = Server::with_tasks(&[A]);
    assert_eq!(server.logs(&[]).said(&["is pending and has printed nothing yet"]).ok(), "");
    let expected = json!({"attempt": 0, "start": 0, "end": 0, "text": "", "ended": true, "missing_bytes": 0});
    assert_eq!(server.logs(&["-o", "json"]).json(), expected);
    server.run_well("default", A, 1);
    assert_eq!(server.logs(&["--follow"]).said(&["nothing is kept of what it printed"]).ok(), "");
    server.run("task logs t_zzzzzzzzzzzz").fails_with(1, &["task_not_found"]);
    server.run("task logs t_zzzzzzzzzzzz --follow").fails_with(1, &["task_not_found"]);
    server.logs(&["--queue", "nowhere"]).fails_with(1, &["there is no queue nowhere"]);
    for flags in [&["-o", "csv"][..], &["-o", "json", "--follow"], &["-o", "jsonl", "--raw"]] {
        server.logs(flags).fails(2);
    }

    let off = Server::keeping_output(&["--task-output-bytes", "0"]);
    for flags in [&[][..], &["--follow"]] {
        off.logs(flags).fails_with(1, &["keeps no output", "--task-output-bytes 0"]);
    }
    off.claim_as(ELSEWHERE);
    off.logs(&[]).fails_with(1, &[&format!("the full log is on gpu-3: output.log below the folder /data/runs/{A}")]);
}

#[test]
fn following_waits_for_the_run_prints_each_line_at_once_and_goes_on_with_the_next_attempt() {
    let server = Server::with_tasks(&[A]);
    let mut following = server.follow(&[]);
    following.says("the task is pending; waiting until it is claimed");
    server.claim("default", 1);
    following.says("running and has printed nothing yet");
    server.print(1, 0, "first\nhalf");
    assert_eq!(following.line(), "first\n");
    server.print(1, 10, " a line\r 10%\r");
    server.print(1, 23, " 99%\r100%         \nnext\n");
    assert_eq!(following.line(), "100%\n", "a pipe gets the last state only");
    assert_eq!(following.line(), "next\n");
    server.print(1, 47, "open");
    server.fail(A, 1);
    assert_eq!(following.line(), "open\n");
    following.says("the run has ended; waiting until the task is claimed again");
    server.claim("default", 2);
    server.print(2, 0, "second\n");
    following.says("attempt 2 begins");
    assert_eq!(following.line(), "second\n");
    server.complete(A, 2);
    server.print(2, 7, "late\n");
    let ended = following.end();
    assert!(ended.stderr.ends_with(&format!("note: {A} is succeeded\n")), "{ended:?}");
    assert_eq!(ended.ok(), "late\n");
}

#[test]
fn following_notices_the_run_of_a_requeued_task_although_attempts_are_counted_anew() {
    let server = Server::with_task(&["--max-attempts", "1"]);
    server.claim("default", 1);
    server.print(1, 0, "old\n");
    let mut following = server.follow(&["-o", "jsonl"]);
    assert!(following.line().contains("old"));
    server.run(&format!("task cancel {A}")).ok();
    server.run(&format!("task requeue {A}")).ok();
    server.claim("default", 2);
    server.print(2, 0, "much longer than before\n");
    let piece: Value = serde_json::from_str(&following.line()).unwrap();
    let shown = (&piece["attempt"], &piece["start"], &piece["text"]);
    assert_eq!(shown, (&json!(1), &json!(0), &json!("much longer than before\n")));
    server.fail(A, 2);
    following.end().said(&["attempt 1 begins", "failed: ValueError: bad seed"]).ok();
}

#[test]
fn following_survives_a_restart_of_the_server_and_loses_nothing() {
    let mut server = Server::on_socket();
    server.submit(A, &[]);
    server.claim("default", 1);
    server.print(1, 0, "before\n");
    let mut following = server.follow(&[]);
    assert_eq!(following.line(), "before\n");
    server.stop();
    following.says("waiting for it");
    server.start_again();
    server.print(1, 7, "after\n");
    assert_eq!(following.line(), "after\n");
    server.complete(A, 1);
    let ended = following.end();
    assert!(!ended.stderr.contains("begins"), "{ended:?}");
    assert_eq!(ended.ok(), "");
}

#[test]
fn a_reader_that_has_enough_ends_it_and_a_deleted_task_is_an_error() {
    let followed = || {
        let server = Server::claimed();
        server.print(1, 0, "one\n");
        let mut following = server.follow(&[]);
        assert_eq!(following.line(), "one\n");
        (server, following)
    };
    let (server, following) = followed();
    server.complete(A, 1);
    server.run(&format!("task delete {A}")).ok();
    following.end().fails_with(1, &["task_not_found"]);

    let (server, mut following) = followed();
    // The thread that reads for the test notices with the next line, and the program with the one after.
    following.stdout = mpsc::channel().1;
    let deadline = Instant::now() + PATIENCE;
    let code = (1..).find_map(|line| {
        server.print(1, line * 4, "two\n");
        assert!(Instant::now() < deadline, "it does not end");
        following.child.try_wait().unwrap()
    });
    assert_eq!(code.unwrap().code(), Some(0));
}

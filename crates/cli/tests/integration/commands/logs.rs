//! `task logs`: what is kept of the output of a task, and following it through retries and restarts.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::support::Server;

/// How long a line may take.
const PATIENCE: Duration = Duration::from_secs(30);

const ID: &str = "t_aaaaaaaaaaaa";

impl Server {
    /// A task that is claimed by run 1.
    fn claimed() -> Self {
        let server = Self::start();
        server.submit(ID, &[]);
        server.claim("default", 1);
        server
    }

    /// What a run printed behind `offset` bytes arrives.
    fn print(&self, run: u32, offset: u64, text: &str) {
        let body = json!({"run_id": format!("r_run000000{run:03}"), "offset": offset, "text": text});
        assert_eq!(self.post(&format!("tasks/{ID}/output"), &body.to_string()), 204);
    }

    fn logs(&self, flags: &[&str]) -> super::support::Ran {
        self.run_with(&[&["task", "logs", ID], flags].concat())
    }
}

/// A `task logs --follow` that runs beside the test.
struct Following {
    child: Child,
    stdout: Receiver<String>,
    stderr: Receiver<String>,
}

impl Following {
    fn start(server: &Server, flags: &[&str]) -> Self {
        let mut command = server.command(&[&["task", "logs", ID, "--follow"], flags].concat());
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = lines_of(child.stdout.take().unwrap());
        let stderr = lines_of(child.stderr.take().unwrap());
        Self { child, stdout, stderr }
    }

    /// Waits for the next line of standard output.
    fn line(&mut self) -> String {
        self.stdout.recv_timeout(PATIENCE).unwrap()
    }

    /// Waits for a line on standard error that has this text.
    fn says(&mut self, text: &str) {
        while !self.stderr.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("never said: {text}")).contains(text) {}
    }

    /// The exit code, and what is left of both outputs.
    fn end(mut self) -> (Option<i32>, String, String) {
        let rest = |lines: &Receiver<String>| {
            let mut text = String::new();
            loop {
                match lines.recv_timeout(PATIENCE) {
                    Ok(line) => text += &line,
                    Err(mpsc::RecvTimeoutError::Disconnected) => return text,
                    Err(mpsc::RecvTimeoutError::Timeout) => panic!("it does not end; it said:\n{text}"),
                }
            }
        };
        let (stdout, stderr) = (rest(&self.stdout), rest(&self.stderr));
        (self.child.wait().unwrap().code(), stdout, stderr)
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The lines that a program prints, with their ends. Nobody reads on when the receiver is gone.
fn lines_of(output: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut output = BufReader::new(output);
        loop {
            let mut line = String::new();
            if output.read_line(&mut line).unwrap() == 0 || sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

#[test]
fn what_a_run_printed_is_there_while_it_runs_and_after_it() {
    let server = Server::claimed();
    server.print(1, 0, "one\ntwo");
    let ran = server.logs(&[]);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("one\ntwo\n", ""));
    server.print(1, 7, " and more\nlast\n");
    server.complete(ID, 1);
    assert_eq!(server.logs(&[]).ok(), "one\ntwo and more\nlast\n");
    assert_eq!(server.logs(&["--tail", "2"]).ok(), "two and more\nlast\n");
    assert_eq!(server.logs(&["-n", "0"]).ok(), "");
    assert_eq!(server.logs(&["-n", "99"]).ok(), "one\ntwo and more\nlast\n");
    // The run is over, so following it ends.
    let ran = server.logs(&["--follow", "--tail", "1"]);
    assert_eq!((ran.stdout.as_str(), ran.stderr.contains(&format!("{ID} is succeeded"))), ("last\n", true), "{ran:?}");
    assert_eq!(ran.code, Some(0));
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
    let server = Server::with_arguments(&["--task-output-bytes", "4000000"]);
    server.submit(ID, &[]);
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
    let server = Server::with_arguments(&["--task-output-bytes", "10"]);
    server.submit(ID, &[]);
    let worker = json!({"host": "gpu-3", "folder": "/data/runs"});
    let claim = json!({"route": "default", "run_id": "r_run000000001", "worker": worker});
    assert_eq!(server.post("tasks/claim", &claim.to_string()), 200);
    server.print(1, 0, "first line\nlast one\n");
    let ran = server.logs(&[]);
    assert_eq!(ran.stdout, "\nlast one\n");
    let expected = format!(
        "note: 10 bytes of older output are no longer kept; the full log is on gpu-3: output.log below the folder /data/runs/{ID}"
    );
    assert!(ran.stderr.starts_with(&expected), "{}", ran.stderr);
    server.complete(ID, 1);
    let ran = server.logs(&["--raw"]);
    assert_eq!(ran.stdout, "\nlast one\n");
    assert!(ran.stderr.contains(&format!("output.log in the folder /data/runs/{ID}/r_run000000001")), "{}", ran.stderr);
    assert_eq!(server.logs(&["--tail", "1"]).stderr, "", "nobody asked for it");
    assert_eq!(server.logs(&["-o", "quiet"]).stderr, "");
    let whole = server.logs(&["-o", "json"]);
    assert_eq!((whole.json()["start"].clone()), json!(10));
}

#[test]
fn bytes_that_are_missing_are_marked_and_never_in_raw_output() {
    let server = Server::claimed();
    server.print(1, 0, "abc\nhalf");
    server.print(1, 1008, "def\n");
    let ran = server.logs(&[]);
    assert_eq!(
        (ran.stdout.as_str(), ran.stderr.as_str()),
        ("abc\nhalf\n[... 1,000 bytes are missing here ...]\ndef\n", "")
    );
    let ran = server.logs(&["--raw"]);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("abc\nhalfdef\n", "note: 1,000 bytes are missing here\n"));
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
    let server = Server::start();
    server.submit(ID, &[]);
    let ran = server.logs(&[]);
    assert!(ran.stderr.contains("is pending and has printed nothing yet"), "{}", ran.stderr);
    assert_eq!(ran.ok(), "");
    let expected = json!({"attempt": 0, "start": 0, "end": 0, "text": "", "ended": true, "missing_bytes": 0});
    assert_eq!(server.logs(&["-o", "json"]).json(), expected);
    server.claim("default", 1);
    server.complete(ID, 1);
    let ran = server.logs(&["--follow"]);
    assert!(ran.stderr.contains("nothing is kept of what it printed"), "{}", ran.stderr);
    assert_eq!(ran.ok(), "");
    server.run("task logs t_zzzzzzzzzzzz").fails_with(1, &["task_not_found"]);
    server.run("task logs t_zzzzzzzzzzzz --follow").fails_with(1, &["task_not_found"]);
    server.logs(&["--queue", "nowhere"]).fails_with(1, &["there is no queue nowhere"]);
    for flags in [&["-o", "csv"][..], &["-o", "json", "--follow"], &["-o", "jsonl", "--raw"]] {
        server.logs(flags).fails(2);
    }

    let off = Server::with_arguments(&["--task-output-bytes", "0"]);
    off.submit(ID, &[]);
    for flags in [&[][..], &["--follow"]] {
        off.logs(flags).fails_with(1, &["keeps no output", "--task-output-bytes 0"]);
    }
    let worker = json!({"host": "gpu-3", "folder": "/data/runs"});
    let claim = json!({"route": "default", "run_id": "r_run000000001", "worker": worker});
    assert_eq!(off.post("tasks/claim", &claim.to_string()), 200);
    off.logs(&[]).fails_with(1, &[&format!("the full log is on gpu-3: output.log below the folder /data/runs/{ID}")]);
}

#[test]
fn following_waits_for_the_run_prints_each_line_at_once_and_goes_on_with_the_next_attempt() {
    let server = Server::start();
    server.submit(ID, &[]);
    let mut following = Following::start(&server, &[]);
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
    server.fail(ID, 1);
    assert_eq!(following.line(), "open\n");
    following.says("the run has ended; waiting until the task is claimed again");
    server.claim("default", 2);
    server.print(2, 0, "second\n");
    following.says("attempt 2 begins");
    assert_eq!(following.line(), "second\n");
    server.complete(ID, 2);
    server.print(2, 7, "late\n");
    let (code, stdout, stderr) = following.end();
    assert_eq!((code, stdout.as_str()), (Some(0), "late\n"));
    assert!(stderr.ends_with(&format!("note: {ID} is succeeded\n")), "{stderr}");
}

#[test]
fn following_notices_the_run_of_a_requeued_task_although_attempts_are_counted_anew() {
    let server = Server::start();
    server.submit(ID, &["--max-attempts", "1"]);
    server.claim("default", 1);
    server.print(1, 0, "old\n");
    let mut following = Following::start(&server, &["-o", "jsonl"]);
    assert!(following.line().contains("old"));
    server.run(&format!("task cancel {ID}")).ok();
    server.run(&format!("task requeue {ID}")).ok();
    server.claim("default", 2);
    server.print(2, 0, "much longer than before\n");
    let piece: Value = serde_json::from_str(&following.line()).unwrap();
    assert_eq!((piece["attempt"].clone(), piece["start"].clone()), (json!(1), json!(0)));
    assert_eq!(piece["text"], json!("much longer than before\n"));
    server.fail(ID, 2);
    let (code, _, stderr) = following.end();
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.contains("attempt 1 begins") && stderr.contains("failed: ValueError: bad seed"), "{stderr}");
}

#[test]
fn following_survives_a_restart_of_the_server_and_loses_nothing() {
    let mut server = Server::on_socket();
    server.submit(ID, &[]);
    server.claim("default", 1);
    server.print(1, 0, "before\n");
    let mut following = Following::start(&server, &[]);
    assert_eq!(following.line(), "before\n");
    server.stop();
    following.says("waiting for it");
    server.start_again();
    server.print(1, 7, "after\n");
    assert_eq!(following.line(), "after\n");
    server.complete(ID, 1);
    let (code, stdout, stderr) = following.end();
    assert_eq!((code, stdout.as_str()), (Some(0), ""), "{stderr}");
    assert!(!stderr.contains("begins"), "{stderr}");
}

#[test]
fn a_reader_that_has_enough_ends_it_and_a_deleted_task_is_an_error() {
    let server = Server::claimed();
    server.print(1, 0, "one\n");
    let mut following = Following::start(&server, &[]);
    assert_eq!(following.line(), "one\n");
    server.complete(ID, 1);
    server.run(&format!("task delete {ID}")).ok();
    let (code, _, stderr) = following.end();
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("task_not_found"), "{stderr}");

    let server = Server::claimed();
    server.print(1, 0, "one\n");
    let mut following = Following::start(&server, &[]);
    assert_eq!(following.line(), "one\n");
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

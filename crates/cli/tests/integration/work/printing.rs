//! What commands print arrives at the server, whatever happens to it meanwhile, and the log has all of it in any case.

use serde_json::{Value, json};

use super::server::{Server, task_id};
use super::support::{Setup, Worker, until};

/// What the server has of the output of task 1: pieces with the offsets of their beginnings.
fn pieces(server: &Server) -> Vec<(u64, String)> {
    let (mut pieces, mut offset) = (Vec::new(), 0);
    loop {
        let (status, answer) =
            server.call("GET", &format!("/tasks/{}/output?offset={offset}", task_id(1)), &Value::Null);
        if status == 404 {
            return pieces;
        }
        assert_eq!(status, 200, "{answer}");
        let (start, text) = (answer["start"].as_u64().unwrap(), answer["text"].as_str().unwrap());
        if text.is_empty() {
            return pieces;
        }
        pieces.push((start, text.to_owned()));
        offset = answer["end"].as_u64().unwrap();
    }
}

fn text(server: &Server) -> String {
    pieces(server).into_iter().map(|(_, text)| text).collect()
}

fn log(worker: &Worker) -> String {
    String::from_utf8_lossy(&std::fs::read(worker.runs(1)[0].join("output.log")).unwrap()).into_owned()
}

/// A worker that runs this script for task 1 and ends.
fn worker(server: &Server, flags: &str, script: &str) -> Worker {
    server.create_once(1, json!({}));
    Setup::new(server).flags("--max-tasks 1").flags(flags).sh(script, &[])
}

/// What is there after a run of this script.
#[track_caller]
fn printed(flags: &str, script: &str) -> (String, String) {
    let server = Server::start();
    let mut worker = worker(&server, flags, script);
    worker.finish_well();
    (text(&server), log(&worker))
}

#[test]
fn everything_arrives_in_order() {
    let (sent, log) = printed("", "seq 1 5000; printf 'grüße, and no end of line'");
    assert_eq!(sent, log);
    assert!(sent.starts_with("1\n2\n") && sent.ends_with("no end of line"), "{}", sent.len());
    // What comes first of two pipes is not known.
    let (sent, log) = printed("", "echo printed; echo warned >&2");
    assert_eq!(sent, log);
    assert!(sent.contains("printed\n") && sent.contains("warned\n"), "{sent:?}");
}

#[test]
fn a_prompt_is_there_while_the_command_waits() {
    let server = Server::start();
    let mut worker = worker(&server, "", "printf 'continue? '; while [ ! -e go ]; do sleep 0.02; done; echo yes");
    until("the prompt", || text(&server) == "continue? ");
    assert_eq!(server.task(1)["status"], "running");
    worker.let_go();
    assert_eq!(text(&server), "continue? yes\n");
}

#[test]
fn a_server_that_is_killed_while_output_is_sent_has_each_line_once() {
    let mut server = Server::start();
    let script = "i=0; while [ ! -e end ]; do i=$((i+1)); echo line $i; sleep 0.01; done; echo the end";
    let mut worker = worker(&server, "", script);
    for _ in 0..3 {
        let before = text(&server).len();
        until("more output", || text(&server).len() > before);
        server.kill();
        server.start_again();
    }
    worker.write("end");
    worker.finish_well();
    assert_eq!(text(&server), log(&worker));
}

#[test]
fn what_the_rest_of_a_run_prints_belongs_to_it() {
    // Some shells tell on standard error that `sleep` was killed.
    let late = "setsid sh -c 'exec 2> /dev/null; trap \"echo late; exit\" TERM; echo > hidden; while :; do sleep 0.02; done' & \
                while [ ! -e hidden ]; do sleep 0.02; done; echo main";
    let (sent, log) = printed("", late);
    assert_eq!((sent.as_str(), log.as_str()), ("main\nlate\n", "main\nlate\n"));
}

#[test]
fn what_is_sent_can_be_turned_off_and_limited() {
    let server = Server::start();
    let mut quiet = worker(&server, "--send-output off", "echo secret");
    quiet.finish_well();
    assert_eq!((pieces(&server), log(&quiet).as_str()), (Vec::new(), "secret\n"));
    let (sent, log) = printed("--send-output 8", "echo one; echo two; echo three");
    assert!(sent.starts_with("one\ntwo\n\n[taskqueue: the worker sends 8 bytes of a run"), "{sent}");
    assert_eq!(log, "one\ntwo\nthree\n");
}

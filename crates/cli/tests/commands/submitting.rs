//! `task submit`: one task, many from a file, the same file again, and again after an interruption.

use std::process::Stdio;

use serde_json::json;

use crate::support::{Server, finish};

/// Lines of the interrupted file: enough that the first submission is certainly under way when it is ended.
const INTERRUPTED_LINES: u64 = 100_000;

#[test]
fn one_task_is_made_of_flags() {
    let server = Server::start();
    let flags = [
        "task",
        "submit",
        "-o",
        "json",
        "--id",
        "t_aaaaaaaaaaaa",
        "--name",
        "n",
        "--args",
        r#"{"a": 1, "b": 1}"#,
        "--arg",
        "b=x",
        "--arg",
        "c=[1, 2.0]",
        "--metadata",
        r#"{"k": null}"#,
        "--priority",
        "-3",
        "--max-attempts",
        "7",
        "--route",
        "gpu",
        "--route",
        "cpu",
    ];
    let task = server.run_with(&flags).json();
    let expected = json!({"a": 1, "b": "x", "c": [1, 2.0]});
    assert_eq!((&task["args"], &task["metadata"], &task["name"]), (&expected, &json!({"k": null}), &json!("n")));
    assert_eq!((&task["priority"], &task["max_attempts"]), (&json!(-3), &json!(7)));
    assert_eq!(task["routes"], json!(["cpu", "gpu"]));
    assert_eq!(server.run("task submit --id t_bbbbbbbbbbbb").ok(), "t_bbbbbbbbbbbb created\n");
    assert_eq!(server.run("task submit --id t_bbbbbbbbbbbb").ok(), "t_bbbbbbbbbbbb already there\n");
}

#[test]
fn without_an_id_each_submission_is_a_new_task() {
    let server = Server::start();
    let id = || server.run("task submit --arg x=1 -o quiet").ok();
    let (first, second) = (id(), id());
    assert!(first.starts_with("t_") && first.len() == 15 && first != second, "{first} {second}");
    assert_eq!(server.count("args.x == 1"), 2);
}

#[test]
fn args_come_from_files_and_standard_input_too() {
    let server = Server::start();
    server.write("args.json", "{\"x\": 1,\n \"y\": 2}\n");
    let task = server.run("task submit --args-file args.json --arg y=3 -o json").json();
    assert_eq!(task["args"], json!({"x": 1, "y": 3}));
    let read = server.run_reading("task submit --args-file - -o jsonl", "{\"z\": 1}").json();
    assert_eq!(read["args"], json!({"z": 1}));
    assert!(server.run("task submit --args-file missing").fails(1).contains("missing"));
    assert!(server.run_reading("task submit --args-file -", "[]").fails(2).contains("--args-file"));
}

#[test]
fn a_file_is_submitted_once_however_often_it_is_submitted() {
    let server = Server::start();
    let text = "{\"id\":\"t_aaaaaaaaaaaa\",\"name\":\"named\"}\n\n{\"args\":{\"x\":1}}\n {\"args\": {\"x\": 1}} \n\
                {\"args\":{\"x\":1},\"priority\":0}\n{\"args\":{\"x\":2}}";
    server.write("tasks.jsonl", text);
    assert_eq!(server.run("task submit --from tasks.jsonl").ok(), "5 created\n");
    assert_eq!(server.count("args.x == 1"), 3, "equal lines are different tasks");
    assert_eq!(server.run("task submit --from tasks.jsonl").ok(), "0 created, 5 already there\n");
    let again = server.run_reading("task submit --from - -o json", text).json();
    assert_eq!(again, json!({"created": 0, "already_there": 5, "refused": 0}));
    // One line more of the same content is one task more.
    let more = format!("{text}\n{{\"args\":{{\"x\":1}}}}\n");
    assert_eq!(server.run_reading("task submit --from - -o quiet", &more).ok(), "1\n");
    assert_eq!(server.run("task count -o quiet").ok(), "6\n");
}

#[test]
fn wrong_lines_are_reported_and_the_others_submitted() {
    let server = Server::start();
    server.submit("t_aaaaaaaaaaaa", &[]);
    let text = "{\"args\":{\"x\":1}}\n{\"prio\":1}\nnonsense\n{\"id\":\"t_aaaaaaaaaaaa\",\"priority\":9}\n\
                {\"args\":{\"n\":99999999999999999999}}\n{\"args\":{\"x\":2}}\n";
    let ran = server.run_reading("task submit --from -", text);
    assert_eq!(ran.stdout, "2 created, 4 refused\n");
    let message = ran.fails(1);
    for expected in ["line 2: prio", "line 3: ", "line 4: ", "task_id_conflict", "line 5: args.n"] {
        assert!(message.contains(expected), "{expected}: {message}");
    }
    assert_eq!(server.run("task count -o quiet").ok(), "3\n");
}

#[test]
fn a_missing_queue_stops_at_once() {
    let server = Server::start();
    let lines = "{\"args\":{}}\n".repeat(1000);
    let message = server.run_reading("task submit --from - -q qq", &lines).fails(1);
    assert!(message.contains("queue_not_found") && message.lines().count() == 1, "{message}");
    assert!(server.run("task submit --from missing.jsonl").fails(1).contains("missing.jsonl"));
}

#[test]
fn an_interrupted_submission_is_finished_by_the_next() {
    let server = Server::start();
    let text: String = (0..INTERRUPTED_LINES).map(|n| format!("{{\"args\":{{\"n\":{n}}}}}\n")).collect();
    server.write("many.jsonl", &text);
    let submit = ["task", "submit", "--from", "many.jsonl", "-o", "json"];
    let mut child = server.command(&submit).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while server.count("priority == 0") < INTERRUPTED_LINES / 10 {
        assert!(child.try_wait().unwrap().is_none(), "the submission ended before it was interrupted");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let there = server.count("priority == 0");
    assert!(there < INTERRUPTED_LINES, "{there}");
    let summary = finish(&mut server.command(&submit)).json();
    let counts = ["created", "already_there", "refused"].map(|name| summary[name].as_u64().unwrap());
    assert_eq!((counts[0] + counts[1], counts[2]), (INTERRUPTED_LINES, 0));
    assert!(counts[1] >= there, "{summary}");
    assert_eq!(server.run("task count -o quiet").ok(), format!("{INTERRUPTED_LINES}\n"));
}

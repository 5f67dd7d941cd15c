//! `task submit`: one task, many from a file, the same file again, and an interruption.

use std::process::Child;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use taskqueue_test_postgres::eventually;

use super::holding_server::{BATCH_REQUEST, holding_server};
use super::support::{Ran, Server, binary, numbered_lines, start};

/// Batches that a command has under way at once, and the tasks of each.
const BATCHES_MAX: usize = 4;
const BATCH: usize = 500;

#[test]
fn one_task_is_made_of_flags() {
    let server = Server::start();
    let submit = r#"task submit -o json --id t_aaaaaaaaaaaa --name n --args {"a":1,"b":1} --arg b=x --arg c=[1,2.0]"#;
    let flags = r#"--metadata {"k":null} --priority -3 --max-attempts 7 --route gpu --route cpu"#;
    let task = server.run(&format!("{submit} {flags}")).json();
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
    assert_eq!(server.run_reading("task submit --args-file - -o jsonl", "{\"z\": 1}").json()["args"], json!({"z": 1}));
    server.run("task submit --args-file missing").fails_with(1, &["missing"]);
    server.run_reading("task submit --args-file -", "[]").fails_with(2, &["--args-file"]);
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
    assert_eq!(again, json!({"created": 0, "already_there": 5, "different": 0, "refused": 0}));
    // One line more of the same content is one task more.
    let more = format!("{text}\n{{\"args\":{{\"x\":1}}}}\n");
    assert_eq!(server.run_reading("task submit --from - -o quiet", &more).ok(), "1\n");
    assert_eq!(server.run("task count -o quiet").ok(), "6\n");
}

#[test]
fn a_missing_queue_stops_at_once() {
    let server = Server::start();
    let lines = "{\"args\":{}}\n".repeat(1000);
    server.run_reading("task submit --from - -q qq", &lines).refuses_with(1, &["queue_not_found"]);
    server.run("task submit --from missing.jsonl").fails_with(1, &["missing.jsonl"]);
}

#[test]
fn flags_count_for_lines_that_do_not_say_it_themselves() {
    let server = Server::start();
    let text =
        "{\"args\":{\"seed\":1}}\n{\"args\":{\"seed\":2},\"name\":\"own\",\"priority\":-1,\"routes\":[\"cpu\"]}\n";
    server.write("tasks.jsonl", text);
    let submit = "task submit --from tasks.jsonl --route gpu --name vit-{seed} --priority 5 --max-attempts 1";
    assert_eq!(server.run(submit).ok(), "2 created\n");
    assert_eq!(server.count("name == \"vit-1\" and priority == 5 and \"gpu\" in routes and max_attempts == 1"), 1);
    assert_eq!(server.count("name == \"own\" and priority == -1 and \"cpu\" in routes and max_attempts == 1"), 1);
    assert_eq!(server.run(submit).ok(), "0 created, 2 already there\n");
    server.run("task submit --from tasks.jsonl --arg x=1").fails_with(2, &["--arg"]);
}

#[test]
fn a_dry_run_checks_the_lines_and_creates_none() {
    let server = Server::start();
    let text = numbered_lines(30);
    let ran = server.run_reading("task submit --from - --dry-run --name n-{n}", &text);
    let shown = ran.said(&["30 tasks, none of them created; these are the first 10"]).ok();
    assert!(shown.lines().count() == 11 && shown.contains("n-9") && !shown.contains("n-10"), "{shown}");
    let planned = server.run_reading("task submit --from - --dry-run -o jsonl --name n-{n}", &text).ok();
    assert_eq!(planned.lines().count(), 30);
    let expected = ["line 31: lr is no field", "30 tasks"];
    server.run_reading("task submit --from - --dry-run", &format!("{text}{{\"lr\":1}}\n")).fails_with(1, &expected);
    assert_eq!(server.run("task count -o quiet").ok(), "0\n");
    // What a dry run prints are the tasks that the command creates.
    assert_eq!(server.run_reading("task submit --from -", &planned).ok(), "30 created\n");
    assert_eq!(server.run_reading("task submit --from - --name n-{n}", &text).ok(), "0 created, 30 already there\n");
    let one = server.run("task submit --dry-run --id t_aaaaaaaaaaaa --arg x.y=1 -o jsonl");
    one.said(&["1 task, it is not created"]).ok_with(&[r#""x":{"y":1}"#]);
    server.run("task submit --batch b --arg x=1").fails_with(2, &["--batch is for --from"]);
    assert_eq!(server.run("task count -o quiet").ok(), "30\n");
}

/// Sends what Ctrl-C sends, and waits for the end.
fn interrupted(child: Child) -> Ran {
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    Ran::of(child)
}

#[test]
fn ctrl_c_tells_how_many_were_created_and_that_the_same_command_continues() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("tasks.jsonl"), numbered_lines(5000)).unwrap();
    let (answers, under_way, created) = (2, BATCHES_MAX, 2 * BATCH);
    for flags in ["task submit --from tasks.jsonl", "task sweep --arg n=1..5000"] {
        let server = holding_server(answers);
        let mut command = binary(folder.path());
        command.env("TASKQUEUE_URL", server.url()).env("TASKQUEUE_QUEUE", "q").args(flags.split(' '));
        let child = start(&mut command);
        // A further request is sent only when an answer has been counted.
        eventually("all requests", || server.count(BATCH_REQUEST) == answers + under_way);
        let message = interrupted(child).printed("").fails(130);
        let so_far = format!("{created} created so far ({under_way} requests not answered yet)");
        let expected = format!("error: interrupted: {so_far}; run the same command again to go on\n");
        assert_eq!(message, expected, "{flags}");
    }
}

//! Exit codes and results of commands, and the status of their tasks.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::server::Server;
use super::support::{Setup, until};

/// Runs the tasks 1 to `count` with a script that gets the argument `x` of each; returns the tasks.
fn tasks_after(server: &Server, count: usize, script: &str) -> Vec<Value> {
    let flags = format!("--max-tasks {count} --stop-after-failures never");
    Setup::new(server).flags(&flags).sh(script, &["%{x}"]).finish_well();
    (1..=count).map(|n| server.task(n)).collect()
}

/// Creates a task with a single attempt for each value of `x`.
fn create_each(server: &Server, values: &[&str]) {
    for (index, value) in values.iter().enumerate() {
        server.create_once(index + 1, json!({"x": value}));
    }
}

#[test]
fn exit_code_0_completes_with_what_is_in_the_result_file() {
    let server = Server::start();
    create_each(&server, &[r#"{"loss": 0.5, "text": "ü"}"#, "{}", ""]);
    let script = r#"[ -z "$1" ] || printf %s "$1" > "$TASKQUEUE_RESULT_FILE""#;
    let tasks = tasks_after(&server, 3, script);
    let results: Vec<&Value> = tasks.iter().map(|task| &task["result"]).collect();
    assert_eq!(results, [&json!({"loss": 0.5, "text": "ü"}), &json!({}), &json!({})]);
    for task in &tasks {
        assert_eq!((&task["status"], &task["attempt"]), (&json!("succeeded"), &json!(1)), "{task}");
    }
}

#[test]
fn every_other_exit_code_fails_with_its_number_and_the_end_of_standard_error() {
    let server = Server::start();
    let codes = ["1", "2", "64", "74", "76", "126", "127", "128", "130", "255"];
    create_each(&server, &codes);
    let tasks = tasks_after(&server, codes.len(), r#"echo not this; echo "it was $1" >&2; exit "$1""#);
    for (task, code) in tasks.iter().zip(codes) {
        let error = &task["last_error"];
        assert_eq!((&task["status"], &error["type"]), (&json!("failed"), &json!("ExitCode")), "{task}");
        assert!(error["message"].as_str().unwrap().ends_with(&format!("exit code {code}")), "{error}");
        assert_eq!(error["traceback"], format!("it was {code}\n"), "{error}");
    }
}

#[test]
fn exit_code_75_gives_the_task_back_uncharged() {
    let server = Server::with_tasks(1);
    let script = "echo $TASKQUEUE_ATTEMPT >> attempts; [ -e later ] || { touch later; exit 75; }";
    let mut worker = Setup::new(&server).flags("--max-tasks 2").sh(script, &[]);
    worker.finish_saying(&["1 succeeded, 0 failed, 1 released"]);
    assert_eq!(server.assert_state(1, "succeeded", 1)["last_error"], Value::Null);
    assert_eq!(worker.read("attempts"), "1\n1\n");
}

#[test]
fn a_command_that_is_not_there_or_cannot_be_executed_fails_tasks_and_counts_for_the_guard() {
    for (program, kind) in [("no-such-command", "CommandNotFound"), ("./plain", "CommandNotExecutable")] {
        let server = Server::start();
        (1..=4).for_each(|n| server.create_once(n, json!({"program": program})));
        let setup = Setup::new(&server).flags("--stop-after-failures 3").file("plain", "no program", 0o644);
        setup.start(&["%{program}"]).finish().fails_with(1, &["3 failures in a row"]);
        assert_eq!((server.count("failed"), server.count("pending")), (3, 1));
        assert_eq!(server.task(1)["last_error"]["type"], kind);
    }
}

#[test]
fn different_tasks_that_all_fail_stop_the_worker_which_names_one() {
    let server = Server::start();
    for n in 1..=6 {
        server.create(n, json!({"max_attempts": 2, "priority": -i64::try_from(n).unwrap()}));
    }
    // The first four use up their attempts first.
    let told = ["5 failures in a row, so this worker stopped", "taskqueue task get t_000000000005"];
    Setup::new(&server).sh("exit 1", &[]).finish().fails_with(1, &told);
    assert_eq!((server.count("failed"), server.count("pending")), (4, 2));
}

/// A region of a sweep in which nothing works does not end a worker that has shown that it works.
#[test]
fn failures_in_a_row_slow_down_a_worker_that_had_a_success() {
    let server = Server::start();
    create_each(&server, &["0", "1", "1", "1", "1", "1", "1", "0"]);
    let mut worker = Setup::new(&server).flags("--max-tasks 8").sh("exit $1", &["%{x}"]);
    let stderr = worker.finish_saying(&[
        "ended (--max-tasks reached): 2 succeeded, 6 failed",
        "warning: 5 failures in a row",
        "task get t_000000000006",
    ]);
    assert_eq!(stderr.matches("so this worker claims again in").count(), 2, "{stderr}");
}

#[test]
fn numbers_that_json_does_not_have_are_a_result_and_no_failure() {
    let server = Server::start();
    create_each(
        &server,
        &[r#"{"loss": NaN, "best": [1.5, Infinity, -Infinity], "text": "NaN: NaN"}"#, r#"{"loss": NaN,}"#],
    );
    let script = r#"echo trained; printf %s "$1" > "$TASKQUEUE_RESULT_FILE""#;
    let flags = "--max-tasks 2 --stop-after-failures never";
    let mut worker = Setup::new(&server).flags(flags).sh(script, &["%{x}"]);
    let note = "stored as strings: NaN (1), Infinity (1), -Infinity (1)";
    worker.finish_saying(&["note: t_000000000001: the result contains", note]);
    let task = server.task(1);
    let expected = json!({"loss": "NaN", "best": [1.5, "Infinity", "-Infinity"], "text": "NaN: NaN"});
    assert_eq!((&task["status"], &task["result"]), (&json!("succeeded"), &expected), "{task}");
    let log = fs::read_to_string(worker.runs(1)[0].join("output.log")).unwrap();
    assert!(log.starts_with("trained\n[taskqueue: ") && log.contains(note), "{log}");
    assert_eq!(server.task(2)["last_error"]["type"], "InvalidResult", "otherwise it has to be JSON");
}

#[test]
fn a_run_directory_that_cannot_be_written_gives_tasks_back_and_counts_for_the_guard() {
    let server = Server::with_tasks(1);
    let setup = Setup::new(&server).flags("--stop-after-failures 2");
    let setup = setup.file("runs/t_000000000001", "in the way", 0o644);
    setup.sh("touch ran", &[]).finish().fails_with(1, &["the run directory cannot be written"]);
    server.assert_state(1, "pending", 0);
}

#[test]
fn a_failure_of_a_task_that_is_as_large_as_tasks_can_be_is_still_reported() {
    let server = Server::start();
    let filling = "x".repeat(1_048_000);
    server.create_once(1, json!({"x": "1", "filling": filling}));
    let tasks = tasks_after(&server, 1, "head -c 100000 /dev/zero | tr '\\0' y >&2; exit 3");
    assert_eq!((&tasks[0]["status"], &tasks[0]["last_error"]["type"]), (&json!("failed"), &json!("ExitCode")));
}

#[test]
fn what_no_other_run_could_do_better_is_not_tried_again() {
    let server = Server::start();
    for (n, args) in [
        (1, json!({"program": "no-such-command", "x": ""})),
        (2, json!({"program": "true"})),
        (3, json!({"program": "/tmp", "x": ""})),
        (4, json!({"program": "true", "x": "\u{0}"})),
        (5, json!({"program": "true", "x": "z".repeat(300_000)})),
    ] {
        server.create(n, json!({"args": args, "max_attempts": 3}));
    }
    let flags = "--max-tasks 5 --stop-after-failures never";
    Setup::new(&server).flags(flags).start(&["%{program}", "%{x}"]).finish_well();
    let failures = [
        ("CommandNotFound", "no-such-command"),
        ("MissingArgument", "x"),
        ("CommandNotExecutable", "/tmp"),
        ("InvalidArgument", "x"),
        ("CommandTooLong", "TASKQUEUE_ARGS_FILE"),
    ];
    for (n, (kind, named)) in (1..).zip(failures) {
        let error = server.assert_state(n, "failed", 1)["last_error"].clone();
        assert!(error["type"] == kind && error["message"].as_str().unwrap().contains(named), "task {n}: {error}");
    }
}

#[test]
fn every_signal_fails_with_its_name() {
    let server = Server::start();
    let signals = ["HUP", "INT", "QUIT", "ILL", "ABRT", "BUS", "FPE", "KILL", "SEGV", "PIPE", "ALRM", "TERM", "USR1"];
    create_each(&server, &signals);
    let tasks = tasks_after(&server, signals.len(), r#"ulimit -c 0; kill -"$1" $$"#);
    for (task, signal) in tasks.iter().zip(signals) {
        let error = &task["last_error"];
        assert_eq!((&task["status"], &error["type"]), (&json!("failed"), &json!("Signal")), "{signal}: {task}");
        let name = if signal == "USR1" { "signal 10".to_owned() } else { format!("SIG{signal}") };
        assert!(error["message"].as_str().unwrap().contains(&name), "{signal}: {error}");
    }
}

#[test]
fn the_time_of_a_run_does_not_count_the_wait_for_its_task() {
    let server = Server::start();
    let mut worker = Setup::new(&server).flags("--max-tasks 1").sh("true", &[]);
    until("its observation", || server.workers().len() == 1);
    let idle = Instant::now();
    until("a while without a task", || idle.elapsed() > Duration::from_secs(3));
    server.create_once(1, json!({}));
    let stderr = worker.finish_well();
    let told = stderr.split("succeeded t_000000000001 after ").nth(1).and_then(|rest| rest.split(' ').next());
    assert!(told.unwrap().parse::<f64>().unwrap() < 3.0, "{stderr}");
}

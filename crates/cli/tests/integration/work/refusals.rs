//! Configurations that a worker refuses, and when it ends by itself.

use serde_json::json;

use super::server::Server;
use super::support::{Setup, until};
use crate::support::run;

#[test]
fn a_wrong_token_or_a_missing_queue_ends_the_worker_at_once() {
    let server = Server::with_token("right");
    let refused = |name: &str, value: &str| Setup::new(&server).env(name, value).sh("true", &[]).finish();
    refused("TASKQUEUE_TOKEN", "wrong").fails_with(1, &["unauthorized", "--token-file"]);
    refused("TASKQUEUE_QUEUE", "zzz").fails_with(1, &["there is no queue zzz"]);
}

#[test]
fn a_worker_inside_a_run_is_refused_unless_that_is_meant() {
    let server = Server::start();
    server.create(1, json!({"max_attempts": 1, "routes": ["outer"]}));
    server.create(2, json!({"max_attempts": 1, "routes": ["inner"]}));
    let binary = env!("CARGO_BIN_EXE_taskqueue");
    let inner = "--run-dir inner --route inner --max-tasks 1";
    let script = format!(
        "{binary} loop {inner} -- touch ran; echo $? > refused; {binary} loop {inner} --nested -- touch ran; \
         echo $? > nested"
    );
    let mut worker = Setup::new(&server).flags("--max-tasks 1 --route outer").sh(&script, &[]);
    let stderr = worker.finish_saying(&["add --nested"]);
    assert_eq!((worker.read("refused").as_str(), worker.read("nested").as_str()), ("1\n", "0\n"), "{stderr}");
    assert_eq!((&server.task(1)["status"], &server.task(2)["status"]), (&json!("succeeded"), &json!("succeeded")));
}

#[test]
fn a_run_directory_that_cannot_be_created_is_refused_before_anything_is_claimed() {
    let server = Server::with_tasks(1);
    let setup = Setup::new(&server).file("runs", "in the way", 0o644);
    setup.sh("true", &[]).finish().fails_with(1, &["cannot be written", "--run-dir"]);
    assert_eq!(server.task(1)["status"], "pending");
}

#[test]
fn a_command_that_can_run_for_no_task_is_refused_before_anything_is_claimed() {
    let server = Server::with_tasks(1);
    for (program, told) in [
        ("no-such-command", "no-such-command was not found on this machine"),
        ("./no-such-command", "./no-such-command was not found on this machine"),
        ("plain", "plain was not found in PATH; write ./plain for the file in this folder"),
        ("./plain", "./plain cannot be executed: Permission denied"),
        ("./script", "./script cannot be executed"),
        ("/tmp", "/tmp cannot be executed"),
        ("", "was not found"),
    ] {
        let setup = Setup::new(&server).file("plain", "no program", 0o644);
        let setup = setup.file("script", "#!/no/such/interpreter", 0o755);
        setup.start(&[program, "%{x}"]).finish().fails_with(2, &[told]);
    }
    server.assert_state(1, "pending", 0);
}

#[test]
fn a_command_without_the_two_dashes_is_told_where_they_belong() {
    for (arguments, word) in [
        (&["loop", "python", "x.py"][..], "python"),
        (&["loop", "--route", "gpu", "-j", "2", "./run.sh", "--lr", "%{lr}"], "./run.sh"),
    ] {
        let told = format!("write -- before the command: taskqueue loop -- {word} ...");
        run(arguments, &[]).fails_with(2, &[&told]);
    }
    let stderr = run(&["loop", "--nonsense"], &[]).stderr;
    assert!(!stderr.contains("before the command"), "{stderr}");
}

#[test]
fn without_idle_time_a_worker_still_waits_for_what_runs() {
    let server = Server::start();
    server.create(1, json!({"max_attempts": 2}));
    let script = "echo > begun; while [ ! -e go ]; do sleep 0.05; done; [ $TASKQUEUE_ATTEMPT = 2 ]";
    let mut worker = Setup::new(&server).flags("--idle-timeout 0 --jobs 2").begin(script);
    until("both observations", || server.workers().len() == 2);
    worker.write("go");
    worker.finish_saying(&["ended (nothing to do): 1 succeeded, 1 failed"]);
}

#[test]
fn a_worker_that_ends_without_having_reached_the_server_does_not_say_that_there_was_nothing_to_do() {
    let mut server = Server::start();
    server.kill();
    let mut worker = Setup::new(&server).flags("--idle-timeout 1").sh("true", &[]);
    worker.finish().fails_with(3, &["ended (the server was not reached)"]);
}

//! The progress of runs, from the file that the command writes to what the server shows.

use serde_json::{Value, json};

use super::server::Server;
use super::support::{Setup, Worker, until};

const WAIT: &str = "while [ ! -e go ]; do sleep 0.02; done";

fn worker(server: &Server, script: &str) -> Worker {
    server.create_once(1, json!({}));
    let program = env!("CARGO_BIN_EXE_taskqueue");
    Setup::new(server).flags("--max-tasks 1").env("TASKQUEUE", program).sh(script, &[])
}

#[track_caller]
fn wait_for(server: &Server, expected: &Value) {
    until(&format!("the progress {expected}"), || server.task(1)["progress"] == *expected);
}

#[test]
fn what_a_command_writes_is_shown_while_it_runs_and_the_last_of_it_afterwards() {
    let server = Server::start();
    let script = format!(
        "[ -e $TASKQUEUE_PROGRESS_FILE ] && echo > existed; echo '{{\"step\": 1}}' > $TASKQUEUE_PROGRESS_FILE; {WAIT}; \
         echo '{{\"step\": 2, \"loss\": NaN}}' > $TASKQUEUE_PROGRESS_FILE"
    );
    let mut worker = worker(&server, &script);
    wait_for(&server, &json!({"step": 1}));
    assert_eq!(server.task(1)["status"], "running");
    worker.let_go();
    let task = server.task(1);
    assert_eq!((&task["status"], &task["progress"]), (&json!("succeeded"), &json!({"step": 2, "loss": "NaN"})));
    assert_eq!((worker.path("existed").exists(), &task["progress_attempt"]), (false, &json!(1)));
}

#[test]
fn the_command_progress_writes_it_from_any_language() {
    let server = Server::start();
    let script =
        format!("$TASKQUEUE progress step=120 total=1000 loss=0.31 || exit 1; {WAIT}; $TASKQUEUE progress percent=100");
    let mut worker = worker(&server, &script);
    wait_for(&server, &json!({"step": 120, "total": 1000, "loss": 0.31}));
    worker.let_go();
    let task = server.task(1);
    assert_eq!((&task["status"], &task["progress"]), (&json!("succeeded"), &json!({"percent": 100})));
}

#[test]
fn what_cannot_be_progress_costs_a_note_and_nothing_else() {
    let server = Server::start();
    let mut worker = worker(&server, "echo '[1]' > $TASKQUEUE_PROGRESS_FILE");
    let stderr = worker.finish_well();
    let task = server.task(1);
    assert_eq!((&task["status"], &task["progress"]), (&json!("succeeded"), &Value::Null));
    let note = "its progress file cannot be used: it is not a JSON object";
    assert_eq!(stderr.matches(note).count(), 1, "{stderr}");
}

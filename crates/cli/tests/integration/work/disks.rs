//! A disk that hangs: a named pipe without a reader replaces a file. It delays its own run only.

use serde_json::json;

use super::server::Server;
use super::support::{Setup, until};

/// From now on writing the report of this run blocks for ever.
const HANGS: &str = "mkfifo $TASKQUEUE_RUN_DIR/../../undelivered/$TASKQUEUE_RUN_ID.new; echo >> hanging";

#[test]
fn reports_that_cannot_be_stored_delay_neither_heartbeats_nor_themselves() {
    let server = Server::start();
    server.create_once(1, json!({"hangs": false}));
    let script = format!("if $1; then {HANGS}; else echo $$ > begun; while :; do sleep 0.05; done; fi");
    let mut worker = Setup::new(&server).flags("--jobs 4 --max-tasks 4").sh(&script, &["%{hangs}"]);
    worker.wait_for_file("begun");
    // More than the worker has threads.
    (2..=4).for_each(|n| server.create_once(n, json!({"hangs": true})));
    until("three runs that hang", || worker.read("hanging").len() == 3);
    server.cancel(1);
    worker.wait_for_line("revoked t_000000000001");
    worker.finish_saying(&["cannot be stored", "3 succeeded"]);
    assert_eq!(server.count("succeeded"), 3);
}

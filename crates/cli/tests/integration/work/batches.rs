//! Several slots and a server that takes batches: fewer requests for the same runs, and each run still for itself.

use serde_json::json;

use super::server::Server;
use super::support::{Setup, until};

/// How many requests were answered whose line has this text.
fn answered(server: &Server, text: &str) -> usize {
    let is_one = |line: &&str| line.contains("answered") && line.contains(text);
    server.log().lines().filter(is_one).count()
}

#[test]
fn slots_claim_and_report_together_and_every_task_runs_once() {
    let server = Server::with_log();
    (1..=200).for_each(|n| server.create_once(n, json!({})));
    let script = "echo >> done";
    let mut worker = Setup::new(&server).flags("--jobs 8 --max-tasks 200").sh(script, &[]);
    worker.finish_saying(&["200 succeeded, 0 failed"]);
    assert_eq!((worker.read("done").len(), server.count("succeeded")), (200, 200));
    until("the lines of the log", || answered(&server, "/tasks/batch/claim") > 0);
    let claims = answered(&server, "/tasks/batch/claim") + answered(&server, "/tasks/claim");
    let reports = answered(&server, "/tasks/batch/report") + answered(&server, "/complete");
    assert!(claims < 200 && reports < 200, "{claims} claims, {reports} reports");
}

/// The server holds a heartbeat for each run, so nobody has to ask every few seconds.
#[test]
fn a_cancel_reaches_each_of_many_commands_at_once() {
    let server = Server::with_log();
    (1..=6).for_each(|n| server.create_once(n, json!({})));
    let script = "trap 'echo >> asked; exit 0' TERM; echo >> begun; while :; do sleep 0.02; done";
    let mut worker = Setup::new(&server).at_its_own_pace().flags("--jobs 6 --max-tasks 6").sh(script, &[]);
    until("six runs", || worker.path("begun").exists() && worker.read("begun").len() == 6);
    until("held heartbeats", || server.log().matches("a heartbeat is held").count() == 6);
    (1..=6).for_each(|n| server.cancel(n));
    worker.finish_saying(&["0 succeeded, 0 failed, 6 revoked"]);
    assert_eq!(worker.read("asked").len(), 6);
    // The answers to the held ones said it.
    until("the lines of the log", || answered(&server, "/heartbeat") >= 6);
    let counts = ["/heartbeat", "run_finalized", "/tasks/batch/report"].map(|text| answered(&server, text));
    assert_eq!(counts, [6, 6, 0], "no other heartbeat was sent");
}

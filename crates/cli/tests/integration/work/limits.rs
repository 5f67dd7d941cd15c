//! Slots with names, the time limit of a run, and what happens to the run directory over time.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::process::Signal;
use serde_json::json;

use super::server::{Server, task_id};
use super::support::{Setup, until};

#[test]
fn slots_have_the_numbers_that_are_given_and_every_task_shows_its_own() {
    let server = Server::with_tasks(3);
    // Each waits until all three run, so that each is in a slot of its own.
    let script = "echo $TASKQUEUE_SLOT > slot_of_$TASKQUEUE_TASK_ID; echo $1 $TASKQUEUE_SLOT >> slots; \
                  while [ $(wc -l < slots) -lt 3 ]; do sleep 0.02; done; echo in $1";
    let mut worker = Setup::new(&server).flags("--slots 2,3,5 --max-tasks 3").sh(script, &["%{slot}"]);
    worker.finish_well();
    let slots = worker.read("slots");
    let mut slots: Vec<&str> = slots.lines().collect();
    slots.sort_unstable();
    assert_eq!(slots, ["2 2", "3 3", "5 5"]);
    for slot in [2, 3, 5] {
        let (begin, end) = (format!("{slot} t_00000000000"), format!(" | in {slot}"));
        let is_whole =
            |line: &str| line.starts_with(&begin) && line.ends_with(&end) && line.len() == begin.len() + 1 + end.len();
        assert!(worker.stdout().lines().any(is_whole), "{slot} in {}", worker.stdout());
    }
    for n in 1..=3 {
        let by = &server.task(n)["last_run"]["worker"];
        assert_eq!(by["slot"].to_string(), worker.read(&format!("slot_of_{}", task_id(n))).trim(), "{by}");
        assert!(by["id"].as_str().is_some_and(|id| id.starts_with("w_")) && by["slots"].is_null(), "{by}");
        assert!(by["host"].is_string() && by["folder"].is_string() && by["pid"].is_number(), "{by}");
    }
}

/// A time limit in which a shell gets as far as it has to, on a busy machine too.
const ENOUGH_SECONDS: u64 = 8;

#[test]
fn a_run_that_takes_longer_than_its_time_is_stopped_and_fails() {
    // Ends well when it is asked to end, which is no success.
    let script =
        "trap 'echo asked >> asked; exit 0' TERM; echo where it is >&2; echo $$ >> begun; while :; do sleep 0.05; done";
    let server = Server::start();
    server.create(1, json!({"max_attempts": 2}));
    let mut worker = Setup::new(&server).flags(&format!("--timeout {ENOUGH_SECONDS} --max-tasks 2")).sh(script, &[]);
    worker.finish_saying(&["0 succeeded, 2 failed"]);
    // It was tried again.
    let task = server.assert_state(1, "failed", 2);
    let error = &task["last_error"];
    assert_eq!(error["type"], "ExecutionTimeout", "{error}");
    let words = format!("longer than --timeout allows ({ENOUGH_SECONDS} s)");
    assert!(error["message"].as_str().unwrap().contains(&words), "{error}");
    assert_eq!(worker.read("begun").lines().count(), 2);
    assert!(error["traceback"].as_str().unwrap().starts_with("where it is\n"), "{error}");
    assert_eq!(worker.read("asked"), "asked\nasked\n");
}

#[test]
fn a_run_that_takes_longer_than_its_task_allows_is_stopped_while_no_server_answers() {
    let script = "echo $TASKQUEUE_TIMEOUT_SECONDS > limit; trap 'echo asked > asked; exit 0' TERM; echo where it is >&2; \
                  echo > begun; while :; do sleep 0.05; done";
    let server = Server::start();
    server.create(1, json!({"max_attempts": 1, "timeout_seconds": ENOUGH_SECONDS}));
    let mut worker = Setup::new(&server).flags("--max-tasks 1").begin(script);
    server.signal(Signal::STOP);
    // From now on nobody else can end it.
    worker.wait_for_file("asked");
    server.signal(Signal::CONT);
    worker.finish_well();
    let task = server.task(1);
    let ended = (&task["status"], &task["last_error"]["type"]);
    assert_eq!(ended, (&json!("failed"), &json!("ExecutionTimeout")), "{task}");
    assert_eq!((worker.read("limit"), worker.read("asked")), (format!("{ENOUGH_SECONDS}\n"), "asked\n".to_owned()));
}

#[test]
fn a_run_that_its_task_allows_too_little_time_is_ended_once_and_tried_again() {
    let script = "trap '' TERM; echo >> begun; while :; do sleep 0.05; done";
    let server = Server::start();
    server.create(1, json!({"max_attempts": 2, "timeout_seconds": 1}));
    let mut worker = Setup::new(&server).flags("--max-tasks 2 --grace 1").sh(script, &[]);
    worker.finish_well();
    // Whoever was first to end the runs, each attempt counts once.
    assert_eq!(server.assert_state(1, "failed", 2)["last_error"]["type"], "ExecutionTimeout");
}

/// Makes everything of a run look as if it were this many days old.
fn make_old(folder: &Path, days: u64) {
    let time = SystemTime::now() - Duration::from_secs(days * 86_400);
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).chain([folder.to_owned()]) {
        File::open(entry).unwrap().set_modified(time).unwrap();
    }
}

#[test]
fn folders_of_ended_runs_are_kept_unless_that_is_limited_and_removed_again_and_again() {
    let server = Server::with_tasks(1);
    let mut first = Setup::new(&server).flags("--max-tasks 1").sh("echo said", &[]);
    first.finish_well();
    let folder = first.runs(1).remove(0);
    make_old(&folder, 31);
    first.successor(&server).flags("--idle-timeout 0").sh("true", &[]).finish_well();
    assert!(folder.exists(), "by default all are kept");
    let mut worker = first.successor(&server).flags("--keep-runs 1s").sh("echo > begun", &[]);
    worker.wait_for_line("removed 1 folder of an old run");
    assert!(!folder.exists() && !worker.path("runs").join(task_id(1)).exists());
    server.create_once(2, json!({}));
    worker.wait_for_file("begun");
    until("the removal of the next folder", || !worker.path("runs").join(task_id(2)).exists());
    server.wait_for(2, "succeeded");
    worker.stop();
}

/// A worker on another machine may not see the lock, and goes by the time of the folder.
#[test]
fn the_folder_of_a_run_that_goes_on_stays_new() {
    let server = Server::with_tasks(1);
    let script = "echo > begun; while [ ! -e go ]; do sleep 0.05; done";
    let mut worker = Setup::new(&server).flags("--keep-runs 2s --max-tasks 1").begin(script);
    let folder = worker.runs(1).remove(0);
    make_old(&folder, 31);
    until("a new folder", || {
        let age = folder.metadata().unwrap().modified().unwrap().elapsed();
        age.is_ok_and(|age| age < Duration::from_secs(86_400))
    });
    worker.let_go();
}

#[test]
fn a_disk_that_is_nearly_full_is_warned_of_once() {
    let server = Server::start();
    let mut worker = Setup::new(&server).flags(&format!("--low-disk {}", u64::MAX)).sh("true", &[]);
    worker.wait_for_line("is nearly full:");
    let stderr = worker.stop();
    assert_eq!(stderr.matches("nearly full").count(), 1, "{stderr}");
    assert!(stderr.contains("warning: the disk of the run directory") && stderr.contains("--keep-runs"), "{stderr}");
}

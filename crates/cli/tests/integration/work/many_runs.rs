//! Many runs: no process is left, no task runs twice, and how several slots end.

use std::fs;
use std::thread;

use rustix::process::Signal;
use serde_json::json;

use super::processes::{self, Process};
use super::server::{Server, task_id};
use super::support::{Setup, until};

/// Creates the tasks 1 to `count`, several at a time: each creation waits for the disk.
fn create_many(server: &Server, count: usize) {
    thread::scope(|scope| {
        for first in 1..=8 {
            scope.spawn(move || (first..=count).step_by(8).for_each(|n| server.create_once(n, json!({"n": n}))));
        }
    });
}

#[test]
fn a_thousand_runs_leave_no_zombie_and_no_orphan() {
    let server = Server::start();
    create_many(&server, 1000);
    // Every tenth leaves a daemon behind, every tenth fails.
    let script = "case $1 in *1) setsid sleep 1000 & ;; *2) exit 1 ;; esac";
    let setup = Setup::new(&server).flags("--jobs 8 --stop-after-failures never");
    let mut worker = setup.sh(script, &["%{n}"]);
    until("the end of all tasks", || server.count("succeeded") + server.count("failed") == 1000);
    // The keeper, the worker, and the supervisors, which are reused: as many as runs went on at once, at most one per slot.
    let is_supervisor = |process: &Process| process.name == "tq-supervisor";
    until("nothing of them", || worker.alive().iter().filter(|process| !is_supervisor(process)).count() == 2);
    let ours = [worker.keeper(), worker.pid()].map(|pid| pid.as_raw_nonzero().get());
    let all = processes::all();
    let below = |parents: &[i32]| -> Vec<Process> {
        all.iter().filter(|process| parents.contains(&process.parent)).cloned().collect()
    };
    assert_eq!(below(&ours[..1]).len(), 1, "only the worker is below its keeper");
    let supervisors = below(&ours[1..]);
    assert!((1..=8).contains(&supervisors.len()) && supervisors.iter().all(is_supervisor), "{supervisors:?}");
    assert_eq!(worker.alive().len(), 2 + supervisors.len(), "no supervisor is anywhere else");
    let pids: Vec<i32> = supervisors.iter().map(|process| process.pid).collect();
    assert!(below(&pids).is_empty(), "nothing is below a supervisor that has no run: {:?}", below(&pids));
    let files = fs::read_dir(format!("/proc/{}/fd", ours[1])).unwrap().count();
    assert!(files < 60, "{files} open files");
    worker.signal(Signal::TERM);
    worker.finish_saying(&["900 succeeded, 100 failed"]);
    assert_eq!(worker.undelivered(), 0);
}

#[test]
fn two_workers_never_run_one_task_at_once() {
    let server = Server::start();
    create_many(&server, 120);
    let marks = tempfile::tempdir().unwrap();
    let script = "mkdir $1/$TASKQUEUE_TASK_ID || exit 1; echo $TASKQUEUE_RUN_ID >> $1/$TASKQUEUE_TASK_ID.runs; \
                  rmdir $1/$TASKQUEUE_TASK_ID";
    let marks_path = marks.path().to_str().unwrap();
    let start = || Setup::new(&server).flags("--jobs 4 --idle-timeout 0").sh(script, &[marks_path]);
    for worker in &mut [start(), start(), start()] {
        worker.finish_well();
    }
    assert_eq!(server.count("succeeded"), 120);
    for n in 1..=120 {
        let runs = fs::read_to_string(marks.path().join(format!("{}.runs", task_id(n)))).unwrap();
        assert_eq!(runs.lines().count(), 1, "task {n}: {runs}");
        assert_eq!(server.task(n)["attempt"], 1);
    }
}

#[test]
fn the_guard_lets_the_other_slots_finish() {
    let server = Server::start();
    server.create_once(0, json!({"n": 0}));
    let script = "[ $1 != 0 ] || { echo > begun; while [ ! -e go ]; do sleep 0.02; done; exit 0; }; exit 1";
    let setup = Setup::new(&server).flags("--jobs 2 --max-consecutive-failures 3");
    let mut worker = setup.sh(script, &["%{n}"]);
    worker.wait_for_file("begun");
    create_many(&server, 7);
    until("three failures", || server.count("failed") == 3);
    worker.write("go");
    worker.finish().fails_with(1, &["3 failures in a row, so this worker stopped"]);
    assert_eq!((server.task(0)["status"].as_str(), server.count("running")), (Some("succeeded"), 0));
    assert_eq!(server.count("pending"), 4);
}

#[test]
fn several_slots_stopped_at_once_give_everything_back() {
    let server = Server::start();
    create_many(&server, 6);
    let script = "echo >> begun; while :; do sleep 0.05; done";
    let mut worker = Setup::new(&server).flags("--jobs 4 --on-stop release").sh(script, &[]);
    until("four runs", || worker.read("begun").len() == 4);
    worker.signal(Signal::TERM);
    worker.finish_saying(&["0 succeeded, 0 failed, 4 released"]);
    assert_eq!((server.count("pending"), server.count("running")), (6, 0));
    assert!((1..=6).all(|n| server.task(n)["attempt"] == 0));
}

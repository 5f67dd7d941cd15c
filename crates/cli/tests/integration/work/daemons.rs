//! Daemons that have left their environment, session, group and parents. These tests recognise them by their current folder. None of
//! them outlives its run while another slot continues, nor a keeper or a worker that is killed.

use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::processes::{self, Process, is_alive};
use super::server::{Server, task_id};
use super::support::{Setup, Worker, until};

/// Task 1 waits for `go`; every other task runs the script `daemon` in its folder, which hides as well as a process can.
fn script(others: &str) -> String {
    format!("if [ $1 = 1 ]; then echo $$ > busy; while [ ! -e go ]; do sleep 0.05; done; else {others}; fi")
}

/// Starts the file `daemon` twice removed from its parents, in a session of its own and without any environment.
const START: &str = "setsid env -i sh -c 'setsid sh ./daemon & exit 0'";
/// Waits until it runs.
const RUNS: &str = "while [ ! -s hidden ]; do sleep 0.02; done";

const STUBBORN: &str = "trap '' TERM HUP INT; echo $$ >> hidden; while :; do sleep 0.05; done";

/// A worker whose first slot is busy; `daemon` and `others` are scripts.
fn busy(server: &Server, flags: &str, daemon: &str, others: &str) -> Worker {
    server.create_once(1, json!({"n": 1}));
    let setup = Setup::new(server).flags("--jobs 2 --grace 1").flags(flags);
    std::fs::write(setup.folder().join("daemon"), daemon).unwrap();
    let worker = setup.sh(&script(others), &["%{n}"]);
    worker.wait_for_file("busy");
    worker
}

fn folder(worker: &Worker) -> std::path::PathBuf {
    worker.path("").canonicalize().unwrap()
}

/// What is alive in the folder of the worker and is neither one of its own processes nor part of the run of task 1.
fn hidden(worker: &Worker) -> Vec<Process> {
    let busy: i32 = worker.read("busy").trim().parse().unwrap();
    let own = ["tq-keeper", "taskqueue", "tq-supervisor"];
    let mut found = processes::in_folder(&folder(worker));
    found.retain(|process| process.pid != busy && process.parent != busy && !own.contains(&process.name.as_str()));
    found
}

#[track_caller]
fn assert_busy_slot_goes_on(server: &Server, worker: &mut Worker) {
    assert_eq!(server.task(1)["status"], "running");
    assert!(is_alive(&worker.read("busy")));
    worker.write("go");
    server.wait_for(1, "succeeded");
    worker.stop();
    assert_nothing_is_left_in(&folder(worker));
}

#[track_caller]
fn assert_nothing_is_left_in(folder: &Path) {
    let left = processes::in_folder(folder);
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_daemon_that_a_grandchild_starts_while_the_command_ends_does_not_outlive_the_run() {
    let server = Server::start();
    let mut worker = busy(&server, "", "exec sleep 1000", &format!("({START} &) & exit 0"));
    for n in 2..=20 {
        server.create_once(n, json!({"n": n}));
        server.wait_for(n, "succeeded");
        assert!(hidden(&worker).is_empty(), "task {n}: {:?}", hidden(&worker));
    }
    assert_busy_slot_goes_on(&server, &mut worker);
}

#[test]
fn hundreds_of_daemons_do_not_outlive_their_run() {
    let server = Server::start();
    // 1 + 3 + 9 + 27 + 81 + 243 processes, all of which ignore SIGTERM.
    let tree = "trap '' TERM; echo >> hidden; n=$1; if [ ${n:-5} -gt 0 ]; then for i in 1 2 3; do \
                setsid env -i sh ./daemon $((${n:-5} - 1)) & done; fi; while :; do sleep 1; done";
    let others = format!("{START}; while [ $(wc -l < hidden) -lt 364 ]; do sleep 0.05; done");
    let mut worker = busy(&server, "", tree, &others);
    server.create_once(2, json!({"n": 2}));
    server.wait_for(2, "succeeded");
    assert!(hidden(&worker).is_empty(), "{:?}", hidden(&worker).len());
    assert_busy_slot_goes_on(&server, &mut worker);
}

#[test]
fn killing_the_supervisor_of_a_run_ends_that_run_and_no_other() {
    let server = Server::start();
    let others = format!("if [ $1 = 2 ]; then {START}; {RUNS}; kill -9 $PPID; while :; do sleep 0.05; done; fi");
    let mut worker = busy(&server, "", STUBBORN, &others);
    server.create_once(2, json!({"n": 2}));
    let task = server.wait_for(2, "failed");
    assert_eq!(task["last_error"]["type"], "Signal", "{task}");
    assert!(hidden(&worker).is_empty(), "{:?}", hidden(&worker));
    worker.wait_for_line("the supervisor of the run was killed");
    // The slot continues.
    server.create_once(3, json!({"n": 3}));
    server.wait_for(3, "succeeded");
    assert_busy_slot_goes_on(&server, &mut worker);
}

/// A worker with a run that has hidden a daemon; the numbers of command and daemon.
fn with_daemon(server: &Server) -> (Worker, [String; 2]) {
    let worker = busy(server, "", STUBBORN, &format!("{START}; {RUNS}; while :; do sleep 0.05; done"));
    server.create_once(2, json!({"n": 2}));
    let daemon = worker.wait_for_file("hidden");
    let command = worker.read("busy");
    (worker, [command, daemon])
}

/// Both tasks are pending again, and nothing was charged.
#[track_caller]
fn assert_given_back(server: &Server) {
    for n in [1, 2] {
        assert_eq!(server.assert_state(n, "pending", 0)["last_error"], json!(null));
    }
}

#[test]
fn nothing_survives_a_worker_that_is_killed_and_its_keeper_gives_the_tasks_back_at_once() {
    let server = Server::start();
    let (mut worker, pids) = with_daemon(&server);
    let pid = worker.pid();
    kill_process(pid, Signal::KILL).unwrap();
    let said = format!("the worker, process {}, was killed by signal 9; ", pid.as_raw_nonzero());
    worker.finish().fails_with(137, &[&said, &task_id(1), &task_id(2), ": given back, uncharged"]);
    assert!(pids.iter().all(|pid| !is_alive(pid)), "{pids:?}");
    assert_nothing_is_left_in(&folder(&worker));
    worker.assert_nothing_is_left();
    assert_given_back(&server);
    assert_eq!(worker.undelivered(), 0);
}

#[test]
fn nothing_survives_a_keeper_that_is_killed_and_the_tasks_are_given_back() {
    let server = Server::start();
    let (worker, pids) = with_daemon(&server);
    kill_process(worker.keeper(), Signal::KILL).unwrap();
    (1..=2).for_each(|n| drop(server.wait_for(n, "pending")));
    until("the end of everything", || processes::in_folder(&folder(&worker)).is_empty() && worker.alive().is_empty());
    assert!(pids.iter().all(|pid| !is_alive(pid)), "{pids:?}");
    assert_given_back(&server);
}

#[test]
fn nothing_survives_when_worker_and_keeper_are_killed_at_once() {
    let server = Server::start();
    let (worker, pids) = with_daemon(&server);
    let both: [Pid; 2] = [worker.keeper(), worker.pid()];
    // The keeper cannot act on the end of the worker when it is stopped.
    kill_process(both[0], Signal::STOP).unwrap();
    both.into_iter().for_each(|pid| kill_process(pid, Signal::KILL).unwrap());
    until("the end of everything", || processes::in_folder(&folder(&worker)).is_empty());
    assert!(pids.iter().all(|pid| !is_alive(pid)), "{pids:?}");
}

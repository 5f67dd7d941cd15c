//! Stop requests, one after the other. What is left when keeper or worker is killed is in `daemons`.

use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process, kill_process_group};
use serde_json::{Value, json};

use super::server::Server;
use super::support::{Setup, Worker, until};

/// Waits for the file `go`, and records a SIGTERM.
const WAITS: &str =
    "trap 'echo asked > asked; exit 7' TERM; echo $$ > begun; while [ ! -e go ]; do sleep 0.05; done; echo > done";
/// Ignores SIGTERM.
const STUBBORN: &str = "trap '' TERM INT HUP; echo $$ > begun; while :; do sleep 0.05; done";

fn running(server: &Server, flags: &str, script: &str) -> Worker {
    server.create_once(1, json!({}));
    Setup::new(server).flags(flags).begin(script)
}

#[track_caller]
fn assert_given_back(server: &Server) {
    assert_eq!(server.assert_state(1, "pending", 0)["last_error"], Value::Null);
}

#[test]
fn the_first_signal_lets_runs_finish_and_claims_nothing_more() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let server = Server::start();
        let mut worker = running(&server, "", WAITS);
        server.create_once(2, json!({}));
        worker.signal(signal);
        worker.wait_for_line("stopping: 1 running may finish");
        worker.write("go");
        worker.finish_saying(&["ended (stopped): 1 succeeded, 0 failed"]);
        assert_eq!((&server.task(1)["status"], &server.task(2)["status"]), (&json!("succeeded"), &json!("pending")));
        assert!(worker.path("done").exists() && !worker.path("asked").exists(), "{signal:?}");
    }
}

#[test]
fn the_second_signal_gives_runs_back_uncharged() {
    let server = Server::start();
    let mut worker = running(&server, "", WAITS);
    worker.signal(Signal::TERM);
    worker.wait_for_line("may finish");
    worker.signal(Signal::INT);
    worker.finish_saying(&["given back", "1 released"]);
    assert_eq!(worker.read("asked"), "asked\n");
    assert_given_back(&server);
}

#[test]
fn the_third_signal_kills_what_does_not_listen() {
    let server = Server::start();
    let mut worker = running(&server, "--grace 1000", STUBBORN);
    for told in ["may finish", "given back; another request kills", "are killed"] {
        worker.signal(Signal::TERM);
        worker.wait_for_line(told);
    }
    worker.finish_well();
    assert_given_back(&server);
}

#[test]
fn an_idle_worker_stops_at_once() {
    let server = Server::start();
    let mut worker = Setup::new(&server).flags("--jobs 3").sh("true", &[]);
    until("its observations", || server.workers().len() == 3);
    worker.signal(Signal::TERM);
    worker.finish_saying(&["ended (stopped): 0 succeeded, 0 failed"]);
    assert!(server.workers().is_empty());
}

#[test]
fn timeout_which_signals_twice_asks_once() {
    let server = Server::with_tasks(1);
    let mut worker = Setup::new(&server).under(&["timeout", "1000"]).begin(WAITS);
    worker.signal(Signal::TERM);
    worker.wait_for_line("may finish");
    worker.write("go");
    let ended = worker.finish();
    assert!(ended.stderr.contains("ended (stopped): 1 succeeded, 0 failed"), "{ended:?}");
}

#[test]
fn signals_to_the_group_of_a_command_do_not_reach_the_worker() {
    let server = Server::start();
    let mut worker = running(&server, "--max-tasks 1", STUBBORN);
    let leader = worker.read("begun").trim().parse().unwrap();
    kill_process_group(rustix::process::Pid::from_raw(leader).unwrap(), Signal::KILL).unwrap();
    worker.finish_well();
    assert_eq!(server.task(1)["last_error"]["type"], "Signal");
}

#[test]
fn a_result_that_is_there_when_the_second_signal_comes_is_not_thrown_away() {
    let server = Server::start();
    // The command has succeeded; a process that it has left ends slowly.
    let script = "sh -c 'trap \"echo asked > asked\" TERM; echo $$ > begun; while :; do sleep 0.05; done' & \
                  while [ ! -s begun ]; do sleep 0.02; done; echo '{\"a\":1}' > $TASKQUEUE_RESULT_FILE";
    let mut worker = running(&server, "--on-stop release", script);
    worker.wait_for_file("asked");
    worker.signal(Signal::TERM);
    worker.finish_well();
    assert_eq!(server.task(1)["result"], json!({"a": 1}), "{}", server.task(1));
}

#[test]
fn a_worker_that_was_stopped_says_so_when_it_continues_and_what_it_has_lost() {
    let server = Server::start();
    server.create_once(2, json!({}));
    let mut worker = running(
        &server,
        "--jobs 2 --max-tasks 2",
        "echo >> both; [ -e begun ] || echo > begun; while [ ! -e go ]; do sleep 0.05; done",
    );
    until("both runs", || worker.read("both").len() == 2);
    kill_process(worker.pid(), Signal::STOP).unwrap();
    let stopped = Instant::now();
    server.cancel(1);
    until("more than the shortest pause", || stopped.elapsed() > Duration::from_secs(4));
    kill_process(worker.pid(), Signal::CONT).unwrap();
    worker.wait_for_line("warning: this worker was stopped for");
    worker.wait_for_line("revoked t_000000000001");
    worker.write("go");
    worker.finish_saying(&["1 succeeded, 0 failed, 1 revoked"]);
}

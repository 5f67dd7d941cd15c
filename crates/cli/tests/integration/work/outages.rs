//! A server that is down or hangs: runs continue, and their reports are delivered when it is back.

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use super::server::Server;
use super::support::{Setup, Worker, until};

/// Writes `begun`, waits for the file `go`, and writes a result.
const WAITS: &str = "echo $$ > begun; while [ ! -e go ]; do sleep 0.05; done; \
                     echo '{\"a\":1}' > $TASKQUEUE_RESULT_FILE; echo > done";

/// A worker whose command has begun and waits for the file `go`.
fn running(server: &Server, flags: &str) -> Worker {
    server.create_once(1, json!({}));
    Setup::new(server).flags(flags).begin(WAITS)
}

/// A worker whose run has ended while the server was down: its report is on disk.
fn with_report_on_disk(server: &mut Server) -> Worker {
    let worker = running(server, "");
    server.kill();
    worker.write("go");
    until("the report on disk", || worker.undelivered() == 1);
    worker
}

#[track_caller]
fn assert_done_once(server: &Server) {
    let task = server.assert_state(1, "succeeded", 1);
    assert_eq!((&task["result"], &task["last_error"]), (&json!({"a": 1}), &Value::Null), "{task}");
}

#[test]
fn a_run_goes_on_while_the_server_is_away_and_its_result_waits_for_it() {
    let mut server = Server::start();
    let mut worker = running(&server, "--max-tasks 1");
    server.kill();
    worker.wait_for_line("the server cannot be reached");
    server.start_again();
    worker.wait_for_line("the server answers again");
    server.kill();
    worker.write("go");
    worker.wait_for_file("done");
    until("the report on disk", || worker.undelivered() == 1);
    server.start_again();
    worker.finish_well();
    assert_done_once(&server);
    assert_eq!(worker.undelivered(), 0);
}

#[test]
fn a_server_that_is_stopped_and_continued_loses_no_run_and_no_result() {
    let server = Server::start();
    let mut worker = running(&server, "--max-tasks 1");
    // While it runs: a heartbeat is under way when the server wakes up.
    server.signal(Signal::STOP);
    until("heartbeats that wait", || waiting_bytes(&server) > 0);
    server.signal(Signal::CONT);
    until("the server to take them", || waiting_bytes(&server) == 0);
    // Also while it is reported.
    server.signal(Signal::STOP);
    worker.write("go");
    until("the report on disk", || worker.undelivered() == 1);
    server.signal(Signal::CONT);
    worker.finish_well();
    assert_done_once(&server);
}

/// The number of bytes that were sent to the server and that it has not read.
fn waiting_bytes(server: &Server) -> u64 {
    let port = server.address.rsplit(':').next().unwrap().parse::<u16>().unwrap();
    let own = format!(":{port:04X}");
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let rows = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    // Established connections only: for a listening socket the column means something else.
    let waiting = rows.filter(|row| row[1].ends_with(&own) && row[3] == "01");
    waiting.map(|row| u64::from_str_radix(row[4].split(':').nth(1).unwrap(), 16).unwrap()).sum()
}

#[test]
fn an_idle_worker_outlives_its_server_and_takes_what_comes_then() {
    let mut server = Server::start();
    let mut worker = Setup::new(&server).flags("--jobs 2").sh("true", &[]);
    until("its observations", || server.workers().len() == 2);
    server.kill();
    worker.wait_for_line("the server cannot be reached");
    server.start_again();
    server.create_once(1, json!({}));
    server.wait_for(1, "succeeded");
    worker.stop();
}

#[test]
fn what_a_killed_worker_could_not_report_the_next_one_does() {
    let mut server = Server::start();
    let mut worker = with_report_on_disk(&mut server);
    kill_process(worker.pid(), Signal::KILL).unwrap();
    worker.finish().fails_with(137, &["t_000000000001: could not be given back, because the server did not"]);
    server.start_again();
    assert_eq!(server.task(1)["status"], "running");
    let mut next = worker.successor(&server).sh("true", &[]);
    server.wait_for(1, "succeeded");
    assert_done_once(&server);
    until("nothing is left to deliver", || next.undelivered() == 0);
    next.signal(Signal::TERM);
    next.finish_saying(&["reported t_000000000001, which an earlier worker had run"]);
}

#[test]
fn the_keeper_of_a_killed_worker_reports_what_had_ended() {
    let mut server = Server::start();
    let mut worker = with_report_on_disk(&mut server);
    let (keeper, pid) = (worker.keeper(), worker.pid());
    kill_process(keeper, Signal::STOP).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    server.start_again();
    kill_process(keeper, Signal::CONT).unwrap();
    worker.finish();
    assert_done_once(&server);
    assert_eq!(worker.undelivered(), 0);
}

#[test]
fn a_worker_that_has_to_stop_names_its_undelivered_reports() {
    let mut server = Server::start();
    let mut worker = with_report_on_disk(&mut server);
    for told in ["may finish", "given back", "are killed"] {
        worker.signal(Signal::TERM);
        worker.wait_for_line(told);
    }
    let told = ["undelivered t_000000000001", "the next worker with this run directory will"];
    worker.finish().fails_with(3, &told);
    server.start_again();
    worker.successor(&server).flags("--idle-timeout 0").sh("true", &[]).finish_well();
    assert_done_once(&server);
}

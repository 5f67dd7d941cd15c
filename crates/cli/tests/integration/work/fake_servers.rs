//! Another program on the port of the server: nonsense decides nothing about a run, and silence blocks nothing.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use taskqueue_client::capabilities::FEATURES;

use super::outages::{assert_done_once, running};
use super::server::{Server, task_id};
use super::support::{Setup, until};
use crate::support::{FakeServer, reply};

/// The answer to a request; `None` leaves the request without an answer.
type Replies = fn(&str) -> Option<Vec<u8>>;

#[test]
fn nonsense_decides_nothing_about_a_run() {
    let nonsense: [Replies; 6] = [
        |_| Some(b"\x16\x03\x01 this is not HTTP\r\n\r\n".to_vec()),
        |_| reply("200 OK", "<html>hello</html>"),
        |_| reply("404 Not Found", "<html>no such page</html>"),
        |_| reply("409 Conflict", "[]"),
        |_| reply("302 Found\r\nLocation: /login", ""),
        |_| Some(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"half\":".to_vec()),
    ];
    thread::scope(|scope| {
        for replies in nonsense {
            scope.spawn(move || assert_outlived(replies));
        }
    });
}

/// A run continues, and is reported when the server is back.
fn assert_outlived(replies: Replies) {
    let mut server = Server::start();
    let mut worker = running(&server, "--max-tasks 1");
    server.kill();
    let impostor = FakeServer::at(&server.address, replies);
    until("heartbeats", || impostor.count("/heartbeat") >= 2);
    worker.write("go");
    until("reports", || impostor.count("/complete") >= 2);
    drop(impostor);
    server.start_again();
    worker.finish_well();
    assert_done_once(&server);
}

/// Says what it has, answers claims with task 1 and accepts the unclaim; other requests get no answer.
fn silent_after_a_claim(request: &str) -> Option<Vec<u8>> {
    let time = "2026-01-01T00:00:00.000000Z";
    let task = json!({
        "id": task_id(1), "queue": "q", "status": "running", "name": null, "args": {}, "metadata": {}, "priority": 0,
        "attempt": 1, "max_attempts": 3, "routes": ["default"], "result": {}, "last_error": null,
        "last_route": "default", "created_at": time, "updated_at": time, "started_at": time, "finished_at": null,
    });
    if request.contains("/capabilities") {
        return reply("200 OK", &json!({"features": FEATURES}).to_string());
    }
    if request.contains("/claim") {
        let run_id = &request[request.find("r_").unwrap()..][..14];
        let claim = json!({"task": task, "run_id": run_id, "lease_expires_at": "2026-01-01T00:05:00.000000Z"});
        return reply("200 OK", &claim.to_string());
    }
    if request.contains("/unclaim") { reply("204 No Content", "") } else { None }
}

#[test]
fn a_worker_that_waits_for_the_confirmation_of_a_claim_stops_at_once() {
    let mut server = Server::start();
    server.kill();
    let mut worker = Setup::new(&server).sh("touch ran", &[]);
    worker.wait_for_line("the server cannot be reached");
    let impostor = FakeServer::at(&server.address, silent_after_a_claim);
    until("the confirmation of a claim that was repeated", || impostor.count("/heartbeat") == 1);
    let told = Instant::now();
    worker.stop();
    // That call waits for 30 seconds.
    assert!(told.elapsed() < Duration::from_secs(20), "not held up by a call that waits for its answer");
    assert_eq!((impostor.count("/unclaim"), worker.path("ran").exists()), (1, false));
}

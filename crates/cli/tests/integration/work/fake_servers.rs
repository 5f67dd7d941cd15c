//! Another program on the port of the server: silence blocks nothing. That nonsense decides nothing about a run is proven in the crate
//! `worker`.

use std::time::{Duration, Instant};

use serde_json::json;
use taskqueue_client::capabilities::FEATURES;

use super::server::{Server, task_id};
use super::support::{Setup, until};
use crate::support::{FakeServer, reply};

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

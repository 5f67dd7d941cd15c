//! Claims that wait and heartbeats that are held (`Prefer: wait=N`, RFC 7240): an extension that changes nothing for requests without
//! the header. What wakes and ends them is proven by the conformance suite of the stores; how long they wait, what is answered, and
//! what becomes of clients that disconnect, in `server`.

use std::time::{Duration, Instant};

use serde_json::json;

use super::support::*;

/// A claim by run `n` that has found no task and waits for so many seconds.
fn waiting(server: &Server, n: usize, seconds: u32) -> Connection {
    server.begin_until_logged(&claim_request("default", n).waiting(seconds), WAITS)
}

#[track_caller]
fn task_of(connection: &mut Connection) -> usize {
    let response = connection.read_response(true).unwrap();
    assert_eq!(response.status, 200, "{response:?}");
    assert_eq!(response.header("Preference-Applied"), Some("wait=25"));
    claimed_task(&response)
}

#[test]
fn without_the_header_nothing_is_different() {
    let server = Server::with_task();
    let names = |response: &Response| response.headers.iter().map(|(name, _)| name.to_lowercase()).collect::<Vec<_>>();
    let (plain, nothing) = (server.claim_for("q", "default", 1).expect(200), server.claim_for("q", "default", 2));
    assert_eq!(names(&plain), ["content-type", "content-length", "taskqueue-server-version", "date"]);
    assert_eq!(names(&nothing.expect(204)), ["taskqueue-server-version", "date"]);
    let ignored_values = ["wait=0", "wait=x", "wait", "handling=lenient"];
    for ignored in ignored_values {
        let replay = server.send(&claim_request("default", 1).header("Prefer", ignored)).expect(200);
        assert_eq!((replay.text(), names(&replay)), (plain.text(), names(&plain)), "{ignored}");
    }
    // Last, for a heartbeat renews the lease that a claim sent again is answered with.
    for ignored in ignored_values {
        let heartbeat = Request::new("POST", &of_task(1, "/heartbeat")).header("Prefer", ignored);
        let lease = server.send(&heartbeat.json(json!({"run_id": run_id(1)}))).expect(200);
        assert_eq!((names(&lease), lease.json().as_object().unwrap().len()), (names(&plain), 1), "{ignored}");
    }
}

#[test]
fn a_stop_answers_waiting_claims_and_a_restart_loses_nothing() {
    let mut server = Server::with_debug_log();
    let mut waiters = [1, 2, 3].map(|n| waiting(&server, n, 60));
    let begun = Instant::now();
    server.signal("TERM");
    for waiter in &mut waiters {
        let response = waiter.read_response(true).unwrap();
        assert_eq!((response.status, response.header("Preference-Applied")), (204, None), "{response:?}");
    }
    server.wait();
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    server.start_again();
    // A kill is another matter: the connection ends, and the claim is made again.
    let mut waiter = waiting(&server, 4, 60);
    server.kill();
    assert!(waiter.read_response(true).is_err());
    server.start_again();
    let mut waiter = waiting(&server, 4, 25);
    server.create(1, json!({}));
    assert_eq!(task_of(&mut waiter), 1);
}

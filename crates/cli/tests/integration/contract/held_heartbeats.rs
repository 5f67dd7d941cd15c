//! Heartbeats that are held (`Prefer: wait=N`, docs/reference/http-api.md §9.3): an extension that changes nothing for requests
//! without the header. Leases, times and clients that disconnect are proven by the conformance suite of the stores and in `server`.

use std::time::{Duration, Instant};

use serde_json::json;

use super::support::*;

/// Sends a heartbeat of run `n` for task `n`, and waits until it is held.
fn hold(server: &Server, n: usize) -> Connection {
    let heartbeat = Request::new("POST", &of_task(n, "/heartbeat")).waiting(25);
    server.begin_until_logged(&heartbeat.json(json!({"run_id": run_id(n)})), HELD)
}

#[track_caller]
fn assert_finalized(held: &mut Connection, action: &str) {
    let response = held.read_response(true).unwrap();
    assert_eq!(response.assert_error(409, "run_finalized")["action"], action);
    assert_eq!(response.header("Preference-Applied"), None);
}

#[test]
fn without_the_header_nothing_is_different() {
    let server = Server::with_run();
    let names = |response: &Response| response.headers.iter().map(|(name, _)| name.to_lowercase()).collect::<Vec<_>>();
    let plain = server.act(1, "heartbeat", 1).expect(200);
    assert_eq!(names(&plain), ["content-type", "content-length", "taskqueue-server-version", "date"]);
    for ignored in ["wait=0", "wait=x", "wait", "handling=lenient"] {
        let heartbeat = Request::new("POST", &of_task(1, "/heartbeat")).header("Prefer", ignored);
        let answer = server.send(&heartbeat.json(json!({"run_id": run_id(1)}))).expect(200);
        assert_eq!((names(&answer), answer.json().as_object().unwrap().len()), (names(&plain), 1), "{ignored}");
    }
}

#[test]
fn whatever_ends_the_run_ends_its_held_heartbeats_at_once() {
    let server = Server::with_debug_log();
    for (n, action) in ["cancel", "complete", "fail", "unclaim"].into_iter().enumerate() {
        server.create_running(n);
        let mut both = [hold(&server, n), hold(&server, n)];
        server.create_running(100 + n);
        let mut other = hold(&server, 100 + n);
        let begun = Instant::now();
        match action {
            "cancel" => drop(server.cancel(n).expect(200)),
            _ => drop(server.act(n, action, n).expect(204)),
        }
        both.iter_mut().for_each(|held| assert_finalized(held, action));
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
        // The connection goes on, and the other run is still held.
        assert_eq!(both[0].exchange(&Request::new("GET", "/health")).unwrap().status, 200);
        server.cancel(100 + n).expect(200);
        assert_finalized(&mut other, "cancel");
    }
}

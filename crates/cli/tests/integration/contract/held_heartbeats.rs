//! Heartbeats that are held (`Prefer: wait=N`, docs/reference/http-api.md §9.3): an extension that changes nothing for requests
//! without the header.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::support::*;

/// A heartbeat of run `n` for task `n` that is to be held for `seconds`.
fn waiting(n: usize, seconds: u32) -> Request {
    waiting_with(n, seconds, &run_id(n))
}

fn waiting_with(n: usize, seconds: u32, run: &str) -> Request {
    let prefer = format!("wait={seconds}");
    Request::new("POST", &of_task(n, "/heartbeat")).header("Prefer", &prefer).json(json!({"run_id": run}))
}

/// The end of the lease of run `n`, as a repeated claim tells it.
fn lease(server: &Server, n: usize) -> Value {
    server.claim_own(n)["lease_expires_at"].clone()
}

/// Sends a heartbeat of run `n`, and waits until it is held.
fn hold(server: &Server, n: usize) -> Connection {
    let (before, mut connection) = (server.count_log_lines(HELD), server.connect());
    connection.write(&waiting(n, 25).to_bytes()).unwrap();
    server.await_log_lines(HELD, before + 1);
    connection
}

#[track_caller]
fn assert_finalized(held: &mut Connection, action: &str) {
    let response = held.read_response(true).unwrap();
    assert_eq!(response.assert_error(409, "run_finalized")["action"], action);
    assert_eq!(response.header("Preference-Applied"), None);
}

#[test]
fn without_the_header_nothing_is_different() {
    let server = Server::with_queue();
    server.create_running(1);
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
fn a_heartbeat_is_held_for_its_time_and_tells_the_lease_as_it_was_renewed() {
    let server = Server::with_debug_log();
    server.create_running(1);
    let mut connection = server.connect();
    for _ in 0..2 {
        let (begun, held) = (Instant::now(), server.count_log_lines(HELD));
        connection.write(&waiting(1, 2).to_bytes()).unwrap();
        server.await_log_lines(HELD, held + 1);
        let renewed = lease(&server, 1);
        let response = connection.read_response(true).unwrap().expect(200);
        assert_eq!(response.header("Preference-Applied"), Some("wait=2"));
        assert!(begun.elapsed() >= Duration::from_secs(2), "{:?}", begun.elapsed());
        assert_eq!(response.json(), json!({"lease_expires_at": renewed}), "it was durable while the answer was held");
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

#[test]
fn what_is_wrong_is_answered_at_once() {
    let server = Server::with_queue();
    server.create_running(1);
    server.create_running(2);
    server.cancel(2).expect(200);
    let begun = Instant::now();
    assert_eq!(server.send(&waiting(2, 25)).assert_error(409, "run_finalized")["action"], "cancel");
    server.send(&waiting_with(1, 25, &run_id(3))).assert_error(409, "stale_run");
    server.send(&waiting_with(1, 25, "x")).assert_error(422, "invalid_request");
    server.send(&waiting(9, 25)).assert_error(404, "task_not_found");
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

#[test]
fn a_held_heartbeat_whose_client_disconnected_is_dropped_and_its_run_goes_on() {
    let server = Server::with_debug_log();
    server.create_running(1);
    drop(hold(&server, 1));
    server.await_log_lines("the client of a held heartbeat has disconnected", 1);
    assert_eq!(server.task(1)["status"], "running");
    server.act(1, "complete", 1).expect(204);
}

#[test]
fn a_stop_answers_held_heartbeats_at_once_with_their_leases() {
    let mut server = Server::with_debug_log();
    (1..4).for_each(|n| drop(server.create_running(n)));
    let mut all = [1, 2, 3].map(|n| hold(&server, n));
    let leases = [1, 2, 3].map(|n| lease(&server, n));
    let begun = Instant::now();
    server.signal("TERM");
    for (held, lease) in all.iter_mut().zip(leases) {
        let response = held.read_response(true).unwrap().expect(200);
        assert_eq!((response.header("Preference-Applied"), &response.json()["lease_expires_at"]), (None, &lease));
    }
    server.wait();
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    server.start_again();
    let mut again = hold(&server, 1);
    server.cancel(1).expect(200);
    assert_finalized(&mut again, "cancel");
}

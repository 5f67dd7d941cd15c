//! Claims that wait (`Prefer: wait=N`, RFC 7240): an extension that changes nothing for requests without the header.
//! What wakes them is proven by the conformance suite of the stores; how long they wait, and what becomes of clients that
//! disconnect, in `server`.

use std::time::{Duration, Instant};

use serde_json::json;

use super::support::*;

/// A claim for a route by run `n` that waits for `seconds`.
fn waiting(route: &str, n: usize, seconds: u32) -> Request {
    let body = json!({"route": route, "run_id": run_id(n)});
    Request::new("POST", &in_queue("/tasks/claim")).header("Prefer", &format!("wait={seconds}")).json(body)
}

/// Sends a waiting claim and does not read its answer yet.
fn begin(server: &Server, request: &Request) -> Connection {
    let mut connection = server.connect();
    connection.write(&request.to_bytes()).unwrap();
    connection
}

/// The same, and waits until the claim has found no task and waits.
fn begin_and_await_waiting(server: &Server, request: &Request) -> Connection {
    let before = server.count_log_lines(WAITS);
    let waiter = begin(server, request);
    server.await_log_lines(WAITS, before + 1);
    waiter
}

#[track_caller]
fn task_of(connection: &mut Connection) -> usize {
    let response = connection.read_response(true).unwrap();
    assert_eq!(response.status, 200, "{response:?}");
    assert_eq!(response.header("Preference-Applied"), Some("wait=25"));
    response.json()["task"]["id"].as_str().unwrap()[2..].parse().unwrap()
}

#[test]
fn without_the_header_nothing_is_different() {
    let server = Server::with_queue();
    server.create(1, json!({}));
    let names = |response: &Response| response.headers.iter().map(|(name, _)| name.to_lowercase()).collect::<Vec<_>>();
    let (plain, nothing) = (server.claim_for("q", "default", 1).expect(200), server.claim_for("q", "default", 2));
    assert_eq!(names(&plain), ["content-type", "content-length", "taskqueue-server-version", "date"]);
    assert_eq!(names(&nothing.expect(204)), ["taskqueue-server-version", "date"]);
    for ignored in ["wait=0", "wait=x", "wait", "handling=lenient"] {
        let body = json!({"route": "default", "run_id": run_id(1)});
        let replay = Request::new("POST", &in_queue("/tasks/claim")).header("Prefer", ignored).json(body);
        let replay = server.send(&replay).expect(200);
        assert_eq!((replay.text(), names(&replay)), (plain.text(), names(&plain)), "{ignored}");
    }
}

#[test]
fn a_stop_answers_waiting_claims_and_a_restart_loses_nothing() {
    let mut server = Server::with_debug_log();
    let mut waiters = [1, 2, 3].map(|n| begin_and_await_waiting(&server, &waiting("default", n, 60)));
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
    let mut waiter = begin_and_await_waiting(&server, &waiting("default", 4, 60));
    server.kill();
    assert!(waiter.read_response(true).is_err());
    server.start_again();
    let mut waiter = begin_and_await_waiting(&server, &waiting("default", 4, 25));
    server.create(1, json!({}));
    assert_eq!(task_of(&mut waiter), 1);
}

//! Claims that wait (`Prefer: wait=N`, RFC 7240): an extension that changes nothing for requests without the header.

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
fn what_is_wrong_is_answered_at_once() {
    let server = Server::with_queue();
    server.create(1, json!({}));
    server.claim(1);
    server.act(1, "complete", 1).expect(204);
    let begun = Instant::now();
    server.send(&waiting("default", 1, 25)).assert_error(409, "stale_run");
    server.send(&waiting("no route", 2, 25)).assert_error(422, "invalid_request");
    let mut elsewhere = waiting("default", 2, 25);
    elsewhere.target = "/api/v2/queues/none/tasks/claim".into();
    let refused = server.send(&elsewhere);
    refused.assert_error(404, "queue_not_found");
    assert_eq!(refused.header("Preference-Applied"), None);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

#[test]
fn a_wait_ends_in_time_and_the_connection_goes_on() {
    let server = Server::with_queue();
    let mut connection = server.connect();
    let begun = Instant::now();
    let response = connection.exchange(&waiting("default", 1, 1)).unwrap();
    assert_eq!((response.status, response.header("Preference-Applied")), (204, Some("wait=1")));
    assert!(begun.elapsed() >= Duration::from_secs(1));
    server.create(1, json!({}));
    let response = connection.exchange(&waiting("default", 1, 90)).unwrap();
    assert_eq!((response.status, response.header("Preference-Applied")), (200, Some("wait=60")));
    // A repetition finds the same task again, waiting or not (I3).
    let again = connection.exchange(&waiting("default", 1, 5)).unwrap();
    assert_eq!(again.text(), response.text());
}

#[test]
fn deleting_the_queue_answers_waiting_claims() {
    let server = Server::with_debug_log();
    let mut waiters = [1, 2, 3].map(|n| begin_and_await_waiting(&server, &waiting("default", n, 25)));
    server.delete("/api/v2/queues/q").expect(204);
    for waiter in &mut waiters {
        waiter.read_response(true).unwrap().assert_error(404, "queue_not_found");
    }
}

#[test]
fn a_waiting_claim_whose_client_disconnected_takes_nothing() {
    let server = Server::with_debug_log();
    drop([1, 2, 3].map(|n| begin_and_await_waiting(&server, &waiting("default", n, 60))));
    server.await_log_lines("the client of a waiting claim has disconnected", 3);
    server.create(1, json!({}));
    // A claim that would still be under way is before these at the writer.
    (2..22).for_each(|n| drop(server.create(n, json!({"routes": ["nobody"]}))));
    assert_eq!(server.task(1)["status"], "pending");
    assert_eq!(server.claimed(9), 1);
}

#[test]
fn a_client_that_sends_more_after_a_waiting_claim_and_disconnects_takes_nothing() {
    let server = Server::with_debug_log();
    for (n, behind) in [&b"x"[..], b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"].into_iter().enumerate() {
        let mut waiter = begin_and_await_waiting(&server, &waiting(&format!("for-{n}"), n, 60));
        waiter.write(behind).unwrap();
        drop(waiter);
        server.await_log_lines("the client of a waiting claim has disconnected", n + 1);
        server.create(n, json!({"routes": [format!("for-{n}")]}));
        // A claim that would still be under way is before these at the writer.
        (10..30).for_each(|other| drop(server.create(100 * n + other, json!({"routes": ["nobody"]}))));
        assert_eq!(server.task(n)["status"], "pending");
        assert_eq!(server.task(n)["attempt"], 0);
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

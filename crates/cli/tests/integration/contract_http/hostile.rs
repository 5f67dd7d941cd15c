//! Input that is meant to hurt: it must never crash the server, hang it, or be answered with a failure of ours
//! (docs/reference/invariants.md §5). Each test ends by showing that the server still works. What reaches the database is in `contract`,
//! what is not even HTTP, and floods of connections, in `server`.

use serde_json::json;

use super::json_handling::endpoints_with_body;
use super::support::*;

#[test]
fn very_deep_bodies_are_refused() {
    let server = Server::with_task();
    for depth in [100, 130, 1000, 100_000, 500_000] {
        let arrays = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        for (method, path, code) in endpoints_with_body() {
            for body in
                [arrays.clone(), format!("{{\"args\":{{\"a\":{arrays}}}}}"), format!("{{\"unknown\":{arrays}}}")]
            {
                let response = server.call(method, &path, body).expect(422);
                let answer = response.code();
                let expected = ["json_too_deep", "invalid_filter", "invalid_request", code];
                assert!(expected.contains(&answer.as_str()), "depth {depth}: {response:?}");
            }
        }
        let objects = format!("{}1{}", "{\"a\":".repeat(depth.min(150_000)), "}".repeat(depth.min(150_000)));
        server.put(&of_task(2, ""), format!("{{\"args\":{objects}}}")).expect(422);
    }
    server.assert_alive();
}

#[test]
fn compressed_bodies_are_not_unpacked() {
    let server = Server::with_queue();
    // gzip of `{}`
    let gzip = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0xab, 0xae, 5, 0, 0x43, 0xbf, 0xa6, 0xa3, 2, 0, 0, 0];
    let request = Request::new("PUT", &of_task(1, "")).json(gzip).header("Content-Encoding", "gzip");
    assert_eq!(server.send(&request).status, 422);
    server.get(&of_task(1, "")).assert_error(404, "task_not_found");
    server.assert_alive();
}

#[test]
fn hostile_paths_are_answered_in_the_envelope() {
    let server = Server::with_queue();
    let paths = "/api/v2/queues/.. /api/v2/queues/. /api/v2/queues/../queues /api/v2/../../etc/passwd /../../etc/passwd
        /api/v2/queues/%2e%2e /api/v2/queues/q/tasks/.. /api/v2/queues/%00 /api/v2/queues/q%00 /api/v2/queues/%ff%fe
        /api/v2/queues/% /api/v2/queues/%zz /api/v2/queues/%c0%af /api/v2/queues/%ed%a0%80 /api/v2/queues/q/tasks/%
        /api/v2/queues//tasks /api/v2//queues/q /api/v2/queues/a%2Fb /api/v2/queues/q;x=1
        /api/v2/queues/q/tasks/t_%25%25%25%25%25%25%25%25%25%25%25%25 /api/v2/queues/q/tasks/t_'--;DROP%20T
        /api/v2/queues/q/workers/%F0%9F%98%80 /api/v2/queues/$(id) /api/v2/queues/{queue} /api/v2/queues/* /*";
    for path in paths.split_whitespace() {
        for method in ["GET", "PUT", "POST", "PATCH", "DELETE"] {
            let response = server.call(method, path, json!({}));
            assert!(matches!(response.status, 404 | 405 | 422), "{response:?}");
        }
    }
    let long = format!("/api/v2/queues/{}", "a".repeat(60_000));
    server.put(&long, ()).assert_error(422, "invalid_request");
    assert_eq!(server.get("/api/v2/queues").json(), json!([{"name": "q"}]));
    server.assert_alive();
}

#[test]
fn heads_and_chunks_that_make_no_sense_change_nothing() {
    let server = Server::with_queue();
    let chunk = format!(
        "PUT {} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{{}}\r\n0\r\n\r\n",
        of_task(1, "")
    );
    for bytes in [
        "GET\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "GET /\0 HTTP/1.1\r\n\r\n",
        "PUT /api/v2/queues/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        &chunk[..],
    ] {
        let mut connection = server.begin_with(bytes.as_bytes());
        if let Ok(response) = connection.read_response(true) {
            assert!((400..500).contains(&response.status), "{response:?}");
        }
    }
    assert_eq!(server.get("/api/v2/queues").json(), json!([{"name": "q"}]));
    server.get(&of_task(1, "")).assert_error(404, "task_not_found");
    server.assert_alive();
}

#[test]
fn a_body_that_breaks_off_changes_nothing() {
    let server = Server::with_queue();
    for head in ["Content-Length: 100", "Transfer-Encoding: chunked"] {
        let mut connection = server.connect();
        let fields = format!("Host: localhost\r\nContent-Type: application/json\r\n{head}\r\n\r\n");
        let start = format!("PUT {} HTTP/1.1\r\n{fields}", of_task(1, ""));
        connection.write(start.as_bytes()).unwrap();
        connection.write(if head.starts_with('C') { b"{}" } else { b"2\r\n{}\r\n" }).unwrap();
        drop(connection);
    }
    server.assert_alive();
    server.get(&of_task(1, "")).assert_error(404, "task_not_found");
}

#[test]
fn large_and_many_header_fields_are_no_failure() {
    let server = Server::with_queue();
    let mut large = Request::new("GET", "/api/v2/queues").header("X-Large", &"x".repeat(300_000));
    for round in 0..2 {
        let mut connection = server.connect();
        if let Ok(response) = connection.exchange(&large) {
            assert!(response.status < 500, "round {round}: {response:?}");
        }
        let plain = Request::new("GET", "/api/v2/queues");
        large = (0..2000).fold(plain, |request, n| request.header(&format!("X-{n}"), "x"));
    }
    server.assert_alive();
}

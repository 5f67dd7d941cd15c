//! Input that is meant to hurt: it must never crash the server, hang it, or be answered with a failure of ours
//! (docs/reference/invariants.md §5). Each test ends by showing that the server still works. What is not even HTTP, and floods of
//! connections, are tested in `server`.

use serde_json::json;

use super::json_handling::endpoints_with_body;
use super::support::*;

/// The server still reads and writes, and nothing in it has panicked.
fn assert_alive(server: &Server) {
    assert_eq!(server.get("/health").expect(200).json()["status"], "ok");
    server.put(&of_task(999_999, ""), json!({})).expect(201);
    server.delete(&of_task(999_999, "")).expect(204);
    assert!(!server.stderr().contains("panicked"), "{}", server.stderr());
}

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
    assert_alive(&server);
}

#[test]
fn wide_and_long_bodies_are_handled() {
    let server = Server::with_queue();
    let keys: String = (0..60_000).map(|n| format!("\"k{n}\":{n},")).collect();
    server.put(&of_task(1, ""), format!("{{\"args\":{{{keys}\"z\":0}}}}")).expect(201);
    let same_key = "\"a\":1,".repeat(150_000);
    server.put(&of_task(2, ""), format!("{{\"args\":{{{same_key}\"a\":2}}}}")).expect(201);
    assert_eq!(server.task(2)["args"], json!({"a": 2}));
    server.put(&of_task(3, ""), format!("{{{same_key}\"a\":2}}")).assert_error(422, "invalid_task");
    let routes: Vec<String> = (0..100_000).map(|n| n.to_string()).collect();
    server.put(&of_task(4, ""), json!({"routes": routes})).assert_error(422, "invalid_task");
    server.put(&of_task(5, ""), json!({"routes": vec!["same"; 100_000]})).assert_error(422, "invalid_task");
    let digits = "9".repeat(900_000);
    server.put(&of_task(6, ""), format!("{{\"priority\":{digits}}}")).assert_error(422, "invalid_task");
    server.put(&of_task(6, ""), format!("{{\"args\":{{\"a\":{digits}}}}}")).assert_error(422, "invalid_task");
    server.put(&of_task(6, ""), format!("{{\"args\":{{\"a\":0.{digits}}}}}")).expect(201);
    server.put(&of_task(7, ""), json!({"name": "x".repeat(900_000)})).assert_error(422, "invalid_task_name");
    assert_alive(&server);
}

#[test]
fn compressed_bodies_are_not_unpacked() {
    let server = Server::with_queue();
    // gzip of `{}`
    let gzip = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0xab, 0xae, 5, 0, 0x43, 0xbf, 0xa6, 0xa3, 2, 0, 0, 0];
    let request = Request::new("PUT", &of_task(1, "")).json(gzip).header("Content-Encoding", "gzip");
    assert_eq!(server.send(&request).status, 422);
    server.get(&of_task(1, "")).assert_error(404, "task_not_found");
    assert_alive(&server);
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
    assert_alive(&server);
}

#[test]
fn statements_in_texts_are_just_texts() {
    let server = Server::with_queue();
    let statements =
        ["'; DROP TABLE tasks; --", "\" OR \"\"=\"", "' OR 1=1 --", "a' || 'b", "*/ 1 /*", "NULL", "?1", ":x", "@x"];
    let patterns = ["%", "_", "\\", "$.a", "$[0]", "{}", "[]", "$$", "`id`", "${x}", "{{x}}", "<script>", "%s%n"];
    let others = ["a%", "a_b", "a'b", "a\"b", "a\\b", "é", "e\u{301}", "a", "A", "\u{ffff}", "\u{202e}abc", "𝒳"];
    let texts = [&statements[..], &patterns, &others].concat();
    server.create_each(0..texts.len(), |n| {
        let text = texts[n];
        json!({"name": text, "args": {"v": text, "list": [text]}, "metadata": {text: text}})
    });
    for (n, text) in texts.into_iter().enumerate() {
        let literal = json!(text).to_string();
        assert_eq!(numbers(&server.get(&tasks_where(&[("name", text)])).json()), [n], "{text}");
        for filter in ["name == @", "name in [@]", "args.v == @", "@ in args.list", "@ in metadata"] {
            server.assert_selections(&[(&filter.replacen('@', &literal, 1), &[n])]);
        }
        server.get(&tasks_where(&[("cursor", text)])).assert_error(422, "invalid_cursor");
        server.get(&tasks_where(&[("order_by", text)])).assert_error(422, "invalid_request");
        server.get(&tasks_where(&[("status", text)])).assert_error(422, "invalid_request");
        server.get(&in_queue(&format!("/tasks/count?group_by={}", encode(text)))).assert_error(422, "invalid_request");
    }
    assert_alive(&server);
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
    assert_alive(&server);
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
    assert_alive(&server);
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
    assert_alive(&server);
}

//! What a web page in the user's browser can do to a server without a token: nothing (docs/reference/http-api.md §2.2).
//! Tables of raw requests, each with the expected answer. With a token only the token counts.

use serde_json::json;

use super::support::*;

const TOKEN: &str = "s3cret";

/// A status, and `details.reason` of a 403.
type Expected = (u16, Option<&'static str>);

const SERVED: Expected = (200, None);
const INVALID: Expected = (400, None);
const HOST: Expected = (403, Some("foreign_host"));
const ORIGIN: Expected = (403, Some("foreign_origin"));
const CROSS_SITE: Expected = (403, Some("cross_site"));

/// Heads for `GET /api/v2/queues`: the version, the fields (`@` stands for the port), and the answer without a token. With
/// a token, requests that have it are served where this table says 403.
const HEADS: &[(&str, &str, Expected)] = &[
    // What our own client, curl, labtasker and others send.
    ("HTTP/1.1", "Host: 127.0.0.1:@", SERVED),
    ("HTTP/1.1", "Host: localhost:@", SERVED),
    ("HTTP/1.1", "Host: localhost", SERVED),
    ("HTTP/1.1", "Host: [::1]:@", SERVED),
    ("HTTP/1.1", "hOsT:LOCALHOST", SERVED),
    ("HTTP/1.0", "Host: 127.0.0.1:@", SERVED),
    ("HTTP/1.0", "User-Agent: a probe", SERVED),
    // A page that this server would have served, and an address that was typed in.
    ("HTTP/1.1", "Host: localhost:@\r\nOrigin: http://localhost:@\r\nSec-Fetch-Site: same-origin", SERVED),
    ("HTTP/1.1", "Host: localhost:@\r\nSec-Fetch-Site: none", SERVED),
    // DNS rebinding: the page's own name now stands for 127.0.0.1, so the browser sees one origin and sends no Origin.
    ("HTTP/1.1", "Host: evil.example:@\r\nSec-Fetch-Site: same-origin", HOST),
    ("HTTP/1.1", "Host: evil.example:@\r\nOrigin: http://evil.example:@", HOST),
    ("HTTP/1.1", "Host: localhost.evil.example:@", HOST),
    ("HTTP/1.1", "Host: 127.0.0.1.evil.example", HOST),
    ("HTTP/1.1", "Host: a.localhost", HOST),
    ("HTTP/1.1", "Host: 0.0.0.0:@", HOST),
    ("HTTP/1.1", "Host: 192.168.0.1:@", HOST),
    ("HTTP/1.1", "Host: ", HOST),
    ("HTTP/1.0", "Host: evil.example", HOST),
    // Pages of others, sandboxed frames, extensions, other servers on this machine.
    ("HTTP/1.1", "Host: localhost:@\r\nOrigin: http://evil.example", ORIGIN),
    ("HTTP/1.1", "Host: localhost:@\r\nOrigin: null", ORIGIN),
    ("HTTP/1.1", "Host: localhost:@\r\nOrigin: http://localhost:1", ORIGIN),
    ("HTTP/1.1", "Host: localhost:@\r\nOrigin: http://127.0.0.1:@", ORIGIN),
    ("HTTP/1.1", "Host: localhost:@\r\nOrigin: chrome-extension://abc", ORIGIN),
    ("HTTP/1.0", "Origin: http://localhost:@", ORIGIN),
    ("HTTP/1.1", "Host: localhost:@\r\nSec-Fetch-Site: cross-site", CROSS_SITE),
    ("HTTP/1.1", "Host: localhost:@\r\nSec-Fetch-Site: same-site", CROSS_SITE),
    // Not valid HTTP/1.1, with a token or without.
    ("HTTP/1.1", "User-Agent: a probe", INVALID),
    ("HTTP/1.1", "Host: localhost\r\nHost: localhost", INVALID),
    ("HTTP/1.1", "Host: localhost\r\nHost: evil.example", INVALID),
    ("HTTP/1.0", "Host: localhost\r\nHost: localhost", INVALID),
];

/// The answer to raw bytes in which `@` stands for the port.
fn raw(server: &Server, request: &str) -> Response {
    let port = server.address.rsplit_once(':').unwrap().1;
    let mut connection = server.begin_with(request.replace('@', port).as_bytes());
    let response = connection.read_response(!request.starts_with("HEAD")).unwrap();
    Response { request: request.to_owned(), ..response }
}

#[track_caller]
fn assert_answer(response: &Response, (status, reason): Expected) {
    assert_eq!(response.status, status, "{response:?}");
    match reason {
        Some(reason) => assert_eq!(response.assert_error(403, "forbidden"), json!({"reason": reason})),
        None if status == 400 => drop(response.assert_error(400, "invalid_request")),
        None => {}
    }
}

#[test]
fn without_a_token_only_requests_for_this_machine_and_of_no_foreign_page_are_served() {
    let server = Server::with_queue();
    for (version, fields, expected) in HEADS {
        let response = raw(&server, &format!("GET /api/v2/queues {version}\r\n{fields}\r\n\r\n"));
        assert_answer(&response, *expected);
        assert_general_rules(&response, "/api/v2/queues");
    }
}

#[test]
fn with_a_token_it_is_the_token_that_counts() {
    let server = Server::with_token(TOKEN);
    for (version, fields, (status, _)) in HEADS {
        let request = |line: &str| raw(&server, &format!("GET /api/v2/queues {version}\r\n{fields}\r\n{line}\r\n"));
        let (with, without) = (request(&format!("Authorization: Bearer {TOKEN}\r\n")), request(""));
        if *status == 400 {
            assert_answer(&with, INVALID);
            assert_answer(&without, INVALID);
            assert_eq!(without.header(VERSION_HEADER), None, "{without:?}");
        } else {
            assert_answer(&with, SERVED);
            without.assert_error(401, "unauthorized");
        }
        assert_general_rules(&with, "/api/v2/queues");
    }
}

#[test]
fn dns_rebinding_reads_nothing_and_a_cross_site_post_changes_nothing() {
    let server = Server::with_queue();
    server.create(1, json!({"args": {"secret": "s3cret"}}));
    server.create(2, json!({}));
    server.claim(1);
    let rebound = "Host: evil.example:@\r\n";
    let simple = "Host: localhost:@\r\nOrigin: https://evil.example\r\nContent-Type: text/plain\r\n";
    let old_browser = "Host: 127.0.0.1:@\r\nOrigin: null\r\n";
    let navigation = "Host: localhost:@\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n";
    let task = of_task(2, "");
    let requests = [
        ("GET", "/api/v2/queues"),
        ("GET", "/api/v2/queues/q/tasks"),
        ("GET", "/health"),
        ("GET", "/openapi.json"),
        ("GET", "/metrics"),
        ("GET", "/nowhere"),
        ("GET", "//"),
        ("HEAD", "/health"),
        ("OPTIONS", "/api/v2/queues"),
        ("POST", &format!("{task}/cancel")),
        ("POST", &format!("{task}/requeue")),
        ("PUT", "/api/v2/queues/planted"),
        ("DELETE", &task),
        ("DELETE", "/api/v2/queues/q?cascade=true"),
    ];
    for (method, path) in requests {
        for fields in [rebound, simple, old_browser, navigation] {
            let response = raw(&server, &format!("{method} {path} HTTP/1.1\r\n{fields}Content-Length: 0\r\n\r\n"));
            assert_eq!(response.status, 403, "{response:?}");
            assert!(!String::from_utf8_lossy(&response.body).contains("s3cret"), "{response:?}");
        }
    }
    // Neither a preflight nor an answer tells a browser that another origin may read.
    let preflight =
        raw(&server, &format!("OPTIONS {task} HTTP/1.1\r\n{simple}Access-Control-Request-Method: PUT\r\n\r\n"));
    assert!(preflight.headers.iter().all(|(name, _)| !name.to_lowercase().starts_with("access-control")));
    assert_eq!(server.get("/api/v2/queues").json(), json!([{"name": "q"}]));
    assert_eq!(server.task(2)["status"], "pending");
}

#[test]
fn a_refusal_comes_before_everything_else_and_says_what_to_do() {
    let server = Server::with_queue();
    let head = "HTTP/1.1\r\nHost: evil.example\r\nContent-Type: application/json\r\n";
    for request in [
        format!("PUT /api/v2/queues/! {head}Content-Length: 99999999\r\n\r\n"),
        format!("PUT {} {head}Content-Length: 1\r\n\r\n{{", of_task(1, "")),
        format!("BREW /health {head}\r\n"),
    ] {
        assert_answer(&raw(&server, &request), HOST);
    }
    let refused = raw(&server, &format!("GET /health {head}\r\n"));
    assert!(refused.json()["error"]["message"].as_str().unwrap().contains("--allow-host"), "{refused:?}");
}

#[test]
fn a_host_can_be_allowed_by_flag_or_environment() {
    let flags = ["--allow-host", "queue", "--allow-host", "Queue.Example"];
    let servers = [
        Server::with_arguments(&flags),
        Server::with_environment(&[], &[("TASKQUEUE_ALLOW_HOST", "queue,queue.example")]),
    ];
    for server in servers {
        let cases = [
            ("Host: queue:@", SERVED),
            ("Host: queue.example\r\nOrigin: https://queue.example", SERVED),
            ("Host: evil.example", HOST),
        ];
        for (fields, expected) in cases {
            let response = raw(&server, &format!("GET /api/v2/queues HTTP/1.1\r\n{fields}\r\n\r\n"));
            assert_answer(&response, expected);
        }
    }
    run(&["serve", "--allow-host", "http://queue"], &[]).fails(2);
}

#[test]
fn over_a_unix_socket_any_host_will_do_but_no_foreign_origin() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let _server = Server::with_arguments(&["--listen", &format!("unix:{}", path.display())]);
    for (fields, expected) in [
        ("Host: evil.example", SERVED),
        ("Host: %2Frun%2Ftaskqueue.sock", SERVED),
        ("Host: ", SERVED),
        ("Host: queue.example\r\nOrigin: https://queue.example", SERVED),
        ("Host: queue.example\r\nOrigin: https://evil.example", ORIGIN),
        ("Host: localhost\r\nSec-Fetch-Site: cross-site", CROSS_SITE),
        ("User-Agent: a probe", INVALID),
    ] {
        let mut connection = Connection::unix(&path).unwrap();
        connection.write(format!("GET /api/v2/queues HTTP/1.1\r\n{fields}\r\n\r\n").as_bytes()).unwrap();
        assert_answer(&connection.read_response(true).unwrap(), expected);
    }
}

/// A browser shows the answer only if it could send its form to the end.
#[test]
fn a_form_that_is_too_large_is_answered_to_who_reads_only_after_sending() {
    let server = Server::with_queue();
    // More than what is read before the limit, and what the connection takes by itself afterwards.
    let form = format!("lines={}", "x".repeat(50 << 20));
    let submit = Request::new("POST", "/ui/queues/q/submit")
        .header("content-type", "application/x-www-form-urlencoded")
        .header("sec-fetch-site", "same-origin")
        .body(form);
    let response = server.connect().exchange(&submit).expect("all of it is taken").expect(422);
    assert!(String::from_utf8_lossy(&response.body).contains("too large"));
}

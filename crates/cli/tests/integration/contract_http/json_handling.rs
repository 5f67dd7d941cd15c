//! Bodies at every endpoint: what is JSON, what is an object, nesting and content types (docs/reference/http-api.md §3.3 and
//! §3.5). What JSON is, is proven in `core`, and what each body takes in `api`; sizes are in `creation` and `http_details`.

use serde_json::json;

use super::support::*;

/// Every endpoint that needs a body: method, path, and the code of an invalid body.
pub(super) fn endpoints_with_body() -> Vec<(&'static str, String, &'static str)> {
    vec![
        ("PUT", of_task(1, ""), "invalid_task"),
        ("PATCH", of_task(1, ""), "invalid_update"),
        ("PATCH", in_queue("/tasks"), "invalid_update"),
        ("POST", in_queue("/tasks/claim"), "invalid_request"),
        ("POST", of_task(1, "/heartbeat"), "invalid_request"),
        ("POST", of_task(1, "/complete"), "invalid_request"),
        ("POST", of_task(1, "/fail"), "invalid_request"),
        ("POST", of_task(1, "/unclaim"), "invalid_request"),
        ("PUT", of_worker(1), "invalid_request"),
    ]
}

/// Endpoints that ignore a body, with the status of a first call on task 1, which is pending.
fn endpoints_without_body() -> Vec<(&'static str, String, u16)> {
    vec![
        ("PUT", in_queue(""), 200),
        ("POST", of_task(1, "/cancel"), 200),
        ("POST", of_task(1, "/requeue"), 200),
        ("GET", of_task(1, ""), 200),
        ("GET", in_queue("/tasks"), 200),
        ("GET", in_queue("/tasks/count"), 200),
        ("GET", "/api/v2/queues".to_owned(), 200),
        ("GET", "/health".to_owned(), 200),
        ("DELETE", of_worker(1), 204),
        ("DELETE", of_task(1, ""), 204),
        ("DELETE", in_queue(""), 204),
    ]
}

#[test]
fn a_body_must_be_an_object_and_malformed_json_is_an_invalid_request_on_every_endpoint() {
    let server = Server::with_task();
    let texts: [&[u8]; 4] = [b"{", b"{} {}", b"{\"a\":\"\xff\"}", b"\xef\xbb\xbf{}"];
    for (method, path, code) in endpoints_with_body() {
        for body in ["", "null", "[]", "[{}]", "\"{}\"", "1", "1.5", "true", " \n[] "] {
            server.call(method, &path, body).assert_error(422, code);
        }
        for text in texts {
            let details = server.call(method, &path, text.to_vec()).assert_error(422, "invalid_request");
            assert!(details["errors"].is_array(), "{method} {path}: {details}");
        }
    }
}

#[test]
fn sixty_four_levels_are_accepted_and_sixty_five_are_too_deep() {
    let server = Server::with_queue();
    let too_deep = |response: Response| response.assert_details(422, "json_too_deep", &json!({"max_depth": 64}));
    for field in ["args", "metadata"] {
        too_deep(server.put(&of_task(1, ""), format!("{{\"{field}\":{}}}", nested(65))));
    }
    assert_eq!(server.create(1, format!("{{\"args\":{}}}", nested(64)))["args"].to_string(), nested(64));
}

#[test]
fn a_body_is_read_only_with_a_json_content_type() {
    let server = Server::with_queue();
    let send = |path: &str, kind: Option<&str>, body: &str| {
        let method = if path.ends_with("claim") { "POST" } else { "PUT" };
        let request = Request::new(method, path).body(body);
        server.send(&kind.into_iter().fold(request, |request, kind| request.header("Content-Type", kind)))
    };
    let json = ["application/json;charset=latin1", "application/problem+JSON; a=b", "application/json; x=é"];
    for (n, kind) in json.into_iter().enumerate() {
        send(&of_task(n, ""), Some(kind), "{}").expect(201);
    }
    let others = ["text/plain", "application/jsonp", "multipart/form-data; boundary=x", "*/*", "text/vnd.api+json"];
    for kind in others.into_iter().map(Some).chain([None]) {
        for body in ["{}", "{"] {
            let response = send(&of_task(99, ""), kind, body);
            response.assert_error(422, "invalid_task");
            assert!(response.text().contains("Content-Type: application/json"), "it says what to do: {response:?}");
        }
        let claim = format!("{{\"route\":\"default\",\"run_id\":\"{}\"}}", run_id(1));
        send(&in_queue("/tasks/claim"), kind, &claim).assert_error(422, "invalid_request");
        send(&of_task(99, ""), kind, "").assert_error(422, "invalid_task");
    }
}

#[test]
fn endpoints_without_a_body_ignore_whatever_is_sent() {
    let server = Server::with_task();
    for (method, path, status) in endpoints_without_body() {
        if method != "DELETE" {
            server.call(method, &path, "{\"malformed").expect(status);
            server.send(&Request::new(method, &path).header("Content-Type", "image/png").body("\0x")).expect(status);
        }
        server.call(method, &path, r#"{"unknown":1}"#).expect(status);
    }
}

#[test]
fn answers_are_compact_json() {
    let server = Server::with_queue();
    assert_eq!(server.put(&in_queue(""), ()).text(), r#"{"name":"q"}"#);
    assert_eq!(server.get("/api/v2/queues").text(), r#"[{"name":"q"}]"#);
    assert_eq!(server.get(&in_queue("/tasks/count")).text(), r#"{"count":0}"#);
    server.create(1, json!({"args": {"a": [1, {"b": 2}]}}));
    let text = server.get(&of_task(1, "")).text();
    assert!(!text.contains([' ', '\n']), "{text}");
}

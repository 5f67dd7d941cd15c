//! HTTP itself: methods, unknown paths, body limits, HEAD; what connections do is tested in `server`
//! (docs/reference/http-api.md §3.1, §3.3 and §3.7). The version header, content types and the shape of 204 are checked
//! for every answer by the harness.

use serde_json::{Value, json};

use super::support::*;

/// Every path with the methods that it has, HEAD and OPTIONS aside. For other methods than theirs, `count` and `claim` are ids.
fn paths(server: &Server) -> Vec<(String, Vec<String>)> {
    let document = server.get("/openapi.json").expect(200).json();
    let with_methods = |(template, item): (&String, &Value)| {
        let described = item.as_object().unwrap().keys().map(|method| method.to_uppercase());
        let as_ids: &[&str] = match template.rsplit_once("/queues/{queue}/").map_or("", |(_, end)| end) {
            "tasks/count" => &["PUT", "PATCH", "DELETE"],
            "tasks/claim" => &["GET", "PUT", "PATCH", "DELETE"],
            "workers/count" => &["PUT", "DELETE"],
            _ => &[],
        };
        let mut methods: Vec<String> = described.chain(as_ids.iter().map(|&method| method.to_owned())).collect();
        methods.sort_unstable();
        let path = template.replace("{queue}", "q").replace("{task_id}", &task_id(1)).replace("{id}", &worker_id(1));
        (path, methods)
    };
    document["paths"].as_object().unwrap().iter().map(with_methods).collect()
}

#[test]
fn other_methods_of_a_known_path_are_405_with_the_allowed_ones() {
    let server = Server::with_queue();
    for (path, methods) in paths(&server) {
        for method in ["GET", "PUT", "POST", "PATCH", "DELETE", "TRACE", "FOO", "get"] {
            if methods.iter().any(|known| known == method) {
                continue;
            }
            let response = server.call(method, &path, ());
            let details = response.assert_error(405, "method_not_allowed");
            assert!(!details["allow"].is_null(), "{response:?}");
            let header = response.header("Allow").unwrap_or_else(|| panic!("no Allow: {response:?}"));
            let mut allowed: Vec<&str> =
                header.split(',').map(str::trim).filter(|name| !["HEAD", "OPTIONS"].contains(name)).collect();
            allowed.sort_unstable();
            assert_eq!(allowed, methods, "{response:?}");
        }
    }
}

#[test]
fn unknown_paths_are_404_whatever_the_method() {
    let server = Server::with_queue();
    let unknown =
        "/ /docs /redoc /api /api/ /api/v1/queues /api/v2 /API/v2/queues /api/v2/Queues /api/v2/queue /api/v2/tasks
        /api/v2/queues/q/runs /api/v2/queues/q/tasks/count/x /api/v2/queues/q/tasks/t_000000000001/unknown
        /api/v2/queues/q/tasks/t_000000000001/cancel/x /api/v2/queues/q/workers/w_000000000001/x /health/ /openapi.json/
        /api/v2/queues/ /api/v2/queues/q/ /api/v2/queues/q/tasks/ /api/v2/queues/q/tasks/t_000000000001/
        /api/v2/queues/q/tasks/t_000000000001/cancel/ /api/v2/queues/q/workers/ /api/v2/queues/q//tasks //health";
    for path in unknown.split_whitespace() {
        for method in ["GET", "PUT", "POST", "PATCH", "DELETE", "FOO"] {
            server.call(method, path, "{malformed").assert_details(404, "not_found", &json!({"path": path}));
        }
    }
}

#[test]
fn head_answers_like_get_without_the_body() {
    let server = Server::with_task();
    let readable = "/health /openapi.json /api/v2/queues /api/v2/queues/q/tasks /api/v2/queues/q/tasks/count
        /api/v2/queues/q/tasks/t_000000000001 /api/v2/queues/q/workers /api/v2/queues/q/workers/count
        /api/v2/queues/q/tasks/t_000000000002 /api/v2/queues/q/tasks?limit=0 /api/v2/queues/q/tasks/claim /nope";
    for path in readable.split_whitespace() {
        let (get, head) = (server.get(path), server.call("HEAD", path, ()));
        assert_eq!(head.status, get.status, "{path}");
        assert!(head.body.is_empty());
        assert_eq!(head.header("Content-Length"), get.header("Content-Length"), "{path}");
    }
    server.call("HEAD", &in_queue(""), ()).expect(405);
    server.call("HEAD", &of_task(1, "/cancel"), ()).expect(405);
    server.get("/health").expect(200);
}

#[test]
fn options_is_never_a_failure() {
    let server = Server::with_queue();
    for (path, _) in paths(&server) {
        let mut connection = server.connect();
        let response = connection.exchange(&Request::new("OPTIONS", &path)).unwrap();
        assert!(matches!(response.status, 200 | 204 | 405), "{response:?}");
    }
}

#[test]
fn one_mib_is_accepted_and_one_byte_more_is_not() {
    let server = Server::with_queue();
    let padded = |bytes: usize| format!("{{}}{}", " ".repeat(bytes - 2));
    server.put(&of_task(1, ""), padded(MIB)).expect(201);
    let request = |n: usize, bytes: usize| Request::new("PUT", &of_task(n, "")).json(padded(bytes)).chunked();
    server.send(&request(2, MIB)).expect(201);
    server.put(&of_task(3, ""), padded(MIB + 1)).assert_error(413, "request_too_large");
    server.send(&request(3, MIB + 1)).assert_error(413, "request_too_large");
    let ignored = Request::new("POST", &of_task(1, "/cancel")).json(padded(MIB + 1)).chunked();
    server.send(&ignored).assert_error(413, "request_too_large");
    server.get(&of_task(3, "")).assert_error(404, "task_not_found");
}

#[test]
fn an_announced_length_above_the_limit_is_refused_without_reading_the_body() {
    let server = Server::with_queue();
    for (path, methods) in paths(&server) {
        for method in methods {
            // A batch may have 16 MiB.
            let lengths =
                if path.contains("/batch/") { ["16777217", "99999999999"] } else { ["1048577", "99999999999"] };
            for length in lengths {
                let request = Request::new(&method, &path).header("Content-Length", length);
                server.send(&request).assert_error(413, "request_too_large");
            }
        }
    }
    assert_eq!(server.get("/api/v2/queues").json(), json!([{"name": "q"}]));
}

#[test]
fn a_mib_of_ignored_body_is_accepted() {
    let server = Server::with_queue();
    let body = "x".repeat(MIB);
    server.put(&in_queue(""), body.as_str()).expect(200);
    server.send(&Request::new("PUT", &in_queue("")).json(body.as_str()).chunked()).expect(200);
    server.call("GET", "/api/v2/queues", body.as_str()).expect(200);
}

/// Some clients send what they were given. Characters that the HTTP layer accepts have their meaning, and for the others the
/// answer says what to do.
#[test]
fn a_target_with_characters_that_must_be_encoded_is_told_so() {
    let server = Server::with_queue();
    server.create(1, json!({"name": "{é|x}"}));
    let count = in_queue("/tasks/count?filter=");
    for accepted in ["name=='{\u{e9}|x}'", "name=='{%C3%A9|x}'", "name%20==%20'{\u{e9}%7Cx}'"] {
        let mut connection =
            server.begin_with(format!("GET {count}{accepted} HTTP/1.1\r\nhost: localhost\r\n\r\n").as_bytes());
        assert_eq!(connection.read_response(true).unwrap().expect(200).json()["count"], 1, "{accepted}");
    }
    let refused: [&[u8]; 9] = [
        b"priority>=0",
        b"priority<1",
        b"name==\"x\"",
        b"priority >= 0",
        b"name == 'x'",
        b"priority\t==0",
        b"name=='\xe9'",
        b"name=='\x7f'",
        b" ",
    ];
    for filter in refused {
        let shown = String::from_utf8_lossy(filter);
        // At once, and in two parts, the first of which ends behind the filter.
        for cut in [false, true] {
            let mut connection = server.connect();
            let rest: &[u8] = b" HTTP/1.1\r\nhost: localhost\r\n\r\n";
            let whole = [b"GET ", count.as_bytes(), filter, rest].concat();
            let (first, second) = whole.split_at(if cut { whole.len() - rest.len() } else { whole.len() });
            connection.write(first).unwrap();
            // The server may have answered already.
            let _ = connection.write(second);
            let response = connection.read_response(true).unwrap();
            response.assert_error(400, "invalid_request");
            let message = response.json()["error"]["message"].as_str().unwrap().to_owned();
            assert!(message.contains("must be percent-encoded"), "{shown}: {message}");
            assert!(message.contains("curl -G --data-urlencode 'filter="), "{shown}: {message}");
            assert!(connection.read_response(true).is_err(), "the connection is closed");
        }
    }
    let mut connection = server.begin_with(b"GET / HTTP/1.1\r\nbad header: x\r\n\r\n");
    assert!(
        connection.read_response(true).unwrap().text().contains("not valid HTTP/1.1"),
        "nothing is said of the target"
    );
}

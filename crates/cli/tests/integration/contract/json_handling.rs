//! Bodies: what is JSON, what is an object, numbers, strings, nesting, duplicate keys and content types
//! (docs/reference/http-api.md §3.3 and §3.5). Bounds of single fields are in `task_fields`, sizes in `creation` and
//! `http_details`.

use serde_json::json;

use super::support::*;

/// Every endpoint that needs a body: method, path, and the code of an invalid body.
fn endpoints_with_body() -> Vec<(&'static str, String, &'static str)> {
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

/// A number as it may stand in args, and how it must come back; nothing when it is refused.
const NUMBERS: [(&str, Option<&str>); 20] = [
    ("0", Some("0")),
    ("-0", Some("0")),
    ("0.0", Some("0.0")),
    ("-0.0", Some("-0.0")),
    ("1.0", Some("1.0")),
    ("1e2", Some("100.0")),
    ("1E+2", Some("100.0")),
    ("0.1", Some("0.1")),
    ("-1.5", Some("-1.5")),
    ("100e-2", Some("1.0")),
    ("1e-400", Some("0.0")),
    ("9007199254740993", Some("9007199254740993")),
    ("9223372036854775807", Some("9223372036854775807")),
    ("-9223372036854775808", Some("-9223372036854775808")),
    ("9223372036854775808", None),
    ("-9223372036854775809", None),
    ("18446744073709551616", None),
    ("100000000000000000000000000000000000000000", None),
    ("1e400", None),
    ("-1e400", None),
];

#[test]
fn a_body_must_be_an_object() {
    let server = Server::with_queue();
    server.create(1, json!({}));
    for (method, path, code) in endpoints_with_body() {
        for body in ["", "null", "[]", "[{}]", "\"{}\"", "1", "1.5", "true", " \n[] "] {
            server.call(method, &path, body).assert_error(422, code);
        }
    }
}

#[test]
fn malformed_json_is_an_invalid_request_on_every_endpoint_with_a_body() {
    let server = Server::with_queue();
    server.create(1, json!({}));
    let texts: [&[u8]; 20] = [
        b"{",
        b"}",
        b"{]",
        b"{}x",
        b"{} {}",
        b"{,}",
        b"{\"a\":1,}",
        b"{'a':1}",
        b"{a:1}",
        b"{\"a\" 1}",
        b"{\"a\":01}",
        b"{\"a\":.5}",
        b"{\"a\":1.}",
        b"{\"a\":+1}",
        b"{\"a\":\"\\x\"}",
        b"{\"a\":\"\n\"}",
        b"{\"a\":\"\xff\"}",
        b"nul",
        b"\xef\xbb\xbf{}",
        b"{} // comment",
    ];
    for (method, path, _) in endpoints_with_body() {
        for text in texts {
            let details = server.call(method, &path, text.to_vec()).assert_error(422, "invalid_request");
            assert!(details["errors"].is_array(), "{method} {path}: {details}");
        }
    }
}

#[test]
fn not_a_number_and_the_infinities_are_malformed() {
    let server = Server::with_queue();
    for word in ["NaN", "Infinity", "-Infinity", "nan", "inf"] {
        server.put(&of_task(1, ""), format!("{{\"args\":{{\"a\":{word}}}}}")).assert_error(422, "invalid_request");
    }
}

#[test]
fn of_duplicate_keys_the_last_one_wins_and_the_others_are_not_validated() {
    let server = Server::with_queue();
    let deep = nested(70);
    let cases = [
        (r#"{"priority":"x","priority":2}"#.to_owned(), "priority", json!(2)),
        (r#"{"name":"\ud800","name":"ok"}"#.to_owned(), "name", json!("ok")),
        (r#"{"name":"a\nb","name":"ok"}"#.to_owned(), "name", json!("ok")),
        (r#"{"routes":[],"routes":["a"]}"#.to_owned(), "routes", json!(["a"])),
        (r#"{"args":[],"args":{"a":1}}"#.to_owned(), "args", json!({"a": 1})),
        (r#"{"args":{"a":1},"args":{"b":2}}"#.to_owned(), "args", json!({"b": 2})),
        (r#"{"args":{"a":1,"b":2,"a":3}}"#.to_owned(), "args", json!({"a": 3, "b": 2})),
        (r#"{"args":{"x":[{"a":99999999999999999999,"a":1}]}}"#.to_owned(), "args", json!({"x": [{"a": 1}]})),
        (r#"{"args":{"a":"\ud800","a":"s"}}"#.to_owned(), "args", json!({"a": "s"})),
        (format!(r#"{{"args":{{"a":{deep},"a":0}}}}"#), "args", json!({"a": 0})),
    ];
    for (n, (body, field, value)) in cases.into_iter().enumerate() {
        assert_eq!(server.create(n, body.as_str())[field], value, "{body}");
    }
    server.put(&of_task(99, ""), r#"{"priority":1,"priority":"x"}"#).assert_error(422, "invalid_task");
}

#[test]
fn white_space_around_the_body_is_fine() {
    let server = Server::with_queue();
    let task = server.create(1, "\r\n\t { \"priority\" :\n 4 } \n");
    assert_eq!(task["priority"], 4);
}

#[test]
fn integer_fields_accept_only_json_integers() {
    let server = Server::with_queue();
    server.create(1, json!({}));
    let values = ["true", "1.0", "1e3", "-0.0", "0.0", "\"1\"", "null", "1e400", "1E0", "[1]", "99999999999999999999"];
    for field in ["priority", "max_attempts"] {
        for value in values {
            let body = format!("{{\"{field}\":{value}}}");
            server.put(&of_task(2, ""), body.as_str()).assert_error(422, "invalid_task");
            server.patch(&of_task(1, ""), body.as_str()).assert_error(422, "invalid_update");
        }
    }
    assert_eq!(server.create(3, r#"{"priority":-0}"#)["priority"], json!(0));
}

#[test]
fn numbers_inside_objects_keep_their_kind_and_value() {
    let server = Server::with_queue();
    server.create(0, json!({}));
    for (n, (number, expected)) in NUMBERS.into_iter().enumerate() {
        let body = format!("{{\"args\":{{\"v\":{number}}},\"metadata\":{{\"v\":[{{\"w\":{number}}}]}}}}");
        let response = server.put(&of_task(n + 1, ""), body.as_str());
        let Some(expected) = expected else {
            response.assert_error(422, "invalid_task");
            server.patch(&of_task(0, ""), body).assert_error(422, "invalid_update");
            continue;
        };
        let text = response.expect(201).text();
        assert!(text.contains(&format!("\"args\":{{\"v\":{expected}}}")), "{number} became {text}");
        assert!(text.contains(&format!("\"metadata\":{{\"v\":[{{\"w\":{expected}}}]}}")), "{number} became {text}");
        assert_eq!(server.get(&of_task(n + 1, "")).text(), text, "{number}");
    }
}

#[test]
fn large_floats_are_fine() {
    let server = Server::with_queue();
    for (n, number) in
        ["9223372036854775808.0", "-1e19", "1.7976931348623157e308", "5e-324", "1e16"].into_iter().enumerate()
    {
        let task = server.create(n, format!("{{\"args\":{{\"v\":{number}}}}}"));
        assert!(task["args"]["v"].is_f64(), "{number} became {task}");
        assert_eq!(task["args"]["v"].as_f64().unwrap(), number.parse::<f64>().unwrap(), "{number}");
    }
}

#[test]
fn numbers_of_a_result_follow_the_same_rules() {
    let server = Server::with_queue();
    server.create(1, json!({}));
    server.claim(1);
    for number in ["9223372036854775808", "1e400"] {
        let body = format!("{{\"run_id\":\"{}\",\"result\":{{\"v\":[{number}]}}}}", run_id(1));
        server.post(&of_task(1, "/complete"), body).assert_error(422, "invalid_request");
    }
    let body = format!("{{\"run_id\":\"{}\",\"result\":{{\"v\":1e2,\"w\":-0}}}}", run_id(1));
    server.post(&of_task(1, "/complete"), body).expect(204);
    let text = server.get(&of_task(1, "")).text();
    assert!(text.contains(r#""result":{"v":100.0,"w":0}"#), "{text}");
}

#[test]
fn strings_and_keys_hold_any_scalar_value() {
    let server = Server::with_queue();
    let body = r#"{"args":{"":"","\u0000":"a\u0000b","k\ud83d\ude00":"\ud83d\ude00","\u00e9":"\u2028\u007f\/\b"}}"#;
    let expected = json!({"": "", "\0": "a\0b", "k😀": "😀", "é": "\u{2028}\u{7f}/\u{8}"});
    assert_eq!(server.create(1, body)["args"], expected);
    assert_eq!(server.task(1)["args"], expected);
    let text = server.get(&of_task(1, "")).text();
    assert!(text.contains("\"k😀\":\"😀\"") && text.contains("\"é\":"), "not escaped: {text}");
}

#[test]
fn lone_surrogates_are_refused_in_values_and_keys() {
    let server = Server::with_queue();
    server.create(1, json!({}));
    for args in [r#"{"a":"\ud800"}"#, r#"{"a":"\udc00x"}"#, r#"{"\ud800":1}"#, r#"{"a":[{"b":"\ud800\ud800"}]}"#] {
        let body = format!("{{\"args\":{args}}}");
        server.put(&of_task(2, ""), body.as_str()).assert_error(422, "invalid_task");
        server.patch(&of_task(1, ""), body.as_str()).assert_error(422, "invalid_update");
    }
}

#[test]
fn a_key_with_a_lone_surrogate_does_not_hide_stronger_errors() {
    let server = Server::with_queue();
    let deep = nested(65);
    let creations = [
        (r#"{"\ud800":1}"#.to_owned(), "invalid_task"),
        (r#"{"\ud800":1,"name":"a\u0001"}"#.to_owned(), "invalid_task_name"),
        (format!(r#"{{"\ud800":1,"args":{deep}}}"#), "json_too_deep"),
        (format!(r#"{{"args":{{"\ud800":{deep}}}}}"#), "json_too_deep"),
        (format!(r#"{{"args":{{"\ud800":1,"a":{deep}}}}}"#), "json_too_deep"),
    ];
    for (body, code) in creations {
        server.put(&of_task(1, ""), body).assert_error(422, code);
    }
    let bulk_updates = [
        (r#"{"\ud800":1}"#, "invalid_filter"),
        (r#"{"filter":"priority==0","changes":{"\ud800":1,"name":"\u0001"}}"#, "invalid_task_name"),
        (r#"{"filter":"priority==0","changes":{"\ud800":1,"name":"a"}}"#, "invalid_update"),
        (r#"{"filter":"priority==0","changes":{"name":"a"},"\ud800":1}"#, "invalid_update"),
    ];
    for (body, code) in bulk_updates {
        server.patch(&in_queue("/tasks"), body).assert_error(422, code);
    }
}

#[test]
fn sixty_four_levels_are_accepted_and_sixty_five_are_too_deep() {
    let server = Server::with_queue();
    let (fits, deep) = (nested(64), nested(65));
    let objects = |depth: usize| format!("{}{{}}{}", "{\"a\":".repeat(depth - 1), "}".repeat(depth - 1));
    let too_deep = |response: Response| response.assert_details(422, "json_too_deep", &json!({"max_depth": 64}));
    for (n, field) in ["args", "metadata"].into_iter().enumerate() {
        server.create(n, format!("{{\"{field}\":{fits}}}"));
        server.create(10 + n, format!("{{\"{field}\":{}}}", objects(64)));
        too_deep(server.put(&of_task(20, ""), format!("{{\"{field}\":{deep}}}")));
        too_deep(server.put(&of_task(20, ""), format!("{{\"{field}\":{}}}", objects(65))));
    }
    for field in ["args", "metadata", "result"] {
        server.patch(&of_task(0, ""), format!("{{\"{field}\":{fits}}}")).expect(200);
        too_deep(server.patch(&of_task(0, ""), format!("{{\"{field}\":{deep}}}")));
        let bulk = format!("{{\"filter\":\"priority == 0\",\"changes\":{{\"{field}\":{deep}}}}}");
        too_deep(server.patch(&in_queue("/tasks"), bulk));
    }
    let claimed = server.claimed(1);
    let complete = |result: &str| {
        let body = format!("{{\"run_id\":\"{}\",\"result\":{result}}}", run_id(1));
        server.post(&of_task(claimed, "/complete"), body)
    };
    too_deep(complete(&deep));
    complete(&fits).expect(204);
    assert_eq!(server.task(claimed)["result"].to_string(), fits);
}

#[test]
fn a_body_is_read_only_with_a_json_content_type() {
    let server = Server::with_queue();
    let send = |path: &str, kind: Option<&str>, body: &str| {
        let method = if path.ends_with("claim") { "POST" } else { "PUT" };
        let request = Request::new(method, path).body(body);
        server.send(&kind.into_iter().fold(request, |request, kind| request.header("Content-Type", kind)))
    };
    let json = [
        "application/json",
        "application/json; charset=utf-8",
        "application/json;charset=latin1",
        "APPLICATION/JSON",
        "Application/Json",
        "application/vnd.api+json",
        "application/problem+JSON; a=b",
        "application/json; x=é",
    ];
    for (n, kind) in json.into_iter().enumerate() {
        send(&of_task(n, ""), Some(kind), "{}").expect(201);
    }
    let others = [
        "text/plain",
        "text/json",
        "application/x-www-form-urlencoded",
        "application/jsonp",
        "application/octet-stream",
        "multipart/form-data; boundary=x",
        "json",
        "*/*",
        "text/vnd.api+json",
    ];
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
    let server = Server::with_queue();
    server.create(1, json!({}));
    for (method, path, status) in endpoints_without_body() {
        if method != "DELETE" {
            server.call(method, &path, "{\"malformed").expect(status);
            server.send(&Request::new(method, &path).header("Content-Type", "image/png").body("\0x")).expect(status);
        }
        server.call(method, &path, r#"{"unknown":1}"#).expect(status);
    }
}

#[test]
fn chunked_bodies_are_accepted() {
    let server = Server::with_queue();
    let request = Request::new("PUT", &of_task(1, "")).json(json!({"name": "chunked"})).chunked();
    assert_eq!(server.send(&request).expect(201).json()["name"], "chunked");
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

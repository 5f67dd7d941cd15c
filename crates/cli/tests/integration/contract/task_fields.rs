//! The fields of a task: their types, bounds and defaults, names, timestamps, and who may set them
//! (docs/reference/http-api.md §1.2 and §6.1). Numbers and nesting inside objects are in `json_handling`.

use serde_json::{Value, json};

use super::support::*;

const LARGEST: i64 = i64::MAX;

#[test]
fn a_new_task_has_the_defaults_and_exactly_the_documented_fields() {
    let server = Server::with_queue();
    let task = server.create(1, json!({}));
    let created_at = &task["created_at"];
    micros(created_at);
    let expected = json!({
        "id": task_id(1), "queue": "q", "status": "pending", "name": null, "args": {}, "metadata": {}, "priority": 0,
        "attempt": 0, "max_attempts": 3, "routes": ["default"], "result": {}, "last_error": null, "last_route": null,
        "created_at": created_at, "updated_at": created_at, "started_at": null, "finished_at": null,
    });
    assert_eq!(task, expected);
    assert_eq!(server.task(1), expected);
    assert_eq!(server.snapshot(), json!({"items": [expected], "next_cursor": null}));
}

#[test]
fn a_new_task_has_the_values_of_its_definition() {
    let server = Server::with_queue();
    let definition = json!({
        "name": "n", "args": {"a": [1, {"b": null}]}, "metadata": {"m": "é"}, "priority": -7, "max_attempts": 1,
        "routes": ["gpu"],
    });
    let task = server.create(1, &definition);
    for (field, value) in definition.as_object().unwrap() {
        assert_eq!(&task[field], value, "{field}");
    }
}

#[test]
fn integer_fields_accept_their_whole_range() {
    let server = Server::with_queue();
    for (n, priority) in [i64::MIN, -1, 0, 1, LARGEST].into_iter().enumerate() {
        assert_eq!(server.create(n, json!({"priority": priority}))["priority"], json!(priority));
        assert_eq!(server.task(n)["priority"], json!(priority));
    }
    for (n, max_attempts) in [1, 2, LARGEST].into_iter().enumerate() {
        assert_eq!(server.create(10 + n, json!({"max_attempts": max_attempts}))["max_attempts"], json!(max_attempts));
        let changed = server.patch(&of_task(1, ""), json!({"max_attempts": max_attempts})).expect(200).json();
        assert_eq!(changed["max_attempts"], json!(max_attempts));
    }
}

#[test]
fn a_task_takes_256_routes_and_not_one_more() {
    let server = Server::with_queue();
    let routes = |count: usize| json!({"routes": (0..count).map(|n| format!("r{n:03}")).collect::<Vec<_>>()});
    let task = server.create(1, routes(256));
    assert_eq!(task["routes"], routes(256)["routes"]);
    server.create(2, json!({}));
    for count in [257, 5_000] {
        let too_many = routes(count);
        let refused = server.put(&of_task(3, ""), &too_many);
        refused.assert_location("invalid_task", &json!(["body", "routes"]));
        assert_eq!(refused.json()["error"]["message"], "name at most 256 routes");
        let refused = server.patch(&of_task(2, ""), &too_many);
        refused.assert_location("invalid_update", &json!(["body", "routes"]));
        let refused = server.patch(&in_queue("/tasks"), json!({"filter": "priority == 0", "changes": too_many}));
        refused.assert_location("invalid_update", &json!(["body", "changes", "routes"]));
    }
    server.get(&of_task(3, "")).assert_error(404, "task_not_found");
    assert_eq!(server.task(2)["routes"], json!(["default"]));
    server.patch(&of_task(2, ""), routes(256)).expect(200);
    assert_eq!(server.claim_for("q", "r255", 1).expect(200).json()["task"]["id"], task_id(1));
}

#[test]
fn values_of_the_wrong_type_or_range_are_refused() {
    let server = Server::with_queue();
    server.create(1, json!({}));
    let table: &[(&str, &[&str])] = &[
        ("name", &["1", "true", "[]", "{}"]),
        ("args", &["null", "[]", "1", "\"{}\"", "true"]),
        ("metadata", &["null", "[]", "1", "\"{}\"", "false"]),
        ("priority", &["9223372036854775808", "-9223372036854775809", "[]", "{}"]),
        ("max_attempts", &["0", "-1", "-0", "9223372036854775808", "\"3\"", "null"]),
        (
            "routes",
            &["null", "[]", "\"default\"", "{}", "[1]", "[null]", "[[\"a\"]]", "[\"a\",\"a\"]", "[\"a\",\"b\",\"a\"]"],
        ),
    ];
    for (field, values) in table {
        for value in *values {
            let body = format!("{{\"{field}\":{value}}}");
            server.put(&of_task(2, ""), body.as_str()).assert_error(422, "invalid_task");
            server.patch(&of_task(1, ""), body.as_str()).assert_error(422, "invalid_update");
            let bulk = format!("{{\"filter\":\"priority == 0\",\"changes\":{body}}}");
            server.patch(&in_queue("/tasks"), bulk).assert_error(422, "invalid_update");
        }
    }
    for value in ["null", "[]", "1", "\"{}\""] {
        server.patch(&of_task(1, ""), format!("{{\"result\":{value}}}")).assert_error(422, "invalid_update");
    }
    server.get(&of_task(2, "")).assert_error(404, "task_not_found");
    assert_eq!(server.task(1)["updated_at"], server.task(1)["created_at"]);
}

#[test]
fn routes_come_back_sorted_by_code_point() {
    let server = Server::with_queue();
    let sorted = json!(["0", "A", "Z", "a", "a-b", "a.b", "a0b", "aAb", "a_b", "aab"]);
    let task = server.create(1, json!({"routes": ["a", "Z", "aab", "a.b", "A", "a_b", "0", "aAb", "a-b", "a0b"]}));
    assert_eq!(task["routes"], sorted);
    let task = server.patch(&of_task(1, ""), json!({"routes": ["b", "a"]})).expect(200).json();
    assert_eq!(task["routes"], json!(["a", "b"]));
}

#[test]
fn names_are_null_or_up_to_256_code_points() {
    let server = Server::with_queue();
    let names = [
        "",
        " ",
        "\u{200b}",
        "\u{feff}",
        "\u{ad}",
        "\u{2028}\u{2029}",
        "\u{e000}",
        "\u{378}",
        "\u{10ffff}",
        "a\"b\\c",
        &"a".repeat(256),
        &"😀".repeat(256),
        &"e\u{301}".repeat(128),
    ];
    for (n, name) in names.iter().enumerate() {
        assert_eq!(server.create(n, json!({"name": name}))["name"], *name);
        assert_eq!(server.task(n)["name"], *name);
    }
    assert_eq!(server.create(99, json!({"name": null}))["name"], Value::Null);
}

#[test]
fn names_that_are_too_long_or_hold_control_characters_are_invalid_task_names() {
    let server = Server::with_queue();
    server.create(1, json!({}));
    let mut names = vec!["a".repeat(257), "😀".repeat(257)];
    names.extend(
        ['\0', '\u{1}', '\t', '\n', '\r', '\u{1f}', '\u{7f}', '\u{80}', '\u{85}', '\u{9f}'].map(|c| format!("a{c}b")),
    );
    for name in names {
        let body = json!({"name": name});
        server.put(&of_task(2, ""), &body).assert_error(422, "invalid_task_name");
        server.patch(&of_task(1, ""), &body).assert_error(422, "invalid_task_name");
        let bulk = json!({"filter": "priority == 0", "changes": body});
        server.patch(&in_queue("/tasks"), bulk).assert_error(422, "invalid_task_name");
    }
    assert_eq!(server.task(1)["name"], Value::Null);
}

#[test]
fn a_lone_surrogate_in_a_name_is_a_generic_refusal() {
    let server = Server::with_queue();
    server.create(1, json!({}));
    for name in [r#""\ud800""#, r#""a\udfffb""#, r#""\udc00\ud800""#, r#""\ud800\u0041""#] {
        let body = format!("{{\"name\":{name}}}");
        server.put(&of_task(2, ""), body.as_str()).assert_error(422, "invalid_task");
        server.patch(&of_task(1, ""), body.as_str()).assert_error(422, "invalid_update");
    }
    assert_eq!(server.create(3, r#"{"name":"\ud83d\ude00"}"#)["name"], "😀");
}

#[test]
fn nothing_is_normalised() {
    let server = Server::with_queue();
    server.create(1, json!({"name": "é", "args": {"é": "é"}}));
    server.create(2, json!({"name": "e\u{301}", "args": {"e\u{301}": "e\u{301}"}}));
    assert_eq!(server.task(1)["args"], json!({"é": "é"}));
    assert_eq!(server.task(2)["args"], json!({"e\u{301}": "e\u{301}"}));
    assert_eq!(numbers(&server.get(&tasks_where(&[("name", "é")])).json()), [1]);
    assert_eq!(numbers(&server.get(&tasks_where(&[("name", "e\u{301}")])).json()), [2]);
    server.put(&of_task(1, ""), json!({"name": "e\u{301}"})).assert_error(409, "task_id_conflict");
}

#[test]
fn fields_that_the_server_owns_and_unknown_fields_cannot_be_set() {
    let server = Server::with_queue();
    let task = server.create(1, json!({}));
    let owned = [
        "id",
        "queue",
        "status",
        "attempt",
        "last_error",
        "last_route",
        "created_at",
        "updated_at",
        "started_at",
        "finished_at",
        "run_id",
        "lease_expires_at",
        "Priority",
        "unknown",
        "",
    ];
    for field in owned {
        let value = task.get(field).cloned().unwrap_or(json!(1));
        let body = json!({"priority": 5, field: value});
        server.put(&of_task(2, ""), &body).assert_error(422, "invalid_task");
        server.patch(&of_task(1, ""), &body).assert_error(422, "invalid_update");
        let bulk = json!({"filter": "priority == 0", "changes": body});
        server.patch(&in_queue("/tasks"), bulk).assert_error(422, "invalid_update");
    }
    server.put(&of_task(2, ""), json!({"result": {}})).assert_error(422, "invalid_task");
    assert_eq!(server.task(1), task);
}

#[test]
fn all_timestamps_that_one_request_sets_are_equal() {
    let server = Server::with_queue();
    let created = server.create(1, json!({}));
    assert_eq!(created["created_at"], created["updated_at"]);
    let claimed = server.claim(1)["task"].clone();
    assert_eq!(claimed["started_at"], claimed["updated_at"]);
    assert_eq!(claimed["created_at"], created["created_at"]);
    server.act(1, "fail", 1).expect(204);
    let failed = server.task(1);
    assert_eq!(failed["finished_at"], failed["updated_at"]);
    assert_eq!(failed["finished_at"], failed["last_error"]["occurred_at"]);
    assert_eq!(failed["started_at"], claimed["started_at"]);
    assert!(micros(&created["created_at"]) < micros(&claimed["started_at"]));
    assert!(micros(&claimed["started_at"]) < micros(&failed["finished_at"]));
}

#[test]
fn a_last_error_has_exactly_six_members() {
    let server = Server::with_queue();
    server.create(1, json!({}));
    server.claim(1);
    let error = json!({"type": "ValueError", "message": "bad\nvalue\0", "traceback": "line 1"});
    server.post(&of_task(1, "/fail"), json!({"run_id": run_id(1), "error": error})).expect(204);
    let task = server.task(1);
    let expected = json!({
        "type": "ValueError", "message": "bad\nvalue\0", "traceback": "line 1", "attempt": 1, "run_id": run_id(1),
        "occurred_at": task["updated_at"],
    });
    assert_eq!(task["last_error"], expected);
}

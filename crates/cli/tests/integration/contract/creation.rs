//! Creating tasks: the identity of a definition, replays, and the size of stored data
//! (docs/reference/http-api.md §6.2 to §6.4). Which values a definition may have is in `task_fields` and
//! `json_handling`.

use serde_json::{Value, json};

use super::support::*;

/// The canonical form of a task with all defaults; its length is the smallest stored size.
const SMALLEST: &str =
    r#"{"args":{},"max_attempts":3,"metadata":{},"name":null,"priority":0,"result":{},"routes":["default"]}"#;

/// An object of so many canonical bytes in all.
fn object_of(bytes: usize) -> String {
    format!("{{\"a\":\"{}\"}}", "x".repeat(bytes - r#"{"a":""}"#.len()))
}

/// The canonical size that an object may have when everything else is a default.
const ROOM: usize = MIB - (SMALLEST.len() - 2);

#[test]
fn an_identical_creation_is_a_replay_and_another_one_a_conflict() {
    let server = Server::with_queue();
    let definition = json!({"name": "n", "args": {"a": 1}, "priority": 2});
    let task = server.create(1, &definition);
    assert_eq!(server.put(&of_task(1, ""), &definition).expect(200).json(), task);
    server.put(&of_task(1, ""), json!({})).assert_error(409, "task_id_conflict");
    assert_eq!(server.task(1), task);
}

#[test]
fn definitions_are_compared_in_normalised_form() {
    let all = r#"{"routes":["default"],"name":null,"max_attempts":3,"metadata":{},"args":{},"priority":0}"#;
    let same: &[(&str, &str)] = &[
        ("{}", all),
        ("{}", r#"{"name":null}"#),
        (r#"{"routes":["a","b","c"]}"#, r#"{"routes":["c","a","b"]}"#),
        (r#"{"args":{"a":1,"b":{"c":2,"d":3}}}"#, r#"{"args":{"b":{"d":3,"c":2},"a":1}}"#),
        (r#"{"args":{"a":[{"x":1,"y":2}]}}"#, r#"{"args":{"a":[{"y":2,"x":1}]}}"#),
        (r#"{"args":{"a":-0}}"#, r#"{"args":{"a":0}}"#),
        (r#"{"args":{"a":1e2}}"#, r#"{"args":{"a":100.0}}"#),
        (r#"{"args":{"a":0.0}}"#, r#"{"args":{"a":1e-400}}"#),
        (r#"{"args":{"a":"\u00e9"},"name":"\u00e9"}"#, r#"{"args":{"a":"é"},"name":"é"}"#),
        (r#"{"args":{"\u0061":"\/"}}"#, r#"{"args":{"a":"/"}}"#),
        (r#"{"args":{"a":2,"a":1},"priority":9,"priority":0}"#, r#"{"args":{"a":1}}"#),
        (r#"{"priority":-0}"#, "{}"),
    ];
    let different: &[(&str, &str)] = &[
        ("{}", r#"{"name":""}"#),
        ("{}", r#"{"priority":1}"#),
        ("{}", r#"{"max_attempts":4}"#),
        ("{}", r#"{"routes":["Default"]}"#),
        (r#"{"routes":["a"]}"#, r#"{"routes":["a","b"]}"#),
        (r#"{"args":{"a":1}}"#, r#"{"metadata":{"a":1}}"#),
        (r#"{"args":{"a":1}}"#, r#"{"args":{"a":1.0}}"#),
        (r#"{"args":{"a":0.0}}"#, r#"{"args":{"a":-0.0}}"#),
        (r#"{"args":{"a":0}}"#, r#"{"args":{"a":-0.0}}"#),
        (r#"{"args":{"a":1}}"#, r#"{"args":{"a":true}}"#),
        (r#"{"args":{"a":1}}"#, r#"{"args":{"a":"1"}}"#),
        (r#"{"args":{"a":null}}"#, r#"{"args":{}}"#),
        (r#"{"args":{"a":[1,2]}}"#, r#"{"args":{"a":[2,1]}}"#),
        (r#"{"args":{"a":[]}}"#, r#"{"args":{"a":{}}}"#),
        (r#"{"name":"é"}"#, "{\"name\":\"e\u{301}\"}"),
        (r#"{"args":{"a":9007199254740993}}"#, r#"{"args":{"a":9007199254740992}}"#),
    ];
    let server = Server::with_queue();
    let cases = same.iter().map(|case| (case, true)).chain(different.iter().map(|case| (case, false)));
    for (n, ((first, second), is_same)) in cases.enumerate() {
        let task = server.create(n, *first);
        let again = server.put(&of_task(n, ""), *second);
        if is_same {
            assert_eq!(again.expect(200).json(), task, "{first} {second}");
        } else {
            again.assert_error(409, "task_id_conflict");
        }
        server.put(&of_task(n, ""), *first).expect(200);
    }
}

#[test]
fn a_task_created_again_has_no_memory_of_its_runs() {
    let server = Server::with_queue();
    server.create_in_state(1, "failed");
    server.delete(&of_task(1, "")).expect(204);
    let task = server.create(1, json!({"routes": ["only-1"], "max_attempts": 1}));
    assert_eq!((&task["attempt"], &task["last_error"]), (&json!(0), &Value::Null));
    server.act(1, "fail", 1001).assert_error(409, "stale_run");
    assert_eq!(server.task(1), task);
}

#[test]
fn stored_data_may_be_exactly_1_mib() {
    let server = Server::with_queue();
    for field in ["args", "metadata"] {
        let body = |bytes: usize| format!("{{\"{field}\":{}}}", object_of(bytes));
        server.put(&of_task(1, ""), body(ROOM + 1)).assert_error(422, "task_data_too_large");
        server.get(&of_task(1, "")).assert_error(404, "task_not_found");
        server.put(&of_task(1, ""), body(ROOM)).expect(201);
        server.delete(&of_task(1, "")).expect(204);
    }
}

#[test]
fn the_limit_holds_for_the_outcome_of_an_update() {
    let server = Server::with_queue();
    let half = object_of(600_000);
    server.put(&of_task(1, ""), format!("{{\"args\":{half}}}")).expect(201);
    let room = ROOM + 2 - 600_000;
    for field in ["metadata", "result"] {
        let before = server.task(1);
        let exceeds = format!("{{\"{field}\":{}}}", object_of(room + 1));
        server.patch(&of_task(1, ""), exceeds).assert_error(422, "task_data_too_large");
        assert_eq!(server.task(1), before);
        server.patch(&of_task(1, ""), format!("{{\"{field}\":{}}}", object_of(room))).expect(200);
        server.patch(&of_task(1, ""), json!({"priority": 10})).assert_error(422, "task_data_too_large");
        server.patch(&of_task(1, ""), json!({"priority": 9})).expect(200);
        server.patch(&of_task(1, ""), json!({field: {}, "priority": 0})).expect(200);
    }
}

#[test]
fn the_limit_holds_for_the_outcome_of_a_completion() {
    let server = Server::with_queue();
    server.put(&of_task(1, ""), format!("{{\"args\":{}}}", object_of(600_000))).expect(201);
    let room = ROOM + 2 - 600_000;
    let claim = server.claim(1);
    let complete = |bytes: usize| {
        let body = format!("{{\"run_id\":\"{}\",\"result\":{}}}", run_id(1), object_of(bytes));
        server.post(&of_task(1, "/complete"), body)
    };
    complete(room + 1).assert_error(422, "task_data_too_large");
    assert_eq!(server.task(1), claim["task"]);
    complete(room).expect(204);
    assert_eq!(server.task(1)["status"], "succeeded");
}

#[test]
fn last_errors_do_not_count() {
    let server = Server::with_queue();
    server.put(&of_task(1, ""), format!("{{\"args\":{}}}", object_of(ROOM))).expect(201);
    server.claim(1);
    let message = "x".repeat(900_000);
    let body = json!({"run_id": run_id(1), "error": {"type": "E", "message": message, "traceback": null}});
    server.post(&of_task(1, "/fail"), body).expect(204);
    assert_eq!(server.task(1)["last_error"]["message"], message);
    server.patch(&of_task(1, ""), json!({"priority": 1})).expect(200);
}

//! The update of one task (docs/reference/http-api.md §6.6). Bounds of the fields are in `task_fields`, sizes in
//! `creation`.

use serde_json::{Value, json};

use super::support::*;

fn update(server: &Server, n: usize, changes: &Value) -> Value {
    let task = server.patch(&of_task(n, ""), changes).expect(200).json();
    assert_task(&task);
    assert_eq!(server.task(n), task);
    task
}

#[test]
fn each_field_is_changed_alone() {
    let server = Server::with_queue();
    let definition = json!({"name": "old", "args": {"a": 1, "b": 2}, "metadata": {"m": 1}, "routes": ["a", "b"]});
    let mut expected = server.create(1, &definition);
    let changes = [
        ("name", json!("new")),
        ("name", json!(null)),
        ("name", json!("")),
        ("args", json!({"c": 3})),
        ("args", json!({})),
        ("metadata", json!({"n": [1, 2]})),
        ("priority", json!(-3)),
        ("max_attempts", json!(1)),
        ("routes", json!(["c"])),
        ("result", json!({"r": {"s": 1}})),
        ("result", json!({})),
    ];
    for (field, value) in changes {
        let before = micros(&expected["updated_at"]);
        let task = update(&server, 1, &json!({field: value}));
        expected[field] = value;
        expected["updated_at"] = task["updated_at"].clone();
        assert_eq!(task, expected, "{field}");
        assert!(micros(&task["updated_at"]) > before, "{field}");
    }
}

#[test]
fn several_fields_are_changed_together() {
    let server = Server::with_queue();
    server.create(1, json!({}));
    let changes = json!({
        "name": "n", "args": {"a": 1}, "metadata": {"m": 2}, "priority": 4, "max_attempts": 5, "routes": ["z", "y"],
        "result": {"r": 6},
    });
    let task = update(&server, 1, &changes);
    for (field, value) in changes.as_object().unwrap() {
        let expected = if field == "routes" { &json!(["y", "z"]) } else { value };
        assert_eq!(&task[field], expected, "{field}");
    }
}

#[test]
fn an_update_needs_at_least_one_field_and_only_a_name_may_be_null() {
    let server = Server::with_queue();
    let task = server.create(1, json!({}));
    server.patch(&of_task(1, ""), json!({})).assert_error(422, "invalid_update");
    for field in ["args", "metadata", "priority", "max_attempts", "routes", "result"] {
        server.patch(&of_task(1, ""), json!({field: null})).assert_error(422, "invalid_update");
        server.patch(&of_task(1, ""), json!({"name": "n", field: null})).assert_error(422, "invalid_update");
    }
    assert_eq!(server.task(1), task);
}

#[test]
fn an_update_that_changes_nothing_leaves_updated_at_alone() {
    let server = Server::with_queue();
    let definition = r#"{"name":"n","args":{"a":1,"b":{"x":1,"y":100.0}},"priority":2,"routes":["a","b"]}"#;
    let task = server.create(1, definition);
    let same = [
        r#"{"name":"n"}"#,
        r#"{"priority":2}"#,
        r#"{"max_attempts":3}"#,
        r#"{"routes":["b","a"]}"#,
        r#"{"args":{"b":{"y":1e2,"x":1},"a":1}}"#,
        r#"{"args":{"a":2,"a":1,"b":{"x":1,"y":100.0}}}"#,
        r#"{"metadata":{}}"#,
        r#"{"result":{}}"#,
        definition,
    ];
    for changes in same {
        assert_eq!(server.patch(&of_task(1, ""), changes).expect(200).json(), task, "{changes}");
    }
    assert_eq!(server.task(1), task);
}

#[test]
fn another_kind_of_number_is_a_change() {
    let server = Server::with_queue();
    server.create(1, r#"{"args":{"a":1,"b":0.0}}"#);
    for args in [r#"{"a":1.0,"b":0.0}"#, r#"{"a":1.0,"b":-0.0}"#, r#"{"a":1,"b":-0.0}"#] {
        let before = server.task(1)["updated_at"].clone();
        let response = server.patch(&of_task(1, ""), format!("{{\"args\":{args}}}")).expect(200);
        assert!(response.text().contains(&format!("\"args\":{args}")), "{args}: {response:?}");
        assert_ne!(response.json()["updated_at"], before, "{args}");
    }
}

#[test]
fn updates_are_allowed_in_every_state_but_running() {
    let server = Server::with_queue();
    for (n, state) in STATES.into_iter().enumerate() {
        let before = server.create_in_state(n, state);
        let response = server.patch(&of_task(n, ""), json!({"name": "new", "result": {"r": 1}}));
        if state == "running" {
            response.assert_error(409, "task_running");
            assert_eq!(server.task(n), before);
            continue;
        }
        let task = response.expect(200).json();
        assert_eq!((&task["name"], &task["result"]), (&json!("new"), &json!({"r": 1})));
        for field in ["status", "attempt", "last_error", "last_route", "created_at", "started_at", "finished_at"] {
            assert_eq!(task[field], before[field], "{field} of {state}");
        }
    }
}

#[test]
fn a_pending_task_keeps_at_least_one_attempt() {
    let server = Server::with_queue();
    server.create(1, json!({}));
    for run in 1..=2 {
        server.claim(run);
        server.act(1, "fail", run).expect(204);
    }
    let before = server.task(1);
    for max_attempts in [1, 2] {
        let response = server.patch(&of_task(1, ""), json!({"max_attempts": max_attempts, "name": "new"}));
        response.assert_details(409, "update_conflict", &json!({"field": "max_attempts", "attempt": 2}));
    }
    assert_eq!(server.task(1), before);
    update(&server, 1, &json!({"max_attempts": 4}));
    update(&server, 1, &json!({"max_attempts": 3, "priority": 1}));
}

#[test]
fn a_terminal_task_accepts_any_number_of_attempts() {
    let server = Server::with_queue();
    server.create(1, json!({"max_attempts": 2}));
    for run in 1..=2 {
        server.claim(run);
        server.act(1, "fail", run).expect(204);
    }
    assert_eq!(update(&server, 1, &json!({"max_attempts": 1}))["status"], "failed");
    server.create_in_state(2, "succeeded");
    assert_eq!(update(&server, 2, &json!({"max_attempts": 9}))["status"], "succeeded");
    server.requeue(1).expect(200);
    assert_eq!(server.claim(3)["task"]["attempt"], 1);
    server.act(1, "fail", 3).expect(204);
    assert_eq!(server.task(1)["status"], "failed");
}

#[test]
fn raising_the_attempts_of_a_failed_task_does_not_revive_it() {
    let server = Server::with_queue();
    server.create_in_state(1, "failed");
    assert_eq!(update(&server, 1, &json!({"max_attempts": 9}))["status"], "failed");
    server.claim_for("q", "only-1", 1).expect(204);
}

//! The fields of a task: their defaults, who may set them, and how a wrong one is refused (docs/reference/http-api.md §1.2 and
//! §6.1). Their types and bounds are proven in `core` and `api`.

use serde_json::{Value, json};

use super::support::*;

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

/// Checks that the fields of the body are refused in a creation, in an update of task 1, and in a bulk update.
#[track_caller]
fn assert_cannot_be_set(server: &Server, body: &Value) {
    server.put(&of_task(2, ""), body).assert_error(422, "invalid_task");
    server.patch(&of_task(1, ""), body).assert_error(422, "invalid_update");
    let bulk = json!({"filter": "priority == 0", "changes": body});
    server.patch(&in_queue("/tasks"), bulk).assert_error(422, "invalid_update");
}

#[test]
fn fields_that_the_server_owns_and_unknown_fields_cannot_be_set() {
    let server = Server::with_queue();
    let task = server.create(1, json!({}));
    let owned = "id queue status attempt last_error last_route created_at updated_at started_at finished_at run_id \
                 lease_expires_at Priority unknown";
    for field in owned.split(' ').chain([""]) {
        let value = task.get(field).cloned().unwrap_or(json!(1));
        assert_cannot_be_set(&server, &json!({"priority": 5, field: value}));
    }
    server.put(&of_task(2, ""), json!({"result": {}})).assert_error(422, "invalid_task");
    assert_eq!(server.task(1), task);
}

#[test]
fn wrong_values_are_refused_in_creations_updates_bulk_updates_and_batches() {
    let server = Server::with_task();
    let before = server.snapshot();
    let wrong = [
        ("not_before", json!("now")),
        ("retry_delay", json!({})),
        ("timeout_seconds", json!(0)),
        ("dependencies", json!(null)),
        ("on_dependency_failure", json!("fail")),
    ];
    for (field, value) in wrong {
        assert_cannot_be_set(&server, &json!({field: value}));
        let items = server.batch("create", json!({"tasks": [{"id": task_id(2), field: value}]}));
        assert_eq!(items[0]["error"]["code"], "invalid_task", "{field}: {items:?}");
    }
    assert_eq!(server.snapshot(), before);
}

//! Cancel, requeue and delete in every state, and what they leave alone (docs/reference/task-life.md §2.1 and §8).

use serde_json::{Value, json};

use super::support::*;

/// `task` with other values for some fields and the `updated_at` of `after`.
fn changed(task: &Value, after: &Value, fields: &Value) -> Value {
    let mut expected = task.clone();
    expected["updated_at"] = after["updated_at"].clone();
    for (field, value) in fields.as_object().unwrap() {
        expected[field] = value.clone();
    }
    expected
}

#[test]
fn each_action_is_allowed_in_its_states_only() {
    // What each action answers in the five states, in the order of `STATES`.
    let table = [
        ("cancel", [200, 200, 409, 409, 200]),
        ("requeue", [200, 409, 409, 200, 200]),
        ("PATCH", [200, 409, 200, 200, 200]),
        ("DELETE", [204, 409, 204, 204, 204]),
    ];
    let server = Server::with_queue();
    for (row, (action, statuses)) in table.into_iter().enumerate() {
        for (column, state) in STATES.into_iter().enumerate() {
            let n = row * 10 + column;
            let before = server.create_in_state(n, state);
            let response = match action {
                "PATCH" => server.patch(&of_task(n, ""), json!({"name": "new"})),
                "DELETE" => server.delete(&of_task(n, "")),
                _ => server.act(n, action, 0),
            };
            if response.status == 409 {
                let code = if action == action.to_uppercase() { "task_running" } else { "task_state_conflict" };
                response.assert_error(409, code);
                assert_eq!(server.task(n), before, "{action} of {state}");
            }
            assert_eq!(response.status, statuses[column], "{action} of {state}");
        }
    }
}

#[test]
fn cancel_of_a_pending_task_changes_only_its_status() {
    let server = Server::with_queue();
    server.create(1, json!({}));
    server.claim(1);
    server.act(1, "fail", 1).expect(204);
    let before = server.task(1);
    let task = server.cancel(1).expect(200).json();
    assert_eq!(task, changed(&before, &task, &json!({"status": "cancelled"})));
    assert!(micros(&task["updated_at"]) > micros(&before["updated_at"]));
    assert_eq!(server.task(1), task);
    server.claim_for("q", "default", 2).expect(204);
}

#[test]
fn cancel_of_a_running_task_ends_its_run() {
    let server = Server::with_queue();
    server.create(1, json!({}));
    let running = server.claim(1)["task"].clone();
    let task = server.cancel(1).expect(200).json();
    let fields = json!({"status": "cancelled", "finished_at": task["updated_at"]});
    assert_eq!(task, changed(&running, &task, &fields));
    assert_eq!(task["attempt"], 1);
    server.act(1, "heartbeat", 1).assert_details(409, "run_finalized", &json!({"action": "cancel"}));
}

#[test]
fn cancel_of_a_cancelled_task_changes_nothing() {
    let server = Server::with_queue();
    let task = server.create_in_state(1, "cancelled");
    assert_eq!(server.cancel(1).expect(200).json(), task);
    assert_eq!(server.task(1), task);
}

#[test]
fn requeue_resets_the_attempt_and_the_last_error_and_nothing_else() {
    let server = Server::with_queue();
    server.create_in_state(1, "failed");
    server.patch(&of_task(1, ""), json!({"result": {"kept": true}})).expect(200);
    let failed = server.task(1);
    let task = server.requeue(1).expect(200).json();
    assert_eq!(task, changed(&failed, &task, &json!({"status": "pending", "attempt": 0, "last_error": null})));
    assert!(!task["started_at"].is_null() && !task["finished_at"].is_null() && !task["last_route"].is_null());
    assert!(micros(&task["updated_at"]) > micros(&failed["updated_at"]));
    let claim = server.claim_for("q", "only-1", 1).expect(200).json();
    assert_eq!(claim["task"]["attempt"], 1);
}

#[test]
fn requeue_of_a_cancelled_task_keeps_its_last_run() {
    let server = Server::with_queue();
    server.create(1, json!({}));
    server.claim(1);
    let cancelled = server.cancel(1).expect(200).json();
    let task = server.requeue(1).expect(200).json();
    assert_eq!(task, changed(&cancelled, &task, &json!({"status": "pending", "attempt": 0})));
}

#[test]
fn requeue_of_a_pending_task_resets_it_and_always_counts_as_a_change() {
    let server = Server::with_queue();
    server.create(1, json!({}));
    server.claim(1);
    server.act(1, "fail", 1).expect(204);
    let before = server.task(1);
    let once = server.requeue(1).expect(200).json();
    assert_eq!(once, changed(&before, &once, &json!({"attempt": 0, "last_error": null})));
    let twice = server.requeue(1).expect(200).json();
    assert_eq!(twice, changed(&once, &twice, &json!({})));
    assert!(micros(&before["updated_at"]) < micros(&once["updated_at"]));
    assert!(micros(&once["updated_at"]) < micros(&twice["updated_at"]));
}

#[test]
fn deletion_is_idempotent_and_removes_the_task_from_everywhere() {
    let server = Server::with_queue();
    server.create(1, json!({}));
    server.create(2, json!({}));
    server.delete(&of_task(1, "")).expect(204);
    server.delete(&of_task(1, "")).expect(204);
    server.delete(&of_task(3, "")).expect(204);
    server.get(&of_task(1, "")).assert_error(404, "task_not_found");
    assert_eq!(server.ids(""), [2]);
    assert_eq!(server.get(&in_queue("/tasks/count")).json(), json!({"count": 1}));
    assert_eq!(server.claimed(1), 2);
    server.claim_for("q", "default", 2).expect(204);
}

#[test]
fn refused_actions_on_a_running_task_leave_its_run_intact() {
    let server = Server::with_queue();
    server.create(1, json!({}));
    let claim = server.claim(1);
    server.patch(&of_task(1, ""), json!({"priority": 9})).assert_error(409, "task_running");
    server.delete(&of_task(1, "")).assert_error(409, "task_running");
    server.requeue(1).assert_error(409, "task_state_conflict");
    let bulk = json!({"filter": "priority == 0", "changes": {"priority": 9}});
    assert_eq!(server.patch(&in_queue("/tasks"), bulk).expect(200).json(), json!({"matched": 0, "updated": 0}));
    assert_eq!(server.claim(1), claim);
    server.act(1, "complete", 1).expect(204);
}

#[test]
fn updated_at_stands_still_at_heartbeats_replays_and_repetitions() {
    let server = Server::with_queue();
    server.create(1, json!({}));
    let created = server.task(1);
    server.put(&of_task(1, ""), json!({})).expect(200);
    server.patch(&of_task(1, ""), json!({"priority": 0})).expect(200);
    assert_eq!(server.task(1), created);
    let running = server.claim(1)["task"].clone();
    server.claim(1);
    server.act(1, "heartbeat", 1).expect(200);
    assert_eq!(server.task(1), running);
    server.act(1, "complete", 1).expect(204);
    let done = server.task(1);
    server.act(1, "complete", 1).expect(204);
    assert_eq!(server.task(1), done);
}

//! What becomes of a task when one that it waits for cannot succeed any more (`on_dependency_failure`).

use serde_json::{Value, json};
use taskqueue_test_postgres::eventually;

use super::support::*;

fn cancelled_with(numbers: &[usize]) -> Value {
    let ids: Vec<String> = numbers.iter().map(|n| task_id(*n)).collect();
    json!({"dependencies": ids, "on_dependency_failure": "cancel", "routes": ["child"]})
}

/// The task was cancelled because of this one, which is told with what became of it.
#[track_caller]
fn assert_cancelled_because_of(task: &Value, n: usize, what: &str) {
    assert_eq!((&task["status"], &task["attempt"]), (&json!("cancelled"), &json!(0)), "{task}");
    let error = &task["last_error"];
    assert_eq!((&error["type"], &error["run_id"]), (&json!("DependencyFailed"), &Value::Null), "{task}");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains(&task_id(n)) && message.contains(what), "{message}");
    micros(&error["occurred_at"]);
}

/// Waits until the task is cancelled; that may be as late as 5 s after its cause.
#[track_caller]
fn await_cancelled(server: &Server, n: usize, because_of: usize, what: &str) {
    eventually("the task is cancelled", || server.task(n)["status"] == "cancelled");
    assert_cancelled_because_of(&server.task(n), because_of, what);
}

#[test]
fn each_way_to_end_without_success_cancels_the_tasks_that_want_it() {
    let ends: [(&str, &str); 4] = [
        ("failed", "failed"),
        ("cancelled", "was cancelled"),
        ("pending and deleted", "was deleted"),
        ("succeeded and deleted", "was deleted"),
    ];
    for (end, what) in ends {
        let server = Server::with_queue();
        server.create(1, json!({"max_attempts": 2}));
        server.create(2, cancelled_with(&[1]));
        server.create(3, json!({"dependencies": [task_id(1)], "routes": ["child"]}));
        server.create(4, cancelled_with(&[2]));
        match end {
            "failed" => {
                server.claim(1);
                server.act(1, "fail", 1).expect(204);
                assert_eq!(server.task(2)["status"], "pending", "an attempt is left");
                server.claim(2);
                server.act(1, "fail", 2).expect(204);
            }
            "cancelled" => drop(server.cancel(1).expect(200)),
            "pending and deleted" => drop(server.delete(&of_task(1, "")).expect(204)),
            _ => {
                server.claim(1);
                server.act(1, "complete", 1).expect(204);
                server.delete(&of_task(1, "")).expect(204);
            }
        }
        await_cancelled(&server, 2, 1, what);
        await_cancelled(&server, 4, 2, "was cancelled");
        assert_eq!(server.task(3)["status"], "pending", "{end}: it waits");
        assert!(!server.finds_a_task("child", 10), "{end}");
        let explained = server.get(&of_task(2, "/explain")).expect(200).json();
        assert_eq!(explained["reasons"][0]["code"], "not_pending");
    }
}

#[test]
fn what_has_failed_before_cancels_at_creation_at_an_update_and_at_a_requeue() {
    let server = Server::with_queue();
    server.create_in_state(1, "failed");
    let made = server.put(&of_task(2, ""), cancelled_with(&[1])).expect(201).json();
    assert_cancelled_because_of(&made, 1, "failed");
    assert_eq!(server.put(&of_task(2, ""), cancelled_with(&[1])).expect(200).json(), made);
    server.create(3, json!({"dependencies": [task_id(1)], "routes": ["child"]}));
    let updated = server.patch(&of_task(3, ""), json!({"on_dependency_failure": "cancel"})).expect(200).json();
    assert_cancelled_because_of(&updated, 1, "failed");
    server.create(4, json!({"on_dependency_failure": "cancel", "routes": ["child"]}));
    let updated = server.patch(&of_task(4, ""), json!({"dependencies": [task_id(1), task_id(9)]})).expect(200).json();
    assert_cancelled_because_of(&updated, 1, "failed");
    for n in 2..5 {
        assert_cancelled_because_of(&server.requeue(n).expect(200).json(), 1, "failed");
    }
    let filter = json!({"filter": "status == 'cancelled'", "expect": 3});
    server.post(&in_queue("/tasks/bulk/requeue"), filter).expect(200);
    for n in 2..5 {
        assert_cancelled_because_of(&server.task(n), 1, "failed");
    }
    // When the cause is gone, a requeue lets them wait.
    server.requeue(1).expect(200);
    for n in 2..5 {
        assert_eq!(server.requeue(n).expect(200).json()["status"], "pending", "{n}");
    }
    assert!(!server.finds_a_task("child", 1));
    let waits = server.patch(&of_task(2, ""), json!({"on_dependency_failure": "wait"})).expect(200).json();
    assert_eq!(waits.get("on_dependency_failure"), None);
    server.cancel(1).expect(200);
    await_cancelled(&server, 3, 1, "was cancelled");
    assert_eq!(server.task(2)["status"], "pending");
}

#[test]
fn a_missing_task_cancels_nothing_and_one_that_was_deleted_is_remembered() {
    let server = Server::with_queue();
    assert_eq!(server.create(2, cancelled_with(&[1]))["status"], "pending");
    server.create(1, json!({}));
    server.delete(&of_task(1, "")).expect(204);
    await_cancelled(&server, 2, 1, "was deleted");
    assert_cancelled_because_of(&server.requeue(2).expect(200).json(), 1, "was deleted");
    assert_eq!(server.create(3, cancelled_with(&[1]))["status"], "pending", "it never saw it");
    server.create(1, json!({}));
    assert_eq!(server.requeue(2).expect(200).json()["status"], "pending");
}

#[test]
fn a_batch_tells_of_tasks_that_are_cancelled_at_once_as_created() {
    let server = Server::with_queue();
    server.create_in_state(1, "cancelled");
    let body = |n: usize| {
        let mut body = cancelled_with(&[1]);
        body["id"] = json!(task_id(n));
        body
    };
    let made = server.batch("create", json!({"tasks": [body(2), body(3)]}));
    assert!(made.iter().all(|item| item["outcome"] == "created"), "{made:?}");
    for n in [2, 3] {
        assert_cancelled_because_of(&server.task(n), 1, "was cancelled");
    }
}

#[test]
fn bulk_actions_cancel_what_waits_for_their_tasks() {
    for (action, what) in [("cancel", "was cancelled"), ("delete", "was deleted")] {
        let server = Server::with_queue();
        for n in 0..20 {
            server.create(n, json!({"name": "first"}));
            server.create(100 + n, cancelled_with(&[n]));
        }
        server.post(&in_queue(&format!("/tasks/bulk/{action}")), json!({"filter": "name == 'first'"})).expect(200);
        for n in 0..20 {
            await_cancelled(&server, 100 + n, n, what);
        }
    }
}

#[test]
fn a_running_task_is_not_cancelled_by_what_becomes_of_its_dependencies() {
    let server = Server::with_queue();
    server.create(1, json!({}));
    server.claim(1);
    server.act(1, "complete", 1).expect(204);
    server.create(2, cancelled_with(&[1]));
    server.claim_for("q", "child", 2).expect(200);
    server.delete(&of_task(1, "")).expect(204);
    server.act(2, "heartbeat", 2).expect(200);
    server.act(2, "complete", 2).expect(204);
    assert_eq!(server.task(2)["status"], "succeeded");
}

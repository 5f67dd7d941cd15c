//! The end of a run: what complete, fail, unclaim and heartbeat answer and leave behind (docs/reference/task-life.md §4 and §7). Their
//! repetitions, and runs that are stale or finalized, are proven by the conformance suite of the stores. Claiming is in `claims`,
//! cancel and requeue in `lifecycle`.

use serde_json::{Value, json};

use super::support::*;

/// A queue with task 1, claimed by run 1.
fn running(max_attempts: i64) -> (SharedServer, Value) {
    let server = Server::with_queue();
    server.create(1, json!({"max_attempts": max_attempts}));
    let claim = server.claim(1);
    (server, claim)
}

/// `task` with the time of an end of its run, taken from `after`.
fn ended(task: &Value, after: &Value) -> Value {
    let mut expected = task.clone();
    expected["finished_at"] = after["updated_at"].clone();
    expected["updated_at"] = after["updated_at"].clone();
    expected
}

#[test]
fn complete_stores_the_result() {
    let (server, claim) = running(3);
    let body = json!({"run_id": run_id(1), "result": {"accuracy": 0.5}});
    server.post(&of_task(1, "/complete"), body).expect(204);
    let task = server.task(1);
    let mut expected = ended(&claim["task"], &task);
    expected["status"] = json!("succeeded");
    expected["result"] = json!({"accuracy": 0.5});
    assert_eq!(task, expected);
    // A repetition must still be valid.
    server.post(&of_task(1, "/complete"), json!({"run_id": run_id(1)})).assert_error(422, "invalid_request");
}

#[test]
fn a_failure_with_attempts_left_makes_the_task_pending_again() {
    let (server, claim) = running(2);
    server.act(1, "fail", 1).expect(204);
    let task = server.task(1);
    let mut expected = ended(&claim["task"], &task);
    expected["status"] = json!("pending");
    expected["last_error"] = json!({
        "type": "E", "message": "m", "traceback": null, "occurred_at": task["updated_at"], "attempt": 1, "run_id": run_id(1),
    });
    assert_eq!(task, expected);
}

#[test]
fn unclaim_gives_the_attempt_back() {
    let (server, claim) = running(1);
    server.act(1, "unclaim", 1).expect(204);
    let task = server.task(1);
    let mut expected = ended(&claim["task"], &task);
    expected["status"] = json!("pending");
    expected["attempt"] = json!(0);
    assert_eq!(task, expected);
}

#[test]
fn heartbeat_renews_the_lease_and_nothing_visible() {
    let (server, claim) = running(3);
    let first = server.act(1, "heartbeat", 1).expect(200).json();
    let second = server.act(1, "heartbeat", 1).expect(200).json();
    assert_eq!(first, json!({"lease_expires_at": first["lease_expires_at"]}));
    assert!(micros(&claim["lease_expires_at"]) < micros(&first["lease_expires_at"]));
    assert!(micros(&first["lease_expires_at"]) < micros(&second["lease_expires_at"]));
    assert_eq!(server.task(1), claim["task"]);
}

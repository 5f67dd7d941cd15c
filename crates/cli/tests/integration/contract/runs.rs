//! The end of a run: complete, fail, unclaim and heartbeat, their repetitions, and runs that are stale or finalized
//! (docs/reference/task-life.md §4 and §7). Claiming is in `claims`, cancel and requeue in `lifecycle`.

use serde_json::{Value, json};

use super::support::*;

const ACTIONS: [&str; 4] = ["complete", "fail", "unclaim", "heartbeat"];

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

fn fail_with(server: &Server, n: usize, run: usize, retry: &Value) -> Response {
    let error = json!({"type": "E", "message": "m"});
    server.post(&of_task(n, "/fail"), json!({"run_id": run_id(run), "error": error, "retry": retry}))
}

#[test]
fn a_failure_without_retry_is_final_whatever_is_left_of_the_budget() {
    let (server, claim) = running(5);
    fail_with(&server, 1, 1, &json!(false)).expect(204);
    let task = server.task(1);
    let mut expected = ended(&claim["task"], &task);
    expected["status"] = json!("failed");
    expected["last_error"] = json!({
        "type": "E", "message": "m", "traceback": null, "occurred_at": task["updated_at"], "attempt": 1, "run_id": run_id(1),
    });
    assert_eq!(task, expected);
    server.claim_for("q", "default", 2).expect(204);
    // A repetition is one, whatever it says.
    for retry in [json!(false), json!(true), json!(null)] {
        fail_with(&server, 1, 1, &retry).expect(204);
    }
    server.act(1, "fail", 1).expect(204);
    server.act(1, "complete", 1).assert_details(409, "run_finalized", &json!({"action": "fail"}));
    assert_eq!(server.task(1), task);
    assert_eq!(server.requeue(1).expect(200).json()["attempt"], 0);
    server.claim(3);
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

#[test]
fn a_repetition_ignores_its_body() {
    let (server, _) = running(1);
    server.post(&of_task(1, "/complete"), json!({"run_id": run_id(1), "result": {"a": 1}})).expect(204);
    let before = server.task(1);
    let large = "x".repeat(MIB - 60);
    for result in [json!({}), json!({"a": 2}), json!({"a": large})] {
        server.post(&of_task(1, "/complete"), json!({"run_id": run_id(1), "result": result})).expect(204);
    }
    assert_eq!(server.task(1), before);
    server.create(2, json!({"max_attempts": 5}));
    server.claim(2);
    server.act(2, "fail", 2).expect(204);
    let before = server.task(2);
    let other = json!({"run_id": run_id(2), "error": {"type": "Other", "message": "other", "traceback": "t"}});
    server.post(&of_task(2, "/fail"), other).expect(204);
    assert_eq!(server.task(2), before);
}

#[test]
fn a_repetition_must_still_be_valid() {
    let (server, _) = running(1);
    server.act(1, "complete", 1).expect(204);
    server.post(&of_task(1, "/complete"), json!({"run_id": run_id(1)})).assert_error(422, "invalid_request");
}

#[test]
fn stale_run_cannot_touch_a_newer_claim() {
    let (server, _) = running(5);
    server.act(1, "unclaim", 1).expect(204);
    let newer = server.claim(2);
    for action in ["complete", "fail", "heartbeat"] {
        server.act(1, action, 1).assert_details(409, "run_finalized", &json!({"action": "unclaim"}));
    }
    server.act(1, "unclaim", 1).expect(204);
    assert_eq!(server.claim(2), newer);
    server.act(1, "fail", 2).expect(204);
    let before = server.task(1);
    for action in ACTIONS {
        server.act(1, action, 1).assert_error(409, "stale_run");
    }
    assert_eq!(server.task(1), before);
    server.act(1, "fail", 2).expect(204);
}

#[test]
fn a_retried_failure_is_charged_once() {
    let (server, _) = running(3);
    for _ in 0..5 {
        server.act(1, "fail", 1).expect(204);
    }
    assert_eq!(server.task(1)["attempt"], 1);
    server.claim(2);
    server.act(1, "fail", 1).expect(204);
    let task = server.task(1);
    assert_eq!((&task["attempt"], &task["status"]), (&json!(2), &json!("running")));
}

#[test]
fn unknown_runs_are_stale_in_every_state() {
    let server = Server::with_queue();
    for (n, state) in STATES.into_iter().enumerate() {
        let task = server.create_in_state(n, state);
        for action in ACTIONS {
            server.act(n, action, 77).assert_details(409, "stale_run", &json!({"run_id": run_id(77)}));
        }
        assert_eq!(server.task(n), task, "{state}");
    }
}

#[test]
fn a_requeue_does_not_forget_the_latest_run() {
    let (server, _) = running(1);
    server.act(1, "fail", 1).expect(204);
    server.requeue(1).expect(200);
    let before = server.task(1);
    server.act(1, "fail", 1).expect(204);
    server.act(1, "complete", 1).assert_details(409, "run_finalized", &json!({"action": "fail"}));
    assert_eq!(server.task(1), before);
    server.claim(2);
    server.cancel(1).expect(200);
    server.requeue(1).expect(200);
    server.act(1, "complete", 2).assert_details(409, "run_finalized", &json!({"action": "cancel"}));
    server.act(1, "fail", 1).assert_error(409, "stale_run");
}

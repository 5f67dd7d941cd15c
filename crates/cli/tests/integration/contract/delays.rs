//! Tasks that wait for a time (extension `delay`): `not_before`, `retry_delay`, and what a run that ends says of the next one.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::support::*;

const SECOND: i64 = 1_000_000;

/// A time so many milliseconds from now.
fn from_now(millis: i64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    at_offset(i64::try_from(now.as_micros()).unwrap() + millis * 1_000, 0)
}

/// How many microseconds behind its last change the task can be claimed.
#[track_caller]
fn delay_of(task: &Value) -> i64 {
    micros(&task["not_before"]) - micros(&task["updated_at"])
}

#[test]
fn a_delayed_task_is_claimed_when_its_time_has_come() {
    let server = Server::with_queue();
    let task = server.create(1, json!({"not_before": from_now(1_500)}));
    assert_eq!(task["status"], "pending");
    server.claim_for("q", "default", 1).expect(204);
    let begun = Instant::now();
    assert_eq!(server.claimed_in_time("default", 2), 1);
    // The wait ends within a second on a quiet machine; here many tests run at once.
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    let claimed = server.task(1);
    assert!(micros(&claimed["started_at"]) >= micros(&task["not_before"]), "too early: {claimed}");
    assert_eq!(claimed.get("not_before"), None, "a claim clears it");
}

#[test]
fn who_fails_or_unclaims_a_task_says_when_it_may_be_claimed_again_or_that_it_may_not() {
    let server = Server::with_queue();
    let ended = |action: &str, run: usize, more: Value| {
        let mut body = action_body(action, run);
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        server.post(&of_task(1, &format!("/{action}")), body).expect(204);
        server.task(1)
    };
    server.create(1, json!({"retry_delay": {"seconds": 100}, "max_attempts": 9}));
    for (run, (action, said, seconds)) in [
        ("fail", json!({"retry_after_seconds": 7}), 7),
        ("unclaim", json!({"delay_seconds": 60}), 60),
        ("fail", json!({}), 200),
    ]
    .into_iter()
    .enumerate()
    {
        server.claim(run);
        let task = ended(action, run, said);
        assert_eq!(delay_of(&task), seconds * SECOND, "{task}");
        let cleared = server.patch(&of_task(1, ""), json!({"not_before": null})).expect(200).json();
        assert_eq!(cleared.get("not_before"), None);
    }
    server.claim(9);
    let task = ended("fail", 9, json!({"retry": false}));
    assert_eq!((&task["status"], task.get("not_before")), (&json!("failed"), None), "{task}");
}

#[test]
fn batches_create_and_report_with_delays() {
    let server = Server::with_queue();
    let tasks = json!({"tasks": [
        {"id": task_id(1), "not_before": "2099-01-01T00:00:00Z"}, {"id": task_id(2), "retry_delay": {"seconds": 30}},
        {"id": task_id(3), "retry_delay": {"seconds": -1}}, {"id": task_id(4)}, {"id": task_id(5)},
    ]});
    let outcomes: Vec<Value> = server.batch("create", &tasks).iter().map(|item| item["outcome"].clone()).collect();
    assert_eq!(outcomes, ["created", "created", "refused", "created", "created"]);
    assert_eq!(server.batch("create", &tasks)[1]["outcome"], "existing");
    let claims = json!({"route": "default", "run_ids": [run_id(2), run_id(4), run_id(5), run_id(6)]});
    let claimed = server.batch("claim", claims);
    let ids: Vec<&Value> = claimed.iter().map(|item| &item["task"]["id"]).collect();
    assert_eq!(ids, [&json!(task_id(2)), &json!(task_id(4)), &json!(task_id(5)), &Value::Null]);
    let error = json!({"type": "E", "message": "m"});
    let reports = json!({"reports": [
        {"task_id": task_id(2), "run_id": run_id(2), "action": "fail", "error": error},
        {"task_id": task_id(4), "run_id": run_id(4), "action": "fail", "error": error, "retry": false},
        {"task_id": task_id(5), "run_id": run_id(5), "action": "unclaim", "delay_seconds": 40},
        {"task_id": task_id(5), "run_id": run_id(5), "action": "unclaim", "delay_seconds": -1},
        {"task_id": task_id(4), "run_id": run_id(4), "action": "fail", "error": error, "retry_after_seconds": "1"},
    ]});
    let done = server.batch("report", &reports);
    let outcomes: Vec<&Value> = done.iter().map(|item| &item["outcome"]).collect();
    assert_eq!(outcomes, ["done", "done", "done", "refused", "refused"]);
    assert_eq!([&done[3]["error"]["code"], &done[4]["error"]["code"]], ["invalid_request", "invalid_request"]);
    assert_eq!((delay_of(&server.task(2)), delay_of(&server.task(5))), (30 * SECOND, 40 * SECOND));
    assert_eq!(server.task(4)["status"], "failed");
}

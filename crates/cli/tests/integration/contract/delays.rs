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

/// Makes a task claimable at once.
#[track_caller]
fn clear_delay(server: &Server, n: usize) {
    let task = server.patch(&of_task(n, ""), json!({"not_before": null})).expect(200).json();
    assert_eq!(task.get("not_before"), None);
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
fn an_update_delays_a_task_and_clears_the_delay_and_a_requeue_clears_it_too() {
    let server = Server::with_queue();
    server.create(1, json!({}));
    let at = "2099-01-02T03:04:05.000006Z";
    let changed = server.patch(&of_task(1, ""), json!({"not_before": "2099-01-02T04:04:05.000006+01:00"})).expect(200);
    assert_eq!(changed.json()["not_before"], at);
    let again = server.patch(&of_task(1, ""), json!({"not_before": at})).expect(200);
    assert_eq!(again.text(), changed.text(), "the same time changes nothing");
    clear_delay(&server, 1);
    let delayed = json!({"filter": "priority == 0", "changes": {"not_before": at}});
    assert_eq!(server.patch(&in_queue("/tasks"), delayed).expect(200).json(), json!({"matched": 1, "updated": 1}));
    assert_eq!(server.requeue(1).expect(200).json().get("not_before"), None);
}

#[test]
fn the_fields_stand_behind_those_of_the_contract_and_only_where_they_are_used() {
    let server = Server::with_queue();
    let at = "2099-01-02T03:04:05.000006Z";
    let delay = json!({"seconds": 1.5});
    let used = json!({"not_before": at, "retry_delay": delay, "timeout_seconds": 31_536_000});
    let text = server.put(&of_task(1, ""), used).expect(201).text();
    let shown = r#""finished_at":null,"not_before":"2099-01-02T03:04:05.000006Z","retry_delay":{"factor":2,"max_seconds":86400,"seconds":1.5},"timeout_seconds":31536000}"#;
    assert!(text.ends_with(shown), "{text}");
    assert_eq!(server.get(&of_task(1, "")).text(), text);
    assert!(server.get(&in_queue("/tasks")).text().contains(shown));
    let cleared = json!({"not_before": null, "retry_delay": null, "timeout_seconds": null});
    let text = server.patch(&of_task(1, ""), cleared).expect(200).text();
    assert!(text.ends_with(r#""finished_at":null}"#), "{text}");
}

#[test]
fn a_fail_says_when_the_next_attempt_may_begin_or_that_there_is_none() {
    let server = Server::with_queue();
    let fail = |run: usize, more: Value| {
        let mut body = action_body("fail", run);
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        server.post(&of_task(1, "/fail"), body).expect(204);
        server.task(1)
    };
    server.create(1, json!({"retry_delay": {"seconds": 100}, "max_attempts": 9}));
    server.claim(1);
    assert_eq!(delay_of(&fail(1, json!({"retry_after_seconds": 7}))), 7 * SECOND);
    clear_delay(&server, 1);
    server.claim(2);
    assert_eq!(delay_of(&fail(2, json!({"retry_after_seconds": 0.25}))), SECOND / 4);
    clear_delay(&server, 1);
    server.claim(3);
    assert_eq!(delay_of(&fail(3, json!({"retry_after_seconds": null, "retry": null}))), 400 * SECOND);
    clear_delay(&server, 1);
    server.claim(4);
    let task = fail(4, json!({"retry_after_seconds": 0, "retry": true}));
    assert_eq!(task.get("not_before"), None, "{task}");
    server.claim(5);
    let task = fail(5, json!({"retry": false}));
    assert_eq!((&task["status"], &task["attempt"], task.get("not_before")), (&json!("failed"), &json!(5), None));
    assert_eq!(fail(5, json!({"retry": false})), task, "a repetition changes nothing");
}

#[test]
fn an_unclaim_says_when_the_task_may_be_claimed_again() {
    let server = Server::with_queue();
    server.create(1, json!({}));
    server.claim(1);
    let body = json!({"run_id": run_id(1), "delay_seconds": 60});
    for _ in 0..2 {
        server.post(&of_task(1, "/unclaim"), &body).expect(204);
    }
    let task = server.task(1);
    assert_eq!((&task["attempt"], delay_of(&task)), (&json!(0), 60 * SECOND));
    server.claim_for("q", "default", 2).expect(204);
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

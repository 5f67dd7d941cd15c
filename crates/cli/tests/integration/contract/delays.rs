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

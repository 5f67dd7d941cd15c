//! How far a run is (docs/reference/http-api.md §14.9): `POST .../progress`, and `progress` of a heartbeat and of a batch. An
//! extension that changes nothing for those who do not use it.

use serde_json::{Value, json};

use super::support::*;

/// Task `n`, running as run `n`.
fn running(server: &Server, n: usize) -> Value {
    server.create(n, json!({"routes": [format!("for-{n}")]}));
    claim_again(server, n)
}

/// Claims task `n` for run `n`; a repetition changes nothing.
fn claim_again(server: &Server, n: usize) -> Value {
    server.claim_for("q", &format!("for-{n}"), n).expect(200).json()
}

fn report(server: &Server, n: usize, run: usize, progress: Value) -> Response {
    server.post(&of_task(n, "/progress"), json!({"run_id": run_id(run), "progress": progress}))
}

/// What the task shows, by id and on a page: the object and the attempt. Everything else of it was checked.
#[track_caller]
fn shown(server: &Server, n: usize) -> Option<(Value, i64)> {
    let task = server.task(n);
    let page = server.list(BY_ID);
    assert_eq!(page["items"].as_array().unwrap().iter().find(|item| item["id"] == task["id"]), Some(&task));
    Some((task.get("progress")?.clone(), task["progress_attempt"].as_i64().unwrap()))
}

#[test]
fn progress_is_shown_behind_the_fields_of_the_contract_and_replaced_as_a_whole() {
    let server = Server::with_queue();
    running(&server, 1);
    assert_eq!(shown(&server, 1), None);
    let answer = report(&server, 1, 1, json!({"step": 1, "loss": 0.5, "note": "a\0é"})).expect(204);
    assert!(answer.body.is_empty());
    let task = server.get(&of_task(1, "")).expect(200).text();
    let expected = r#","finished_at":null,"progress":{"loss":0.5,"note":"a\u0000é","step":1},"progress_updated_at":""#;
    assert!(task.contains(expected) && task.ends_with(r#"Z","progress_attempt":1}"#), "{task}");
    report(&server, 1, 1, json!({"percent": 3})).expect(204);
    assert_eq!(shown(&server, 1), Some((json!({"percent": 3}), 1)));
    report(&server, 1, 1, json!({})).expect(204);
    assert_eq!(shown(&server, 1), Some((json!({}), 1)), "an empty object is progress, too");
}

#[test]
fn progress_changes_nothing_else_and_renews_no_lease() {
    let server = Server::with_queue();
    let claimed = running(&server, 1);
    report(&server, 1, 1, json!({"step": 1})).expect(204);
    let again = claim_again(&server, 1);
    assert_eq!(again["lease_expires_at"], claimed["lease_expires_at"]);
    let mut task = again["task"].clone();
    assert!(micros(&task["progress_updated_at"]) >= micros(&task["updated_at"]));
    for field in ["progress", "progress_updated_at", "progress_attempt"] {
        task.as_object_mut().unwrap().remove(field).unwrap();
    }
    assert_eq!(task, claimed["task"]);
}

#[test]
fn progress_is_kept_after_the_end_of_the_run_and_cleared_by_the_next_claim() {
    let server = Server::with_queue();
    for (n, end) in (1..).zip(["complete", "fail", "unclaim", "cancel"]) {
        running(&server, n);
        report(&server, n, n, json!({"step": n})).expect(204);
        match end {
            "cancel" => drop(server.cancel(n).expect(200)),
            _ => drop(server.act(n, end, n).expect(204)),
        }
        assert_eq!(shown(&server, n), Some((json!({"step": n}), 1)), "{end}");
        if end == "complete" {
            continue;
        }
        if end == "cancel" {
            server.requeue(n).expect(200);
            assert_eq!(shown(&server, n), Some((json!({"step": n}), 1)), "{end}");
        }
        let task = server.claim_for("q", &format!("for-{n}"), 100 + n).expect(200).json()["task"].clone();
        assert_eq!((task.get("progress"), shown(&server, n)), (None, None), "{end}");
        report(&server, n, 100 + n, json!({"step": 0})).expect(204);
        let attempt = if end == "fail" { 2 } else { 1 };
        assert_eq!(shown(&server, n), Some((json!({"step": 0}), attempt)), "{end}");
    }
}

#[test]
fn progress_is_refused_as_a_heartbeat_would_be() {
    let server = Server::with_queue();
    running(&server, 1);
    running(&server, 2);
    server.create(3, json!({}));
    server.act(2, "complete", 2).expect(204);
    let before = server.snapshot();
    for (n, run) in [(1, 2), (1, 9), (2, 2), (2, 9), (3, 3), (4, 4)] {
        let (progress, heartbeat) = (report(&server, n, run, json!({"step": 1})), server.act(n, "heartbeat", run));
        assert_eq!((progress.status, progress.json()), (heartbeat.status, heartbeat.json()), "{n} {run}");
    }
    report(&server, 1, 9, json!({})).assert_error(409, "stale_run");
    report(&server, 2, 2, json!({})).assert_details(409, "run_finalized", &json!({"action": "complete"}));
    report(&server, 4, 4, json!({})).assert_error(404, "task_not_found");
    assert_eq!(server.snapshot(), before);
    server.delete(&of_task(2, "")).expect(204);
    report(&server, 2, 2, json!({})).assert_error(404, "task_not_found");
}

#[test]
fn what_is_no_object_is_refused_and_null_is_nothing_only_in_a_heartbeat() {
    let server = Server::with_queue();
    running(&server, 1);
    let path = of_task(1, "/progress");
    for wrong in ["null", "[]", "1", "\"x\"", "true"] {
        let body = format!(r#"{{"run_id":"{}","progress":{wrong}}}"#, run_id(1));
        server.post(&path, &*body).assert_location("invalid_request", &json!(["body", "progress"]));
        let heartbeat = server.post(&of_task(1, "/heartbeat"), &*body);
        match wrong {
            "null" => drop(heartbeat.expect(200)),
            _ => heartbeat.assert_location("invalid_request", &json!(["body", "progress"])),
        }
    }
    server.post(&path, json!({"run_id": run_id(1)})).assert_location("invalid_request", &json!(["body", "progress"]));
    server.post(&path, json!({"progress": {}})).assert_location("invalid_request", &json!(["body", "run_id"]));
    let more = json!({"run_id": run_id(1), "progress": {}, "step": 1});
    server.post(&path, more).assert_location("invalid_request", &json!(["body", "step"]));
    let lone = format!(r#"{{"run_id":"{}","progress":{{"a":["\ud800"]}}}}"#, run_id(1));
    server.post(&path, lone).assert_location("invalid_request", &json!(["body", "progress", "a", 0]));
    let deep = |levels| format!(r#"{{"run_id":"{}","progress":{}}}"#, run_id(1), nested(levels));
    server.post(&path, deep(65)).assert_error(422, "json_too_deep");
    assert_eq!(shown(&server, 1), None);
    server.post(&path, deep(64)).expect(204);
    // Null leaves what there is.
    server.post(&of_task(1, "/heartbeat"), json!({"run_id": run_id(1), "progress": null})).expect(200);
    assert!(shown(&server, 1).is_some());
}

/// The stored data of a task without a result and with one route of five characters, besides its args and its progress.
const FRAME: usize =
    r#"{"args":,"max_attempts":3,"metadata":{},"name":null,"priority":0,"progress":,"result":{},"routes":["for-1"]}"#
        .len();

#[test]
fn progress_counts_towards_the_stored_size() {
    const HALF: usize = MIB / 2;
    let server = Server::with_queue();
    let object = |bytes: usize| json!({"a": "x".repeat(bytes - r#"{"a":""}"#.len())});
    server.create(1, json!({"routes": ["for-1"], "args": object(HALF - FRAME)}));
    let lease = claim_again(&server, 1)["lease_expires_at"].clone();
    let body = |bytes| json!({"run_id": run_id(1), "progress": object(bytes)});
    for action in ["/progress", "/heartbeat"] {
        server.post(&of_task(1, action), body(HALF + 1)).assert_error(422, "task_data_too_large");
    }
    let again = claim_again(&server, 1);
    assert_eq!((&again["lease_expires_at"], again["task"].get("progress")), (&lease, None), "nothing was done");
    server.post(&of_task(1, "/progress"), body(HALF)).expect(204);
    // The result has to fit beside it, and a smaller progress makes room.
    let complete = |bytes: usize| json!({"run_id": run_id(1), "result": object(bytes)});
    server.post(&of_task(1, "/complete"), complete(9)).assert_error(422, "task_data_too_large");
    server.post(&of_task(1, "/heartbeat"), body(HALF - 7)).expect(200);
    server.post(&of_task(1, "/complete"), complete(9)).expect(204);
    assert_eq!(shown(&server, 1).unwrap().0, object(HALF - 7));
}

#[test]
fn a_heartbeat_and_a_batch_may_carry_progress() {
    let server = Server::with_queue();
    (1..=4).for_each(|n| drop(running(&server, n)));
    let lease = server.post(&of_task(1, "/heartbeat"), json!({"run_id": run_id(1), "progress": {"step": 1}}));
    let lease = lease.expect(200).json();
    assert_eq!(lease, json!({"lease_expires_at": claim_again(&server, 1)["lease_expires_at"]}));
    assert_eq!(shown(&server, 1), Some((json!({"step": 1}), 1)));
    server.act(1, "heartbeat", 1).expect(200);
    assert_eq!(shown(&server, 1), Some((json!({"step": 1}), 1)), "a heartbeat without it keeps it");
    let item = |n: usize, action: &str, progress: Value| json!({"task_id": task_id(n), "run_id": run_id(n), "action": action, "progress": progress});
    let reports = [
        item(1, "heartbeat", json!({"step": 2})),
        item(2, "progress", json!({"step": 3})),
        item(3, "heartbeat", Value::Null),
        item(4, "progress", Value::Null),
        item(9, "progress", json!({})),
    ];
    let answer = server.post(&in_queue("/tasks/batch/report"), json!({"reports": reports})).expect(200).json();
    let item = |index: usize| &answer["items"][index];
    assert_eq!(item(0)["outcome"], "done");
    assert!(item(0)["lease_expires_at"].is_string() && item(2)["lease_expires_at"].is_string(), "{answer}");
    assert_eq!(*item(1), json!({"task_id": task_id(2), "run_id": run_id(2), "outcome": "done"}), "no lease");
    assert_eq!(item(3)["error"]["code"], "invalid_request");
    assert_eq!(item(4)["error"]["code"], "task_not_found");
    let all = [1, 2, 3, 4].map(|n| shown(&server, n).map(|(progress, _)| progress["step"].clone()));
    assert_eq!(all, [Some(json!(2)), Some(json!(3)), None, None]);
}

#[test]
fn progress_survives_a_kill() {
    let mut server = Server::alone();
    running(&server, 1);
    report(&server, 1, 1, json!({"step": 1})).expect(204);
    server.post(&of_task(1, "/heartbeat"), json!({"run_id": run_id(1), "progress": {"step": 2}})).expect(200);
    let before = server.task(1);
    server.kill();
    server.start_again();
    assert_eq!(server.task(1), before);
    assert_eq!(shown(&server, 1), Some((json!({"step": 2}), 1)));
}

//! How far a run is (docs/reference/http-api.md §14.9): `POST .../progress`, and `progress` of a heartbeat and of a batch. An
//! extension that changes nothing for those who do not use it.

use serde_json::{Value, json};

use super::support::*;

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
    let server = Server::with_run();
    assert_eq!(shown(&server, 1), None);
    let answer = report(&server, 1, 1, json!({"step": 1, "loss": 0.5, "note": "a\0é"})).expect(204);
    assert!(answer.body.is_empty());
    let task = server.get(&of_task(1, "")).expect(200).text();
    let expected = r#","finished_at":null,"progress":{"loss":0.5,"note":"a\u0000é","step":1},"progress_updated_at":""#;
    assert!(task.contains(expected) && task.ends_with(r#"Z","progress_attempt":1}"#), "{task}");
    report(&server, 1, 1, json!({"percent": 3})).expect(204);
    assert_eq!(shown(&server, 1), Some((json!({"percent": 3}), 1)));
    server.post(&of_task(1, "/heartbeat"), json!({"run_id": run_id(1), "progress": {"step": 1}})).expect(200);
    assert_eq!(shown(&server, 1), Some((json!({"step": 1}), 1)), "by a heartbeat, too");
    report(&server, 1, 1, json!({})).expect(204);
    assert_eq!(shown(&server, 1), Some((json!({}), 1)), "an empty object is progress, too");
}

#[test]
fn null_is_refused_but_in_a_heartbeat_where_it_leaves_what_there_is() {
    let server = Server::with_run();
    report(&server, 1, 1, json!({"step": 1})).expect(204);
    let null = json!({"run_id": run_id(1), "progress": null});
    let refused = server.post(&of_task(1, "/progress"), &null);
    refused.assert_location("invalid_request", &json!(["body", "progress"]));
    server.post(&of_task(1, "/heartbeat"), &null).expect(200);
    assert_eq!(shown(&server, 1), Some((json!({"step": 1}), 1)));
    let deep = format!(r#"{{"run_id":"{}","progress":{}}}"#, run_id(1), nested(65));
    server.post(&of_task(1, "/progress"), deep).assert_error(422, "json_too_deep");
}

#[test]
fn progress_is_refused_as_a_heartbeat_would_be() {
    let server = Server::with_run();
    server.create_running(2);
    server.act(2, "complete", 2).expect(204);
    let before = server.snapshot();
    report(&server, 1, 9, json!({})).assert_details(409, "stale_run", &json!({"run_id": run_id(9)}));
    report(&server, 2, 2, json!({})).assert_details(409, "run_finalized", &json!({"action": "complete"}));
    report(&server, 4, 4, json!({})).assert_error(404, "task_not_found");
    assert_eq!(server.snapshot(), before);
}

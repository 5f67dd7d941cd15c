//! The update of all tasks that a filter selects: what it counts, and that it is all or nothing
//! (docs/reference/http-api.md §6.7). Atomicity against parallel claims is in `concurrency`, the order of body errors
//! in `errors`.

use serde_json::{Value, json};

use super::support::*;

pub(super) fn bulk(server: &Server, filter: &str, changes: &Value) -> Response {
    server.patch(&in_queue("/tasks"), json!({"filter": filter, "changes": changes}))
}

#[track_caller]
pub(super) fn assert_counts(response: Response, matched: usize, updated: usize) {
    assert_eq!(response.expect(200).json(), json!({"matched": matched, "updated": updated}));
}

#[test]
fn every_matching_task_is_updated_at_one_moment() {
    let server = Server::with_queue();
    for n in 1..=4 {
        server.create(n, json!({"args": {"group": n % 2}}));
    }
    let before = server.snapshot();
    let changes = json!({"name": "n", "args": {"x": 1}, "metadata": {"m": 1}, "priority": 7, "routes": ["b", "a"], "result": {"r": 1}});
    assert_counts(bulk(&server, "args.group == 1", &changes), 2, 2);
    let after = server.snapshot();
    for n in [1, 3] {
        assert_eq!(after["items"][n], before["items"][n], "task {}", n + 1);
    }
    let (first, third) = (&after["items"][0], &after["items"][2]);
    assert_eq!(first["updated_at"], third["updated_at"]);
    assert_ne!(first["updated_at"], before["items"][0]["updated_at"]);
    for task in [first, third] {
        assert_eq!((&task["name"], &task["priority"], &task["routes"]), (&json!("n"), &json!(7), &json!(["a", "b"])));
        assert_eq!(
            (&task["args"], &task["metadata"], &task["result"]),
            (&json!({"x": 1}), &json!({"m": 1}), &json!({"r": 1}))
        );
    }
}

#[test]
fn the_filter_sees_the_values_before_the_update() {
    let server = Server::with_queue();
    for n in 1..=3 {
        server.create(n, json!({"priority": n}));
    }
    assert_counts(bulk(&server, "priority < 3", &json!({"priority": 3})), 2, 2);
    assert_counts(bulk(&server, "priority == 3", &json!({"priority": 0})), 3, 3);
}

#[test]
fn one_conflict_leaves_every_task_untouched() {
    let server = Server::with_queue();
    for n in 1..=3 {
        server.create(n, json!({}));
    }
    let failed = server.claimed(1);
    server.act(failed, "fail", 1).expect(204);
    let before = server.snapshot();
    let response = bulk(&server, "priority == 0", &json!({"max_attempts": 1, "priority": 9}));
    let details = json!({"task_id": task_id(failed), "field": "max_attempts", "attempt": 1});
    response.assert_details(409, "update_conflict", &details);
    assert_eq!(server.snapshot(), before);
    server.cancel(failed).expect(200);
    assert_counts(bulk(&server, "priority == 0", &json!({"max_attempts": 1})), 3, 3);
}

#[test]
fn a_filter_is_required_and_must_not_be_blank() {
    let server = Server::with_queue();
    let task = server.create(1, json!({}));
    let changes = json!({"priority": 1});
    server.patch(&in_queue("/tasks"), json!({"changes": changes})).assert_error(422, "invalid_filter");
    for filter in ["", " ", "\t\n", "(", "stats == 1", "priority == \"x\""] {
        bulk(&server, filter, &changes).assert_error(422, "invalid_filter");
    }
    let large = format!("priority == 0{}", " ".repeat(8192));
    bulk(&server, &large, &changes).assert_error(422, "filter_too_large");
    assert_eq!(server.task(1), task);
}

#[test]
fn query_parameters_have_no_effect() {
    let server = Server::with_queue();
    server.create(1, json!({}));
    let path = in_queue("/tasks?status=nonsense&limit=0&filter=((&name=x&cursor=x&descending=maybe");
    let body = json!({"filter": "priority == 0", "changes": {"priority": 1}});
    assert_counts(server.patch(&path, body), 1, 1);
}

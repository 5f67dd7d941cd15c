//! The update of all tasks that a filter selects: what it changes and counts (docs/reference/http-api.md §6.7). That it is all or
//! nothing is proven by the conformance suite of the stores; what its body may be, in `api`.

use serde_json::{Value, json};

use super::support::*;

fn bulk(server: &Server, filter: &str, changes: &Value) -> Response {
    server.patch(&in_queue("/tasks"), json!({"filter": filter, "changes": changes}))
}

#[track_caller]
fn assert_counts(response: Response, matched: usize, updated: usize) {
    assert_eq!(response.expect(200).json(), json!({"matched": matched, "updated": updated}));
}

#[test]
fn every_matching_task_is_updated_at_one_moment() {
    let server = Server::with_queue();
    server.create_each(1..=4, |n| json!({"args": {"group": n % 2}}));
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
    server.create_each(1..=3, |n| json!({"priority": n}));
    assert_counts(bulk(&server, "priority < 3", &json!({"priority": 3})), 2, 2);
    assert_counts(bulk(&server, "priority == 3", &json!({"priority": 0})), 3, 3);
}

#[test]
fn query_parameters_have_no_effect() {
    let server = Server::with_task();
    let path = in_queue("/tasks?status=nonsense&limit=0&filter=((&name=x&cursor=x&descending=maybe");
    let body = json!({"filter": "priority == 0", "changes": {"priority": 1}});
    assert_counts(server.patch(&path, body), 1, 1);
}

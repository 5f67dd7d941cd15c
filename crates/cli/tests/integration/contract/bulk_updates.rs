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

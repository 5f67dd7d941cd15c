//! Actions on all tasks that a filter selects (docs/reference/http-api.md §14.8): what they answer, and their checks. What they
//! change, and that others come in between, is proven by the conformance suite of the stores.

use serde_json::{Value, json};

use super::support::*;

const ACTIONS: [&str; 3] = ["cancel", "requeue", "delete"];

fn act(server: &Server, action: &str, body: Value) -> Response {
    server.post(&in_queue(&format!("/tasks/bulk/{action}")), body)
}

#[track_caller]
fn assert_counts(response: Response, matched: usize, changed: usize) {
    assert_eq!(response.expect(200).json(), json!({"matched": matched, "changed": changed}));
}

#[test]
fn each_action_answers_how_many_tasks_it_changed() {
    for (action, applies_to) in [("cancel", 2), ("requeue", 2), ("delete", 4)] {
        let server = Server::with_queue();
        server.create_in_states(0);
        let before = server.snapshot();
        let counted = json!({"filter": "exists(id)", "dry_run": true, "expect": applies_to});
        assert_counts(act(&server, action, counted), applies_to, 0);
        let refused = act(&server, action, json!({"filter": "exists(id)", "expect": 9, "dry_run": null}));
        assert_eq!(refused.assert_error(409, "expectation_failed"), json!({"expected": 9, "matched": applies_to}));
        assert_eq!(server.snapshot(), before, "neither a dry run nor what was not expected changes anything");
        let body = json!({"filter": "exists(id)", "expect": applies_to});
        assert_counts(act(&server, action, body), applies_to, applies_to);
        assert_counts(act(&server, action, json!({"filter": "exists(id)"})), 0, 0);
    }
}

#[test]
fn checks_come_in_the_order_of_the_contract() {
    let server = Server::start();
    for action in ACTIONS {
        let of = |queue: &str, body: Value| server.post(&format!("/api/v2/queues/{queue}/tasks/bulk/{action}"), body);
        of(".bad", json!({"filter": 1, "expect": -1})).assert_error(422, "invalid_filter");
        of("nope", json!({"filter": "(", "expect": -1})).assert_error(422, "invalid_request");
        of(".bad", json!({"filter": "("})).assert_error(422, "invalid_request");
        for filter in ["(", "", " \t"] {
            of("nope", json!({"filter": filter})).assert_error(422, "invalid_filter");
        }
        of("nope", json!({"filter": "x".repeat(8_193)})).assert_error(422, "filter_too_large");
        for dry_run in [false, true] {
            of("nope", json!({"filter": "exists(id)", "dry_run": dry_run})).assert_error(404, "queue_not_found");
        }
        let path = format!("/api/v2/queues/q/tasks/bulk/{action}");
        server.get(&path).assert_error(405, "method_not_allowed");
    }
}

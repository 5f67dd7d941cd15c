//! Worker observations: reports, withdrawal, lists, counts and their filters (docs/reference/http-api.md §10).
//! Cursors are in `cursors`; filters, pages and that tasks are left alone are proven in `core` and by the conformance suite.

use serde_json::{Value, json};

use super::support::*;

fn report(route: &str, status: &str, task: Value) -> Value {
    json!({"route": route, "status": status, "task_id": task})
}

fn observations(server: &Server, query: &str) -> Value {
    server.get(&in_queue(&format!("/workers?{query}"))).expect(200).json()
}

/// The numbers of the workers on one page.
fn ids(server: &Server, query: &str) -> Vec<usize> {
    numbers(&observations(server, query))
}

/// Four workers: 1 idle on a, 2 busy on a with task 7, 3 idle on B with task 8, 4 busy on b without a task.
fn four_workers() -> SharedServer {
    let server = Server::with_queue();
    server.put(&of_worker(3), report("B", "idle", json!(task_id(8)))).expect(204);
    server.put(&of_worker(1), report("a", "idle", json!(null))).expect(204);
    server.put(&of_worker(4), report("b", "busy", json!(null))).expect(204);
    server.put(&of_worker(2), report("a", "busy", json!(task_id(7)))).expect(204);
    server
}

#[test]
fn a_report_creates_an_observation_for_300_seconds() {
    let server = Server::with_queue();
    server.put(&of_worker(1), report("a", "busy", json!(task_id(1)))).expect(204);
    let page = observations(&server, "");
    let seen = &page["items"][0];
    let expected = json!({
        "id": worker_id(1), "queue": "q", "route": "a", "status": "busy", "task_id": task_id(1),
        "last_seen_at": seen["last_seen_at"], "expires_at": seen["expires_at"],
    });
    assert_eq!(page, json!({"items": [expected], "next_cursor": null}));
    assert_eq!(micros(&seen["expires_at"]) - micros(&seen["last_seen_at"]), 300_000_000);
}

/// Beyond the contract: the public Python client sends it in every report.
#[test]
fn metadata_of_a_worker_is_optional_and_shown_only_where_there_is_some() {
    let server = Server::with_queue();
    let reported = |metadata: Value| {
        let mut body = report("a", "idle", json!(null));
        body["metadata"] = metadata;
        body
    };
    server.put(&of_worker(1), reported(json!({"gpu": [1, null]}))).expect(204);
    server.put(&of_worker(2), reported(json!({}))).expect(204);
    let page = observations(&server, "");
    assert_eq!(page["items"][0]["metadata"], json!({"gpu": [1, null]}));
    assert_eq!(page["items"][1].get("metadata"), None);
    for refused in [json!(null), json!([]), json!("x"), json!({"a": "x".repeat(16_384)})] {
        server.put(&of_worker(3), reported(refused)).assert_error(422, "invalid_request");
    }
    assert_eq!(ids(&server, ""), [1, 2]);
}

#[test]
fn counts_group_by_route_and_status() {
    let server = four_workers();
    let count = |query: &str| server.get(&in_queue(&format!("/workers/count?{query}"))).expect(200).json();
    assert_eq!(count(""), json!({"count": 4}));
    let item = |route: &str, status: &str| json!({"key": {"route": route, "status": status}, "count": 1});
    let by_both = json!({
        "group_by": ["status", "route"], "count": 4, "next_cursor": null,
        "items": [item("a", "busy"), item("b", "busy"), item("B", "idle"), item("a", "idle")],
    });
    assert_eq!(count("group_by=status,route"), by_both);
    let first = count("group_by=route%2Cstatus&limit=3");
    assert_eq!(first["items"], json!([item("B", "idle"), item("a", "busy"), item("a", "idle")]));
    let cursor = encode(first["next_cursor"].as_str().unwrap());
    let second = count(&format!("group_by=route,status&cursor={cursor}"));
    assert_eq!((&second["items"], &second["count"]), (&json!([item("b", "busy")]), &json!(4)));
}

#[test]
fn selectors_of_tasks_are_unknown_here_and_ignored() {
    let server = four_workers();
    let query = "status=nonsense&name=x&name_fuzzy=x&order_by=nonsense&descending=maybe";
    assert_eq!(ids(&server, query), [1, 2, 3, 4]);
    let count = server.get(&in_queue(&format!("/workers/count?{query}"))).expect(200).json();
    assert_eq!(count, json!({"count": 4}));
}

//! Worker observations: reports, withdrawal, lists, counts and their filters (docs/reference/http-api.md §10).
//! Identifiers are in `identifiers`, cursors in `cursors`.

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
fn lists_are_ordered_by_code_point_of_the_id() {
    let server = Server::with_queue();
    let sorted = ["w_------------", "w_000000000000", "w_AAAAAAAAAAAA", "w____________-", "w_aaaaaaaaaaaa"];
    for id in ["w_aaaaaaaaaaaa", "w_000000000000", "w____________-", "w_AAAAAAAAAAAA", "w_------------"] {
        server.put(&in_queue(&format!("/workers/{id}")), idle()).expect(204);
    }
    let page = observations(&server, "");
    let found: Vec<&str> = page["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap()).collect();
    assert_eq!(found, sorted);
}

#[test]
fn lists_come_in_pages() {
    let server = Server::with_queue();
    in_parallel(6, |thread| {
        (thread..150).step_by(6).for_each(|n| drop(server.put(&of_worker(n), idle()).expect(204)));
    });
    assert_eq!(ids(&server, ""), (0..100).collect::<Vec<_>>());
    assert!(observations(&server, "limit=150")["next_cursor"].is_null());
    for limit in ["0", "1001", "", "x"] {
        server.get(&in_queue(&format!("/workers?limit={limit}"))).assert_error(422, "invalid_request");
    }
}

#[test]
fn filters_select_by_the_seven_fields() {
    let server = four_workers();
    let table: &[(&str, &[usize])] = &[
        ("status in ['idle', 'busy']", &[1, 2, 3, 4]),
        ("route < 'a'", &[3]),
        ("queue != 'q'", &[]),
        ("id > 'w_000000000002'", &[3, 4]),
        ("task_id not in ['t_000000000007', None]", &[3]),
        ("last_seen_at > '2000-01-01T00:00:00Z'", &[1, 2, 3, 4]),
        ("expires_at < '2000-01-01T00:00:00+01:00'", &[]),
        ("not (status == 'idle' or route == 'b')", &[2]),
    ];
    for (filter, expected) in table {
        let query = format!("filter={}", encode(filter));
        assert_eq!(ids(&server, &query), *expected, "{filter}");
        let count = server.get(&in_queue(&format!("/workers/count?{query}"))).expect(200).json();
        assert_eq!(count, json!({"count": expected.len()}), "{filter}");
    }
}

#[test]
fn filters_refuse_everything_else() {
    let server = four_workers();
    let refused = ["", "(", "args.x == 1", "'a' in route", "status == 'pending'", "last_seen_at > 'yesterday'"];
    for filter in refused {
        for path in ["/workers", "/workers/count", "/workers/count?group_by=status"] {
            let separator = if path.contains('?') { '&' } else { '?' };
            let response = server.get(&in_queue(&format!("{path}{separator}filter={}", encode(filter))));
            response.assert_error(422, "invalid_filter");
        }
    }
    let large = encode(&format!("status == 'idle'{}", " ".repeat(8192)));
    server.get(&in_queue(&format!("/workers?filter={large}"))).assert_error(422, "filter_too_large");
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

#[test]
fn observations_never_affect_tasks() {
    let server = Server::with_queue();
    server.create(1, json!({}));
    server.create(2, json!({}));
    server.claim(1);
    let before = server.snapshot();
    for n in 1..=2 {
        server.put(&of_worker(n), report("default", "busy", json!(task_id(n)))).expect(204);
        server.put(&of_worker(n), report("default", "idle", json!(null))).expect(204);
        server.delete(&of_worker(n)).expect(204);
    }
    assert_eq!(server.snapshot(), before);
    assert_eq!(server.claimed(2), 2);
}

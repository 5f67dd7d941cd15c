//! Scalar and grouped counts of tasks (docs/reference/http-api.md §8). Counts of workers are in `workers`.

use serde_json::{Value, json};

use super::support::*;

/// Four tasks: 1 pending on a and b, 2 pending on b, 3 running on a, 4 cancelled on B.
fn four_tasks() -> SharedServer {
    let server = Server::with_queue();
    server.create(3, json!({"routes": ["a"], "name": "three"}));
    server.claim_for("q", "a", 1).expect(200);
    server.create(1, json!({"routes": ["b", "a"], "name": "one"}));
    server.create(2, json!({"routes": ["b"], "priority": 1}));
    server.create(4, json!({"routes": ["B"]}));
    server.cancel(4).expect(200);
    server
}

fn count(server: &Server, query: &str) -> Value {
    server.get(&in_queue(&format!("/tasks/count?{query}"))).expect(200).json()
}

#[test]
fn without_grouping_there_is_one_number() {
    let server = four_tasks();
    let table = [
        ("", 4),
        ("status=pending", 2),
        ("status=succeeded", 0),
        ("name=one", 1),
        ("name_fuzzy=e", 2),
        ("name_fuzzy=", 4),
        ("filter=priority==1", 1),
        ("filter=%22a%22+in+routes", 2),
        ("filter=%22a%22+in+routes&status=pending", 1),
    ];
    for (query, expected) in table {
        assert_eq!(count(&server, query), json!({"count": expected}), "{query}");
    }
}

#[test]
fn groups_are_sorted_by_code_point_in_the_order_of_the_dimensions() {
    let server = four_tasks();
    let by_status = json!({
        "group_by": ["status"], "count": 4, "next_cursor": null,
        "items": [
            {"key": {"status": "cancelled"}, "count": 1},
            {"key": {"status": "pending"}, "count": 2},
            {"key": {"status": "running"}, "count": 1},
        ],
    });
    assert_eq!(count(&server, "group_by=status"), by_status);
    let by_route = json!({
        "group_by": ["routes"], "count": 4, "next_cursor": null,
        "items": [
            {"key": {"routes": "B"}, "count": 1},
            {"key": {"routes": "a"}, "count": 2},
            {"key": {"routes": "b"}, "count": 2},
        ],
    });
    assert_eq!(count(&server, "group_by=routes"), by_route);
}

#[test]
fn groups_come_in_pages_with_the_total_on_each() {
    let server = four_tasks();
    let first = count(&server, "group_by=routes,status&limit=1");
    assert_eq!((&first["count"], first["items"].as_array().unwrap().len()), (&json!(4), 1));
    let cursor = encode(first["next_cursor"].as_str().unwrap());
    server.create(5, json!({"routes": ["c"]}));
    server.create(6, json!({"routes": ["A"]}));
    let rest = count(&server, &format!("group_by=routes,status&limit=1000&cursor={cursor}"));
    assert_eq!((&rest["count"], &rest["next_cursor"]), (&json!(6), &json!(null)));
    let keys: Vec<String> = rest["items"].as_array().unwrap().iter().map(|item| item["key"].to_string()).collect();
    let expected = ["a-pending", "a-running", "b-pending", "c-pending"].map(|key| {
        let (route, status) = key.split_once('-').unwrap();
        json!({"routes": route, "status": status}).to_string()
    });
    assert_eq!(keys, expected);
}

#[test]
fn a_page_has_100_groups_unless_the_limit_says_otherwise() {
    let server = Server::with_queue();
    for n in 0..4 {
        let routes: Vec<String> = (0..40).map(|route| format!("r{:03}", n * 40 + route)).collect();
        server.create(n, json!({"routes": routes}));
    }
    let page = count(&server, "group_by=routes");
    assert_eq!((page["items"].as_array().unwrap().len(), &page["count"]), (100, &json!(4)));
    assert_eq!(count(&server, "group_by=routes&limit=160")["next_cursor"], json!(null));
    for limit in ["0", "1001", "", "x", "-1", "1.0"] {
        let response = server.get(&in_queue(&format!("/tasks/count?group_by=routes&limit={limit}")));
        response.assert_error(422, "invalid_request");
    }
}

#[test]
fn selectors_are_checked_as_in_lists() {
    let server = Server::with_queue();
    for query in ["status=done", "status=", "group_by=status&status=x"] {
        server.get(&in_queue(&format!("/tasks/count?{query}"))).assert_error(422, "invalid_request");
    }
    for query in ["filter=", "filter=(", "group_by=status&filter=stats==1"] {
        server.get(&in_queue(&format!("/tasks/count?{query}"))).assert_error(422, "invalid_filter");
    }
}

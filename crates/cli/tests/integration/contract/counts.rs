//! Scalar and grouped counts of tasks (docs/reference/http-api.md §8). Counts of workers are in `workers`; pages of groups are
//! proven by the conformance suite of the stores, and how queries are read in `server`.

use serde_json::json;

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
        assert_eq!(server.count(query), json!({"count": expected}), "{query}");
    }
}

#[test]
fn groups_are_sorted_by_code_point_in_the_order_of_the_dimensions() {
    let server = four_tasks();
    let table =
        [("status", [("cancelled", 1), ("pending", 2), ("running", 1)]), ("routes", [("B", 1), ("a", 2), ("b", 2)])];
    for (dimension, groups) in table {
        let items = groups.map(|(value, count)| json!({"key": {dimension: value}, "count": count}));
        let expected = json!({"group_by": [dimension], "count": 4, "next_cursor": null, "items": items});
        assert_eq!(server.count(&format!("group_by={dimension}")), expected);
    }
}

#[test]
fn a_page_has_100_groups_unless_the_limit_says_otherwise() {
    let server = Server::with_queue();
    for n in 0..4 {
        let routes: Vec<String> = (0..40).map(|route| format!("r{:03}", n * 40 + route)).collect();
        server.create(n, json!({"routes": routes}));
    }
    let page = server.count("group_by=routes");
    assert_eq!((page["items"].as_array().unwrap().len(), &page["count"]), (100, &json!(4)));
    assert_eq!(server.count("group_by=routes&limit=160")["next_cursor"], json!(null));
}

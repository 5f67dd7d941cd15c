//! Lists of tasks: selectors, order, limits and the walk over pages (docs/reference/http-api.md §7).
//! What a cursor is bound to is in `cursors`, the spelling of parameters in `query_parameters`, filters in `filter_*`.

use serde_json::json;

use super::support::*;

/// For each order the numbers of the tasks of `assortment`, ascending and descending.
const ORDERS: [(&str, [usize; 6], [usize; 6]); 11] = [
    ("id", [1, 2, 3, 4, 5, 6], [6, 5, 4, 3, 2, 1]),
    ("name", [5, 1, 3, 6, 2, 4], [6, 3, 1, 5, 4, 2]),
    ("status", [5, 2, 3, 4, 1, 6], [6, 1, 4, 3, 2, 5]),
    ("priority", [2, 4, 5, 1, 3, 6], [6, 3, 1, 5, 4, 2]),
    ("attempt", [4, 5, 1, 2, 3, 6], [6, 3, 2, 1, 5, 4]),
    ("max_attempts", [2, 3, 4, 5, 6, 1], [1, 6, 5, 4, 3, 2]),
    ("last_route", [1, 2, 3, 6, 4, 5], [6, 3, 2, 1, 5, 4]),
    ("created_at", [3, 1, 2, 5, 4, 6], [6, 4, 5, 2, 1, 3]),
    ("updated_at", [4, 1, 6, 3, 2, 5], [5, 2, 3, 6, 1, 4]),
    ("started_at", [1, 6, 3, 2, 4, 5], [2, 3, 6, 1, 5, 4]),
    ("finished_at", [6, 3, 2, 1, 4, 5], [2, 3, 6, 5, 4, 1]),
];

/// Six tasks in all states, with ties and nulls in every column that can have them.
fn assortment() -> SharedServer {
    let server = Server::with_queue();
    for (n, name, priority, max_attempts) in [
        (3, json!("b"), 5, 2),
        (1, json!("a"), 5, 9),
        (2, json!(null), -1, 1),
        (5, json!("B"), 0, 3),
        (4, json!(null), 0, 3),
        (6, json!("é"), 7, 3),
    ] {
        let routes = [format!("r{n}")];
        server.create(n, json!({"name": name, "priority": priority, "max_attempts": max_attempts, "routes": routes}));
    }
    for (n, end) in [(1, ""), (6, "complete"), (3, "fail"), (2, "fail")] {
        server.claim_for("q", &format!("r{n}"), n).expect(200);
        if !end.is_empty() {
            server.act(n, end, n).expect(204);
        }
    }
    server.cancel(5).expect(200);
    server
}

#[test]
fn every_order_has_nulls_last_and_ties_by_id() {
    let server = assortment();
    for (field, ascending, descending) in ORDERS {
        assert_eq!(server.ids(&format!("order_by={field}&descending=false")), ascending, "{field} ascending");
        assert_eq!(server.ids(&format!("order_by={field}&descending=true")), descending, "{field} descending");
        assert_eq!(server.ids(&format!("order_by={field}")), descending, "{field} in the default direction");
    }
}

#[test]
fn the_default_order_is_newest_first() {
    let server = assortment();
    assert_eq!(server.ids(""), [6, 4, 5, 2, 1, 3]);
    assert_eq!(server.ids("descending=false"), [3, 1, 2, 5, 4, 6]);
}

#[test]
fn strings_sort_by_code_point() {
    let server = Server::with_queue();
    let sorted = ["", " ", "!", "0", "10", "9", "A", "Z", "a", "aa", "b", "~", "é", "\u{ffff}", "\u{10000}"];
    for (n, name) in sorted.iter().enumerate() {
        server.create((n * 7) % 15, json!({"name": name}));
    }
    let page = server.list("order_by=name&descending=false");
    let names: Vec<&str> =
        page["items"].as_array().unwrap().iter().map(|task| task["name"].as_str().unwrap()).collect();
    assert_eq!(names, sorted);
}

#[test]
fn integers_sort_as_numbers_over_their_whole_range() {
    let server = Server::with_queue();
    let sorted = [i64::MIN, -10, -9, 0, 9, 10, 9_007_199_254_740_992, 9_007_199_254_740_993, i64::MAX - 1, i64::MAX];
    for (n, priority) in sorted.into_iter().enumerate() {
        server.create((n * 7) % 10, json!({"priority": priority}));
    }
    let expected: Vec<usize> = (0..10).map(|n| (n * 7) % 10).collect();
    assert_eq!(server.ids("order_by=priority&descending=false"), expected);
    assert_eq!(server.walk("order_by=priority&descending=false", 1), expected);
}

#[test]
fn a_page_has_100_tasks_unless_the_limit_says_otherwise() {
    let server = Server::with_queue();
    for portion in [0..1000, 1000..1001] {
        server.batch("create", json!({"tasks": portion.map(|n| json!({"id": task_id(n)})).collect::<Vec<_>>()}));
    }
    assert_eq!(server.ids("").len(), 100);
    for limit in [1, 101, 1000] {
        assert_eq!(server.ids(&format!("limit={limit}")).len(), limit);
    }
    assert_eq!(server.walk(BY_ID, 1000), (0..1001).collect::<Vec<_>>());
}

#[test]
fn status_selects_one_of_the_five_words() {
    let server = assortment();
    for (status, expected) in
        [("pending", &[3, 4][..]), ("running", &[1]), ("succeeded", &[6]), ("failed", &[2]), ("cancelled", &[5])]
    {
        assert_eq!(server.ids(&format!("{BY_ID}&status={status}")), expected, "{status}");
    }
}

#[test]
fn name_selects_exactly() {
    let server = Server::with_queue();
    let names = ["a", "A", "a ", "", "a%", "a_", "ab", "é", "a+b", "a&b=c", "a'b", "a\"b"];
    for (n, name) in names.iter().enumerate() {
        server.create(n, json!({"name": name}));
    }
    server.create(99, json!({}));
    for (n, name) in names.iter().enumerate() {
        assert_eq!(numbers(&server.get(&tasks_where(&[("name", name)])).json()), [n], "{name:?}");
    }
    assert_eq!(server.ids("name="), [3]);
    for name in ["null", "None", "b", "a*", "%25"] {
        assert!(server.ids(&format!("name={name}")).is_empty(), "{name}");
    }
}

#[test]
fn selectors_are_combined_with_and() {
    let server = assortment();
    let table: [(&str, &[usize]); 3] = [
        ("name_fuzzy=b", &[3, 5]),
        ("name_fuzzy=b&filter=priority==0&status=cancelled&name=B", &[5]),
        ("name_fuzzy=b&filter=priority==0&status=cancelled&name=b", &[]),
    ];
    for (query, expected) in table {
        assert_eq!(server.ids(&format!("{BY_ID}&{query}")), expected, "{query}");
    }
}

#[test]
fn a_page_stays_below_16_mib_and_goes_on_with_the_next() {
    let server = Server::with_queue();
    let args = json!({"args": {"a": "x".repeat(1_000_000)}});
    for n in 0..20 {
        server.create(n, &args);
    }
    let first = server.get(&in_queue(&format!("/tasks?{BY_ID}"))).expect(200).body.len();
    assert!(first <= 16 * MIB, "{first} bytes");
    let pages = server.pages(BY_ID);
    assert!(pages.iter().all(|page| page.to_string().len() <= 16 * MIB && !numbers(page).is_empty()));
    let all: Vec<usize> = pages.iter().flat_map(numbers).collect();
    assert_eq!(all, (0..20).collect::<Vec<_>>());
}

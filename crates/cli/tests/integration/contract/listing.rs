//! Lists of tasks: how databases sort and select texts and numbers, and what bounds a page (docs/reference/http-api.md §7). Every
//! order and selection is proven by the conformance suite of the stores. What a cursor is bound to is in `cursors`, the spelling of
//! parameters in `query_parameters`, filters in `filter_*`.

use serde_json::json;

use super::support::*;

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
fn a_search_of_more_than_64_different_words_or_8192_bytes_is_refused_in_lists_and_counts() {
    let server = Server::with_queue();
    server.create(1, json!({"name": "w0123456789"}));
    let words = |different: usize| (0..different).map(|n| format!("w{n:02}")).collect::<Vec<_>>().join("+");
    for path in ["/api/v2/queues/q/tasks", "/api/v2/queues/q/tasks/count"] {
        let asked = |search: &str| server.get(&format!("{path}?name_fuzzy={search}"));
        asked(&words(64)).expect(200);
        asked(&"a".repeat(8192)).expect(200);
        for (search, advice) in [(words(65), "64 different words"), ("a".repeat(8193), "8192 bytes")] {
            let details = asked(&search).assert_error(422, "invalid_request");
            let error = &details["errors"][0];
            assert_eq!(error["location"], json!(["query", "name_fuzzy"]), "{details}");
            assert!(error["message"].as_str().unwrap().contains(advice), "{details}");
        }
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

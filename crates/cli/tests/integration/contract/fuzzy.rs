//! `name_fuzzy`: case-folded subsequences, word by word (docs/reference/http-api.md §7.2).

use serde_json::json;

use super::support::*;

/// A name, a search, and whether the search finds the name. Folding and words are proven in `core`.
const CASES: &[(&str, &str, bool)] = &[
    ("train model", "model train", true),
    ("train model", "TRAIN", true),
    ("ab", "b a", true),
    ("a b", "ab", true),
    // full case folding, nothing else
    ("Straße", "strasse", true),
    ("Ǆ", "ǆ", true),
    ("ΑΒΓ", "αγ", true),
    ("é", "e", false),
    ("e\u{301}", "e", true),
    ("e\u{301}", "é", false),
    ("ａ", "a", false),
    // punctuation is literal
    ("abc", ".*", false),
    ("a.b*c", ".*", true),
    ("a%c", "%", true),
    ("abc", "_", false),
    ("a_c", "_", true),
    ("abc", "a*", false),
    ("abc", "?", false),
    ("a\\b", "\\", true),
    ("it's", "'", true),
    ("say \"x\"", "\"\"", true),
    ("abc", "a|b", false),
    ("abc", "-a", false),
    ("(x)", "()", true),
    // only white space separates words
    ("ab", "b\u{85}a", true),
    ("ab", "b\u{200b}a", false),
    ("😀 smile", "😀s", true),
    ("smile 😀", "😀s", false),
];

#[test]
fn each_word_is_a_case_folded_subsequence_of_the_name() {
    let server = Server::with_queue();
    for (n, (name, _, _)) in CASES.iter().enumerate() {
        server.create(n, json!({"name": name}));
    }
    for (n, (name, search, expected)) in CASES.iter().enumerate() {
        let page = server.get(&tasks_where(&[("name_fuzzy", search), ("limit", "1000")])).expect(200).json();
        assert_eq!(numbers(&page).contains(&n), *expected, "{name:?} searched with {search:?}");
    }
}

#[test]
fn a_long_search_is_answered() {
    let server = Server::with_queue();
    server.create(1, json!({"name": "a".repeat(256)}));
    assert_eq!(server.ids(&format!("name_fuzzy={}", "a".repeat(256))), [1]);
    assert!(server.ids(&format!("name_fuzzy={}", "a".repeat(257))).is_empty());
    assert_eq!(server.ids(&format!("name_fuzzy={}", "a+".repeat(4000))), [1]);
}

#[test]
fn a_search_of_more_than_64_different_words_or_8192_bytes_is_refused_in_lists_and_counts() {
    let server = Server::with_queue();
    server.create(1, json!({"name": "w0123456789"}));
    let words = |different: usize| (0..different).map(|n| format!("w{n:02}")).collect::<Vec<_>>().join("+");
    for path in ["/api/v2/queues/q/tasks", "/api/v2/queues/q/tasks/count"] {
        let asked = |search: &str| server.get(&format!("{path}?name_fuzzy={search}"));
        asked(&words(64)).expect(200);
        asked(&format!("{}+W00+{}", words(64), words(64))).expect(200);
        asked(&"a".repeat(8192)).expect(200);
        for (search, advice) in [(words(65), "64 different words"), ("a".repeat(8193), "8192 bytes")] {
            let details = asked(&search).assert_error(422, "invalid_request");
            let error = &details["errors"][0];
            assert_eq!(error["location"], json!(["query", "name_fuzzy"]), "{details}");
            assert!(error["message"].as_str().unwrap().contains(advice), "{details}");
        }
    }
}

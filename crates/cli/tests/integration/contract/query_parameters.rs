//! How query parameters are written: decoding, repetition, booleans and integers (docs/reference/http-api.md §3.2).

use serde_json::json;

use super::support::*;

fn three_tasks() -> SharedServer {
    let server = Server::with_queue();
    for n in 1..=3 {
        server.create(n, json!({"name": format!("a{n}")}));
    }
    server
}

#[test]
fn integers_are_decimal_digits() {
    let server = three_tasks();
    for (limit, found) in [("1", 1), ("2", 2), ("007", 3), ("0000000000000000000000000002", 2), ("1000", 3), ("%32", 2)]
    {
        assert_eq!(server.ids(&format!("limit={limit}")).len(), found, "{limit}");
    }
    let refused = [
        "",
        "0",
        "-1",
        "1.5",
        "5.0",
        "1e2",
        "+5",
        "%2B5",
        "0x10",
        "1_0",
        "5+",
        "%205",
        "5%0A",
        "%EF%BC%91",
        "%D9%A1",
        "1001",
        "9223372036854775808",
        "18446744073709551617",
        "null",
        "true",
        "five",
    ];
    for limit in refused {
        for path in ["/tasks?", "/tasks/count?group_by=status&", "/workers?", "/workers/count?group_by=status&"] {
            server.get(&in_queue(&format!("{path}limit={limit}"))).assert_error(422, "invalid_request");
        }
    }
}

#[test]
fn booleans_have_twelve_spellings_in_any_letter_case() {
    let server = three_tasks();
    for word in ["true", "TRUE", "True", "tRuE", "t", "T", "yes", "YES", "y", "on", "ON", "1", "%31"] {
        assert_eq!(server.ids(&format!("descending={word}")), [3, 2, 1], "{word}");
    }
    for word in ["false", "False", "f", "no", "No", "n", "off", "oFF", "0"] {
        assert_eq!(server.ids(&format!("descending={word}")), [1, 2, 3], "{word}");
    }
    for word in
        ["", "2", "null", "None", "1.0", "01", "-1", "+true", "true+", "true%0A", "ja", "enabled", "tr", "%E2%85%A0"]
    {
        server.get(&in_queue(&format!("/tasks?descending={word}"))).assert_error(422, "invalid_request");
    }
}

#[test]
fn of_a_repeated_parameter_the_last_value_counts_and_the_others_are_not_validated() {
    let server = three_tasks();
    let table: &[(&str, &[usize])] = &[
        ("limit=abc&limit=1", &[3]),
        ("limit=0&limit=&limit=2", &[3, 2]),
        ("status=nonsense&status=pending", &[3, 2, 1]),
        ("name=a1&name=a2", &[2]),
        ("filter=((&filter=name==%22a1%22", &[1]),
        ("order_by=&order_by=id&descending=x&descending=no", &[1, 2, 3]),
        ("name_fuzzy=zzz&name_fuzzy=3", &[3]),
    ];
    for (query, expected) in table {
        assert_eq!(server.ids(query), *expected, "{query}");
    }
    for query in ["limit=1&limit=abc", "status=pending&status=", "descending=1&descending=2"] {
        server.get(&in_queue(&format!("/tasks?{query}"))).assert_error(422, "invalid_request");
    }
    server.get(&in_queue("/tasks?cursor=x&cursor=")).assert_error(422, "invalid_cursor");
}

#[test]
fn unknown_parameters_are_ignored_and_names_are_case_sensitive() {
    let server = three_tasks();
    for query in [
        "x=1",
        "Limit=0",
        "LIMIT=abc",
        "Status=nonsense",
        "filter[]=(",
        "%20limit=0",
        "limit%20=0",
        "group_by=x",
        "=",
        "&&",
        "",
    ] {
        assert_eq!(server.ids(query), [3, 2, 1], "{query}");
    }
    assert_eq!(server.ids("li%6Dit=1"), [3]);
    assert_eq!(server.get("/api/v2/queues?limit=0&cursor=x").expect(200).json(), json!([{"name": "q"}]));
    server.put(&in_queue("?cascade=maybe"), ()).expect(200);
    server.get(&of_task(1, "?limit=0")).expect(200);
}

#[test]
fn values_are_percent_decoded_with_plus_as_a_blank() {
    let server = Server::with_queue();
    let names = ["a b", "a+b", "a%20b", "é", "\u{fffd}", "a;b", "a&b", "a=b", "a#b"];
    for (n, name) in names.iter().enumerate() {
        server.create(n, json!({"name": name}));
    }
    let table = [
        ("a+b", 0),
        ("a%20b", 0),
        ("a%2Bb", 1),
        ("a%2bb", 1),
        ("a%2520b", 2),
        ("%C3%A9", 3),
        ("%FF", 4),
        ("%C3", 4),
        ("a;b", 5),
        ("a%26b", 6),
        ("a=b", 7),
        ("a%23b", 8),
    ];
    for (value, n) in table {
        assert_eq!(server.ids(&format!("name={value}")), [n], "{value}");
    }
}

#[test]
fn only_the_ampersand_separates() {
    let server = three_tasks();
    server.get(&in_queue("/tasks?limit=2;x=1")).assert_error(422, "invalid_request");
    server.get(&in_queue("/tasks?limit=2%26x=1")).assert_error(422, "invalid_request");
    assert_eq!(server.ids("x=1;limit=0&limit=2"), [3, 2]);
}

#[test]
fn a_parameter_without_a_value_is_empty() {
    let server = three_tasks();
    server.create(4, json!({"name": ""}));
    assert_eq!(server.ids("name"), [4]);
    assert_eq!(server.ids("name="), [4]);
    for query in ["limit", "descending", "status", "order_by"] {
        server.get(&in_queue(&format!("/tasks?{query}"))).assert_error(422, "invalid_request");
    }
    server.get(&in_queue("/tasks?filter")).assert_error(422, "invalid_filter");
    server.get(&in_queue("/tasks?filter=")).assert_error(422, "invalid_filter");
    server.get(&in_queue("/tasks?cursor")).assert_error(422, "invalid_cursor");
    server.delete(&in_queue("?cascade")).assert_error(422, "invalid_request");
    assert_eq!(server.ids("name_fuzzy").len(), 4);
}

#[test]
fn broken_percent_encoding_is_not_a_failure() {
    let server = three_tasks();
    for value in ["%", "%%", "%z", "%zz", "%4", "%u0041", "a%"] {
        assert!(server.ids(&format!("name={value}")).is_empty(), "{value}");
        server.get(&in_queue(&format!("/tasks?limit={value}"))).assert_error(422, "invalid_request");
    }
}

//! Filters on values that databases treat differently: numbers of both kinds, null and missing, texts with any character,
//! instants (docs/reference/filter-language.md §5 to §8). What every comparison means is proven in `core`, and that both databases
//! mean the same by random filters; what the page about filters shows is in `filter_page`.

use serde_json::json;

use super::support::*;

/// The value `args.v` of task 2, 3 and so on; task 1 has none.
const VALUES: [&str; 20] = [
    "null",                         // 2
    "true",                         // 3
    "false",                        // 4
    "0",                            // 5
    "1",                            // 6
    "1.0",                          // 7
    "\"1\"",                        // 8
    "\"a\"",                        // 9
    "[1,\"a\",null,[2],{\"k\":1}]", // 10
    "{\"a\":1,\"k\":null}",         // 11
    "[]",                           // 12
    "{}",                           // 13
    "-0.0",                         // 14
    "9007199254740992.0",           // 15
    "9007199254740993",             // 16
    "\"[1]\"",                      // 17
    "\"\"",                         // 18
    "\"a\\u0000b\"",                // 19
    "1.5",                          // 20
    "[true,1.5,\"1\"]",             // 21
];

fn values() -> SharedServer {
    let server = Server::with_task();
    for (n, value) in (2..).zip(VALUES) {
        server.create(n, format!("{{\"args\":{{\"v\":{value}}}}}"));
    }
    server
}

#[test]
fn equality_is_by_type_and_value() {
    values().assert_selections(&[
        ("args.v == None", &[2]),
        ("args.v == null", &[2]),
        ("args.v == True", &[3]),
        ("args.v == true", &[3]),
        ("args.v == False", &[4]),
        ("args.v == 0", &[5, 14]),
        ("args.v == -0", &[5, 14]),
        ("args.v == 0.0", &[5, 14]),
        ("args.v == -0.0", &[5, 14]),
        ("args.v == 1", &[6, 7]),
        ("args.v == 1.0", &[6, 7]),
        ("1e0 == args.v", &[6, 7]),
        ("args.v == 1.5", &[20]),
        ("args.v == '1'", &[8]),
        ("args.v == 'a'", &[9]),
        ("args.v == 'A'", &[]),
        ("args.v == ''", &[18]),
        ("args.v == '[1]'", &[17]),
        ("args.v == 'null'", &[]),
        ("args.v == 'true'", &[]),
        ("args.v == '{}'", &[]),
        (r"args.v == 'a\u0000b'", &[19]),
        (r"args.v == 'a\u0000'", &[]),
        (r"args.v == 'a\u0000c'", &[]),
        ("args.v == 9007199254740993", &[16]),
        ("args.v == 9007199254740992", &[15]),
        ("args.v == 9007199254740992.0", &[15]),
        ("args.v == 9007199254740993.0", &[15]),
        ("args.v == 9007199254740994", &[]),
    ]);
}

#[test]
fn keys_are_exact_and_only_names_are_reachable() {
    let server = Server::with_queue();
    server.create(1, json!({"args": {"key": 1}}));
    server.create(2, json!({"args": {"Key": 1}}));
    server.create(3, json!({"args": {"a.b": 1, "a": 2}}));
    server.create(4, json!({"args": {"a": {"b": 1}}}));
    server.create(5, json!({"args": {"a": [{"b": 1}], "x y": 1, "": 1, "a\"b": 1, "$": 1, "0": 1}}));
    server.assert_selections(&[
        ("args.key == 1", &[1]),
        ("args.Key == 1", &[2]),
        ("args.KEY == 1", &[]),
        ("args.a.b == 1", &[4]),
        ("exists(args.a)", &[3, 4, 5]),
        ("args.a == 2", &[3]),
        ("'a.b' in args", &[3]),
        ("'x y' in args", &[5]),
        ("'' in args", &[5]),
        ("'a\"b' in args", &[5]),
        ("'$' in args and '0' in args", &[5]),
        ("'b' in args.a", &[4]),
    ]);
}

#[test]
fn numbers_at_the_borders_compare_exactly() {
    let server = Server::with_queue();
    let numbers = [
        "9223372036854775807",
        "-9223372036854775808",
        "9223372036854775808.0",
        "-9223372036854775808.0",
        "1e308",
        "5e-324",
        "0.1",
    ];
    for (n, number) in (1..).zip(numbers) {
        server.create(n, format!("{{\"args\":{{\"v\":{number}}}}}"));
    }
    server.assert_selections(&[
        ("args.v == 9223372036854775807", &[1]),
        ("args.v == 9223372036854775808.0", &[3]),
        ("args.v == -9223372036854775808", &[2, 4]),
        ("args.v > 9223372036854775807", &[3, 5]),
        ("args.v >= 9223372036854775808.0", &[3, 5]),
        ("args.v < 9223372036854775808.0", &[1, 2, 4, 6, 7]),
        ("args.v > 0 and args.v < 1", &[6, 7]),
        ("args.v == 0.1", &[7]),
        ("args.v == 5e-324", &[6]),
        ("args.v in [1e308, 9223372036854775807]", &[1, 5]),
        ("args.v != 9223372036854775807", &[2, 3, 4, 5, 6, 7]),
    ]);
}

#[test]
fn strings_compare_as_a_whole_without_wildcards() {
    let server = Server::with_queue();
    let texts = ["%", "_", "a%", "a_b", "a'b", "a\"b", "a\\b", "é", "e\u{301}", "a\0", "a", "\u{0}", "😀", "\u{ffff}"];
    for (n, text) in (1..).zip(texts) {
        server.create(n, json!({"args": {"v": text, "list": [text], "object": {text: 1}}}));
    }
    for (n, text) in (1..).zip(texts) {
        let literal = json!(text).to_string();
        server.assert_selections(&[
            (&format!("args.v == {literal}"), &[n]),
            (&format!("args.v in [{literal}]"), &[n]),
            (&format!("{literal} in args.list"), &[n]),
            (&format!("{literal} in args.object"), &[n]),
        ]);
    }
}

#[test]
fn timestamps_compare_as_instants_with_microseconds() {
    let server = Server::with_queue();
    let created = micros(&server.create(1, json!({}))["created_at"]);
    for hours in [0, 1, -1, 23, -23] {
        for (shift, operators) in [(0, ["==", "<=", ">="]), (1, ["!=", "<", "<="]), (-1, ["!=", ">", ">="])] {
            for operator in operators {
                let filter = format!("created_at {operator} '{}'", at_offset(created + shift, hours));
                server.assert_selections(&[(&filter, &[1]), (&format!("not ({filter})"), &[])]);
            }
        }
    }
}

//! Filters on args, metadata and result: values of any JSON type, null and missing apart
//! (docs/reference/filter-language.md §8).

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

const ALL: &[usize] = &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21];
const PRESENT: &[usize] = &[2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21];
const SCALARS: &[usize] = &[2, 3, 4, 5, 6, 7, 8, 9, 14, 15, 16, 17, 18, 19, 20];

/// `numbers` without some of them.
fn without(numbers: &[usize], left_out: &[usize]) -> Vec<usize> {
    numbers.iter().copied().filter(|n| !left_out.contains(n)).collect()
}

fn values() -> SharedServer {
    let server = Server::with_queue();
    server.create(1, json!({}));
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
fn inequality_needs_a_present_value() {
    values().assert_selections(&[
        ("args.v != None", &without(PRESENT, &[2])),
        ("args.v != True", &without(PRESENT, &[3])),
        ("args.v != 1", &without(PRESENT, &[6, 7])),
        ("args.v != 0", &without(PRESENT, &[5, 14])),
        ("args.v != '1'", &without(PRESENT, &[8])),
        ("'a' != args.v", &without(PRESENT, &[9])),
        ("args.v != 'nothing'", PRESENT),
        ("not args.v == 1", &without(ALL, &[6, 7])),
        ("not args.v != 1", &[1, 6, 7]),
        ("args.w != 1", &[]),
        ("not args.w != 1", ALL),
    ]);
}

#[test]
fn order_is_for_numbers_only() {
    let server = values();
    server.assert_selections(&[
        ("args.v < 1", &[5, 14]),
        ("args.v <= 1", &[5, 6, 7, 14]),
        ("args.v > 1", &[15, 16, 20]),
        ("args.v >= 1.5", &[15, 16, 20]),
        ("1 < args.v", &[15, 16, 20]),
        ("args.v > -1", &[5, 6, 7, 14, 15, 16, 20]),
        ("args.v < 0", &[]),
        ("args.v >= 0.0", &[5, 6, 7, 14, 15, 16, 20]),
        ("args.v > 9007199254740992", &[16]),
        ("args.v > 9007199254740992.0", &[16]),
        ("args.v >= 9007199254740993", &[16]),
        ("args.v < 9007199254740993", &[5, 6, 7, 14, 15, 20]),
        ("not args.v < 1", &without(ALL, &[5, 14])),
        ("args.v < 1e308", &[5, 6, 7, 14, 15, 16, 20]),
    ]);
    server.assert_refused(&[
        "args.v < 'a'",
        "args.v <= ''",
        "args.v > None",
        "args.v >= True",
        "'a' < args.v",
        "None <= args.v",
        "args.v > '2000-01-01T00:00:00Z'",
        "metadata.v < 'a'",
        "result.v < null",
    ]);
}

#[test]
fn membership_in_a_list_is_for_scalars() {
    values().assert_selections(&[
        ("args.v in [1, 'a', None]", &[2, 6, 7, 9]),
        ("args.v in [1.0]", &[6, 7]),
        ("args.v in [True]", &[3]),
        ("args.v in ['1', '']", &[8, 18]),
        ("args.v in [0]", &[5, 14]),
        ("args.v in [9007199254740993]", &[16]),
        ("args.v in [9007199254740992]", &[15]),
        (r"args.v in ['a\u0000b']", &[19]),
        ("args.v in []", &[]),
        ("args.v not in []", SCALARS),
        ("args.v not in [1]", &without(SCALARS, &[6, 7])),
        ("args.v not in [None]", &without(SCALARS, &[2])),
        ("args.v not in ['a', True, 1.5, 0]", &without(SCALARS, &[3, 5, 9, 14, 20])),
        ("not args.v in [1]", &without(ALL, &[6, 7])),
        ("not args.v not in []", &without(ALL, SCALARS)),
        ("args.w not in [1]", &[]),
    ]);
}

#[test]
fn membership_in_a_value_is_for_arrays_and_objects() {
    values().assert_selections(&[
        ("1 in args.v", &[10]),
        ("1.0 in args.v", &[10]),
        ("'a' in args.v", &[10, 11]),
        ("'k' in args.v", &[11]),
        ("None in args.v", &[10]),
        ("True in args.v", &[21]),
        ("'1' in args.v", &[21]),
        ("1.5 in args.v", &[21]),
        ("2 in args.v", &[]),
        ("False in args.v", &[]),
        ("1 not in args.v", &[11, 12, 13, 21]),
        ("'a' not in args.v", &[12, 13, 21]),
        ("None not in args.v", &[11, 12, 13, 21]),
        ("not 1 in args.v", &without(ALL, &[10])),
        ("'v' in args", PRESENT),
        ("'v' not in args", &[1]),
        ("'V' in args", &[]),
        ("1 in args", &[]),
        ("1 not in args", ALL),
        ("None not in args", ALL),
        ("'v' in metadata", &[]),
        ("'v' not in metadata", ALL),
        ("'v' not in result", ALL),
    ]);
}

#[test]
fn presence_counts_null_and_steps_through_objects_only() {
    values().assert_selections(&[
        ("exists(args.v)", PRESENT),
        ("missing(args.v)", &[1]),
        ("not exists(args.v)", &[1]),
        ("exists(args.v.a)", &[11]),
        ("exists(args.v.k)", &[11]),
        ("missing(args.v.a)", &without(ALL, &[11])),
        ("args.v.a == 1", &[11]),
        ("args.v.k == None", &[11]),
        ("args.v.k != 1", &[11]),
        ("args.v.a not in [2]", &[11]),
        ("exists(args.v.length)", &[]),
        ("exists(args.v.a.b)", &[]),
        ("missing(args.v.a.b.c.d)", ALL),
        ("exists(args.w)", &[]),
    ]);
}

#[test]
fn the_three_objects_are_apart() {
    let server = Server::with_queue();
    server.create(1, json!({"args": {"v": 1}}));
    server.create(2, json!({"metadata": {"v": 1}}));
    server.create(3, json!({}));
    server.patch(&of_task(3, ""), json!({"result": {"v": 1}})).expect(200);
    server.assert_selections(&[
        ("args.v == 1", &[1]),
        ("metadata.v == 1", &[2]),
        ("result.v == 1", &[3]),
        ("'v' in result", &[3]),
        ("missing(args.v) and missing(metadata.v)", &[3]),
        ("args.v == 1 or result.v == 1", &[1, 3]),
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

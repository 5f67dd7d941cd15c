//! The grammar of filters: what parses, how it binds, and how large a filter may be
//! (docs/reference/filter-language.md §3). What is refused is in `filter_refusals`, what comparisons mean in
//! `filter_typed` and `filter_dynamic`.

use serde_json::json;

use super::support::*;

/// Tasks 1, 2 and 3 with these priorities and the names `a`, `b` and none.
fn three_tasks() -> SharedServer {
    let server = Server::with_queue();
    let keywords = json!({
        "lambda": 1, "class": 2, "in": 3, "and": 4, "not": 5, "exists": 6, "None": 7, "true": 8, "_x9": 9, "a": {"b": {"or": 10}},
    });
    server.create(1, json!({"priority": 1, "name": "a", "args": keywords}));
    server.create(2, json!({"priority": 2, "name": "b"}));
    server.create(3, json!({"priority": 3}));
    server
}

#[test]
fn and_binds_tighter_than_or_and_not_tightest() {
    three_tasks().assert_selections(&[
        ("priority == 1 or priority == 2 and name == 'zzz'", &[1]),
        ("(priority == 1 or priority == 2) and name == 'zzz'", &[]),
        ("priority == 1 and name == 'zzz' or priority == 2", &[2]),
        ("priority == 1 and (name == 'zzz' or priority == 2)", &[]),
        ("not priority == 1 and priority == 2", &[2]),
        ("not (priority == 1 and priority == 2)", &[1, 2, 3]),
        ("not priority == 1 or priority == 1", &[1, 2, 3]),
        ("not (priority == 1 or priority == 2)", &[3]),
        ("not not priority == 1", &[1]),
        ("not not not priority == 1", &[2, 3]),
        ("priority == 1 or priority == 2 or priority == 3", &[1, 2, 3]),
        ("priority > 0 and priority > 1 and not priority > 2", &[2]),
        ("not priority in [1, 2]", &[3]),
        ("((((priority == 1))))", &[1]),
    ]);
}

#[test]
fn the_literal_may_stand_on_either_side() {
    three_tasks().assert_selections(&[
        ("priority < 2", &[1]),
        ("priority <= 2", &[1, 2]),
        ("priority > 2", &[3]),
        ("priority >= 2", &[2, 3]),
        ("priority == 2", &[2]),
        ("priority != 2", &[1, 3]),
        ("2 < priority", &[3]),
        ("2 <= priority", &[2, 3]),
        ("2 > priority", &[1]),
        ("2 >= priority", &[1, 2]),
        ("2 == priority", &[2]),
        ("2 != priority", &[1, 3]),
        ("'a' == name", &[1]),
        ("None == name", &[3]),
        ("null != name", &[1, 2]),
    ]);
}

#[test]
fn white_space_is_free_between_tokens() {
    three_tasks().assert_selections(&[
        ("priority==1", &[1]),
        ("  priority  ==  1  ", &[1]),
        ("\r\n\tpriority\n==\r1\t", &[1]),
        ("(priority==1)or(priority==2)", &[1, 2]),
        ("( priority == 1 )", &[1]),
        ("not(priority==1)", &[2, 3]),
        ("name=='a'or name=='b'", &[1, 2]),
        ("priority in[1,2]", &[1, 2]),
        ("priority not\n in [ 1 , 2 , ]", &[3]),
        ("'default'in routes", &[1, 2, 3]),
        ("args . a . b . or == 10", &[1]),
        ("exists ( args . a )and priority==1", &[1]),
        ("priority >- 1", &[1, 2, 3]),
        ("- 1<priority", &[1, 2, 3]),
        ("priority==1\nor\npriority==3", &[1, 3]),
    ]);
}

#[test]
fn behind_a_dot_any_name_is_allowed() {
    three_tasks().assert_selections(&[
        ("args.lambda == 1", &[1]),
        ("args.class == 2", &[1]),
        ("args.in == 3", &[1]),
        ("args.and == 4", &[1]),
        ("args.not == 5", &[1]),
        ("args.exists == 6", &[1]),
        ("args.None == 7", &[1]),
        ("args.true == 8", &[1]),
        ("args._x9 == 9", &[1]),
        ("args.a.b.or == 10", &[1]),
        ("exists(args.not)", &[1]),
        ("3 in args.in", &[]),
    ]);
}

#[test]
fn numbers_are_integers_or_floats() {
    three_tasks().assert_selections(&[
        ("priority == 1.0", &[1]),
        ("priority == 1.", &[1]),
        ("priority == 1.e0", &[1]),
        ("priority == .1e1", &[1]),
        ("priority == 1e0", &[1]),
        ("priority == 10E-1", &[1]),
        ("priority == 0.1e+1", &[1]),
        ("priority > .5", &[1, 2, 3]),
        ("priority > -0", &[1, 2, 3]),
        ("priority > -9223372036854775808", &[1, 2, 3]),
        ("priority < 9223372036854775807", &[1, 2, 3]),
        ("priority < 99999999999999999999.0", &[1, 2, 3]),
        ("priority > 1e-400", &[1, 2, 3]),
    ]);
}

#[test]
fn strings_have_two_kinds_of_quotes_and_the_escapes_of_json() {
    let server = Server::with_queue();
    let names = ["a\"b", "it's", "back\\slash", "A", "😀", "sla/sh", "\u{2028}", "é", "", "#;--"];
    for (n, name) in names.iter().enumerate() {
        server.create(n, json!({"name": name, "args": {"v": "\u{8}\u{c}\n\r\t\u{7f}"}}));
    }
    server.assert_selections(&[
        (r#"name == "a\"b""#, &[0]),
        (r#"name == 'a"b'"#, &[0]),
        (r#"name == "it's""#, &[1]),
        (r"name == 'it\'s'", &[1]),
        (r#"name == "it\'s""#, &[1]),
        (r"name == 'back\\slash'", &[2]),
        (r"name == '\u0041'", &[3]),
        (r"name == '\ud83d\ude00'", &[4]),
        (r"name == '\uD83D\uDE00'", &[4]),
        ("name == '😀'", &[4]),
        (r"name == 'sla\/sh'", &[5]),
        ("name == 'sla/sh'", &[5]),
        ("name == '\u{2028}'", &[6]),
        (r"name == '\u00e9'", &[7]),
        ("name == 'é'", &[7]),
        ("name == 'e\u{301}'", &[]),
        ("name == ''", &[8]),
        ("name == '#;--'", &[9]),
        ("args.v == '\\b\\f\\n\\r\\t\u{7f}' and name == 'A'", &[3]),
        (r"name != '\u0000'", &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
    ]);
}

#[test]
fn only_four_characters_are_white_space() {
    let server = three_tasks();
    for space in [
        "\u{a0}", "\u{2003}", "\u{3000}", "\u{2028}", "\u{85}", "\u{b}", "\u{c}", "\u{feff}", "\u{200b}", "\0",
        "\u{1f}", "\\",
    ] {
        server.assert_refused(&[
            &format!("priority{space}== 1"),
            &format!("{space}priority == 1"),
            &format!("priority == 1{space}"),
        ]);
    }
}

#[test]
fn two_hundred_levels_are_accepted_and_more_refused() {
    let server = three_tasks();
    let parentheses = |levels: usize| format!("{}priority == 1{}", "(".repeat(levels), ")".repeat(levels));
    let nots = |levels: usize| format!("{}priority == 1", "not ".repeat(levels));
    let both = |levels: usize| format!("{}priority == 1{}", "not (".repeat(levels / 2), ")".repeat(levels / 2));
    server.assert_selections(&[
        (&parentheses(200), &[1]),
        (&nots(200), &[1]),
        (&nots(199), &[2, 3]),
        (&both(200), &[1]),
        (&format!("{} or priority == 2", parentheses(200)), &[1, 2]),
    ]);
    server.assert_refused(&[&parentheses(201), &nots(201), &both(202), &parentheses(4000), &nots(2000)]);
    let alternation =
        format!("{}priority == 1{}", "(priority == 3 or (priority == 1 and ".repeat(100), "))".repeat(100));
    server.assert_selections(&[(&alternation, &[1, 3])]);
}

#[test]
fn long_flat_filters_work() {
    let server = three_tasks();
    let chain = |word: &str, predicate: &str| vec![predicate; 500].join(word);
    let list = |element: &str| vec![element; 4000].join(",");
    let strings: String = (0..800).map(|n| format!("'name{n}',")).collect();
    server.assert_selections(&[
        (&format!("{} or priority==2", chain(" or ", "priority==9")), &[2]),
        (&chain(" and ", "priority!=2"), &[1, 3]),
        (&format!("{} or priority==2", chain(" or ", "args.in==3")), &[1, 2]),
        (&format!("priority in [{},2]", list("9")), &[2]),
        (&format!("priority not in [{},2]", list("9")), &[1, 3]),
        (&format!("args.in in [{},3]", list("9")), &[1]),
        (&format!("name in [{strings}'b']"), &[2]),
        (&format!("name in [{strings}None]"), &[3]),
    ]);
}

#[test]
fn a_filter_has_at_most_8192_bytes() {
    let server = three_tasks();
    let padded = |bytes: usize| format!("priority == 1{}", " ".repeat(bytes - 13));
    let accented = |letters: usize| format!("name != '{}'", "é".repeat(letters));
    assert_eq!((padded(8192).len(), accented(4091).len()), (8192, 8192));
    server.assert_selections(&[(&padded(8192), &[1]), (&accented(4091), &[1, 2, 3])]);
    for filter in [padded(8193), accented(4092), "(".repeat(8193), " ".repeat(8193)] {
        server.filter(&filter).assert_error(422, "filter_too_large");
    }
    server.filter(&" ".repeat(8192)).assert_error(422, "invalid_filter");
}

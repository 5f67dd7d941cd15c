//! How deep and long a filter may be, and texts that are none (docs/reference/filter-language.md §3). The grammar and the
//! types of fields are proven in `core`; what comparisons select is in `filter_values` and `filter_page`.

use serde_json::json;

use super::support::*;

/// Tasks 1, 2 and 3 with these priorities and the names `a`, `b` and none.
fn three_tasks() -> SharedServer {
    let server = Server::with_queue();
    server.create(1, json!({"priority": 1, "name": "a", "args": {"in": 3}}));
    server.create(2, json!({"priority": 2, "name": "b"}));
    server.create(3, json!({"priority": 3}));
    server
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

/// Near misses that `core` does not list among what the grammar refuses.
#[test]
fn what_is_nearly_a_filter_is_refused() {
    let texts = r"priority == == 1 ¦ (priority) == 1 ¦ (1) == priority ¦ priority == (1) ¦ not 1 ¦ not priority
        ¦ priority and attempt ¦ priority == 1 and 1 ¦ priority == not 1 ¦ priority => 1 ¦ priority ! = 1 ¦ priority < = 1
        ¦ priority == 2 - 1 ¦ priority == -(1) ¦ args.x == -true ¦ priority between 1 and 2 ¦ lambda: 1 ¦ priority := 1
        ¦ priority == 1 if True else False ¦ priority == 1 -- comment ¦ priority == 1 /* */ ¦ exists(name == 'a')
        ¦ exists((name)) ¦ exists(name) == True ¦ exists(exists) ¦ name.lower() == 'a' ¦ args.[a] == 1 ¦ not == 1 ¦ or == 1
        ¦ name == [] ¦ priority == {} ¦ name not == 'a' ¦ priority in not [1] ¦ priority not not in [1] ¦ name in None
        ¦ name in ['a'] in routes ¦ priority == ² ¦ name == '''a''' ¦ name == “a” ¦ name == '\U00000041' ¦ rowid == 1
        ¦ pending_order > 1 ¦ sequence > 1 ¦ task_id == 't' ¦ priority in [1, '2'] ¦ created_at > '2024-W01-1T00:00:00Z'";
    let texts: Vec<&str> = texts.split('¦').map(str::trim).collect();
    three_tasks().assert_refused(&texts);
}

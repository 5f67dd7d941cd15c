//! Random JSON documents and random filters over few values, so that filters and tasks meet; with the edges where
//! engines differ: number kinds, 2^53, NUL, null against missing, empty strings, code points.

use super::prelude::*;

const KEYS: [&str; 5] = ["a", "b", "in", "_9", "A"];
const DOCUMENTS: [&str; 5] = ["args", "metadata", "result", "last_run.worker", "progress"];
const OPERATORS: [&str; 6] = ["==", "!=", "<", "<=", ">", ">="];
const NUMBERS: [&str; 16] = [
    "0",
    "-0.0",
    "1",
    "1.0",
    "-1",
    "2",
    "1.5",
    "3",
    "9007199254740993",
    "9007199254740992.0",
    "9223372036854775807",
    "9223372036854775808.0",
    "-9223372036854775808",
    "1e300",
    "5e-324",
    "100.0",
];
const TEXTS: [&str; 12] = ["", "a", "b", "A", "é", "e\u{301}", "😀", "a%", "a_", "1", "null", "\\u0000"];

fn text(random: &mut Random) -> String {
    format!("\"{}\"", random.pick(&TEXTS))
}

fn scalar(random: &mut Random) -> String {
    match random.below(6) {
        0 => "null".to_owned(),
        1 => random.pick(&["true", "false"]).to_owned(),
        2 | 3 => random.pick(&NUMBERS).to_owned(),
        _ => text(random),
    }
}

fn value(random: &mut Random, depth: usize) -> String {
    match random.below(if depth == 0 { 3 } else { 6 }) {
        0..=2 => scalar(random),
        3 => {
            let items: Vec<String> = (0..random.below(4)).map(|_| value(random, depth - 1)).collect();
            format!("[{}]", items.join(","))
        }
        _ => document(random, depth - 1),
    }
}

fn document(random: &mut Random, depth: usize) -> String {
    let members: Vec<String> =
        (0..random.below(4)).map(|_| format!("\"{}\":{}", random.pick(&KEYS), value(random, depth))).collect();
    format!("{{{}}}", members.join(","))
}

/// A random JSON object.
pub fn json(random: &mut Random) -> JsonObject {
    object(&document(random, 3))
}

/// A random task name or none.
pub fn name(random: &mut Random) -> Option<&'static str> {
    random.pick(&[
        None,
        Some(""),
        Some("a"),
        Some("b"),
        Some("A"),
        Some("é"),
        Some("e\u{301}"),
        Some("😀"),
        Some("ab a"),
    ])
}

fn list(random: &mut Random, mut element: impl FnMut(&mut Random) -> String) -> String {
    let elements: Vec<String> = (0..random.below(4)).map(|_| element(random)).collect();
    format!("[{}]", elements.join(", "))
}

/// A comparison or a membership of a typed path with literals of its type.
fn typed(random: &mut Random, path: &str, nullable: bool, mut literal: impl FnMut(&mut Random) -> String) -> String {
    match random.below(5) {
        0 => format!("{path} in {}", list(random, literal)),
        1 => format!("{path} not in {}", list(random, literal)),
        2 if nullable => format!("{path} {} None", random.pick(&OPERATORS[..2])),
        3 => format!("{} {} {path}", literal(random), random.pick(&OPERATORS)),
        _ => format!("{path} {} {}", random.pick(&OPERATORS), literal(random)),
    }
}

fn dynamic_path(random: &mut Random) -> String {
    let keys: Vec<&str> = (0..=random.below(3)).map(|_| random.pick(&KEYS)).collect();
    format!("{}.{}", random.pick(&DOCUMENTS), keys.join("."))
}

fn dynamic(random: &mut Random) -> String {
    let path = dynamic_path(random);
    let not = random.pick(&["", "not "]);
    match random.below(7) {
        0 => format!("{}({path})", random.pick(&["exists", "missing"])),
        1 => format!("{path} {} {}", random.pick(&OPERATORS[2..]), random.pick(&NUMBERS)),
        2 => format!("{path} {not}in {}", list(random, scalar)),
        3 => format!("{} {not}in {path}", scalar(random)),
        4 => format!("{} {not}in {}", text(random), random.pick(&DOCUMENTS)),
        _ => format!("{path} {} {}", random.pick(&OPERATORS[..2]), scalar(random)),
    }
}

fn predicate(random: &mut Random) -> String {
    let number = |random: &mut Random| random.pick(&NUMBERS).to_owned();
    let status = |random: &mut Random| format!("'{}'", random.pick(&Status::ALL).as_str());
    let id = |random: &mut Random| format!("'{}'", task_id(random.below(8)));
    let time = |random: &mut Random| format!("\"2026-01-01T00:{:02}:{:02}Z\"", random.below(20), random.below(60));
    let route = |random: &mut Random| format!("'{}'", random.pick(&["a", "b", "default", "B"]));
    let run = |random: &mut Random| format!("'{}'", run_id(random.below(20)));
    match random.below(19) {
        13 => format!("archived {} {}", random.pick(&["==", "!="]), random.pick(&["true", "false"])),
        14 => typed(random, "last_error.run_id", false, run),
        0 => typed(random, "id", false, id),
        1 => typed(random, "status", false, status),
        2 => typed(random, "name", true, text),
        3 => typed(random, "last_route", true, route),
        4 => typed(random, "priority", false, number),
        5 => {
            let path = random.pick(&["attempt", "max_attempts", "last_error.attempt", "last_run.attempt"]);
            typed(random, path, false, number)
        }
        6 => {
            let path = random.pick(&["created_at", "updated_at", "last_error.occurred_at"]);
            typed(random, path, false, time)
        }
        7 => {
            let path = random.pick(&["started_at", "finished_at"]);
            typed(random, path, true, time)
        }
        8 => format!("{} {}in routes", route(random), random.pick(&["", "not "])),
        9 => typed(random, "last_error.message", false, text),
        10 => {
            let paths = ["last_error.type", "name", "routes", "status", "last_error.traceback", "last_run.run_id"];
            let path = random.pick(&paths);
            format!("{}({path})", random.pick(&["exists", "missing"]))
        }
        11 => typed(random, "last_error.traceback", true, text),
        12 => typed(random, "last_run.run_id", true, run),
        _ => dynamic(random),
    }
}

/// The text of a random filter over tasks.
pub fn filter_text(random: &mut Random, depth: usize) -> String {
    match random.below(if depth == 0 { 1 } else { 5 }) {
        0 | 1 => predicate(random),
        2 => format!("not ({})", filter_text(random, depth - 1)),
        choice => {
            let join = if choice == 3 { " and " } else { " or " };
            let parts: Vec<String> =
                (0..=random.below(3)).map(|_| format!("({})", filter_text(random, depth - 1))).collect();
            parts.join(join)
        }
    }
}

/// A random selection of tasks.
pub fn selection(random: &mut Random) -> TaskSelection {
    let mut selection = if random.percent(20) {
        fuzzy(random.pick(&["", " ", "a", "É", "a b", "😀"]))
    } else {
        TaskSelection::default()
    };
    selection.status = random.percent(30).then(|| random.pick(&Status::ALL));
    selection.name = random.percent(10).then(|| name(random).unwrap_or("x").to_owned());
    selection.include_archived = random.percent(40);
    selection.filter = random.percent(60).then(|| task_filter(&filter_text(random, 2)));
    selection
}

/// A random order.
pub fn order(random: &mut Random) -> TaskOrder {
    TaskOrder { field: random.pick(&OrderField::ALL), descending: random.percent(50) }
}

/// A random filter over observations, or none.
pub fn workers(random: &mut Random) -> Option<taskqueue_core::filter::ObservationFilter> {
    let filters = "status == 'idle'; route in ['a', 'B']; task_id == None; id > 'w_000000000001' and queue != 'x'; \
         not (task_id != None or status == 'busy'); metadata.gpu == 1; telemetry.a == 1 or telemetry.b != 'a'; \
         exists(telemetry.a) and missing(telemetry.b); \
         telemetry_updated_at == None or telemetry_updated_at > \"2026-01-01T00:01:00Z\"; 'a' in telemetry.in";
    let filters: Vec<&str> = filters.split("; ").collect();
    random.percent(60).then(|| observation_filter(random.pick(&filters)))
}

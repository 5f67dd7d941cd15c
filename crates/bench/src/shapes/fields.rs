//! The largest valid value of every field that a request can have, in a body, a query, a header or a form. One entry for each name;
//! which request has which is in `operations.rs` and `pages.rs`.

use serde_json::{Value, json};
use taskqueue_core::limits::{
    BATCH_ITEMS, CLAIM_WORKER_BYTES, CLAIM_WORKER_ITEM_BYTES, DEPENDENCIES_MAX, FILTER_BYTES, FUZZY_WORDS, JSON_DEPTH,
    NAME_CHARS, OUTPUT_TEXT_BYTES, PAGE_LIMIT_MAX, REPORT_METADATA_BYTES, ROUTE_LIMITS_MAX, TASK_DATA_BYTES,
    TASK_NAME_CHARS, TASK_ROUTES, TELEMETRY_BYTES, TIMEOUT_SECONDS_MAX,
};

use taskqueue_core::sweep::BROWSER_COMBINATIONS_MAX;

use super::shape::World;
use super::world::{DEPENDENTS_READ, LARGE_TASKS, stored};

/// How large requests are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    /// As large as the contract allows
    Full,
    /// A 256th of that
    Small,
}

impl Size {
    /// So much of a limit.
    pub(super) fn of(self, limit: usize) -> usize {
        match self {
            Self::Full => limit,
            Self::Small => (limit / 256).max(2),
        }
    }
}

/// Lines that a form may have.
const LINES: usize = 10_000;

/// Keys that the form of a sweep has rows for.
const SWEEP_KEYS: usize = 64;

/// Stands for a text of many small values, which would take a hundred times its length as values.
const DENSE: &str = "@dense";

/// In whose request a value stands.
#[derive(Clone, Debug)]
pub(super) struct Place<'p> {
    pub(super) size: Size,
    /// The field that takes the room of the request where not all of them fit; `all` for all of them.
    pub(super) heavy: &'p str,
    /// The number of the turn. Identifiers differ from one turn to the next.
    pub(super) turn: usize,
    pub(super) client: usize,
    /// Which item of a batch.
    pub(super) item: usize,
    /// How many tasks a bulk action is to find.
    pub(super) matching: usize,
    /// Where the next page begins.
    pub(super) cursor: Option<String>,
}

impl<'p> Place<'p> {
    /// Of nothing, by nobody.
    pub(super) fn of(size: Size) -> Self {
        Place { size, heavy: "", turn: 0, client: 0, item: 0, matching: 0, cursor: None }
    }

    /// Those of so many clients.
    pub(super) fn of_clients(&self, clients: usize) -> Vec<Place<'p>> {
        (0..clients).map(|client| Place { client, ..self.clone() }).collect()
    }

    /// Those of so many items.
    pub(super) fn items(&self, first: usize, count: usize) -> impl Iterator<Item = Place<'p>> + Clone + use<'p> {
        let place = self.clone();
        (first..first + count).map(move |item| Place { item, ..place.clone() })
    }

    pub(super) fn id(&self, letter: char) -> String {
        format!("{letter}_{:04}{:02}{:06}", self.turn, self.client, self.item)
    }

    fn is_heavy(&self, field: &str) -> bool {
        self.heavy == field || self.heavy == "all"
    }

    /// So many where this field is the heavy one, else a few.
    fn many(&self, field: &str, limit: usize) -> usize {
        if self.is_heavy(field) { self.size.of(limit) } else { 1 }
    }

    /// An object with a text of so many bytes in all.
    fn object(&self, field: &str, bytes: usize) -> Value {
        json!({ "o": "x".repeat(self.many(field, bytes).saturating_sub(r#"{"o":""}"#.len())) })
    }

    /// As much as a task may hold, together with the fields beside it.
    fn share_of_data(&self, hundredths: usize) -> usize {
        self.many("args", TASK_DATA_BYTES) / 100 * hundredths
    }
}

/// A name that is as long as can be.
pub(super) fn long_name(begin: &str) -> String {
    format!("{begin:-<NAME_CHARS$}")
}

/// The route of the tasks that are prepared.
pub(super) fn route() -> String {
    long_name("route")
}

fn dependencies(place: &Place<'_>) -> Vec<String> {
    (0..place.many("dependencies", DEPENDENCIES_MAX)).map(|n| format!("t_nobody{n:06}")).collect()
}

fn routes(place: &Place<'_>) -> Vec<String> {
    (0..place.many("routes", TASK_ROUTES)).map(|n| if n == 0 { route() } else { long_name(&format!("r{n}")) }).collect()
}

/// A filter that asks for many paths, and that everything meets by its end.
fn filter(size: Size, term: &str, end: &str) -> String {
    // A term has three digits and `.x==1 or ` behind it; there are some at any size.
    let terms = (size.of(FILTER_BYTES).max(256) - 64) / (term.len() + 12);
    (0..terms).map(|n| format!("{term}{n}.x==1 or ")).collect::<String>() + end
}

/// The letters that a word of the longest fuzzy search begins with, at most.
const FUZZY_LETTERS: usize = 110;

fn joined(words: impl Iterator<Item = String>, separator: &str) -> Value {
    words.collect::<Vec<_>>().join(separator).into()
}

/// The letter that takes most bytes in a name.
const WIDE_LETTER: &str = "\u{1d52b}";

/// The name of all stored tasks, as long as can be. It has each of these words, so that the filter beside the search is evaluated, too;
/// and they share it, so that a search for it finds all of them.
pub(super) fn stored_name() -> String {
    let words = "n".repeat(FUZZY_LETTERS) + &"0123456789".repeat(2);
    let room = TASK_NAME_CHARS - words.len();
    words + &WIDE_LETTER.repeat(room)
}

/// The fields of a definition.
pub(super) const DEFINITION: &str = "name args metadata priority max_attempts routes retry_delay.seconds retry_delay.factor retry_delay.max_seconds timeout_seconds";

/// The largest value of a field; none if there is no entry for it.
pub(super) fn largest(field: &str, place: &Place<'_>) -> Option<Value> {
    Some(match field {
        // What tasks are defined by
        "id" | "task_id" => place.id('t').into(),
        "name" => WIDE_LETTER.repeat(TASK_NAME_CHARS).into(),
        "stored_name" => stored_name().into(),
        "args" if place.is_heavy("args") => json!({ "a": [DENSE] }),
        "args" => json!({ "a": 1 }),
        // Each client changes what tasks have: an update to what is there already is cheap.
        "args_patch" => json!({ "a": [DENSE, place.client] }),
        "metadata" | "metadata_patch" => json!({ "m": "x".repeat(place.share_of_data(25)) }),
        "priority" => (i64::MAX - place.client as i64).into(),
        "max_attempts" | "max_running" | "succeeded_seconds" | "failed_seconds" | "cancelled_seconds" => {
            i64::MAX.into()
        }
        "routes" => routes(place).into(),
        "dependencies" => dependencies(place).into(),
        // The last one of those that wait for the task.
        "circle" => json!([Place { client: 0, item: place.size.of(DEPENDENTS_READ), ..place.clone() }.id('t')]),
        "on_dependency_failure" => "cancel".into(),
        "not_before" | "to" => "9999-12-31T23:59:59.999999Z".into(),
        "seconds" | "max_seconds" | "retry_after_seconds" | "delay_seconds" => 1e12.into(),
        "factor" => 1e6.into(),
        "timeout_seconds" => TIMEOUT_SECONDS_MAX.into(),
        // What runs say
        "run_id" => place.id('r').into(),
        "run_ids" => place.items(0, place.size.of(BATCH_ITEMS)).map(|place| place.id('r')).collect(),
        "route" => route().into(),
        "worker" => place.object(place.heavy, CLAIM_WORKER_BYTES),
        "workers" => {
            (0..place.size.of(BATCH_ITEMS)).map(|_| place.object(place.heavy, CLAIM_WORKER_ITEM_BYTES)).collect()
        }
        "result" | "progress" => place.object("outcome", TASK_DATA_BYTES * 95 / 100),
        "type" | "message" => "x".repeat(place.many("outcome", TASK_DATA_BYTES / 4)).into(),
        "traceback" => "x".repeat(place.many("outcome", TASK_DATA_BYTES * 2 / 5)).into(),
        "retry" | "archived" | "include_archived" | "dry_run" | "paused" | "cascade" | "descending" => true.into(),
        "offset" => 0.into(),
        // Each byte takes six in an answer.
        "text" => "\u{1}".repeat(place.size.of(OUTPUT_TEXT_BYTES)).into(),
        // The page of a task writes an element for each letter, and the letter itself in five bytes.
        "coloured" => "\u{1b}[31m<\u{1b}[32m<".repeat(place.size.of(OUTPUT_TEXT_BYTES) / 12).into(),
        "end" => (i64::MAX - 65_536).into(),
        // What workers say
        "status" => "busy".into(),
        "observed" => place.object(place.heavy, REPORT_METADATA_BYTES),
        "telemetry" => place.object(place.heavy, TELEMETRY_BYTES),
        // What is asked for
        "filter" => filter(place.size, "args.k", "priority>-1").into(),
        "worker_filter" => filter(place.size, "metadata.k", "status=='busy' or status=='idle'").into(),
        "expect" => place.matching.into(),
        "name_fuzzy" => {
            let words = (0..place.size.of(FUZZY_WORDS)).map(|n| format!("{}{n}", "n".repeat(FUZZY_LETTERS - n)));
            joined(words, " ")
        }
        "order_by" => "name".into(),
        "limit" => place.size.of(PAGE_LIMIT_MAX.into()).into(),
        "cursor" => place.cursor.clone()?.into(),
        "group_by" => "routes,status".into(),
        "group_by_workers" => "route,status".into(),
        "series" => "minute".into(),
        "from" => "1970-01-01T00:00:00.000000Z".into(),
        "route_limits" => {
            (0..place.size.of(ROUTE_LIMITS_MAX)).map(|n| (long_name(&format!("r{n}")), i64::MAX)).collect()
        }
        "Prefer" => "wait=1".into(),
        // What forms say
        "queue" => super::world::queue(place.turn, Some(place.client)).into(),
        "typed_routes" => routes(place).join(", ").into(),
        "typed_dependencies" => dependencies(place).join("\n").into(),
        "typed_days" => "365d".into(),
        "lines" => format!("{{\"args\":{{\"a\":\"{}\"}}}}\n", "x".repeat(800)).repeat(place.size.of(LINES)).into(),
        "lines_expected" => place.size.of(LINES).into(),
        "sweep_values" => format!("1..{}", sweep_values(place)).into(),
        // The first key has nearly all the values: a task costs what the number of keys and their depth cost.
        "sweep_keys" => {
            let inside = ".a".repeat(place.size.of(JSON_DEPTH) - 1);
            let others = 1..place.size.of(SWEEP_KEYS);
            let first = format!("k0{inside}&values=1..{}", sweep_values(place) - others.len());
            (first + &others.map(|n| format!("&key=k{n}{inside}&values=1")).collect::<String>()).into()
        }
        "stored_task" => stored(World::Large, place.size).id('t').into(),
        "stored_ids" => {
            let first = stored(World::Large, place.size);
            joined(first.items(first.item, place.size.of(LARGE_TASKS)).map(|place| place.id('t')), "&id=")
        }
        "ids" => {
            let tasks = Place { client: 0, ..place.clone() };
            joined(tasks.items(0, place.size.of(1_000)).map(|place| place.id('t')), "&id=")
        }
        // Two that tasks have, and many that are looked for in vain.
        "columns" => {
            let columns = ["args.a".to_owned(), "metadata.m".to_owned()].into_iter();
            joined(columns.chain((0..22).map(|n| format!("args.k{n}"))), "&column=")
        }
        _ => return None,
    })
}

/// How many values the keys of a sweep have together. One request creates for four seconds, so a 256th of all would take as long as
/// all of them.
fn sweep_values(place: &Place<'_>) -> usize {
    if place.size == Size::Full { BROWSER_COMBINATIONS_MAX } else { place.size.of(LINES) }
}

/// The text of a body, with many small values where they were only named.
pub(super) fn written(body: &Value, place: &Place<'_>) -> String {
    let dense = "[1],".repeat(place.share_of_data(60) / 4) + "[1]";
    body.to_string().replace(&format!("\"{DENSE}\""), &dense)
}

//! When a test holds for a value (docs/reference/filter-language.md §7 and §8), and what a record must tell.
//! Every predicate is true or false, never unknown; backends that answer in SQL must agree with this file.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;

use super::ast::{
    Document, DocumentPredicate, Expression, Flag, Literal, Membership, NullableTest, Number, ObservationDocument,
    Order, Test,
};
use crate::json::{self, Found};
use crate::observation::Observation;
use crate::status::Status;
use crate::time::Timestamp;

/// The fields of a task that filters ask for. Heavy columns are asked for only when a predicate needs them.
pub trait TaskFields {
    /// `id`
    fn id(&self) -> &str;
    /// `status`
    fn status(&self) -> Status;
    /// `name`
    fn name(&self) -> Option<&str>;
    /// `last_route`
    fn last_route(&self) -> Option<&str>;
    /// `priority`
    fn priority(&self) -> i64;
    /// `attempt`
    fn attempt(&self) -> i64;
    /// `max_attempts`
    fn max_attempts(&self) -> i64;
    /// `created_at`
    fn created_at(&self) -> Timestamp;
    /// `updated_at`
    fn updated_at(&self) -> Timestamp;
    /// `started_at`
    fn started_at(&self) -> Option<Timestamp>;
    /// `finished_at`
    fn finished_at(&self) -> Option<Timestamp>;
    /// `routes`
    fn routes(&self) -> impl Iterator<Item = &str>;
    /// `args` as canonical JSON object text.
    fn args(&self) -> &str;
    /// `metadata` as canonical JSON object text.
    fn metadata(&self) -> &str;
    /// `result` as canonical JSON object text.
    fn result(&self) -> &str;
    /// `last_error`
    fn last_error(&self) -> Option<LastErrorFields<'_>>;
    /// `last_run`
    fn last_run(&self) -> Option<LastRunFields<'_>>;
    /// `progress` as canonical JSON object text, if a run said any.
    fn progress(&self) -> Option<&str>;
    /// `archived`
    fn archived(&self) -> bool;

    /// A document as canonical JSON object text, if the task has it.
    fn document(&self, document: Document) -> Option<&str> {
        match document {
            Document::Args => Some(self.args()),
            Document::Metadata => Some(self.metadata()),
            Document::Result => Some(self.result()),
            Document::Worker => self.last_run().map(|run| run.worker),
            Document::Progress => self.progress(),
        }
    }
}

/// The last error of a task.
#[derive(Clone, Copy, Debug)]
pub struct LastErrorFields<'a> {
    /// `last_error.type`
    pub kind: &'a str,
    /// `last_error.message`
    pub message: &'a str,
    /// `last_error.traceback`
    pub traceback: Option<&'a str>,
    /// `last_error.occurred_at`
    pub occurred_at: Timestamp,
    /// `last_error.attempt`
    pub attempt: i64,
    /// `last_error.run_id`; null for an error without a run.
    pub run_id: Option<&'a str>,
}

/// The last run of a task, if its claimant said who it is.
#[derive(Clone, Copy, Debug)]
pub struct LastRunFields<'a> {
    /// `last_run.attempt`
    pub attempt: i64,
    /// `last_run.worker` as canonical JSON object text.
    pub worker: &'a str,
    /// `last_run.run_id`; null while the run is active.
    pub run_id: Option<&'a str>,
}

impl<P> Expression<P> {
    /// Returns whether the whole holds, given which predicates do.
    pub fn holds<'e>(&'e self, predicate: &mut impl FnMut(&'e P) -> bool) -> bool {
        match self {
            Self::All(parts) => parts.iter().all(|part| part.holds(predicate)),
            Self::Any(parts) => parts.iter().any(|part| part.holds(predicate)),
            Self::Not(part) => !part.holds(predicate),
            Self::Is(part) => predicate(part),
        }
    }
}

impl DocumentPredicate {
    /// Returns whether this holds for what is behind the keys of a document, if there is one.
    pub(super) fn holds_in(&self, document: Option<&str>, keys: &[String]) -> bool {
        self.holds(document.and_then(|text| json::lookup(text, keys)))
    }

    /// Returns whether this holds for the value that was found, or not found, in the document.
    pub fn holds(&self, found: Option<Found<'_>>) -> bool {
        let Some(found) = found else { return *self == Self::Presence(false) };
        let is_container = matches!(found, Found::Array(_) | Found::Object(_));
        match self {
            Self::Presence(exists) => *exists,
            // A container differs from every literal, but it is neither in a list nor not in it.
            Self::Value(Test::NoneOf(_)) if is_container => false,
            Self::Value(test) => {
                test.holds(|literal| equals(&found, literal), |limit| found.as_number().map(|n| n.compare(*limit)))
            }
            Self::Elements(Membership::Contains(literal)) => contains(&found, literal) == Some(true),
            Self::Elements(Membership::Lacks(literal)) => contains(&found, literal) == Some(false),
        }
    }
}

impl Observation {
    /// Returns a document as canonical JSON object text, if the observation has it.
    pub(super) fn document(&self, document: ObservationDocument) -> Option<&str> {
        match document {
            ObservationDocument::Metadata => Some(self.report.metadata.as_str()),
            ObservationDocument::Telemetry => self.telemetry.as_ref().map(|telemetry| telemetry.value.as_str()),
        }
    }
}

impl<E, O> Test<E, O> {
    /// Returns whether the test holds for a value, given what it equals and how it compares (if it has an order at all).
    pub(super) fn holds(&self, equals: impl Fn(&E) -> bool, compare: impl Fn(&O) -> Option<Ordering>) -> bool {
        match self {
            Self::Equal(literal) => equals(literal),
            Self::NotEqual(literal) => !equals(literal),
            Self::Order(order, limit) => compare(limit).is_some_and(|found| order.matches(found)),
            Self::OneOf(list) => list.iter().any(equals),
            Self::NoneOf(list) => !list.iter().any(equals),
        }
    }
}

impl Order {
    fn matches(self, found: Ordering) -> bool {
        match self {
            Self::Less => found.is_lt(),
            Self::LessOrEqual => found.is_le(),
            Self::Greater => found.is_gt(),
            Self::GreaterOrEqual => found.is_ge(),
        }
    }
}

pub(super) fn value<T: Borrow<V>, V: Ord + ?Sized>(test: &Test<T>, value: &V) -> bool {
    test.holds(|literal| value == literal.borrow(), |limit| Some(value.cmp(limit.borrow())))
}

pub(super) fn nullable<T: Borrow<V>, V: Ord + ?Sized>(test: &NullableTest<T>, value: Option<&V>) -> bool {
    test.holds(|literal| value == literal.as_ref().map(T::borrow), |limit| value.map(|value| value.cmp(limit.borrow())))
}

pub(super) fn word<T: Copy + PartialEq>(test: &Test<T>, value: T, as_str: fn(T) -> &'static str) -> bool {
    test.holds(|literal| value == *literal, |limit| Some(as_str(value).cmp(as_str(*limit))))
}

/// A value that may be missing, which no literal can say.
pub(super) fn value_if_any(test: &Test<String>, value: Option<&str>) -> bool {
    test.holds(|literal| value == Some(literal), |limit| value.map(|value| value.cmp(limit)))
}

pub(super) fn flag(test: &Flag, value: bool) -> bool {
    test.holds(|literal| value == *literal, |never| match *never {})
}

pub(super) fn number(test: &Test<Number>, value: i64) -> bool {
    let value = Number::Int(value);
    test.holds(|literal| value.compare(*literal).is_eq(), |limit| Some(value.compare(*limit)))
}

fn equals(found: &Found<'_>, literal: &Literal) -> bool {
    match (found, literal) {
        (Found::Null, Literal::Null) => true,
        (Found::Bool(value), Literal::Bool(literal)) => value == literal,
        (Found::Str(value), Literal::Text(literal)) => value.is(literal),
        (_, Literal::Number(literal)) => found.as_number().is_some_and(|value| value.compare(*literal).is_eq()),
        _ => false,
    }
}

impl Found<'_> {
    /// The number that was found, if it is one.
    pub(super) fn as_number(&self) -> Option<Number> {
        match self {
            Self::Int(int) => Some(Number::Int(*int)),
            Self::Float(float) => Some(Number::Float(*float)),
            _ => None,
        }
    }
}

/// Returns whether an array has such an element or an object such a key; nothing for other values.
fn contains(found: &Found<'_>, literal: &Literal) -> Option<bool> {
    match (found, literal) {
        (Found::Array(array), _) => Some(json::elements(array).any(|element| equals(&element, literal))),
        (Found::Object(object), Literal::Text(key)) => Some(json::has_key(object, key)),
        (Found::Object(_), _) => Some(false),
        _ => None,
    }
}

/// A number as JSON and filters write it.
impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(int) => write!(f, "{int}"),
            // The debug form always shows that it is a float, and reads back exactly.
            Self::Float(float) => write!(f, "{float:?}"),
        }
    }
}

impl Number {
    /// The mathematical order, without rounding. Floats are finite: neither JSON nor the parser let others in.
    pub fn compare(self, other: Self) -> Ordering {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => a.cmp(&b),
            (Self::Float(a), Self::Float(b)) => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
            (Self::Int(a), Self::Float(b)) => compare_exactly(a, b),
            (Self::Float(a), Self::Int(b)) => compare_exactly(b, a).reverse(),
        }
    }
}

/// Compares without turning the integer into a float, which would round it beyond 2^53.
fn compare_exactly(int: i64, float: f64) -> Ordering {
    const TWO_TO_THE_63: f64 = 9_223_372_036_854_775_808.0;
    if float >= TWO_TO_THE_63 {
        return Ordering::Less;
    }
    if float < -TWO_TO_THE_63 {
        return Ordering::Greater;
    }
    // Exact: the integral part is within the range of i64.
    let whole = float.trunc() as i64;
    int.cmp(&whole).then_with(|| 0.0.partial_cmp(&float.fract()).unwrap_or(Ordering::Equal))
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::*;
    use crate::filter::{ObservationFilter, TaskFilter};
    use crate::json::JsonObject;
    use crate::observation::{Report, Telemetry};
    use crate::samples::{idle_worker, new_task};
    use crate::task::Task;
    use crate::task_view::TaskView;

    fn time(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap()
    }

    /// A task that has ended neither well nor badly.
    fn plain() -> TaskView<'static> {
        static TASK: LazyLock<Task> = LazyLock::new(new_task);
        TaskView {
            metadata: r#"{"m":1}"#,
            attempt: 1,
            routes: r#"["default","gpu"]"#,
            result: r#"{"r":2}"#,
            created_at: time("2026-01-01T00:00:00.000001Z"),
            updated_at: time("2026-01-02T00:00:00Z"),
            archived: true,
            ..TASK.view()
        }
    }

    fn error(traceback: Option<&str>) -> Option<LastErrorFields<'_>> {
        let (occurred_at, run_id) = (time("2026-01-01T00:00:00Z"), Some("r_abcdefghijkl"));
        Some(LastErrorFields { kind: "ValueError", message: "bad", traceback, occurred_at, attempt: 2, run_id })
    }

    fn run(run_id: Option<&str>) -> Option<LastRunFields<'_>> {
        let worker = r#"{"gpus":[0,1],"host":"gpu-3","pid":4711,"venv":null}"#;
        Some(LastRunFields { attempt: 2, worker, run_id })
    }

    /// The filters of both lists, which `; ` separates, each with whether it holds.
    fn cases<'a>(holds: &'a str, fails: &'a str) -> impl Iterator<Item = (&'a str, bool)> {
        let all = holds.split("; ").map(|text| (text, true)).chain(fails.split("; ").map(|text| (text, false)));
        all.filter(|(text, _)| !text.is_empty())
    }

    fn check(row: &TaskView<'_>, holds: &str, fails: &str) {
        for (text, expected) in cases(holds, fails) {
            let filter = TaskFilter::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(filter.matches(row), expected, "{text}");
            let negated = TaskFilter::parse(&format!("not {text}")).unwrap();
            assert_eq!(negated.matches(row), !expected, "not {text}");
        }
    }

    #[test]
    fn null_is_unequal_to_every_value_and_has_no_order() {
        let holds = "name != 'x'; name == None; name in ['x', None]; name not in ['x']; name not in []; exists(name); \
             exists(routes); started_at == None; started_at != '2026-01-01T00:00:00Z'; \
             started_at not in ['2026-01-01T00:00:00Z']; finished_at in [None]; last_route != 'x'";
        let fails = "name == 'x'; name != None; name in ['x']; name in []; name not in ['x', None]; name < 'x'; \
             name >= ''; missing(name); missing(routes); started_at < '2026-01-01T00:00:00Z'";
        check(&plain(), holds, fails);
    }

    #[test]
    fn plain_fields_compare_by_their_type() {
        let (name, started_at) = (Some("é"), Some(time("2026-01-01T12:00:00Z")));
        let row = TaskView { name, priority: 5, status: Status::Running, started_at, ..plain() };
        // As text: cancelled, failed, pending, running, succeeded.
        let holds = "id == 't_abcdefghijkl'; id in ['t_abcdefghijkl', 'x']; name == 'é'; name > 'z'; name < '😀'; \
             name <= 'é' and name >= 'é'; name != None; name not in [None]; priority == 5.0; priority in [4, 5.0]; \
             priority < 5.5; 5.5 > priority; priority > -1e300; max_attempts >= 3; status == 'running'; \
             status > 'pending'; status not in ['failed', 'cancelled']; created_at > '2026-01-01T00:00:00Z'; \
             created_at == '2026-01-01T01:00:00.000001+01:00'; created_at < '2025-12-31T01:00:00.000002-23:00'; \
             created_at >= '2026-01-01T23:00:00.000001+23:00'; updated_at <= '2026-01-02T00:00:00Z'; \
             started_at == '2026-01-01T13:00:00+01:00'; 'gpu' in routes; '' not in routes; \
             metadata.m == 1 and result.r == 2";
        let fails = "name == 'É'; attempt != 1; status != 'running'; status < 'failed'; status >= 'succeeded'; \
             created_at <= '2026-01-01T00:00:00.000000Z'; created_at != '2026-01-01T00:00:00.000001Z'; \
             'GPU' in routes; 'gpu' not in routes";
        check(&row, holds, fails);
    }

    #[test]
    fn without_a_last_error_only_missing_holds() {
        let holds = "missing(last_error.type)";
        let fails = "last_error.type == 'ValueError'; last_error.type != 'ValueError'; last_error.traceback == None; \
             last_error.traceback != None; last_error.type in ['ValueError']; last_error.type not in ['ValueError']; \
             last_error.type not in []; last_error.attempt < 9; exists(last_error.traceback)";
        check(&plain(), holds, fails);
    }

    #[test]
    fn a_last_error_compares_like_plain_fields() {
        let row = TaskView { last_error: error(None), ..plain() };
        let holds = "last_error.type == 'ValueError'; last_error.message in ['bad']; last_error.type not in []; \
             last_error.traceback == None; last_error.traceback != 'x'; last_error.traceback not in ['x']; \
             exists(last_error.traceback); last_error.attempt == 2.0; last_error.run_id == 'r_abcdefghijkl'; \
             last_error.occurred_at >= '2026-01-01T00:00:00Z'";
        let fails = "last_error.type != 'ValueError'; last_error.type in []; last_error.traceback not in ['x', None]; \
             last_error.traceback < 'x'; missing(last_error.traceback)";
        check(&row, holds, fails);
        let holds = "last_error.traceback == 'at x'; last_error.traceback != None; last_error.traceback not in [None]";
        check(&TaskView { last_error: error(Some("at x")), ..plain() }, holds, "");
    }

    #[test]
    fn without_a_last_run_only_missing_holds() {
        let holds = "missing(last_run.attempt); missing(last_run.worker.host)";
        let fails = "last_run.attempt == 2; last_run.attempt != 2; last_run.attempt not in []; last_run.run_id == None; \
             last_run.run_id != None; last_run.run_id not in ['x']; exists(last_run.run_id); \
             last_run.worker.host == 'gpu-3'; last_run.worker.host != 'gpu-3'; last_run.worker.host not in []; \
             exists(last_run.worker.host); 'host' in last_run.worker; 'host' not in last_run.worker";
        check(&plain(), holds, fails);
        // The same when the questions about the document are gathered.
        for (text, expected) in cases(holds, fails).filter(|(text, _)| text.contains("worker")) {
            let others = ["a", "b", "c"].map(|key| format!("missing(last_run.worker.{key})")).join(" and ");
            let text = format!("({text}) and {others}");
            assert_eq!(TaskFilter::parse(&text).unwrap().matches(&plain()), expected, "{text}");
        }
    }

    #[test]
    fn a_last_run_compares_like_plain_fields_and_its_worker_like_args() {
        let active = TaskView { last_run: run(None), ..plain() };
        let holds = "last_run.attempt == 2.0; last_run.run_id == None; last_run.run_id != 'r_abcdefghijkl'; \
             exists(last_run.run_id); last_run.worker.host == 'gpu-3'; last_run.worker.pid > 4000; \
             1 in last_run.worker.gpus; last_run.worker.venv == None; exists(last_run.worker.venv); \
             missing(last_run.worker.folder); 'host' in last_run.worker; 'folder' not in last_run.worker";
        let fails = "last_run.attempt in [1]; last_run.run_id < 'z'; missing(last_run.run_id); \
             last_run.worker.pid == '4711'; last_run.worker.folder != 'x'";
        check(&active, holds, fails);
        let ended = TaskView { last_run: run(Some("r_abcdefghijkl")), ..plain() };
        let known = "last_run.run_id == 'r_abcdefghijkl'; last_run.run_id in ['x', 'r_abcdefghijkl']";
        check(&ended, known, "last_run.run_id == None");
        let worker = cases(holds, fails).filter(|(text, _)| text.contains("worker"));
        let all: Vec<String> =
            worker.map(|(text, holds)| format!("{}({text})", if holds { "" } else { "not " })).collect();
        assert!(TaskFilter::parse(&all.join(" and ")).unwrap().matches(&ended));
    }

    fn document() -> TaskView<'static> {
        TaskView {
            args: concat!(
                r#"{"array":[1,"a",null,true,[2],{"k":1}],"deep":{"x":{"y":1}},"empty":[],"f":1.0,"i":1,"mz":-0.0,"#,
                r#""no":false,"null":null,"object":{"k":null},"s":"1","text":"[1]","yes":true,"z":"a\u0000b"}"#,
            ),
            ..plain()
        }
    }

    #[test]
    fn values_in_documents_equal_literals_of_their_own_type_only() {
        let holds = "args.null == None; args.yes == True; \
             args.i == 1 and args.i == 1.0 and args.f == 1 and args.f == 1.0; args.mz == 0; args.mz == -0.0; \
             args.s == '1'; args.text == '[1]'; args.z == 'a\\u0000b'; args.deep.x.y == 1";
        let fails = "args.nothing == None; args.no == None; args.yes == 1; args.i == True; args.no == 0; \
             args.i == '1'; args.s == 1; args.z == 'a'; args.array == 1; args.object == None; args.null == 'null'; \
             args.yes == 'true'; args.empty == '[]'; args.object == '{}'; args.z == 'a\\u0000'; args.z == 'A\\u0000b'";
        check(&document(), holds, fails);
    }

    #[test]
    fn keys_are_exact_and_only_names_are_reachable() {
        let args = r#"{"":1,"$":1,"0":1,"Key":1,"a":{"b":1},"a\"b":1,"a.b":2,"key":2,"list":[{"b":1}],"x y":1}"#;
        let holds = "args.Key == 1; args.key == 2; args.a.b == 1; 'a.b' in args; 'x y' in args; '' in args; \
             'a\"b' in args; '$' in args and '0' in args; 'b' in args.a; exists(args.list)";
        let fails = "args.KEY == 1; args.a.b == 2; args.a == 2; args.list.b == 1; 'B' in args.a; 'a.c' in args";
        check(&TaskView { args, ..plain() }, holds, fails);
    }

    #[test]
    fn unequal_needs_presence_and_not_in_a_list_needs_a_scalar() {
        let holds = "args.null != 1; args.s != 1; args.array != 1; args.object != None; args.i in ['1', 1.0]; \
             args.null in [None]; args.i not in []; args.i not in ['1', true]; args.null not in [1]";
        let fails = "args.nothing != 1; args.nothing != None; args.null != None; args.i in ['1', true]; args.i in []; \
             args.nothing in [None]; args.nothing not in [1]; args.array not in []; args.object not in [1]; \
             args.array in [1]";
        check(&document(), holds, fails);
    }

    #[test]
    fn only_numbers_in_documents_have_an_order() {
        let holds = "args.i < 2; args.f >= 1; args.i > 0.5; 2 > args.i";
        let fails = "args.s < 2; args.s >= 0; args.yes >= 0; args.null < 1; args.array < 1; args.nothing < 1";
        check(&document(), holds, fails);
    }

    #[test]
    fn arrays_contain_scalars_and_objects_contain_keys() {
        let holds = "1 in args.array; 1.0 in args.array; 'a' in args.array; None in args.array; true in args.array; \
             2 not in args.array; 1 not in args.empty; 'k' in args.object; 'x' not in args.object; \
             None not in args.object; 'deep' in args; 'x' not in args; 1 not in args; \
             'm' in metadata and 'r' in result";
        let fails = "2 in args.array; 'k' in args.array; 1 not in args.array; 1 in args.empty; 'x' in args.object; \
             1 in args.object; '1' in args.s; '1' not in args.s; 1 not in args.text; 1 not in args.null; \
             1 not in args.nothing; 'x' in args";
        check(&document(), holds, fails);
    }

    #[test]
    fn presence_steps_through_objects_only() {
        let holds = "exists(args.null); exists(args.deep.x); missing(args.deep.z); missing(args.null.x); \
             missing(args.array.x); missing(args.nothing.x)";
        let fails = "missing(args.null); exists(args.deep.z); exists(args.s.x)";
        check(&document(), holds, fails);
    }

    #[test]
    fn integers_and_floats_compare_exactly() {
        use Ordering::{Equal, Greater, Less};
        let cases: [(&[(i64, f64)], Ordering); 7] = [
            (&[(0, -0.0), (9_007_199_254_740_992, 9_007_199_254_740_992.0)], Equal),
            (&[(i64::MIN, -9_223_372_036_854_775_808.0)], Equal),
            (&[(1, 1.5), (-2, -1.5), (0, 5e-324), (-9_007_199_254_740_993, -9_007_199_254_740_992.0)], Less),
            (&[(i64::MAX, 9_223_372_036_854_775_808.0), (i64::MAX, 1e300)], Less),
            (&[(-1, -1.5), (2, 1.5), (0, -5e-324), (9_007_199_254_740_993, 9_007_199_254_740_992.0)], Greater),
            (&[(i64::MAX, 9_223_372_036_854_774_784.0), (i64::MIN + 1, -9_223_372_036_854_775_808.0)], Greater),
            (&[(i64::MIN, -9_223_372_036_854_777_856.0), (i64::MIN, -1e300)], Greater),
        ];
        for (pairs, expected) in cases {
            for &(int, float) in pairs {
                assert_eq!(Number::Int(int).compare(Number::Float(float)), expected, "{int} {float}");
                assert_eq!(Number::Float(float).compare(Number::Int(int)), expected.reverse(), "{float} {int}");
            }
        }
        let borders = TaskView { priority: i64::MAX, args: r#"{"most":9223372036854775808.0}"#, ..plain() };
        let holds = "args.most > 9223372036854775807; priority in [1e308, 9223372036854775807]";
        check(&borders, holds, "priority == 9223372036854775808.0; args.most == 9223372036854775807");
        let row = TaskView { priority: 9_007_199_254_740_993, args: r#"{"n":9007199254740993}"#, ..plain() };
        let holds = "priority == 9007199254740993; priority > 9007199254740992.0; \
             args.n in [9007199254740992.0, 9007199254740993]";
        let fails = "priority == 9007199254740992.0; args.n == 9007199254740992.0";
        check(&row, holds, fails);
    }

    fn seen(telemetry: Option<&str>) -> Observation {
        let metadata = JsonObject::from_canonical(r#"{"gpus":[0,1],"host":"gpu-3"}"#);
        let measured =
            |value| Telemetry { value: JsonObject::from_canonical(value), updated_at: time("2026-01-01T00:00:30Z") };
        Observation {
            report: Report { metadata, ..idle_worker().report },
            telemetry: telemetry.map(measured),
            last_seen_at: time("2026-01-01T00:00:00Z"),
            expires_at: time("2026-01-01T00:05:00Z"),
            ..idle_worker()
        }
    }

    fn check_observation(seen: &Observation, holds: &str, fails: &str) {
        for (text, expected) in cases(holds, fails) {
            let filter = ObservationFilter::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(filter.matches(seen), expected, "{text}");
            let negated = ObservationFilter::parse(&format!("not ({text})")).unwrap();
            assert_eq!(negated.matches(seen), !expected, "not ({text})");
        }
    }

    #[test]
    fn observations_compare_like_plain_fields() {
        let holds = "id == 'w_abcdefghijkl' and queue == 'q' and route in ['default']; status == 'idle'; \
             task_id == None; task_id != 't_abcdefghijkl'; exists(task_id); \
             last_seen_at < '2026-01-01T00:00:01Z' and expires_at >= '2026-01-01T00:05:00Z'; \
             metadata.host == 'gpu-3' and 1 in metadata.gpus; 'host' in metadata; 'pid' not in metadata; \
             missing(metadata.pid)";
        let fails = "status < 'busy'; missing(task_id); metadata.host != 'gpu-3'";
        check_observation(&seen(None), holds, fails);
    }

    #[test]
    fn without_telemetry_only_missing_holds_and_its_time_is_null() {
        let holds = "missing(telemetry.cpu); telemetry_updated_at == null; \
             telemetry_updated_at != '2026-01-01T00:00:30Z'; exists(telemetry_updated_at)";
        let fails = "exists(telemetry.cpu); telemetry.cpu == null; telemetry.cpu != 1; telemetry.cpu not in [1]; \
             telemetry.cpu < 1; 'cpu' in telemetry; 'cpu' not in telemetry; \
             telemetry_updated_at < '2027-01-01T00:00:00Z'";
        check_observation(&seen(None), holds, fails);
    }

    #[test]
    fn telemetry_compares_like_args() {
        let holds = "telemetry.cpu >= 1 and telemetry.cpu < 2; telemetry.gpus.a.memory == null; 'a' in telemetry.gpus; \
             'b' not in telemetry.gpus; 'disk' not in telemetry; missing(telemetry.disk); telemetry.cpu in [1.5, 'x']; \
             telemetry_updated_at == '2026-01-01T01:00:30+01:00'";
        let fails = "telemetry_updated_at == null; telemetry_updated_at in [null]";
        check_observation(&seen(Some(r#"{"cpu":1.5,"gpus":{"a":{"memory":null}}}"#)), holds, fails);
    }

    #[test]
    fn without_progress_only_missing_holds() {
        let holds = "missing(progress.step)";
        let fails = "exists(progress.step); progress.step == null; progress.step != 1; progress.step not in [1]; \
             progress.step < 1; 'step' in progress; 'step' not in progress";
        check(&plain(), holds, fails);
    }

    #[test]
    fn progress_compares_like_args() {
        let row = TaskView { progress: Some(r#"{"best":{"loss":0.25},"step":120,"tags":["warm"]}"#), ..plain() };
        let holds = "progress.step == 120; progress.best.loss < 0.3; 'warm' in progress.tags; 'step' in progress; \
             'total' not in progress; missing(progress.total); progress.step not in [1, 'x']";
        let fails = "progress.step > 1000";
        check(&row, holds, fails);
    }
}

#[cfg(test)]
mod statuses_tests {
    use super::super::TaskFilter;

    #[test]
    fn a_filter_tells_the_states_of_what_it_selects() {
        let cases = [
            ("status == 'failed'", "failed", true),
            ("status in ['failed', 'cancelled']", "failed cancelled", true),
            ("status not in ['failed', 'cancelled']", "pending running succeeded", true),
            ("status != 'succeeded' and status != 'pending'", "running failed cancelled", true),
            ("not (status == 'succeeded')", "pending running failed cancelled", true),
            ("status < 'pending'", "failed cancelled", true),
            ("status == 'failed' and status == 'running'", "", true),
            ("status == 'failed' and exists(name)", "failed", true),
            ("status == 'failed' and args.x > 1", "failed", false),
            ("args.x > 1 and not (status != 'running' or priority > 3)", "running", false),
            ("status == 'failed' or args.x > 1", "pending running succeeded failed cancelled", false),
            ("(status == 'failed' or status == 'running') and args.x > 1", "running failed", false),
            ("(status == 'failed' and args.x == 1) or (status == 'running' and args.x == 2)", "running failed", false),
            ("not (status == 'failed' and args.x == 1)", "pending running succeeded failed cancelled", false),
            ("not (status == 'failed' or args.x == 1)", "pending running succeeded cancelled", false),
            ("args.x > 1", "pending running succeeded failed cancelled", false),
        ];
        for (text, statuses, only) in cases {
            let filter = TaskFilter::parse(text).unwrap();
            assert_eq!(filter.statuses().words().join(" "), statuses, "{text}");
            assert_eq!(filter.is_by_status_only(), only, "{text}");
        }
    }
}

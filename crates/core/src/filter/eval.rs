//! Whether a predicate holds for a record (docs/reference/filter-language.md §7 and §8), and what a record must tell.
//! Every predicate is true or false, never unknown; backends that answer in SQL must agree with this file.

use std::borrow::Borrow;
use std::cmp::Ordering;

use super::ast::{
    Document, DocumentPredicate, Expression, LastErrorPredicate, LastRunPredicate, Literal, Membership, NullableTest,
    Number, ObservationDocument, ObservationPredicate, Order, TaskPredicate, Test,
};
use crate::json::{self, Found};
use crate::status::{Status, WorkerStatus};
use crate::time::Timestamp;

/// What a filter may ask of a task. Heavy columns are asked for only when a predicate needs them.
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

/// What a filter may ask of a worker observation.
pub trait ObservationFields {
    /// `id`
    fn id(&self) -> &str;
    /// `queue`
    fn queue(&self) -> &str;
    /// `route`
    fn route(&self) -> &str;
    /// `status`
    fn status(&self) -> WorkerStatus;
    /// `task_id`
    fn task_id(&self) -> Option<&str>;
    /// `last_seen_at`
    fn last_seen_at(&self) -> Timestamp;
    /// `expires_at`
    fn expires_at(&self) -> Timestamp;
    /// `metadata` as canonical JSON object text.
    fn metadata(&self) -> &str;
    /// `telemetry` as canonical JSON object text, if there was any.
    fn telemetry(&self) -> Option<&str>;
    /// `telemetry_updated_at`
    fn telemetry_updated_at(&self) -> Option<Timestamp>;

    /// A document as canonical JSON object text, if the observation has it.
    fn document(&self, document: ObservationDocument) -> Option<&str> {
        match document {
            ObservationDocument::Metadata => Some(self.metadata()),
            ObservationDocument::Telemetry => self.telemetry(),
        }
    }
}

impl<P> Expression<P> {
    /// Whether the whole holds, given which predicates do.
    pub fn holds<'e>(&'e self, predicate: &mut impl FnMut(&'e P) -> bool) -> bool {
        match self {
            Self::All(parts) => parts.iter().all(|part| part.holds(predicate)),
            Self::Any(parts) => parts.iter().any(|part| part.holds(predicate)),
            Self::Not(part) => !part.holds(predicate),
            Self::Is(part) => predicate(part),
        }
    }
}

impl TaskPredicate {
    /// Whether this holds for every task (or for none) that has the status; nothing if that depends on more.
    pub(super) fn holds_for(&self, status: Status) -> Option<bool> {
        match self {
            Self::Always(holds) => Some(*holds),
            Self::Status(test) => Some(word(test, status, Status::as_str)),
            _ => None,
        }
    }

    /// Whether this holds for the task. Looks at the task for this predicate alone; a filter looks once for all of its
    /// predicates (`plan.rs`).
    pub fn holds(&self, task: &impl TaskFields) -> bool {
        match self {
            Self::Always(holds) => *holds,
            Self::Id(test) => value(test, task.id()),
            Self::Status(test) => word(test, task.status(), Status::as_str),
            Self::Name(test) => nullable(test, task.name()),
            Self::LastRoute(test) => nullable(test, task.last_route()),
            Self::Priority(test) => number(test, task.priority()),
            Self::Attempt(test) => number(test, task.attempt()),
            Self::MaxAttempts(test) => number(test, task.max_attempts()),
            Self::CreatedAt(test) => value(test, &task.created_at()),
            Self::UpdatedAt(test) => value(test, &task.updated_at()),
            Self::StartedAt(test) => nullable(test, task.started_at().as_ref()),
            Self::FinishedAt(test) => nullable(test, task.finished_at().as_ref()),
            Self::Archived(test) => test.holds(|literal| task.archived() == *literal, |never| match *never {}),
            Self::Routes(Membership::Contains(route)) => task.routes().any(|own| own == route),
            Self::Routes(Membership::Lacks(route)) => !task.routes().any(|own| own == route),
            Self::LastError(predicate) => predicate.holds(task.last_error()),
            Self::LastRun(predicate) => predicate.holds(task.last_run()),
            Self::Document(document, keys, predicate) => predicate.holds_in(task.document(*document), keys),
        }
    }
}

impl LastErrorPredicate {
    /// Whether this holds for a task with this last error.
    pub fn holds(&self, last_error: Option<LastErrorFields<'_>>) -> bool {
        let Some(error) = last_error else { return matches!(self, Self::Missing) };
        match self {
            Self::Exists => true,
            Self::Missing => false,
            Self::Type(test) => value(test, error.kind),
            Self::Message(test) => value(test, error.message),
            Self::Traceback(test) => nullable(test, error.traceback),
            Self::RunId(test) => text_or_none(test, error.run_id),
            Self::Attempt(test) => number(test, error.attempt),
            Self::OccurredAt(test) => value(test, &error.occurred_at),
        }
    }
}

impl LastRunPredicate {
    /// Whether this holds for a task with this last run.
    pub fn holds(&self, last_run: Option<LastRunFields<'_>>) -> bool {
        let Some(run) = last_run else { return matches!(self, Self::Missing) };
        match self {
            Self::Exists => true,
            Self::Missing => false,
            Self::Attempt(test) => number(test, run.attempt),
            Self::RunId(test) => nullable(test, run.run_id),
        }
    }
}

impl DocumentPredicate {
    /// Whether this holds for what is behind the keys of a document, if there is one.
    fn holds_in(&self, document: Option<&str>, keys: &[String]) -> bool {
        self.holds(document.and_then(|text| json::lookup(text, keys)))
    }

    /// Whether this holds for the value that was found, or not found, in the document.
    pub fn holds(&self, found: Option<Found<'_>>) -> bool {
        let Some(found) = found else { return matches!(self, Self::Missing) };
        let is_container = matches!(found, Found::Array(_) | Found::Object(_));
        match self {
            Self::Exists => true,
            Self::Missing => false,
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

impl ObservationPredicate {
    /// Whether this holds for the observation.
    pub fn holds(&self, observation: &impl ObservationFields) -> bool {
        match self {
            Self::Always(holds) => *holds,
            Self::Id(test) => value(test, observation.id()),
            Self::Queue(test) => value(test, observation.queue()),
            Self::Route(test) => value(test, observation.route()),
            Self::Status(test) => word(test, observation.status(), WorkerStatus::as_str),
            Self::TaskId(test) => nullable(test, observation.task_id()),
            Self::LastSeenAt(test) => value(test, &observation.last_seen_at()),
            Self::ExpiresAt(test) => value(test, &observation.expires_at()),
            Self::TelemetryUpdatedAt(test) => nullable(test, observation.telemetry_updated_at().as_ref()),
            Self::Document(document, keys, predicate) => predicate.holds_in(observation.document(*document), keys),
        }
    }
}

impl<E, O> Test<E, O> {
    /// Whether the test holds for a value, given what it equals and how it compares (if it has an order at all).
    fn holds(&self, equals: impl Fn(&E) -> bool, compare: impl Fn(&O) -> Option<Ordering>) -> bool {
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

fn value<T: Borrow<V>, V: Ord + ?Sized>(test: &Test<T>, value: &V) -> bool {
    test.holds(|literal| value == literal.borrow(), |limit| Some(value.cmp(limit.borrow())))
}

fn nullable<T: Borrow<V>, V: Ord + ?Sized>(test: &NullableTest<T>, value: Option<&V>) -> bool {
    test.holds(|literal| value == literal.as_ref().map(T::borrow), |limit| value.map(|value| value.cmp(limit.borrow())))
}

/// A text that may be missing where no literal can say so.
fn text_or_none(test: &Test<String>, value: Option<&str>) -> bool {
    test.holds(|literal| value == Some(literal), |limit| value.map(|value| value.cmp(limit)))
}

fn word<T: Copy + PartialEq>(test: &Test<T>, value: T, as_str: fn(T) -> &'static str) -> bool {
    test.holds(|literal| value == *literal, |limit| Some(as_str(value).cmp(as_str(*limit))))
}

fn number(test: &Test<Number>, value: i64) -> bool {
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

/// Whether an array has such an element or an object such a key; nothing for other values.
fn contains(found: &Found<'_>, literal: &Literal) -> Option<bool> {
    match (found, literal) {
        (Found::Array(array), _) => Some(json::elements(array).any(|element| equals(&element, literal))),
        (Found::Object(object), Literal::Text(key)) => Some(json::has_key(object, key)),
        (Found::Object(_), _) => Some(false),
        _ => None,
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
    use super::*;
    use crate::filter::{ObservationFilter, TaskFilter};

    /// A task of which only some fields matter; the others are fixed.
    #[derive(Clone)]
    struct Row {
        name: Option<&'static str>,
        priority: i64,
        status: Status,
        started_at: Option<Timestamp>,
        args: &'static str,
        /// The traceback of the last error, if there was one.
        error: Option<Option<&'static str>>,
        /// The run id of the last run, if there is a last run.
        run: Option<Option<&'static str>>,
        progress: Option<&'static str>,
    }

    const PLAIN: Row = Row {
        name: None,
        priority: 0,
        status: Status::Pending,
        started_at: None,
        args: "{}",
        error: None,
        run: None,
        progress: None,
    };

    fn time(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap()
    }

    impl TaskFields for Row {
        fn id(&self) -> &str {
            "t_abcdefghijkl"
        }
        fn status(&self) -> Status {
            self.status
        }
        fn name(&self) -> Option<&str> {
            self.name
        }
        fn last_route(&self) -> Option<&str> {
            None
        }
        fn priority(&self) -> i64 {
            self.priority
        }
        fn attempt(&self) -> i64 {
            1
        }
        fn max_attempts(&self) -> i64 {
            3
        }
        fn created_at(&self) -> Timestamp {
            time("2026-01-01T00:00:00.000001Z")
        }
        fn updated_at(&self) -> Timestamp {
            time("2026-01-02T00:00:00Z")
        }
        fn started_at(&self) -> Option<Timestamp> {
            self.started_at
        }
        fn finished_at(&self) -> Option<Timestamp> {
            None
        }
        fn routes(&self) -> impl Iterator<Item = &str> {
            ["default", "gpu"].into_iter()
        }
        fn args(&self) -> &str {
            self.args
        }
        fn metadata(&self) -> &str {
            r#"{"m":1}"#
        }
        fn result(&self) -> &str {
            r#"{"r":2}"#
        }
        fn last_error(&self) -> Option<LastErrorFields<'_>> {
            self.error.map(|traceback| LastErrorFields {
                kind: "ValueError",
                message: "bad",
                traceback,
                occurred_at: time("2026-01-01T00:00:00Z"),
                attempt: 2,
                run_id: Some("r_abcdefghijkl"),
            })
        }
        fn last_run(&self) -> Option<LastRunFields<'_>> {
            let worker = r#"{"gpus":[0,1],"host":"gpu-3","pid":4711,"venv":null}"#;
            self.run.map(|run_id| LastRunFields { attempt: 2, worker, run_id })
        }
        fn archived(&self) -> bool {
            true
        }
        fn progress(&self) -> Option<&str> {
            self.progress
        }
    }

    fn check(row: &Row, cases: &[(&str, bool)]) {
        for (text, expected) in cases {
            let filter = TaskFilter::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(filter.matches(row), *expected, "{text}");
            let negated = TaskFilter::parse(&format!("not {text}")).unwrap();
            assert_eq!(negated.matches(row), !expected, "not {text}");
        }
    }

    #[test]
    fn null_is_unequal_to_every_value_and_has_no_order() {
        check(
            &PLAIN,
            &[
                ("name == 'x'", false),
                ("name != 'x'", true),
                ("name == None", true),
                ("name != None", false),
                ("name in ['x']", false),
                ("name in ['x', None]", true),
                ("name in []", false),
                ("name not in ['x']", true),
                ("name not in ['x', None]", false),
                ("name not in []", true),
                ("name < 'x'", false),
                ("name >= ''", false),
                ("exists(name)", true),
                ("missing(name)", false),
                ("exists(routes)", true),
                ("missing(routes)", false),
                ("started_at == None", true),
                ("started_at != '2026-01-01T00:00:00Z'", true),
                ("started_at < '2026-01-01T00:00:00Z'", false),
                ("started_at not in ['2026-01-01T00:00:00Z']", true),
                ("finished_at in [None]", true),
                ("last_route != 'x'", true),
            ],
        );
    }

    #[test]
    fn plain_fields_compare_by_their_type() {
        let row = Row {
            name: Some("é"),
            priority: 5,
            status: Status::Running,
            started_at: Some(time("2026-01-01T12:00:00Z")),
            ..PLAIN
        };
        check(
            &row,
            &[
                ("id == 't_abcdefghijkl'", true),
                ("id in ['t_abcdefghijkl', 'x']", true),
                ("name == 'é'", true),
                ("name == 'É'", false),
                ("name > 'z'", true),
                ("name < '😀'", true),
                ("name <= 'é' and name >= 'é'", true),
                ("name != None", true),
                ("name not in [None]", true),
                ("priority == 5.0", true),
                ("priority in [4, 5.0]", true),
                ("priority < 5.5", true),
                ("5.5 > priority", true),
                ("priority > -1e300", true),
                ("attempt != 1", false),
                ("max_attempts >= 3", true),
                ("status == 'running'", true),
                ("status != 'running'", false),
                // As text: cancelled, failed, pending, running, succeeded.
                ("status > 'pending'", true),
                ("status < 'failed'", false),
                ("status >= 'succeeded'", false),
                ("status not in ['failed', 'cancelled']", true),
                ("created_at > '2026-01-01T00:00:00Z'", true),
                ("created_at == '2026-01-01T01:00:00.000001+01:00'", true),
                ("updated_at <= '2026-01-02T00:00:00Z'", true),
                ("started_at == '2026-01-01T13:00:00+01:00'", true),
                ("'gpu' in routes", true),
                ("'GPU' in routes", false),
                ("'gpu' not in routes", false),
                ("'' not in routes", true),
                ("metadata.m == 1 and result.r == 2", true),
            ],
        );
    }

    #[test]
    fn without_a_last_error_only_missing_holds() {
        check(
            &PLAIN,
            &[
                ("last_error.type == 'ValueError'", false),
                ("last_error.type != 'ValueError'", false),
                ("last_error.traceback == None", false),
                ("last_error.traceback != None", false),
                ("last_error.type in ['ValueError']", false),
                ("last_error.type not in ['ValueError']", false),
                ("last_error.type not in []", false),
                ("last_error.attempt < 9", false),
                ("exists(last_error.traceback)", false),
                ("missing(last_error.type)", true),
            ],
        );
    }

    #[test]
    fn a_last_error_compares_like_plain_fields() {
        let row = Row { error: Some(None), ..PLAIN };
        check(
            &row,
            &[
                ("last_error.type == 'ValueError'", true),
                ("last_error.type != 'ValueError'", false),
                ("last_error.message in ['bad']", true),
                ("last_error.type not in []", true),
                ("last_error.type in []", false),
                ("last_error.traceback == None", true),
                ("last_error.traceback != 'x'", true),
                ("last_error.traceback not in ['x']", true),
                ("last_error.traceback not in ['x', None]", false),
                ("last_error.traceback < 'x'", false),
                ("exists(last_error.traceback)", true),
                ("missing(last_error.traceback)", false),
                ("last_error.attempt == 2.0", true),
                ("last_error.run_id == 'r_abcdefghijkl'", true),
                ("last_error.occurred_at >= '2026-01-01T00:00:00Z'", true),
            ],
        );
        check(
            &Row { error: Some(Some("at x")), ..PLAIN },
            &[
                ("last_error.traceback == 'at x'", true),
                ("last_error.traceback != None", true),
                ("last_error.traceback not in [None]", true),
            ],
        );
    }

    #[test]
    fn without_a_last_run_only_missing_holds() {
        let questions = [
            ("last_run.attempt == 2", false),
            ("last_run.attempt != 2", false),
            ("last_run.attempt not in []", false),
            ("last_run.run_id == None", false),
            ("last_run.run_id != None", false),
            ("last_run.run_id not in ['x']", false),
            ("exists(last_run.run_id)", false),
            ("missing(last_run.attempt)", true),
            ("last_run.worker.host == 'gpu-3'", false),
            ("last_run.worker.host != 'gpu-3'", false),
            ("last_run.worker.host not in []", false),
            ("exists(last_run.worker.host)", false),
            ("missing(last_run.worker.host)", true),
            ("'host' in last_run.worker", false),
            ("'host' not in last_run.worker", false),
        ];
        check(&PLAIN, &questions);
        // The same when the questions about the document are gathered.
        for (text, expected) in questions.into_iter().filter(|(text, _)| text.contains("worker")) {
            let others = ["a", "b", "c"].map(|key| format!("missing(last_run.worker.{key})")).join(" and ");
            let text = format!("({text}) and {others}");
            assert_eq!(TaskFilter::parse(&text).unwrap().matches(&PLAIN), expected, "{text}");
        }
    }

    #[test]
    fn a_last_run_compares_like_plain_fields_and_its_worker_like_args() {
        let active = Row { run: Some(None), ..PLAIN };
        let questions = [
            ("last_run.attempt == 2.0", true),
            ("last_run.attempt in [1]", false),
            ("last_run.run_id == None", true),
            ("last_run.run_id != 'r_abcdefghijkl'", true),
            ("last_run.run_id < 'z'", false),
            ("exists(last_run.run_id)", true),
            ("missing(last_run.run_id)", false),
            ("last_run.worker.host == 'gpu-3'", true),
            ("last_run.worker.pid > 4000", true),
            ("last_run.worker.pid == '4711'", false),
            ("1 in last_run.worker.gpus", true),
            ("last_run.worker.venv == None", true),
            ("exists(last_run.worker.venv)", true),
            ("missing(last_run.worker.folder)", true),
            ("last_run.worker.folder != 'x'", false),
            ("'host' in last_run.worker", true),
            ("'folder' not in last_run.worker", true),
        ];
        check(&active, &questions);
        let ended = Row { run: Some(Some("r_abcdefghijkl")), ..PLAIN };
        check(
            &ended,
            &[
                ("last_run.run_id == 'r_abcdefghijkl'", true),
                ("last_run.run_id == None", false),
                ("last_run.run_id in ['x', 'r_abcdefghijkl']", true),
            ],
        );
        let worker = questions.iter().filter(|(text, _)| text.contains("worker"));
        let all: Vec<String> =
            worker.map(|(text, holds)| format!("{}({text})", if *holds { "" } else { "not " })).collect();
        assert!(TaskFilter::parse(&all.join(" and ")).unwrap().matches(&ended));
    }

    const DOCUMENT: Row = Row {
        args: concat!(
            r#"{"array":[1,"a",null,true,[2],{"k":1}],"deep":{"x":{"y":1}},"empty":[],"f":1.0,"i":1,"mz":-0.0,"#,
            r#""no":false,"null":null,"object":{"k":null},"s":"1","text":"[1]","yes":true,"z":"a\u0000b"}"#,
        ),
        ..PLAIN
    };

    #[test]
    fn values_in_documents_equal_literals_of_their_own_type_only() {
        check(
            &DOCUMENT,
            &[
                ("args.null == None", true),
                ("args.nothing == None", false),
                ("args.no == None", false),
                ("args.yes == True", true),
                ("args.yes == 1", false),
                ("args.i == True", false),
                ("args.no == 0", false),
                ("args.i == 1 and args.i == 1.0 and args.f == 1 and args.f == 1.0", true),
                ("args.mz == 0", true),
                ("args.mz == -0.0", true),
                ("args.i == '1'", false),
                ("args.s == 1", false),
                ("args.s == '1'", true),
                ("args.text == '[1]'", true),
                ("args.z == 'a'", false),
                ("args.z == 'a\\u0000b'", true),
                ("args.deep.x.y == 1", true),
                ("args.array == 1", false),
                ("args.object == None", false),
            ],
        );
    }

    #[test]
    fn unequal_needs_presence_and_not_in_a_list_needs_a_scalar() {
        check(
            &DOCUMENT,
            &[
                ("args.nothing != 1", false),
                ("args.nothing != None", false),
                ("args.null != 1", true),
                ("args.null != None", false),
                ("args.s != 1", true),
                ("args.array != 1", true),
                ("args.object != None", true),
                ("args.i in ['1', 1.0]", true),
                ("args.i in ['1', true]", false),
                ("args.null in [None]", true),
                ("args.i in []", false),
                ("args.i not in []", true),
                ("args.i not in ['1', true]", true),
                ("args.null not in [1]", true),
                ("args.nothing in [None]", false),
                ("args.nothing not in [1]", false),
                ("args.array not in []", false),
                ("args.object not in [1]", false),
                ("args.array in [1]", false),
            ],
        );
    }

    #[test]
    fn only_numbers_in_documents_have_an_order() {
        check(
            &DOCUMENT,
            &[
                ("args.i < 2", true),
                ("args.f >= 1", true),
                ("args.i > 0.5", true),
                ("2 > args.i", true),
                ("args.s < 2", false),
                ("args.s >= 0", false),
                ("args.yes >= 0", false),
                ("args.null < 1", false),
                ("args.array < 1", false),
                ("args.nothing < 1", false),
            ],
        );
    }

    #[test]
    fn arrays_contain_scalars_and_objects_contain_keys() {
        check(
            &DOCUMENT,
            &[
                ("1 in args.array", true),
                ("1.0 in args.array", true),
                ("'a' in args.array", true),
                ("None in args.array", true),
                ("true in args.array", true),
                ("2 in args.array", false),
                ("'k' in args.array", false),
                ("2 not in args.array", true),
                ("1 not in args.array", false),
                ("1 in args.empty", false),
                ("1 not in args.empty", true),
                ("'k' in args.object", true),
                ("'x' in args.object", false),
                ("'x' not in args.object", true),
                ("1 in args.object", false),
                ("None not in args.object", true),
                ("'1' in args.s", false),
                ("'1' not in args.s", false),
                ("1 not in args.text", false),
                ("1 not in args.null", false),
                ("1 not in args.nothing", false),
                ("'deep' in args", true),
                ("'x' in args", false),
                ("'x' not in args", true),
                ("1 not in args", true),
                ("'m' in metadata and 'r' in result", true),
            ],
        );
    }

    #[test]
    fn presence_steps_through_objects_only() {
        check(
            &DOCUMENT,
            &[
                ("exists(args.null)", true),
                ("missing(args.null)", false),
                ("exists(args.deep.x)", true),
                ("exists(args.deep.z)", false),
                ("missing(args.deep.z)", true),
                ("exists(args.s.x)", false),
                ("missing(args.null.x)", true),
                ("missing(args.array.x)", true),
                ("missing(args.nothing.x)", true),
            ],
        );
    }

    #[test]
    fn integers_and_floats_compare_exactly() {
        use Ordering::{Equal, Greater, Less};
        let cases = [
            (0, -0.0, Equal),
            (1, 1.5, Less),
            (-1, -1.5, Greater),
            (2, 1.5, Greater),
            (-2, -1.5, Less),
            (0, 5e-324, Less),
            (0, -5e-324, Greater),
            (9_007_199_254_740_992, 9_007_199_254_740_992.0, Equal),
            (9_007_199_254_740_993, 9_007_199_254_740_992.0, Greater),
            (-9_007_199_254_740_993, -9_007_199_254_740_992.0, Less),
            (i64::MAX, 9_223_372_036_854_775_808.0, Less),
            (i64::MAX, 9_223_372_036_854_774_784.0, Greater),
            (i64::MIN, -9_223_372_036_854_775_808.0, Equal),
            (i64::MIN + 1, -9_223_372_036_854_775_808.0, Greater),
            (i64::MIN, -9_223_372_036_854_777_856.0, Greater),
            (i64::MAX, 1e300, Less),
            (i64::MIN, -1e300, Greater),
        ];
        for (int, float, expected) in cases {
            assert_eq!(Number::Int(int).compare(Number::Float(float)), expected, "{int} {float}");
            assert_eq!(Number::Float(float).compare(Number::Int(int)), expected.reverse(), "{float} {int}");
        }
        let row = Row { priority: 9_007_199_254_740_993, args: r#"{"n":9007199254740993}"#, ..PLAIN };
        check(
            &row,
            &[
                ("priority == 9007199254740993", true),
                ("priority == 9007199254740992.0", false),
                ("priority > 9007199254740992.0", true),
                ("args.n == 9007199254740992.0", false),
                ("args.n in [9007199254740992.0, 9007199254740993]", true),
            ],
        );
    }

    #[derive(Clone, Copy)]
    struct Seen {
        telemetry: Option<&'static str>,
    }

    impl ObservationFields for Seen {
        fn id(&self) -> &str {
            "w_abcdefghijkl"
        }
        fn queue(&self) -> &str {
            "q"
        }
        fn route(&self) -> &str {
            "default"
        }
        fn status(&self) -> WorkerStatus {
            WorkerStatus::Idle
        }
        fn task_id(&self) -> Option<&str> {
            None
        }
        fn last_seen_at(&self) -> Timestamp {
            time("2026-01-01T00:00:00Z")
        }
        fn expires_at(&self) -> Timestamp {
            time("2026-01-01T00:05:00Z")
        }
        fn metadata(&self) -> &str {
            r#"{"gpus":[0,1],"host":"gpu-3"}"#
        }
        fn telemetry(&self) -> Option<&str> {
            self.telemetry
        }
        fn telemetry_updated_at(&self) -> Option<Timestamp> {
            self.telemetry.map(|_| time("2026-01-01T00:00:30Z"))
        }
    }

    fn check_observation(seen: Seen, cases: &[(&str, bool)]) {
        for (text, expected) in cases {
            let filter = ObservationFilter::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(filter.matches(&seen), *expected, "{text}");
            let negated = ObservationFilter::parse(&format!("not ({text})")).unwrap();
            assert_eq!(negated.matches(&seen), !expected, "not ({text})");
        }
    }

    #[test]
    fn observations_compare_like_plain_fields() {
        let cases = [
            ("id == 'w_abcdefghijkl' and queue == 'q' and route in ['default']", true),
            ("status == 'idle'", true),
            ("status < 'busy'", false),
            ("task_id == None", true),
            ("task_id != 't_abcdefghijkl'", true),
            ("exists(task_id)", true),
            ("missing(task_id)", false),
            ("last_seen_at < '2026-01-01T00:00:01Z' and expires_at >= '2026-01-01T00:05:00Z'", true),
            ("metadata.host == 'gpu-3' and 1 in metadata.gpus", true),
            ("metadata.host != 'gpu-3'", false),
            ("'host' in metadata", true),
            ("'pid' not in metadata", true),
            ("missing(metadata.pid)", true),
        ];
        check_observation(Seen { telemetry: None }, &cases);
    }

    #[test]
    fn without_telemetry_only_missing_holds_and_its_time_is_null() {
        let cases = [
            ("missing(telemetry.cpu)", true),
            ("exists(telemetry.cpu)", false),
            ("telemetry.cpu == null", false),
            ("telemetry.cpu != 1", false),
            ("telemetry.cpu not in [1]", false),
            ("telemetry.cpu < 1", false),
            ("'cpu' in telemetry", false),
            ("'cpu' not in telemetry", false),
            ("telemetry_updated_at == null", true),
            ("telemetry_updated_at != '2026-01-01T00:00:30Z'", true),
            ("telemetry_updated_at < '2027-01-01T00:00:00Z'", false),
            ("exists(telemetry_updated_at)", true),
        ];
        check_observation(Seen { telemetry: None }, &cases);
    }

    #[test]
    fn telemetry_compares_like_args() {
        let cases = [
            ("telemetry.cpu >= 1 and telemetry.cpu < 2", true),
            ("telemetry.gpus.a.memory == null", true),
            ("'a' in telemetry.gpus", true),
            ("'b' not in telemetry.gpus", true),
            ("'disk' not in telemetry", true),
            ("missing(telemetry.disk)", true),
            ("telemetry.cpu in [1.5, 'x']", true),
            ("telemetry_updated_at == '2026-01-01T01:00:30+01:00'", true),
            ("telemetry_updated_at == null", false),
            ("telemetry_updated_at in [null]", false),
        ];
        check_observation(Seen { telemetry: Some(r#"{"cpu":1.5,"gpus":{"a":{"memory":null}}}"#) }, &cases);
    }

    #[test]
    fn without_progress_only_missing_holds() {
        check(
            &PLAIN,
            &[
                ("missing(progress.step)", true),
                ("exists(progress.step)", false),
                ("progress.step == null", false),
                ("progress.step != 1", false),
                ("progress.step not in [1]", false),
                ("progress.step < 1", false),
                ("'step' in progress", false),
                ("'step' not in progress", false),
            ],
        );
    }

    #[test]
    fn progress_compares_like_args() {
        let row = Row { progress: Some(r#"{"best":{"loss":0.25},"step":120,"tags":["warm"]}"#), ..PLAIN };
        check(
            &row,
            &[
                ("progress.step == 120", true),
                ("progress.step > 1000", false),
                ("progress.best.loss < 0.3", true),
                ("'warm' in progress.tags", true),
                ("'step' in progress", true),
                ("'total' not in progress", true),
                ("missing(progress.total)", true),
                ("progress.step not in [1, 'x']", true),
            ],
        );
    }
}

//! Which paths exist, what may be asked of each, and when that holds: the tables of docs/reference/filter-language.md §5 and §6, as
//! code. A predicate looks at its record alone; a filter looks once for all of its predicates (`plan.rs`).

use std::convert::Infallible;

use super::ast::{
    Document, DocumentPredicate, Flag, Literal, Membership, NullableTest, Number, ObservationDocument, Test,
};
use super::eval::{LastErrorFields, LastRunFields, TaskFields, flag, nullable, number, value, value_if_any, word};
use super::suggest;
use super::{At, Fault};
use crate::ids::TaskId;
use crate::observation::Observation;
use crate::status::{Status, WorkerStatus};
use crate::time::Timestamp;

/// The predicates over one kind of record. The grammar is the same for all of them.
pub(super) trait FieldSet: Sized {
    /// The predicate that asks `question` of `path`, if there is such a field and it can be asked that.
    fn resolve(path: &Path<'_>, question: Question) -> Result<Self, Fault>;
}

/// The question of a predicate, before the type of its path is known.
#[derive(Debug)]
pub(super) enum Question {
    /// `exists` (true) or `missing` (false).
    Presence(bool),
    Value(Test<At<Literal>>),
    Elements(Membership<At<Literal>>),
}

/// A path as written.
#[derive(Debug)]
pub(super) struct Path<'a> {
    pub(super) offset: usize,
    /// At least one.
    pub(super) names: Vec<&'a str>,
}

// The names that messages offer; a test compares them with the table of `fields.rs`.
#[rustfmt::skip]
const TASK_FIELDS: [&str; 19] = [
    "id", "status", "name", "last_route", "priority", "attempt", "max_attempts", "created_at", "updated_at",
    "started_at", "finished_at", "routes", "last_error", "args", "metadata", "result", "last_run", "progress",
    "archived",
];
#[rustfmt::skip]
const LAST_ERROR_FIELDS: [&str; 6] = [
    "last_error.type", "last_error.message", "last_error.traceback", "last_error.run_id", "last_error.attempt",
    "last_error.occurred_at",
];
const LAST_RUN_FIELDS: [&str; 3] = ["last_run.attempt", "last_run.run_id", "last_run.worker"];
#[rustfmt::skip]
const OBSERVATION_FIELDS: [&str; 10] = [
    "id", "queue", "route", "status", "task_id", "last_seen_at", "expires_at", "metadata", "telemetry",
    "telemetry_updated_at",
];

/// Declares what may be asked of one kind of record: the predicate, which path it is about, and when it holds. Each field with one
/// value is one row: its predicate with what that tests, its path, and how its value is compared. What else there is stands behind
/// the rows.
macro_rules! predicates {
    (
        $(#[$attribute:meta])*
        $name:ident of ($known:ident), $visibility:vis fn $holds:ident(&self, $record:ident: $of:ty);
        fields { $( $(#[$field_attribute:meta])* $field:ident($test:ty), $at:pat => $compare:ident($($value:expr),+); )* }
        others { $( $(#[$other_attribute:meta])* $other:ident $(($($part:ty),+))?, )* }
        resolved |$path:ident, $question:ident| { $($resolved:tt)* }
        hold { $($held:tt)* }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Debug, PartialEq)]
        pub enum $name {
            /// `exists` (true) or `missing` (false) of a field with one value, be it null.
            Presence(bool),
            $( $(#[$field_attribute])* $field($test), )*
            $( $(#[$other_attribute])* $other $(($($part),+))?, )*
        }

        impl FieldSet for $name {
            fn resolve($path: &Path<'_>, $question: Question) -> Result<Self, Fault> {
                match $path.names[..] {
                    $( $at => scalar($path, $question, Self::Presence, Self::$field), )*
                    $($resolved)*
                    _ => Err($path.unknown(&$known)),
                }
            }
        }

        impl $name {
            /// Returns whether this holds for the record.
            $visibility fn $holds(&self, $record: $of) -> bool {
                match self {
                    Self::Presence(exists) => *exists,
                    $( Self::$field(test) => $compare(test, $($value),+), )*
                    $($held)*
                }
            }
        }
    };
}

predicates! {
    /// A question of a filter about a task.
    TaskPredicate of (TASK_FIELDS), pub fn holds(&self, task: &impl TaskFields);
    fields {
        Id(Test<String>), ["id"] => value(task.id());
        /// Its order is that of the words as text.
        Status(Test<Status>), ["status"] => word(task.status(), Status::as_str);
        Name(NullableTest<String>), ["name"] => nullable(task.name());
        LastRoute(NullableTest<String>), ["last_route"] => nullable(task.last_route());
        Priority(Test<Number>), ["priority"] => number(task.priority());
        Attempt(Test<Number>), ["attempt"] => number(task.attempt());
        MaxAttempts(Test<Number>), ["max_attempts"] => number(task.max_attempts());
        CreatedAt(Test<Timestamp>), ["created_at"] => value(&task.created_at());
        UpdatedAt(Test<Timestamp>), ["updated_at"] => value(&task.updated_at());
        StartedAt(NullableTest<Timestamp>), ["started_at"] => nullable(task.started_at().as_ref());
        FinishedAt(NullableTest<Timestamp>), ["finished_at"] => nullable(task.finished_at().as_ref());
        Archived(Flag), ["archived"] => flag(task.archived());
    }
    others {
        Routes(Membership<String>),
        LastError(LastErrorPredicate),
        /// What is asked of the last run, except what is in its document.
        LastRun(LastRunPredicate),
        /// The document, the keys to step through, the question.
        Document(Document, Vec<String>, DocumentPredicate),
    }
    resolved |path, question| {
        ["routes"] => routes(path, question),
        ["last_error", ..] => LastErrorPredicate::resolve(path, question).map(Self::LastError),
        ["last_run", "worker", ref keys @ ..] => document(path, keys, question, Self::Document, Document::Worker),
        ["last_run", ..] => LastRunPredicate::resolve(path, question).map(Self::LastRun),
        ["args", ref keys @ ..] => document(path, keys, question, Self::Document, Document::Args),
        ["metadata", ref keys @ ..] => document(path, keys, question, Self::Document, Document::Metadata),
        ["result", ref keys @ ..] => document(path, keys, question, Self::Document, Document::Result),
        ["progress", ref keys @ ..] => document(path, keys, question, Self::Document, Document::Progress),
    }
    hold {
        Self::Routes(membership) => {
            let (route, wanted) = membership.parts();
            task.routes().any(|own| own == route) == wanted
        }
        Self::LastError(predicate) => predicate.holds(task.last_error()),
        Self::LastRun(predicate) => predicate.holds(task.last_run()),
        Self::Document(document, keys, predicate) => predicate.holds_in(task.document(*document), keys),
    }
}

predicates! {
    /// A question of a filter about the last error of a task. For a task without one, only `missing` holds.
    LastErrorPredicate of (LAST_ERROR_FIELDS), fn holds_for(&self, error: LastErrorFields<'_>);
    fields {
        Type(Test<String>), [_, "type"] => value(error.kind);
        Message(Test<String>), [_, "message"] => value(error.message);
        Traceback(NullableTest<String>), [_, "traceback"] => nullable(error.traceback);
        /// By the contract it is a string, so that no filter can name null; an error without a run has another value than every
        /// string.
        RunId(Test<String>), [_, "run_id"] => value_if_any(error.run_id);
        Attempt(Test<Number>), [_, "attempt"] => number(error.attempt);
        OccurredAt(Test<Timestamp>), [_, "occurred_at"] => value(&error.occurred_at);
    }
    others {}
    resolved |path, question| {}
    hold {}
}

impl LastErrorPredicate {
    /// Returns whether this holds for a task with this last error.
    pub(super) fn holds(&self, last_error: Option<LastErrorFields<'_>>) -> bool {
        last_error.map_or(*self == Self::Presence(false), |error| self.holds_for(error))
    }
}

predicates! {
    /// A question of a filter about the last run of a task. For a task without one, only `missing` holds.
    LastRunPredicate of (LAST_RUN_FIELDS), fn holds_for(&self, run: LastRunFields<'_>);
    fields {
        Attempt(Test<Number>), [_, "attempt"] => number(run.attempt);
        /// Null while the run is active.
        RunId(NullableTest<String>), [_, "run_id"] => nullable(run.run_id);
    }
    others {}
    resolved |path, question| {}
    hold {}
}

impl LastRunPredicate {
    /// Returns whether this holds for a task with this last run.
    fn holds(&self, last_run: Option<LastRunFields<'_>>) -> bool {
        last_run.map_or(*self == Self::Presence(false), |run| self.holds_for(run))
    }
}

predicates! {
    /// A question of a filter about a worker observation.
    ObservationPredicate of (OBSERVATION_FIELDS), pub fn holds(&self, observation: &Observation);
    fields {
        Id(Test<String>), ["id"] => value(observation.id.as_str());
        Queue(Test<String>), ["queue"] => value(observation.queue.as_str());
        Route(Test<String>), ["route"] => value(observation.report.route.as_str());
        /// Its order is that of the words as text.
        Status(Test<WorkerStatus>), ["status"] => word(observation.report.status, WorkerStatus::as_str);
        TaskId(NullableTest<String>), ["task_id"] => nullable(observation.report.task_id.as_ref().map(TaskId::as_str));
        LastSeenAt(Test<Timestamp>), ["last_seen_at"] => value(&observation.last_seen_at);
        ExpiresAt(Test<Timestamp>), ["expires_at"] => value(&observation.expires_at);
        TelemetryUpdatedAt(NullableTest<Timestamp>), ["telemetry_updated_at"] =>
            nullable(observation.telemetry.as_ref().map(|telemetry| &telemetry.updated_at));
    }
    others {
        /// The document, the keys to step through, the question.
        Document(ObservationDocument, Vec<String>, DocumentPredicate),
    }
    resolved |path, question| {
        [name, ref keys @ ..] if let Some(known) = ObservationDocument::parse(name) => {
            document(path, keys, question, Self::Document, known)
        }
    }
    hold {
        Self::Document(document, keys, predicate) => predicate.holds_in(observation.document(*document), keys),
    }
}

/// A field with one value of one type. Its constructor says which literals it takes.
fn scalar<P, E: FromLiteral, O: FromLiteral>(
    path: &Path<'_>,
    question: Question,
    presence: fn(bool) -> P,
    predicate: fn(Test<E, O>) -> P,
) -> Result<P, Fault> {
    match question {
        Question::Presence(exists) => Ok(presence(exists)),
        Question::Value(test) => test.typed().map(predicate),
        Question::Elements(_) => Err(path.fault("holds one value, only a list can stand behind `in` here")),
    }
}

fn routes(path: &Path<'_>, question: Question) -> Result<TaskPredicate, Fault> {
    match question {
        Question::Presence(exists) => Ok(TaskPredicate::Presence(exists)),
        Question::Value(_) => Err(path.fault("is a set, expected `\"…\" in routes`")),
        Question::Elements(membership) => membership.typed().map(TaskPredicate::Routes),
    }
}

/// A value inside a JSON document.
fn document<P, D>(
    path: &Path<'_>,
    keys: &[&str],
    question: Question,
    predicate: fn(D, Vec<String>, DocumentPredicate) -> P,
    document: D,
) -> Result<P, Fault> {
    let asked = match question {
        Question::Elements(membership) => DocumentPredicate::Elements(membership.typed()?),
        _ if keys.is_empty() => return Err(path.fault("is a whole document, expected a key behind it")),
        Question::Presence(exists) => DocumentPredicate::Presence(exists),
        Question::Value(test) => DocumentPredicate::Value(test.typed()?),
    };
    Ok(predicate(document, keys.iter().map(|key| (*key).to_owned()).collect(), asked))
}

impl Path<'_> {
    fn fault(&self, why: &str) -> Fault {
        Fault::new(self.offset, format!("`{}` {why}", suggest::shortened(&self.names.join("."))))
    }

    /// Returns what the first name of the path may be a misspelling of.
    fn near_beginning<'k>(&self, known: &[&'k str]) -> Option<&'k str> {
        let beginnings: Vec<&str> = known.iter().filter(|field| !field.contains('.')).copied().collect();
        suggest::nearest(self.names[0], &beginnings)
    }

    fn unknown(&self, known: &[&str]) -> Fault {
        let path = self.names.join(".");
        let hint = if self.names.len() > 1 && known.contains(&self.names[0]) {
            format!(", `{}` has no members", self.names[0])
        } else if let Some(near) = suggest::nearest(&path, known).or_else(|| self.near_beginning(known)) {
            format!(", did you mean `{near}`?")
        } else {
            format!(", expected one of {}", known.join(", "))
        };
        Fault::new(self.offset, format!("unknown field `{}`{hint}", suggest::shortened(&path)))
    }
}

/// A type that some literals have.
pub(super) trait FromLiteral: Sized {
    /// The value of the literal, or what was expected instead.
    fn from_literal(literal: At<Literal>) -> Result<Self, Fault>;
}

impl Test<At<Literal>> {
    /// Returns the test with every literal converted to the type of the field.
    pub(super) fn typed<E: FromLiteral, O: FromLiteral>(self) -> Result<Test<E, O>, Fault> {
        let each = |list: Vec<At<Literal>>| list.into_iter().map(E::from_literal).collect::<Result<_, _>>();
        Ok(match self {
            Self::Equal(literal) => Test::Equal(E::from_literal(literal)?),
            Self::NotEqual(literal) => Test::NotEqual(E::from_literal(literal)?),
            Self::Order(order, literal) => Test::Order(order, O::from_literal(literal)?),
            Self::OneOf(list) => Test::OneOf(each(list)?),
            Self::NoneOf(list) => Test::NoneOf(each(list)?),
        })
    }
}

impl Membership<At<Literal>> {
    /// Returns the test with the literal converted to the type of the elements.
    pub(super) fn typed<T: FromLiteral>(self) -> Result<Membership<T>, Fault> {
        Ok(match self {
            Self::Contains(literal) => Membership::Contains(T::from_literal(literal)?),
            Self::Lacks(literal) => Membership::Lacks(T::from_literal(literal)?),
        })
    }
}

impl FromLiteral for Literal {
    fn from_literal(literal: At<Literal>) -> Result<Self, Fault> {
        Ok(literal.value)
    }
}

/// Says which literals have the value of a type.
macro_rules! from_literal {
    ($( $type:ty: $literal:ident, $expected:literal; )+) => {
        $(impl FromLiteral for $type {
            fn from_literal(literal: At<Literal>) -> Result<Self, Fault> {
                match literal.value {
                    Literal::$literal(value) => Ok(value),
                    _ => Err(literal.wrong_type($expected)),
                }
            }
        })+
    };
}

from_literal! {
    String: Text, "a string";
    bool: Bool, "true or false";
    Number: Number, "a number";
}

/// No literal, because what has no order cannot be compared.
impl FromLiteral for Infallible {
    fn from_literal(literal: At<Literal>) -> Result<Self, Fault> {
        Err(Fault::new(
            literal.offset,
            "true and false have no order, expected `==`, `!=`, `in` or `not in`".to_owned(),
        ))
    }
}

impl FromLiteral for Timestamp {
    fn from_literal(literal: At<Literal>) -> Result<Self, Fault> {
        let expected = "a timestamp such as \"2026-01-31T12:00:00Z\"";
        match &literal.value {
            Literal::Text(text) => Timestamp::parse(text).ok_or_else(|| literal.wrong_value(expected)),
            _ => Err(literal.wrong_type(expected)),
        }
    }
}

impl FromLiteral for Status {
    fn from_literal(literal: At<Literal>) -> Result<Self, Fault> {
        word_of(literal, &Status::ALL, Status::as_str)
    }
}

impl FromLiteral for WorkerStatus {
    fn from_literal(literal: At<Literal>) -> Result<Self, Fault> {
        word_of(literal, &WorkerStatus::ALL, WorkerStatus::as_str)
    }
}

/// Null beside the values of another type.
impl<T: FromLiteral> FromLiteral for Option<T> {
    fn from_literal(literal: At<Literal>) -> Result<Self, Fault> {
        match literal.value {
            Literal::Null => Ok(None),
            _ => T::from_literal(literal).map(Some),
        }
    }
}

fn word_of<T: Copy>(literal: At<Literal>, all: &[T], as_str: fn(T) -> &'static str) -> Result<T, Fault> {
    let words: Vec<&str> = all.iter().map(|value| as_str(*value)).collect();
    let expected = format!("one of \"{}\"", words.join("\", \""));
    let Literal::Text(text) = &literal.value else { return Err(literal.wrong_type(&expected)) };
    let found = all.iter().copied().find(|value| as_str(*value) == text);
    found.ok_or_else(|| match suggest::nearest(text, &words) {
        Some(near) => Fault::new(literal.offset, format!("expected {expected}, did you mean \"{near}\"?")),
        None => literal.wrong_value(&expected),
    })
}

impl At<Literal> {
    /// The type is right, the value is not.
    fn wrong_value(&self, expected: &str) -> Fault {
        Fault::new(self.offset, format!("expected {expected}, found another string"))
    }

    /// The type is not right.
    fn wrong_type(&self, expected: &str) -> Fault {
        let found = match &self.value {
            Literal::Null => "null",
            Literal::Bool(_) => "a boolean",
            Literal::Number(_) => "a number",
            Literal::Text(_) => "a string",
        };
        Fault::new(self.offset, format!("expected {expected}, found {found}"))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{LAST_ERROR_FIELDS, LAST_RUN_FIELDS, TASK_FIELDS};
    use crate::fields::filterable_fields;
    use crate::filter::{FilterError, ObservationFilter, TaskFilter};

    const TIME: &str = "'2026-01-01T00:00:00Z'";

    fn task(text: &str) -> bool {
        TaskFilter::parse(text).is_ok()
    }

    fn observation(text: &str) -> bool {
        ObservationFilter::parse(text).is_ok()
    }

    /// The literals that `path` takes with `==` (and in lists) and with `<`, as a word of letters:
    /// s(tring), t(imestamp), w (a word of the status), n(umber), b(oolean), 0 (null).
    fn takes(accepts: fn(&str) -> bool, path: &str, word: &str) -> (String, String) {
        let literals =
            [('s', "'x'"), ('t', TIME), ('w', word), ('n', "-1.5"), ('n', "7"), ('b', "true"), ('0', "None")];
        let taken = |operators: &[&str]| {
            let mut letters = String::new();
            for (letter, literal) in literals {
                let answers =
                    operators.iter().map(|operator| accepts(&operator.replace('L', literal).replace('P', path)));
                let answers: Vec<bool> = answers.collect();
                assert!(answers.iter().all(|answer| *answer == answers[0]), "{path} {literal}: operators differ");
                if answers[0] && !letters.ends_with(letter) {
                    letters.push(letter);
                }
            }
            letters
        };
        let equality = taken(&["P == L", "P != L", "L == P", "P in [L]", "P not in [L, L,]"]);
        let order = taken(&["P < L", "P <= L", "P > L", "P >= L", "L < P"]);
        (equality, order)
    }

    #[test]
    fn messages_offer_the_fields_of_the_table() {
        let offered: BTreeSet<&str> =
            [&TASK_FIELDS[..], &LAST_ERROR_FIELDS, &LAST_RUN_FIELDS].concat().into_iter().collect();
        let paths = filterable_fields().flat_map(|field| [field.head(), field.path]);
        assert_eq!(offered, paths.collect::<BTreeSet<_>>());
    }

    #[test]
    fn a_task_path_takes_the_literals_of_its_type() {
        let cases = [
            ("id last_error.type last_error.message last_error.run_id", "stw", "stw"),
            ("name last_route last_error.traceback last_run.run_id", "stw0", "stw"),
            ("status", "w", "w"),
            ("priority attempt max_attempts last_error.attempt last_run.attempt", "n", "n"),
            ("created_at updated_at last_error.occurred_at", "t", "t"),
            ("started_at finished_at", "t0", "t"),
            ("archived", "b", ""),
            ("routes", "", ""),
            (
                "args.a metadata.a.b result.a last_run.worker.a last_run.worker.a.b progress.a progress.a.b",
                "stwnb0",
                "n",
            ),
        ];
        for (paths, equality, order) in cases {
            for path in paths.split(' ') {
                assert_eq!(takes(task, path, "'failed'"), (equality.to_owned(), order.to_owned()), "{path}");
                assert!(task(&format!("exists({path}) and missing({path})")), "{path}");
            }
        }
    }

    #[test]
    fn an_observation_path_takes_the_literals_of_its_type() {
        let cases = [
            ("id queue route", "stw", "stw"),
            ("status", "w", "w"),
            ("task_id", "stw0", "stw"),
            ("last_seen_at expires_at", "t", "t"),
            ("telemetry_updated_at", "t0", "t"),
            ("metadata.a telemetry.a.b", "stwnb0", "n"),
        ];
        for (paths, equality, order) in cases {
            for path in paths.split(' ') {
                assert_eq!(takes(observation, path, "'busy'"), (equality.to_owned(), order.to_owned()), "{path}");
                assert!(observation(&format!("exists({path}) and missing({path})")), "{path}");
                let is_in_document = path.contains('.');
                assert_eq!(observation(&format!("'x' in {path}")), is_in_document, "{path}");
                assert_eq!(observation(&format!("'x' not in {path}")), is_in_document, "{path}");
            }
        }
        for text in ["'x' in metadata", "1 not in telemetry"] {
            assert!(observation(text), "{text}");
        }
    }

    #[test]
    fn every_other_path_is_refused() {
        let unknown = "queue run_id lease_expires_at error x Status args metadata result last_error last_error.queue \
             last_error.type.x last_run last_run.worker last_run.host last_run.attempt.x progress \
             progress_updated_at progress_attempt telemetry.a name.x routes.x id.id status.pending created_at.year";
        for path in unknown.split(' ') {
            for text in ["P == 'x'", "P in []", "exists(P)", "missing(P)", "P != None"] {
                assert!(!task(&text.replace('P', path)), "{path}: {text}");
            }
        }
        let tasks_only =
            ["name", "priority", "args.x", "routes", "last_error.type", "created_at", "args", "progress.a"];
        let nobodys = ["id.x", "metadata", "telemetry", "telemetry_updated_at.x", "last_run.worker.a"];
        for path in tasks_only.into_iter().chain(nobodys) {
            assert!(!observation(&format!("exists({path})")), "{path}");
            assert!(!observation(&format!("{path} == 'x'")), "{path}");
        }
    }

    #[test]
    fn only_collections_stand_behind_in() {
        let taken = "'x' in routes; 'x' not in routes; '' in routes; 'k' in args; 1 not in metadata; None in result; \
             true in args.a.b; 'k' in last_run.worker; 1 not in last_run.worker.a; 'step' in progress; \
             1 in progress.a";
        let refused = "1 in routes; None in routes; routes in ['x']; routes == 'x'; 'x' in last_run.run_id; 'x' in last_run; \
             'x' in name; 'x' not in id; 'x' in status; 'x' in last_error.message; 'x' in last_error; 'x' in queue";
        for (texts, accepted) in [(taken, true), (refused, false)] {
            for text in texts.split("; ") {
                assert_eq!(task(text), accepted, "{text}");
            }
        }
    }

    #[test]
    fn words_that_are_no_status_are_refused_everywhere() {
        for operator in ["==", "!=", "<", ">="] {
            for word in ["Pending", "idle", "", "failed ", "canceled"] {
                assert!(!task(&format!("status {operator} '{word}'")), "{word}");
            }
        }
        assert!(!task("status in ['failed', 'busy']") && !task("status not in ['idle']"));
        assert!(observation("status in ['idle', 'busy']") && !observation("status == 'failed'"));
    }

    #[test]
    fn a_wrong_type_is_reported_where_the_literal_or_the_path_stands() {
        let cases = [
            ("stats == 'x'", 1, "unknown field `stats`, did you mean `status`?"),
            ("'ä' == stats", 8, "unknown field `stats`, did you mean `status`?"),
            ("last_error.typ == 'x'", 1, "unknown field `last_error.typ`, did you mean `last_error.type`?"),
            ("exists(last_error)", 8, "unknown field `last_error`, did you mean `last_error.type`?"),
            ("name.first == 'x'", 1, "unknown field `name.first`, `name` has no members"),
            ("priority == 'x'", 13, "expected a number, found a string"),
            ("priority == true", 13, "expected a number, found a boolean"),
            ("priority in [1, None]", 17, "expected a number, found null"),
            ("-1 == name", 1, "expected a string, found a number"),
            ("args.x < 'y'", 10, "expected a number, found a string"),
            ("name < null", 8, "expected a string, found null"),
            ("created_at > 'x'", 14, "expected a timestamp such as \"2026-01-31T12:00:00Z\", found another string"),
            (
                "status == 5",
                11,
                "expected one of \"pending\", \"running\", \"succeeded\", \"failed\", \"cancelled\", found a number",
            ),
            (
                "status == 'canceled'",
                11,
                "expected one of \"pending\", \"running\", \"succeeded\", \"failed\", \"cancelled\", \
                 did you mean \"cancelled\"?",
            ),
            ("'x' in name", 8, "`name` holds one value, only a list can stand behind `in` here"),
            ("routes == 'x'", 1, "`routes` is a set, expected `\"…\" in routes`"),
            ("exists(args)", 8, "`args` is a whole document, expected a key behind it"),
            ("last_run.runid == 'x'", 1, "unknown field `last_run.runid`, did you mean `last_run.run_id`?"),
            ("exists(last_run)", 8, "unknown field `last_run`, did you mean `last_run.attempt`?"),
            ("last_run.worker == 'x'", 1, "`last_run.worker` is a whole document, expected a key behind it"),
            ("last_run.attempt == 'x'", 21, "expected a number, found a string"),
            ("progres.step == 1", 1, "unknown field `progres.step`, did you mean `progress`?"),
            ("arg.lr == 1", 1, "unknown field `arg.lr`, did you mean `args`?"),
            ("progress > 1", 1, "`progress` is a whole document, expected a key behind it"),
            ("progress.step < 'x'", 17, "expected a number, found a string"),
            (
                "last_run.host == 'x'",
                1,
                "unknown field `last_run.host`, expected one of last_run.attempt, last_run.run_id, last_run.worker",
            ),
        ];
        for (text, column, message) in cases {
            let expected = FilterError::Invalid { column, message: message.to_owned() };
            assert_eq!(TaskFilter::parse(text), Err(expected), "{text}");
        }
        let cases = [
            ("telemetri == 1", 1, "unknown field `telemetri`, did you mean `telemetry`?"),
            ("telemetry_updated == null", 1, "unknown field `telemetry_updated`, did you mean `telemetry_updated_at`?"),
            ("exists(metadata)", 8, "`metadata` is a whole document, expected a key behind it"),
            ("telemetry.cpu > 'x'", 17, "expected a number, found a string"),
            ("route.x == 'x'", 1, "unknown field `route.x`, `route` has no members"),
            (
                "args.x == 1",
                1,
                "unknown field `args.x`, expected one of id, queue, route, status, task_id, last_seen_at, expires_at, \
                 metadata, telemetry, telemetry_updated_at",
            ),
        ];
        for (text, column, message) in cases {
            let expected = FilterError::Invalid { column, message: message.to_owned() };
            assert_eq!(ObservationFilter::parse(text), Err(expected), "{text}");
        }
        let error = TaskFilter::parse(&format!("{} == 1", "x".repeat(8000))).unwrap_err().to_string();
        assert!(error.len() < 400, "{error}");
    }
}

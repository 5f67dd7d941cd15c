//! Properties of the filter language that hold for every filter and every task, on random ones.

use std::convert::Infallible;
use std::fmt::Debug;
use std::sync::LazyLock;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use taskqueue_core::filter::{
    Document, DocumentPredicate, Expression, Flag, LastErrorFields, LastErrorPredicate, LastRunFields,
    LastRunPredicate, Literal, Membership, NullableTest, Number, ObservationDocument, ObservationFilter,
    ObservationPredicate, Order, TaskFilter, TaskPredicate, Test,
};
use taskqueue_core::ids::WorkerId;
use taskqueue_core::observation::{Observation, Report, Telemetry, WorkerStatus};
use taskqueue_core::task_view::TaskView;

use crate::prelude::*;

// Few different values, so that filters and tasks meet; and some at the edges.

fn text() -> impl Strategy<Value = String> {
    let usual = select(vec!["", "a", "b", "a b", "A", "\0", "\"'\\/", "ä", "😀", "None", "\u{7f}\u{2028}\n"]);
    prop_oneof![8 => usual.prop_map(str::to_owned), 1 => vec(any::<char>(), 0..6).prop_map(String::from_iter)]
}

fn number() -> impl Strategy<Value = Number> {
    let edges = [0, 1, -1, 2, 9_007_199_254_740_993, i64::MAX, i64::MIN];
    let floats = [0.0, -0.0, 1.0, 1.5, 9_007_199_254_740_992.0, 9_223_372_036_854_775_808.0, 5e-324, f64::MAX];
    prop_oneof![
        4 => select(edges.to_vec()).prop_map(Number::Int),
        4 => select(floats.to_vec()).prop_map(Number::Float),
        1 => any::<i64>().prop_map(Number::Int),
        1 => any::<f64>().prop_filter("finite", |float| float.is_finite()).prop_map(Number::Float),
    ]
}

fn time() -> impl Strategy<Value = Timestamp> {
    let usual = select(vec![0, 1, 1_000_000]);
    prop_oneof![4 => usual, 1 => -62_135_596_800_000_000..=253_402_300_799_999_999_i64].prop_map(Timestamp::from_micros)
}

fn literal() -> impl Strategy<Value = Literal> {
    prop_oneof![
        Just(Literal::Null),
        any::<bool>().prop_map(Literal::Bool),
        number().prop_map(Literal::Number),
        text().prop_map(Literal::Text),
    ]
}

fn key() -> impl Strategy<Value = String> {
    let usual = select(vec!["a", "b", "in", "not", "null", "exists", "and", "_9"]);
    prop_oneof![8 => usual.prop_map(str::to_owned), 1 => "[A-Za-z_][A-Za-z0-9_]{0,5}"]
}

fn test<E, O>(
    equal: impl Strategy<Value = E> + Clone + 'static,
    order: impl Strategy<Value = O> + 'static,
) -> BoxedStrategy<Test<E, O>>
where
    E: Clone + Debug + 'static,
    O: Clone + Debug + 'static,
{
    let orders = select(vec![Order::Less, Order::LessOrEqual, Order::Greater, Order::GreaterOrEqual]);
    prop_oneof![
        equal.clone().prop_map(Test::Equal),
        equal.clone().prop_map(Test::NotEqual),
        (orders, order).prop_map(|(operator, limit)| Test::Order(operator, limit)),
        vec(equal.clone(), 0..4).prop_map(Test::OneOf),
        vec(equal, 0..4).prop_map(Test::NoneOf),
    ]
    .boxed()
}

fn texts() -> BoxedStrategy<Test<String>> {
    test(text().boxed(), text())
}

fn numbers() -> BoxedStrategy<Test<Number>> {
    test(number().boxed(), number())
}

fn times() -> BoxedStrategy<Test<Timestamp>> {
    test(time().boxed(), time())
}

fn nullable_texts() -> BoxedStrategy<NullableTest<String>> {
    test(option::of(text()).boxed(), text())
}

fn nullable_times() -> BoxedStrategy<NullableTest<Timestamp>> {
    test(option::of(time()).boxed(), time())
}

/// Without an order.
fn flags() -> BoxedStrategy<Flag> {
    prop_oneof![
        any::<bool>().prop_map(Test::Equal),
        any::<bool>().prop_map(Test::NotEqual),
        vec(any::<bool>(), 0..4).prop_map(Test::OneOf),
        vec(any::<bool>(), 0..4).prop_map(Test::NoneOf),
    ]
    .boxed()
}

fn membership<T: Clone + Debug + 'static>(element: impl Strategy<Value = T> + 'static) -> BoxedStrategy<Membership<T>> {
    (element, any::<bool>())
        .prop_map(|(element, negated)| if negated { Membership::Lacks(element) } else { Membership::Contains(element) })
        .boxed()
}

/// A predicate, and a text that says it.
#[derive(Clone, Debug)]
struct Asked<P> {
    text: String,
    predicate: P,
}

impl<P> Asked<P> {
    fn map<Q>(self, to: fn(P) -> Q) -> Asked<Q> {
        Asked { text: self.text, predicate: to(self.predicate) }
    }
}

/// A value as a literal of a filter.
trait Written {
    fn written(&self) -> String;
}

macro_rules! written {
    ($($type:ty: |$value:ident| $text:expr;)+) => {
        $(impl Written for $type {
            fn written(&self) -> String {
                let $value = self;
                $text
            }
        })+
    };
}

written! {
    bool: |flag| flag.to_string();
    Infallible: |never| match *never {};
    Number: |number| number.to_string();
    Timestamp: |at| format!("\"{at}\"");
    Status: |status| format!("\"{}\"", status.as_str());
    WorkerStatus: |status| format!("\"{}\"", status.as_str());
    String: |text| serde_json::to_string(text).unwrap();
    Literal: |literal| match literal {
        Literal::Null => "null".to_owned(),
        Literal::Bool(flag) => flag.written(),
        Literal::Number(number) => number.written(),
        Literal::Text(text) => text.written(),
    };
}

impl<T: Written> Written for Option<T> {
    fn written(&self) -> String {
        self.as_ref().map_or("null".to_owned(), T::written)
    }
}

fn test_text<E: Written, O: Written>(path: &str, test: &Test<E, O>) -> String {
    let list = |list: &[E]| format!("[{}]", list.iter().map(E::written).collect::<Vec<_>>().join(", "));
    match test {
        Test::Equal(literal) => format!("{path} == {}", literal.written()),
        Test::NotEqual(literal) => format!("{path} != {}", literal.written()),
        Test::Order(order, literal) => format!("{path} {} {}", order.as_str(), literal.written()),
        Test::OneOf(literals) => format!("{path} in {}", list(literals)),
        Test::NoneOf(literals) => format!("{path} not in {}", list(literals)),
    }
}

fn membership_text<T: Written>(path: &str, membership: &Membership<T>) -> String {
    match membership {
        Membership::Contains(literal) => format!("{} in {path}", literal.written()),
        Membership::Lacks(literal) => format!("{} not in {path}", literal.written()),
    }
}

fn presence_text(path: &str, exists: bool) -> String {
    format!("{}({path})", if exists { "exists" } else { "missing" })
}

/// Predicates about a field with one value.
fn field<E: Written + Debug, O: Written + Debug, P: Debug>(
    path: &'static str,
    tests: BoxedStrategy<Test<E, O>>,
    predicate: fn(Test<E, O>) -> P,
) -> impl Strategy<Value = Asked<P>> {
    tests.prop_map(move |test| Asked { text: test_text(path, &test), predicate: predicate(test) })
}

/// Whether a field is there.
fn presence<P: Debug>(path: &'static str, predicate: fn(bool) -> P) -> impl Strategy<Value = Asked<P>> {
    any::<bool>().prop_map(move |exists| Asked { text: presence_text(path, exists), predicate: predicate(exists) })
}

fn task_predicate() -> impl Strategy<Value = Asked<TaskPredicate>> {
    prop_oneof![
        4 => plain_predicate(),
        1 => last_error_predicate().prop_map(|asked| asked.map(TaskPredicate::LastError)),
        1 => last_run_predicate().prop_map(|asked| asked.map(TaskPredicate::LastRun)),
        2 => document_predicate(),
    ]
}

fn plain_predicate() -> impl Strategy<Value = Asked<TaskPredicate>> {
    let statuses = || select(Status::ALL.to_vec());
    prop_oneof![
        presence("id", TaskPredicate::Presence),
        field("id", texts(), TaskPredicate::Id),
        field("status", test(statuses(), statuses()), TaskPredicate::Status),
        field("name", nullable_texts(), TaskPredicate::Name),
        field("last_route", nullable_texts(), TaskPredicate::LastRoute),
        field("priority", numbers(), TaskPredicate::Priority),
        field("attempt", numbers(), TaskPredicate::Attempt),
        field("max_attempts", numbers(), TaskPredicate::MaxAttempts),
        field("created_at", times(), TaskPredicate::CreatedAt),
        field("updated_at", times(), TaskPredicate::UpdatedAt),
        field("started_at", nullable_times(), TaskPredicate::StartedAt),
        field("finished_at", nullable_times(), TaskPredicate::FinishedAt),
        field("archived", flags(), TaskPredicate::Archived),
        membership(text())
            .prop_map(|membership| Asked { text: membership_text("routes", &membership), predicate: membership })
            .prop_map(|asked| asked.map(TaskPredicate::Routes)),
    ]
}

fn last_error_predicate() -> impl Strategy<Value = Asked<LastErrorPredicate>> {
    prop_oneof![
        presence("last_error.type", LastErrorPredicate::Presence),
        field("last_error.type", texts(), LastErrorPredicate::Type),
        field("last_error.message", texts(), LastErrorPredicate::Message),
        field("last_error.traceback", nullable_texts(), LastErrorPredicate::Traceback),
        field("last_error.run_id", texts(), LastErrorPredicate::RunId),
        field("last_error.attempt", numbers(), LastErrorPredicate::Attempt),
        field("last_error.occurred_at", times(), LastErrorPredicate::OccurredAt),
    ]
}

fn last_run_predicate() -> impl Strategy<Value = Asked<LastRunPredicate>> {
    prop_oneof![
        presence("last_run.attempt", LastRunPredicate::Presence),
        field("last_run.attempt", numbers(), LastRunPredicate::Attempt),
        field("last_run.run_id", nullable_texts(), LastRunPredicate::RunId),
    ]
}

fn document_predicate() -> impl Strategy<Value = Asked<TaskPredicate>> {
    question_in(Document::ALL.to_vec(), Document::as_str)
        .prop_map(|asked| asked.map(|(document, keys, question)| TaskPredicate::Document(document, keys, question)))
}

fn observation_document_predicate() -> impl Strategy<Value = Asked<ObservationPredicate>> {
    question_in(ObservationDocument::ALL.to_vec(), ObservationDocument::as_str).prop_map(|asked| {
        asked.map(|(document, keys, question)| ObservationPredicate::Document(document, keys, question))
    })
}

/// What can be asked of one of these documents: of a value behind keys anything, of the whole only what it holds.
fn question_in<D: Copy + Debug + 'static>(
    documents: Vec<D>,
    name: fn(D) -> &'static str,
) -> impl Strategy<Value = Asked<(D, Vec<String>, DocumentPredicate)>> {
    let predicate = prop_oneof![
        2 => any::<bool>().prop_map(DocumentPredicate::Presence),
        4 => test(literal().boxed(), number()).prop_map(DocumentPredicate::Value),
        2 => membership(literal()).prop_map(DocumentPredicate::Elements),
    ];
    let bare = membership(literal()).prop_map(|membership| (Vec::new(), DocumentPredicate::Elements(membership)));
    let question = prop_oneof![5 => (vec(key(), 1..4), predicate), 1 => bare];
    (select(documents), question).prop_map(move |(document, (keys, predicate))| {
        let path = keys.iter().fold(name(document).to_owned(), |path, key| format!("{path}.{key}"));
        let text = match &predicate {
            DocumentPredicate::Presence(exists) => presence_text(&path, *exists),
            DocumentPredicate::Value(test) => test_text(&path, test),
            DocumentPredicate::Elements(membership) => membership_text(&path, membership),
        };
        Asked { text, predicate: (document, keys, predicate) }
    })
}

fn observation_predicate() -> impl Strategy<Value = Asked<ObservationPredicate>> {
    prop_oneof![2 => plain_observation_predicate(), 1 => observation_document_predicate()]
}

fn plain_observation_predicate() -> impl Strategy<Value = Asked<ObservationPredicate>> {
    let statuses = || select(WorkerStatus::ALL.to_vec());
    prop_oneof![
        presence("id", ObservationPredicate::Presence),
        field("id", texts(), ObservationPredicate::Id),
        field("queue", texts(), ObservationPredicate::Queue),
        field("route", texts(), ObservationPredicate::Route),
        field("status", test(statuses(), statuses()), ObservationPredicate::Status),
        field("task_id", nullable_texts(), ObservationPredicate::TaskId),
        field("last_seen_at", times(), ObservationPredicate::LastSeenAt),
        field("expires_at", times(), ObservationPredicate::ExpiresAt),
        field("telemetry_updated_at", nullable_times(), ObservationPredicate::TelemetryUpdatedAt),
    ]
}

/// Random trees in the form the parser makes them: flat chains of at least two parts.
fn expression<P>(predicate: impl Strategy<Value = P> + 'static) -> BoxedStrategy<Expression<P>>
where
    P: Clone + Debug + 'static,
{
    let leaf = predicate.prop_map(Expression::Is);
    leaf.prop_recursive(4, 12, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|part| Expression::Not(Box::new(part))),
            vec(inner.clone(), 2..4).prop_map(|parts| Expression::All(parts.into_iter().flat_map(conjuncts).collect())),
            vec(inner, 2..4).prop_map(|parts| Expression::Any(parts.into_iter().flat_map(disjuncts).collect())),
        ]
    })
    .boxed()
}

/// The text of a tree, with as few parentheses as it needs.
fn said<P>(expression: &Expression<Asked<P>>) -> String {
    let is_chain = |part: &Expression<_>| matches!(part, Expression::All(_) | Expression::Any(_));
    let enclosed = |part, parentheses| if parentheses { format!("({})", said(part)) } else { said(part) };
    match expression {
        Expression::All(parts) => {
            parts.iter().map(|part| enclosed(part, is_chain(part))).collect::<Vec<_>>().join(" and ")
        }
        // `and` binds tighter, so it needs none here.
        Expression::Any(parts) => parts.iter().map(|part| enclosed(part, false)).collect::<Vec<_>>().join(" or "),
        Expression::Not(part) => format!("not {}", enclosed(part, is_chain(part))),
        Expression::Is(asked) => asked.text.clone(),
    }
}

/// The tree alone.
fn tree<P: Clone>(expression: &Expression<Asked<P>>) -> Expression<P> {
    match expression {
        Expression::All(parts) => Expression::All(parts.iter().map(tree).collect()),
        Expression::Any(parts) => Expression::Any(parts.iter().map(tree).collect()),
        Expression::Not(part) => Expression::Not(Box::new(tree(part))),
        Expression::Is(asked) => Expression::Is(asked.predicate.clone()),
    }
}

fn conjuncts<P>(part: Expression<P>) -> Vec<Expression<P>> {
    if let Expression::All(parts) = part { parts } else { vec![part] }
}

fn disjuncts<P>(part: Expression<P>) -> Vec<Expression<P>> {
    if let Expression::Any(parts) = part { parts } else { vec![part] }
}

#[derive(Clone, Debug)]
struct Row {
    text: String,
    nullable: Option<String>,
    status: Status,
    number: i64,
    time: Timestamp,
    nullable_time: Option<Timestamp>,
    document: &'static str,
    has_error: bool,
    has_run: bool,
}

fn row() -> impl Strategy<Value = Row> {
    let documents = [
        "{}",
        r#"{"a":1,"b":"a","in":null,"not":true}"#,
        r#"{"a":{"a":{"b":1.0},"b":[1,"a",null]},"b":[],"null":{"exists":9007199254740993}}"#,
        r#"{"a":["b",[1],{"a":1}],"b":{"a":-0.0,"b":""},"exists":"\u0000"}"#,
    ];
    let numbers = select(vec![0, 1, -1, 2, 9_007_199_254_740_993, i64::MAX, i64::MIN]);
    let rest = (numbers, time(), option::of(time()), select(documents.to_vec()), any::<bool>(), any::<bool>());
    (text(), option::of(text()), select(Status::ALL.to_vec()), rest).prop_map(|(text, nullable, status, rest)| {
        let (number, time, nullable_time, document, has_error, has_run) = rest;
        Row { text, nullable, status, number, time, nullable_time, document, has_error, has_run }
    })
}

impl Row {
    fn view(&self) -> TaskView<'_> {
        static TASK: LazyLock<Task> = LazyLock::new(new_task);
        let (text, nullable, at, attempt) = (&*self.text, self.nullable.as_deref(), self.time, self.number);
        let (kind, message, traceback, run_id) = (text, text, nullable, nullable);
        TaskView {
            status: self.status,
            name: nullable,
            last_route: nullable,
            priority: attempt,
            attempt,
            max_attempts: attempt,
            created_at: at,
            updated_at: at,
            started_at: self.nullable_time,
            finished_at: self.nullable_time,
            routes: if self.has_error { r#"["a","b"]"# } else { r#"["A","a b"]"# },
            args: self.document,
            metadata: self.document,
            result: self.document,
            last_error: self.has_error.then_some(LastErrorFields {
                kind,
                message,
                traceback,
                occurred_at: at,
                attempt,
                run_id,
            }),
            last_run: self.has_run.then_some(LastRunFields { attempt, worker: self.document, run_id }),
            progress: self.has_run.then_some(self.document),
            archived: self.has_run,
            ..TASK.view()
        }
    }

    fn observation(&self) -> Observation {
        let metadata = JsonObject::from_canonical(self.document);
        let status = if self.has_error { WorkerStatus::Idle } else { WorkerStatus::Busy };
        let task_id = self.nullable.as_ref().map(|_| TaskId::from_bytes([0; 9]));
        let measured = self.nullable_time.filter(|_| self.has_run);
        Observation {
            id: WorkerId::from_bytes([0; 9]),
            queue: QueueName::parse(&self.text).unwrap_or(QueueName::parse("a").unwrap()),
            report: Report { route: Route::parse("a").unwrap(), status, task_id, metadata: metadata.clone() },
            telemetry: measured.map(|updated_at| Telemetry { value: metadata, updated_at }),
            last_seen_at: self.time,
            expires_at: self.time,
        }
    }
}

/// Pieces of filters in any order: mostly wrong, sometimes right.
fn soup() -> impl Strategy<Value = String> {
    let pieces = "and or not in exists missing null True ( ) [ ] , . - == != < >= = && 1 1.5 007 1e9 'a' \" ' \\u12 \\ \
         priority name args args.a routes last_error.type status 'failed' '2026-01-01T00:00:00Z' ä \u{a0} \0 \
         exists(args.a) progress telemetry.a telemetry_updated_at";
    let pieces = pieces.split(' ').chain(["priority == 1", "'x' in routes", "not (", "name in [None]"]);
    vec((select(pieces.collect::<Vec<_>>()), select(vec!["", " ", "\n"])), 0..24)
        .prop_map(|pieces| pieces.into_iter().flat_map(|(piece, space)| [piece, space]).collect())
}

fn parse(text: &str) -> TaskFilter {
    TaskFilter::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn the_text_of_a_task_filter_parses_to_its_tree(expression in expression(task_predicate())) {
        let text = said(&expression);
        let filter = parse(&text);
        prop_assert_eq!(filter.expression(), &tree(&expression), "{}", text);
    }

    #[test]
    fn the_text_of_an_observation_filter_parses_to_its_tree(expression in expression(observation_predicate())) {
        let text = said(&expression);
        let filter = ObservationFilter::parse(&text);
        prop_assert_eq!(filter.as_ref().map(ObservationFilter::expression), Ok(&tree(&expression)), "{}", text);
    }

    #[test]
    fn looking_once_for_all_predicates_is_looking_for_each(
        expression in expression(task_predicate()),
        documents in expression(document_predicate()),
        row in row(),
    ) {
        for expression in [expression, documents] {
            let one_by_one = expression.holds(&mut |asked| asked.predicate.holds(&row.view()));
            prop_assert_eq!(parse(&said(&expression)).matches(&row.view()), one_by_one, "{}", said(&expression));
        }
    }

    #[test]
    fn an_observation_is_looked_at_once_for_all_predicates_as_for_each(
        expression in expression(observation_predicate()),
        documents in expression(observation_document_predicate()),
        row in row(),
    ) {
        let row = row.observation();
        for expression in [expression, documents] {
            let one_by_one = expression.holds(&mut |asked| asked.predicate.holds(&row));
            let filter = ObservationFilter::parse(&said(&expression)).unwrap();
            prop_assert_eq!(filter.matches(&row), one_by_one, "{}", said(&expression));
        }
    }

    #[test]
    fn de_morgan_holds(a in expression(task_predicate()), b in expression(task_predicate()), row in row()) {
        let (a, b) = (said(&a), said(&b));
        let same = [
            (format!("not (({a}) and ({b}))"), format!("not ({a}) or not ({b})")),
            (format!("not (({a}) or ({b}))"), format!("not ({a}) and not ({b})")),
        ];
        for (left, right) in same {
            let [one, other] = [&left, &right].map(|text| parse(text).matches(&row.view()));
            prop_assert_eq!(one, other, "{} / {}", left, right);
        }
    }

    #[test]
    fn in_a_list_is_equality_with_one_of_it(list in vec(literal(), 0..4), keys in vec(key(), 1..3), row in row()) {
        let asked = |test| TaskPredicate::Document(Document::Args, keys.clone(), DocumentPredicate::Value(test));
        let holds = |test| asked(test).holds(&row.view());
        let one_by_one = list.iter().any(|literal| holds(Test::Equal(literal.clone())));
        prop_assert_eq!(holds(Test::OneOf(list)), one_by_one);
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in any::<String>(), soup in soup()) {
        for text in [text, soup] {
            for error in [TaskFilter::parse(&text).err(), ObservationFilter::parse(&text).err()].into_iter().flatten() {
                prop_assert!(!error.to_string().is_empty());
            }
        }
    }

    #[test]
    fn a_column_lies_within_the_text_or_just_behind_it(soup in soup()) {
        if let Err(taskqueue_core::filter::FilterError::Invalid { column, .. }) = TaskFilter::parse(&soup) {
            prop_assert!((1..=soup.chars().count() + 1).contains(&column));
        }
    }
}

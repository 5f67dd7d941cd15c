//! Translates a selection to SQL (docs/decisions/0003): a condition that holds for every selected task, and is `exact` if
//! it holds for no other. What cannot be translated becomes `true`, inside a negation too. The order of pages is in
//! `dialect/order.rs`. Literals are always parameters.

pub(crate) mod operand;
pub(crate) mod order;

use taskqueue_core::filter::{
    Document, DocumentPredicate, Expression, Flag, LastErrorPredicate, LastRunPredicate, Literal, Membership, Order,
    TaskPredicate, Test,
};
use taskqueue_core::{Route, TaskSelection, json};

use self::operand::{Bound, Listed, Operand};

/// How many text searches the database may do per row. Each one decompresses and scans the whole text, up to 1 MiB; our
/// own evaluator needs one pass for all.
const MAX_SEARCHES: usize = 8;

/// A condition over `tasks`, `definitions` and `outcomes`.
#[derive(Clone, Debug)]
pub(crate) struct Condition {
    pub(crate) text: String,
    /// The values of its parameters, in order.
    pub(crate) bound: Vec<Bound>,
    /// Whether it holds for the selected tasks only; otherwise every row must be evaluated.
    pub(crate) exact: bool,
}

/// The condition of a selection; its parameters are numbered from `first` on.
pub(crate) fn condition(selection: &TaskSelection, first: usize) -> Condition {
    let mut writer = Writer::new(first);
    let mut parts = Vec::new();
    if !selection.include_archived {
        parts.push(Fragment::exact(NOT_ARCHIVED));
    }
    parts.extend(selection.status.map(|status| writer.one_of("tasks.status", Listed::texts([status.as_str()]))));
    parts.extend(selection.among.map(|statuses| writer.one_of("tasks.status", Listed::texts(statuses.words()))));
    parts.extend(selection.name.as_ref().map(|name| writer.one_of("tasks.name", Listed::texts([name.as_str()]))));
    if let Some((_, fuzzy)) = &selection.name_fuzzy
        && !fuzzy.is_unrestricted()
    {
        parts.push(Fragment::inexact("tasks.name IS NOT NULL"));
    }
    parts.extend(selection.filter.as_ref().map(|filter| writer.expression(filter.expression(), true)));
    let Fragment { text, exact } = Fragment::all(parts);
    Condition { text, bound: writer.bound, exact }
}

/// The same for the tasks with these keys alone; the parameters of the condition are numbered from `first` on.
pub(crate) fn among(condition: Condition, keys: &[i64], first: usize) -> Condition {
    let of_keys = key_in(keys.to_vec(), first + condition.bound.len());
    let parts = [condition.text, of_keys.text].map(|text| Fragment { text, exact: condition.exact });
    let Fragment { text, exact } = Fragment::all(parts.into());
    Condition { text, bound: condition.bound.into_iter().chain(of_keys.bound).collect(), exact }
}

/// The condition that a task has one of these keys.
pub(crate) fn key_in(keys: Vec<i64>, first: usize) -> Condition {
    let mut writer = Writer::new(first);
    let Fragment { text, exact } = writer.one_of("tasks.task_key", Listed { values: Bound::Ints(keys), null: false });
    Condition { text, bound: writer.bound, exact }
}

/// Null stands for false. Two indexes have these conditions.
pub(crate) const NOT_ARCHIVED: &str = "tasks.archived IS NOT TRUE";
pub(crate) const ARCHIVED: &str = "tasks.archived";

const TRUE: &str = "true";
const FALSE: &str = "false";

/// A part of a condition. It holds for every selected task, and for no other if `exact`. It may be null where it does not
/// hold: it is never used inside NOT.
struct Fragment {
    text: String,
    exact: bool,
}

impl Fragment {
    fn exact(text: impl Into<String>) -> Self {
        Self { text: text.into(), exact: true }
    }

    fn inexact(text: impl Into<String>) -> Self {
        Self { text: text.into(), exact: false }
    }

    fn unknown() -> Self {
        Self::inexact(TRUE)
    }

    fn always(holds: bool) -> Self {
        Self::exact(if holds { TRUE } else { FALSE })
    }

    fn all(parts: Vec<Self>) -> Self {
        Self::join(parts, " AND ", TRUE, FALSE)
    }

    fn any(parts: Vec<Self>) -> Self {
        Self::join(parts, " OR ", FALSE, TRUE)
    }

    /// Omits neutral parts, so that a condition without effect is the word `true`.
    fn join(parts: Vec<Self>, word: &str, neutral: &str, decisive: &str) -> Self {
        let exact = parts.iter().all(|part| part.exact);
        if parts.iter().any(|part| part.text == decisive) {
            return Self { text: decisive.into(), exact };
        }
        let mut texts: Vec<String> = parts.into_iter().map(|part| part.text).filter(|text| text != neutral).collect();
        let text = match texts.len() {
            0 => neutral.into(),
            1 => texts.remove(0),
            _ => format!("({})", texts.join(word)),
        };
        Self { text, exact }
    }
}

#[derive(Clone, Copy)]
struct Column {
    name: &'static str,
    null: Null,
}

#[derive(Clone, Copy, PartialEq)]
enum Null {
    Never,
    /// Null is a value that can be compared with.
    Value,
    /// Null means that the object is missing: then no test holds.
    Missing,
}

const fn column(name: &'static str, null: Null) -> Column {
    Column { name, null }
}

/// Writes conditions and collects their values. The depth of a filter is bounded (see [`Expression`]), so both this
/// program and PostgreSQL may recurse.
struct Writer {
    first: usize,
    bound: Vec<Bound>,
    searches: usize,
}

impl Writer {
    fn new(first: usize) -> Self {
        Self { first, bound: Vec::new(), searches: 0 }
    }

    fn bind(&mut self, value: Bound) -> String {
        self.bound.push(value);
        format!("${}", self.first + self.bound.len() - 1)
    }

    /// Whether an expression holds, or (`wanted` is false) does not hold: negations move down to the predicates.
    fn expression(&mut self, expression: &Expression<TaskPredicate>, wanted: bool) -> Fragment {
        match expression {
            Expression::Not(part) => self.expression(part, !wanted),
            Expression::Is(predicate) => self.predicate(predicate, wanted),
            Expression::All(parts) | Expression::Any(parts) => {
                let parts = parts.iter().map(|part| self.expression(part, wanted)).collect();
                if matches!(expression, Expression::All(_)) == wanted {
                    Fragment::all(parts)
                } else {
                    Fragment::any(parts)
                }
            }
        }
    }

    fn predicate(&mut self, predicate: &TaskPredicate, wanted: bool) -> Fragment {
        use Null::{Never, Value};
        match predicate {
            TaskPredicate::Presence(exists) => Fragment::always(*exists == wanted),
            TaskPredicate::Id(test) => self.test(column("tasks.id", Never), test, wanted),
            TaskPredicate::Status(test) => self.test(column("tasks.status", Never), test, wanted),
            TaskPredicate::Name(test) => self.test(column("tasks.name", Value), test, wanted),
            TaskPredicate::LastRoute(test) => self.test(column("tasks.last_route", Value), test, wanted),
            TaskPredicate::Priority(test) => self.test(column("tasks.priority", Never), test, wanted),
            TaskPredicate::Attempt(test) => self.test(column("tasks.attempt", Never), test, wanted),
            TaskPredicate::MaxAttempts(test) => self.test(column("tasks.max_attempts", Never), test, wanted),
            TaskPredicate::CreatedAt(test) => self.test(column("tasks.created_at", Never), test, wanted),
            TaskPredicate::UpdatedAt(test) => self.test(column("tasks.updated_at", Never), test, wanted),
            TaskPredicate::StartedAt(test) => self.test(column("tasks.started_at", Value), test, wanted),
            TaskPredicate::FinishedAt(test) => self.test(column("tasks.finished_at", Value), test, wanted),
            TaskPredicate::Archived(test) => archived(test, wanted),
            TaskPredicate::Routes(Membership::Contains(route)) => self.route(route, wanted),
            TaskPredicate::Routes(Membership::Lacks(route)) => self.route(route, !wanted),
            TaskPredicate::LastError(predicate) => self.last_error(predicate, wanted),
            TaskPredicate::LastRun(predicate) => self.last_run(predicate, wanted),
            TaskPredicate::Document(document, keys, predicate) => self.document(*document, keys, predicate, wanted),
        }
    }

    fn test<E: Operand, O: Operand>(&mut self, column: Column, test: &Test<E, O>, wanted: bool) -> Fragment {
        match test {
            Test::Equal(literal) => self.listed(column, E::listed(&[literal]), true, wanted),
            Test::NotEqual(literal) => self.listed(column, E::listed(&[literal]), false, wanted),
            Test::OneOf(list) => self.listed(column, E::listed(&list.iter().collect::<Vec<_>>()), true, wanted),
            Test::NoneOf(list) => self.listed(column, E::listed(&list.iter().collect::<Vec<_>>()), false, wanted),
            Test::Order(order, limit) => self.order(column, *order, limit, wanted),
        }
    }

    /// That a column has one of the values, or (`among` is false) none of them; negated if `wanted` is false.
    fn listed(&mut self, column: Column, listed: Listed, among: bool, wanted: bool) -> Fragment {
        // No test of a missing object holds; its negation does.
        let missing = column.null == Null::Missing && !wanted;
        let fragment = if among == wanted {
            let null = listed.null;
            let fragment = self.one_of(column.name, listed);
            if null { Fragment::any(vec![is_null(column), fragment]) } else { fragment }
        } else {
            let null_passes = column.null == Null::Value && !listed.null;
            let fragment = match (self.compared(column.name, "<>", "<> ALL", listed), column.null) {
                // No value is listed: every value passes.
                (None, Null::Never) => Fragment::always(true),
                (None, Null::Value) if null_passes => Fragment::always(true),
                (None, _) => is_not_null(column),
                (Some(fragment), _) => fragment,
            };
            if null_passes { Fragment::any(vec![is_null(column), fragment]) } else { fragment }
        };
        if missing { Fragment::any(vec![is_null(column), fragment]) } else { fragment }
    }

    fn one_of(&mut self, column: &str, listed: Listed) -> Fragment {
        self.compared(column, "=", "= ANY", listed).unwrap_or_else(|| Fragment::always(false))
    }

    /// The comparison of a column with one value, or with several, which are one parameter whatever their number. Nothing if none is
    /// listed.
    fn compared(&mut self, column: &str, one: &str, several: &str, listed: Listed) -> Option<Fragment> {
        let values = listed.values.single()?;
        let is_one = matches!(values, Bound::Int(_) | Bound::Text(_));
        let value = self.bind(values);
        let text = if is_one { format!("{column} {one} {value}") } else { format!("{column} {several} ({value})") };
        Some(Fragment::exact(text))
    }

    fn order<O: Operand>(&mut self, column: Column, order: Order, limit: &O, wanted: bool) -> Fragment {
        let null_passes = !wanted && column.null != Null::Never;
        let fragment = match O::limit(order, limit) {
            None => return Fragment::unknown(),
            Some(Err(holds)) if holds != wanted => Fragment::always(false),
            Some(Err(_)) if column.null == Null::Never => Fragment::always(true),
            Some(Err(_)) => is_not_null(column),
            Some(Ok((order, value))) => {
                Fragment::exact(format!("{} {} {}", column.name, comparison_operator(order, wanted), self.bind(value)))
            }
        };
        if null_passes { Fragment::any(vec![is_null(column), fragment]) } else { fragment }
    }

    /// Routes are stored as JSON, in which no character of a route is escaped: the quoted name is found if and only if it
    /// is one of them.
    fn route(&mut self, route: &str, wanted: bool) -> Fragment {
        if Route::parse(route).is_none() {
            return Fragment::always(!wanted);
        }
        if !self.may_search() {
            return Fragment::unknown();
        }
        let quoted = self.bind(Bound::Text(format!("\"{route}\"")));
        Fragment::exact(format!("strpos(tasks.routes, {quoted}) {} 0", if wanted { ">" } else { "=" }))
    }

    fn last_error(&mut self, predicate: &LastErrorPredicate, wanted: bool) -> Fragment {
        use LastErrorPredicate as Ask;
        let present = column("outcomes.error", Null::Missing);
        match predicate {
            Ask::Presence(exists) => is_there(present, *exists == wanted),
            // An error without a run is there, and has none of the values.
            Ask::RunId(test) => {
                let of_run = self.test(column("outcomes.error_run_id", Null::Value), test, wanted);
                match wanted {
                    true => Fragment::all(vec![is_not_null(present), of_run]),
                    false => Fragment::any(vec![is_null(present), of_run]),
                }
            }
            Ask::Attempt(test) => self.test(column("outcomes.error_attempt", Null::Missing), test, wanted),
            Ask::OccurredAt(test) => self.test(column("outcomes.error_occurred_at", Null::Missing), test, wanted),
            _ if !wanted => Fragment::unknown(),
            Ask::Type(Test::Equal(text)) | Ask::Message(Test::Equal(text)) => {
                self.contains(present.name, &quoted(text))
            }
            Ask::Traceback(Test::Equal(Some(text))) => self.contains(present.name, &quoted(text)),
            Ask::Type(_) | Ask::Message(_) | Ask::Traceback(_) => Fragment::inexact(is_not_null(present).text),
        }
    }

    /// The id of the last run is that of the latest finished one, and null while a run is active.
    fn last_run(&mut self, predicate: &LastRunPredicate, wanted: bool) -> Fragment {
        use LastRunPredicate as Ask;
        let attempt = column("outcomes.last_run_attempt", Null::Missing);
        match predicate {
            Ask::Presence(exists) => is_there(attempt, *exists == wanted),
            Ask::Attempt(test) => self.test(attempt, test, wanted),
            Ask::RunId(_) if !wanted => Fragment::unknown(),
            Ask::RunId(Test::Equal(Some(run_id))) => {
                let ended = self.one_of("tasks.finished_run_id", Listed::texts([run_id.as_str()]));
                Fragment { exact: false, ..Fragment::all(vec![is_not_null(attempt), ended]) }
            }
            Ask::RunId(_) => Fragment::inexact(is_not_null(attempt).text),
        }
    }

    /// A document can hold a value only if its canonical text contains the key and the value.
    fn document(
        &mut self,
        document: Document,
        keys: &[String],
        predicate: &DocumentPredicate,
        wanted: bool,
    ) -> Fragment {
        use DocumentPredicate as Ask;
        // Null stands for `{}`, or for a document that is not there: neither contains anything.
        let column = match document {
            Document::Args => "definitions.args",
            Document::Metadata => "definitions.metadata",
            Document::Result => "outcomes.result",
            Document::Worker => "outcomes.last_run_worker",
            Document::Progress => "outcomes.progress",
        };
        let member = keys.last().map_or_else(String::new, |key| quoted(key) + ":");
        match (predicate, wanted) {
            (Ask::Elements(Membership::Contains(Literal::Text(key))), true) if keys.is_empty() => {
                self.contains(column, &(quoted(key) + ":"))
            }
            _ if keys.is_empty() => Fragment::unknown(),
            (Ask::Presence(exists), _) if *exists == wanted => self.contains(column, &member),
            (Ask::Presence(_), _) | (_, false) => Fragment::unknown(),
            (Ask::Value(Test::Equal(literal)), true) => {
                self.contains(column, &(member + &canonical(literal).unwrap_or_default()))
            }
            (Ask::Elements(Membership::Contains(Literal::Text(text))), true) => {
                Fragment::all(vec![self.contains(column, &member), self.contains(column, &quoted(text))])
            }
            (Ask::Value(_) | Ask::Elements(_), true) => self.contains(column, &member),
        }
    }

    fn may_search(&mut self) -> bool {
        self.searches += 1;
        self.searches <= MAX_SEARCHES
    }

    /// That the text of a column contains `text`.
    fn contains(&mut self, column: &str, text: &str) -> Fragment {
        if !self.may_search() {
            return Fragment::unknown();
        }
        Fragment::inexact(format!("strpos({column}, {}) > 0", self.bind(Bound::Text(text.into()))))
    }
}

/// A test of a flag: it holds for one of the two values, for both, or for none.
fn archived(test: &Flag, wanted: bool) -> Fragment {
    let holds = |value: &bool| match test {
        Test::Equal(literal) => literal == value,
        Test::NotEqual(literal) => literal != value,
        Test::OneOf(list) => list.contains(value),
        Test::NoneOf(list) => !list.contains(value),
        Test::Order(_, never) => match *never {},
    };
    match (holds(&true) == wanted, holds(&false) == wanted) {
        (true, true) => Fragment::always(true),
        (true, false) => Fragment::exact(ARCHIVED),
        (false, true) => Fragment::exact(NOT_ARCHIVED),
        (false, false) => Fragment::always(false),
    }
}

fn is_null(column: Column) -> Fragment {
    Fragment::exact(format!("{} IS NULL", column.name))
}

fn is_there(column: Column, wanted: bool) -> Fragment {
    if wanted { is_not_null(column) } else { is_null(column) }
}

fn is_not_null(column: Column) -> Fragment {
    Fragment::exact(format!("{} IS NOT NULL", column.name))
}

/// The operator of a comparison, or of its negation.
fn comparison_operator(order: Order, wanted: bool) -> &'static str {
    match (order, wanted) {
        (Order::Less, true) | (Order::GreaterOrEqual, false) => "<",
        (Order::LessOrEqual, true) | (Order::Greater, false) => "<=",
        (Order::Greater, true) | (Order::LessOrEqual, false) => ">",
        (Order::GreaterOrEqual, true) | (Order::Less, false) => ">=",
    }
}

/// A string in canonical JSON.
fn quoted(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len() + 2);
    json::write_string(&mut out, text);
    // The writer produces valid UTF-8.
    String::from_utf8(out).unwrap_or_default()
}

/// A literal in canonical JSON, if all equal values have the same text. Equal numbers may differ.
fn canonical(literal: &Literal) -> Option<String> {
    match literal {
        Literal::Null => Some("null".into()),
        Literal::Bool(value) => Some(value.to_string()),
        Literal::Text(text) => Some(quoted(text)),
        Literal::Number(_) => None,
    }
}

//! Trees to text: a filter in its plainest spelling, which parses to the same tree again.

use std::convert::Infallible;
use std::fmt::{Display, Formatter, Result};

use super::ast::{
    DocumentPredicate, Expression, LastErrorPredicate, LastRunPredicate, Literal, Membership, Number,
    ObservationPredicate, TaskPredicate, Test,
};
use crate::status::{Status, WorkerStatus};
use crate::time::Timestamp;

impl<P: Display> Display for Expression<P> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::All(parts) => joined(f, parts, " and ", |f, part| part.enclosed(f, part.is_chain())),
            // `and` binds tighter, so only an `or` inside an `or` needs parentheses.
            Self::Any(parts) => joined(f, parts, " or ", |f, part| part.enclosed(f, matches!(part, Self::Any(_)))),
            Self::Not(part) => {
                f.write_str("not ")?;
                part.enclosed(f, part.is_chain())
            }
            Self::Is(predicate) => predicate.fmt(f),
        }
    }
}

impl<P: Display> Expression<P> {
    fn is_chain(&self) -> bool {
        matches!(self, Self::All(_) | Self::Any(_))
    }

    fn enclosed(&self, f: &mut Formatter<'_>, parentheses: bool) -> Result {
        if parentheses { write!(f, "({self})") } else { self.fmt(f) }
    }
}

impl Display for TaskPredicate {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Always(holds) => f.write_str(if *holds { "exists(id)" } else { "missing(id)" }),
            Self::Id(test) => test.print(f, "id"),
            Self::Status(test) => test.print(f, "status"),
            Self::Name(test) => test.print(f, "name"),
            Self::LastRoute(test) => test.print(f, "last_route"),
            Self::Priority(test) => test.print(f, "priority"),
            Self::Attempt(test) => test.print(f, "attempt"),
            Self::MaxAttempts(test) => test.print(f, "max_attempts"),
            Self::CreatedAt(test) => test.print(f, "created_at"),
            Self::UpdatedAt(test) => test.print(f, "updated_at"),
            Self::StartedAt(test) => test.print(f, "started_at"),
            Self::FinishedAt(test) => test.print(f, "finished_at"),
            Self::Archived(test) => test.print(f, "archived"),
            Self::Routes(membership) => membership.print(f, "routes"),
            Self::LastError(predicate) => predicate.fmt(f),
            Self::LastRun(predicate) => predicate.fmt(f),
            Self::Document(document, keys, predicate) => predicate.print(f, &dotted(document.as_str(), keys)),
        }
    }
}

impl Display for LastErrorPredicate {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Exists => f.write_str("exists(last_error.type)"),
            Self::Missing => f.write_str("missing(last_error.type)"),
            Self::Type(test) => test.print(f, "last_error.type"),
            Self::Message(test) => test.print(f, "last_error.message"),
            Self::Traceback(test) => test.print(f, "last_error.traceback"),
            Self::RunId(test) => test.print(f, "last_error.run_id"),
            Self::Attempt(test) => test.print(f, "last_error.attempt"),
            Self::OccurredAt(test) => test.print(f, "last_error.occurred_at"),
        }
    }
}

impl Display for LastRunPredicate {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Exists => f.write_str("exists(last_run.attempt)"),
            Self::Missing => f.write_str("missing(last_run.attempt)"),
            Self::Attempt(test) => test.print(f, "last_run.attempt"),
            Self::RunId(test) => test.print(f, "last_run.run_id"),
        }
    }
}

impl Display for ObservationPredicate {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Always(holds) => f.write_str(if *holds { "exists(id)" } else { "missing(id)" }),
            Self::Id(test) => test.print(f, "id"),
            Self::Queue(test) => test.print(f, "queue"),
            Self::Route(test) => test.print(f, "route"),
            Self::Status(test) => test.print(f, "status"),
            Self::TaskId(test) => test.print(f, "task_id"),
            Self::LastSeenAt(test) => test.print(f, "last_seen_at"),
            Self::ExpiresAt(test) => test.print(f, "expires_at"),
            Self::TelemetryUpdatedAt(test) => test.print(f, "telemetry_updated_at"),
            Self::Document(document, keys, predicate) => predicate.print(f, &dotted(document.as_str(), keys)),
        }
    }
}

impl DocumentPredicate {
    fn print(&self, f: &mut Formatter<'_>, path: &str) -> Result {
        match self {
            Self::Exists => write!(f, "exists({path})"),
            Self::Missing => write!(f, "missing({path})"),
            Self::Value(test) => test.print(f, path),
            Self::Elements(membership) => membership.print(f, path),
        }
    }
}

fn dotted(document: &str, keys: &[String]) -> String {
    keys.iter().fold(document.to_owned(), |path, key| path + "." + key)
}

impl<E, O> Test<E, O> {
    fn print(&self, f: &mut Formatter<'_>, path: &str) -> Result
    where
        E: Print,
        O: Print,
    {
        let (operator, literal): (_, &dyn Print) = match self {
            Self::Equal(literal) => ("==", literal),
            Self::NotEqual(literal) => ("!=", literal),
            Self::Order(order, literal) => (order.as_str(), literal),
            Self::OneOf(list) => ("in", list),
            Self::NoneOf(list) => ("not in", list),
        };
        write!(f, "{path} {operator} ")?;
        literal.print(f)
    }
}

impl<T> Membership<T> {
    fn print(&self, f: &mut Formatter<'_>, path: &str) -> Result
    where
        T: Print,
    {
        let (literal, operator) = match self {
            Self::Contains(literal) => (literal, "in"),
            Self::Lacks(literal) => (literal, "not in"),
        };
        literal.print(f)?;
        write!(f, " {operator} {path}")
    }
}

/// A value that can be written as a literal of the filter language, or as a list of them.
trait Print {
    fn print(&self, f: &mut Formatter<'_>) -> Result;
}

/// Says how the literals of each type are written.
macro_rules! literals {
    ($( $type:ty: |$value:ident, $f:ident| $written:expr; )+) => {
        $(impl Print for $type {
            fn print(&self, $f: &mut Formatter<'_>) -> Result {
                let $value = self;
                $written
            }
        })+
    };
}

literals! {
    bool: |value, f| write!(f, "{value}");
    Infallible: |value, _f| match *value {};
    String: |text, f| quoted(f, text);
    Status: |status, f| quoted(f, status.as_str());
    WorkerStatus: |status, f| quoted(f, status.as_str());
    Timestamp: |at, f| write!(f, "\"{at}\"");
    Number: |number, f| write!(f, "{number}");
}

/// A number as JSON and filters write it.
impl Display for Number {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Int(int) => write!(f, "{int}"),
            // The debug form always shows that it is a float, and reads back exactly.
            Self::Float(float) => write!(f, "{float:?}"),
        }
    }
}

impl Print for Literal {
    fn print(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Number(number) => number.print(f),
            Self::Text(text) => quoted(f, text),
        }
    }
}

impl<T: Print> Print for Option<T> {
    fn print(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Some(value) => value.print(f),
            None => f.write_str("null"),
        }
    }
}

impl<T: Print> Print for Vec<T> {
    fn print(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str("[")?;
        joined(f, self, ", ", |f, literal| literal.print(f))?;
        f.write_str("]")
    }
}

fn joined<T>(
    f: &mut Formatter<'_>,
    parts: &[T],
    separator: &str,
    print: impl Fn(&mut Formatter<'_>, &T) -> Result,
) -> Result {
    for (i, part) in parts.iter().enumerate() {
        if i > 0 {
            f.write_str(separator)?;
        }
        print(f, part)?;
    }
    Ok(())
}

fn quoted(f: &mut Formatter<'_>, text: &str) -> Result {
    f.write_str("\"")?;
    for c in text.chars() {
        match c {
            '"' | '\\' => write!(f, "\\{c}")?,
            ..' ' => write!(f, "\\u{:04x}", u32::from(c))?,
            _ => write!(f, "{c}")?,
        }
    }
    f.write_str("\"")
}

#[cfg(test)]
mod tests {
    use crate::filter::{ObservationFilter, TaskFilter};

    #[test]
    fn a_filter_is_printed_in_its_plainest_spelling() {
        let cases = [
            ("((priority==1))", "priority == 1"),
            ("5 < priority and (attempt >= - 2)", "priority > 5 and attempt >= -2"),
            ("(id=='a' and id=='b') and id=='c'", "id == \"a\" and id == \"b\" and id == \"c\""),
            ("id=='a' or (id=='b' and id=='c')", "id == \"a\" or id == \"b\" and id == \"c\""),
            ("(id=='a' or id=='b') and id=='c'", "(id == \"a\" or id == \"b\") and id == \"c\""),
            ("not not(id=='a' or id=='b')", "not not (id == \"a\" or id == \"b\")"),
            ("not(id in['a',])and name not in[]", "not id in [\"a\"] and name not in []"),
            ("None == name or exists(name)", "name == null or exists(id)"),
            ("args . a . in == .5", "args.a.in == 0.5"),
            ("1e3 in args.x or 'k' not in args", "1000.0 in args.x or \"k\" not in args"),
            (r#"name == 'a"\'\\\n\u0000ä'"#, r#"name == "a\"'\\\u000a\u0000ä""#),
            ("created_at < '2026-01-01T01:00:00+01:00'", "created_at < \"2026-01-01T00:00:00.000000Z\""),
            ("missing(last_error.traceback)", "missing(last_error.type)"),
            ("exists(last_run.run_id)or last_run.run_id==None", "exists(last_run.attempt) or last_run.run_id == null"),
            (
                "'k' in last_run.worker and 1<last_run.worker.a.b",
                "\"k\" in last_run.worker and last_run.worker.a.b > 1",
            ),
            ("missing(progress.a)or'k'not in progress", "missing(progress.a) or \"k\" not in progress"),
        ];
        for (text, printed) in cases {
            let filter = TaskFilter::parse(text).unwrap();
            assert_eq!(filter.expression().to_string(), printed);
            assert_eq!(TaskFilter::parse(printed).unwrap().expression(), filter.expression(), "{printed}");
        }
        let filter = ObservationFilter::parse("status!='idle'and task_id==null").unwrap();
        assert_eq!(filter.expression().to_string(), "status != \"idle\" and task_id == null");
        let text = "'k' in metadata and 90<telemetry.gpus.a or telemetry_updated_at in[None]";
        let printed = "\"k\" in metadata and telemetry.gpus.a > 90 or telemetry_updated_at in [null]";
        assert_eq!(ObservationFilter::parse(text).unwrap().expression().to_string(), printed);
    }
}

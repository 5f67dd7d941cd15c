//! The filter language: one expression over the fields of a task or of a worker observation
//! (docs/reference/filter-language.md). From text to a typed tree ([`Expression`]) and its evaluation; turning the tree
//! into SQL is the business of the backends.
//!
//! ```ebnf
//! filter      = or_expr ;
//! or_expr     = and_expr , { "or" , and_expr } ;
//! and_expr    = not_expr , { "and" , not_expr } ;
//! not_expr    = "not" , not_expr | predicate ;
//! predicate   = "(" , or_expr , ")" | presence | comparison | membership ;
//! presence    = ( "exists" | "missing" ) , "(" , path , ")" ;
//! comparison  = path , cmp , literal
//!             | literal , cmp , path ;
//! cmp         = "==" | "!=" | "<" | "<=" | ">" | ">=" ;
//! membership  = path , [ "not" ] , "in" , list
//!             | literal , [ "not" ] , "in" , path ;
//! list        = "[" , [ literal , { "," , literal } , [ "," ] ] , "]" ;
//! path        = name , { "." , name } ;
//! literal     = null | boolean | [ "-" ] , number | string ;
//! null        = "null" | "None" ;
//! boolean     = "true" | "True" | "false" | "False" ;
//! name        = ( letter | "_" ) , { letter | digit | "_" } ;          (* ASCII *)
//! number      = digits , [ "." , [ digits ] ] , [ exponent ] | "." , digits , [ exponent ] ;
//! exponent    = ( "e" | "E" ) , [ "+" | "-" ] , digits ;
//! string      = '"' , { character | escape } , '"' | "'" , { character | escape } , "'" ;
//! escape      = "\" , ( '"' | "'" | "\" | "/" | "b" | "f" | "n" | "r" | "t" | "u" , 4 * hexdigit ) ;
//! ```

mod ast;
mod eval;
mod fields;
mod lexer;
mod parse;
mod plan;
pub mod suggest;

pub use ast::{
    Document, DocumentPredicate, Expression, Flag, Literal, Membership, NullableTest, Number, ObservationDocument,
    Order, Test,
};
pub use eval::{LastErrorFields, LastRunFields, TaskFields};
pub use fields::{LastErrorPredicate, LastRunPredicate, ObservationPredicate, TaskPredicate};

use fields::FieldSet;
use plan::{Plan, Planned};

use crate::limits::FILTER_BYTES;
use crate::observation::Observation;
use crate::status::{Status, Statuses};

/// A parsed filter with its exact text, to which cursors are bound, and how it is evaluated.
#[derive(Clone, Debug, PartialEq)]
pub struct Filter<P> {
    text: Box<str>,
    expression: Expression<P>,
    plan: Plan<P>,
}

/// A filter over tasks.
pub type TaskFilter = Filter<TaskPredicate>;

/// A filter over worker observations.
pub type ObservationFilter = Filter<ObservationPredicate>;

impl<P> Filter<P> {
    /// The text as it was given.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns what the text means.
    pub fn expression(&self) -> &Expression<P> {
        &self.expression
    }

    fn read(text: &str) -> Result<Self, FilterError>
    where
        P: FieldSet + Planned,
    {
        if text.len() > FILTER_BYTES {
            return Err(FilterError::TooLarge);
        }
        match parse::parse(text) {
            Ok(expression) => Ok(Self { text: text.into(), plan: Plan::new(&expression), expression }),
            Err(fault) => Err(FilterError::Invalid { column: fault.column(text), message: fault.message }),
        }
    }
}

impl TaskFilter {
    /// Reads a filter over tasks.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        Self::read(text)
    }

    /// Returns whether the filter selects this task.
    pub fn matches(&self, task: &impl TaskFields) -> bool {
        self.plan.matches(task)
    }

    /// The states that a selected task can have.
    pub fn statuses(&self) -> Statuses {
        Status::ALL.into_iter().filter(|status| self.expression.decided_by(*status) != Some(false)).collect()
    }

    /// Returns whether the state of a task decides alone.
    pub fn is_by_status_only(&self) -> bool {
        Status::ALL.into_iter().all(|status| self.expression.decided_by(status).is_some())
    }

    /// Which of the heavy columns [`matches`](Self::matches) may ask for.
    pub fn reads(&self) -> Reads {
        let mut reads = Reads::default();
        self.expression.for_each(&mut |predicate| match predicate {
            TaskPredicate::Document(Document::Args | Document::Metadata, ..) => reads.definition = true,
            TaskPredicate::Document(Document::Result | Document::Worker | Document::Progress, ..)
            | TaskPredicate::LastError(_)
            | TaskPredicate::LastRun(_) => reads.outcome = true,
            _ => {}
        });
        reads
    }
}

impl Expression<TaskPredicate> {
    /// Returns whether this holds for every task (or for none) that has the status; nothing if that depends on more. A filter has
    /// no third value: what is not true is false, so `not` of what is decided is decided, too.
    fn decided_by(&self, status: Status) -> Option<bool> {
        match self {
            Self::All(parts) => chain(parts, status, false),
            Self::Any(parts) => chain(parts, status, true),
            Self::Not(part) => part.decided_by(status).map(|holds| !holds),
            Self::Is(TaskPredicate::Presence(exists)) => Some(*exists),
            Self::Is(TaskPredicate::Status(test)) => Some(eval::word(test, status, Status::as_str)),
            Self::Is(_) => None,
        }
    }
}

/// One part that is `decisive` decides; otherwise all must be decided.
fn chain(parts: &[Expression<TaskPredicate>], status: Status, decisive: bool) -> Option<bool> {
    let mut undecided = false;
    for part in parts {
        match part.decided_by(status) {
            Some(holds) if holds == decisive => return Some(decisive),
            Some(_) => {}
            None => undecided = true,
        }
    }
    (!undecided).then_some(!decisive)
}

impl ObservationFilter {
    /// Reads a filter over worker observations.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        Self::read(text)
    }

    /// Returns whether the filter selects this observation.
    pub fn matches(&self, observation: &Observation) -> bool {
        self.plan.matches(observation)
    }
}

/// The heavy columns of a task that a filter needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    /// `args` or `metadata`.
    pub definition: bool,
    /// `result`, `last_error`, `last_run` or `progress`.
    pub outcome: bool,
}

/// Why a text is no filter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// It has more than [`FILTER_BYTES`] bytes.
    #[error("the filter is larger than {} bytes", FILTER_BYTES)]
    TooLarge,
    /// It breaks the grammar or the rules of types.
    #[error("invalid filter at column {column}: {message}")]
    Invalid {
        /// Where the error begins: 1-based, in characters.
        column: usize,
        /// The expected thing, in a sentence.
        message: String,
    },
}

/// Something that begins at a place of the text, in bytes.
#[derive(Debug)]
struct At<T> {
    offset: usize,
    value: T,
}

/// An error that begins at a place of the text, in bytes.
#[derive(Debug)]
struct Fault {
    offset: usize,
    message: String,
}

impl Fault {
    fn new(offset: usize, message: impl Into<String>) -> Self {
        Self { offset, message: message.into() }
    }

    fn column(&self, text: &str) -> usize {
        text.char_indices().take_while(|(offset, _)| *offset < self.offset).count() + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_is_checked_in_bytes_and_before_anything_else() {
        let sized = |bytes: usize| format!("name == \"{}\"", "ä".repeat((bytes - 10) / 2));
        assert_eq!(sized(8192).len(), 8192);
        assert!(TaskFilter::parse(&sized(8192)).is_ok());
        assert_eq!(TaskFilter::parse(&sized(8194)), Err(FilterError::TooLarge));
        assert_eq!(TaskFilter::parse(&" ".repeat(8193)), Err(FilterError::TooLarge));
        assert_eq!(ObservationFilter::parse(&"(".repeat(8193)), Err(FilterError::TooLarge));
        assert!(matches!(TaskFilter::parse(&" ".repeat(8192)), Err(FilterError::Invalid { .. })));
    }

    #[test]
    fn a_filter_keeps_its_exact_text() {
        let text = " priority ==\t1 ";
        assert_eq!(TaskFilter::parse(text).unwrap().text(), text);
        assert_eq!(ObservationFilter::parse("id=='x'").unwrap().text(), "id=='x'");
    }

    #[test]
    fn a_filter_tells_which_heavy_columns_it_reads() {
        let cases = [
            ("priority == 1 and 'x' in routes", false, false),
            ("priority == 1 or not (args.x == 1)", true, false),
            ("'k' in metadata", true, false),
            ("exists(result.x)", false, true),
            ("missing(last_error.type)", false, true),
            ("last_run.worker.host == 'a'", false, true),
            ("exists(last_run.attempt)", false, true),
            ("progress.step > 1", false, true),
            ("args.x == 1 and last_error.attempt == 1", true, true),
        ];
        for (text, definition, outcome) in cases {
            assert_eq!(TaskFilter::parse(text).unwrap().reads(), Reads { definition, outcome }, "{text}");
        }
    }
}

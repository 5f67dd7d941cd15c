//! The two kinds of records that filters select, tasks and worker observations, as a plan sees them.

use super::ast::{
    Document, DocumentPredicate, LastErrorPredicate, Membership, ObservationDocument, ObservationPredicate,
    TaskPredicate,
};
use super::eval::{LastErrorFields, TaskFields};
use crate::observation::Observation;

/// The largest number of documents that a record can have.
pub(super) const DOCUMENTS_MAX: usize = Document::ALL.len();

/// What a predicate reads, as far as several of them can share one look.
pub(super) enum Source<'p> {
    /// The number of the document, the keys to step through, the question.
    Document(usize, &'p [String], &'p DocumentPredicate),
    Routes(&'p Membership<String>),
    LastError(&'p LastErrorPredicate),
    Plain,
}

/// A predicate that can be planned.
pub(super) trait Planned: Clone {
    fn source(&self) -> Source<'_>;
}

/// What can be asked such a predicate.
pub(super) trait Record<P> {
    /// Whether a predicate holds, looking for it alone.
    fn holds(&self, predicate: &P) -> bool;

    /// The document with this number, if the record has it.
    fn document(&self, number: usize) -> Option<&str>;

    fn routes(&self) -> impl Iterator<Item = &str> {
        std::iter::empty()
    }

    fn last_error(&self) -> Option<LastErrorFields<'_>> {
        None
    }
}

impl Planned for TaskPredicate {
    fn source(&self) -> Source<'_> {
        match self {
            Self::Document(document, keys, predicate) => Source::Document(*document as usize, keys, predicate),
            Self::Routes(membership) => Source::Routes(membership),
            Self::LastError(predicate) => Source::LastError(predicate),
            _ => Source::Plain,
        }
    }
}

impl<T: TaskFields> Record<TaskPredicate> for T {
    fn holds(&self, predicate: &TaskPredicate) -> bool {
        predicate.holds(self)
    }
    fn document(&self, number: usize) -> Option<&str> {
        TaskFields::document(self, Document::ALL[number])
    }
    fn routes(&self) -> impl Iterator<Item = &str> {
        TaskFields::routes(self)
    }
    fn last_error(&self) -> Option<LastErrorFields<'_>> {
        TaskFields::last_error(self)
    }
}

impl Planned for ObservationPredicate {
    fn source(&self) -> Source<'_> {
        match self {
            Self::Document(document, keys, predicate) => Source::Document(*document as usize, keys, predicate),
            _ => Source::Plain,
        }
    }
}

impl Record<ObservationPredicate> for Observation {
    fn holds(&self, predicate: &ObservationPredicate) -> bool {
        predicate.holds(self)
    }
    fn document(&self, number: usize) -> Option<&str> {
        match ObservationDocument::ALL[number] {
            ObservationDocument::Metadata => Some(self.report.metadata.as_str()),
            ObservationDocument::Telemetry => self.telemetry.as_ref().map(|telemetry| telemetry.value.as_str()),
        }
    }
}

//! A filter prepared for evaluation: what it asks of each JSON document, of the routes and of the last error is gathered
//! when the filter is read, so that a record is looked at once, however many predicates there are. What a predicate means
//! is in `eval.rs`; this file decides how often a text is gone over, and what a plan sees of the two kinds of records.

use std::cmp::Ordering;

use super::ast::{Document, DocumentPredicate, Expression, Literal, Membership, ObservationDocument};
use super::eval::{LastErrorFields, TaskFields};
use super::fields::{LastErrorPredicate, ObservationPredicate, TaskPredicate};
use crate::json::{Found, Pass, Paths, elements};
use crate::limits::JSON_DEPTH;
use crate::observation::Observation;

/// The largest number of documents that a record can have.
pub(super) const DOCUMENTS_MAX: usize = Document::ALL.len();

/// The part of a record that a predicate reads, as far as several of them can share one look.
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

/// A record that can be asked such a predicate.
pub(super) trait Record<P> {
    /// Returns whether a predicate holds, looking for it alone.
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
        self.document(ObservationDocument::ALL[number])
    }
}

/// Up to so many predicates about one text each look for themselves: on the small documents of most tasks this is faster
/// than one pass for all (0.04 against 0.09 microseconds where the first of two decides), and on large ones it is bounded.
const FEW: usize = 3;

/// How a filter is evaluated.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plan<P> {
    expression: Expression<Question<P>>,
    documents: [DocumentPlan; DOCUMENTS_MAX],
    /// The routes that are asked for, sorted.
    routes: Vec<String>,
}

/// The questions about one document.
#[derive(Clone, Debug, Default, PartialEq)]
struct DocumentPlan {
    paths: Paths,
    /// The literals that are looked for in arrays, by the place of their path.
    arrays: Vec<(usize, Literals)>,
}

/// A predicate, with places of the plan instead of paths and literals.
#[derive(Clone, Debug, PartialEq)]
enum Question<P> {
    /// Answered from the fields of the record at once.
    Plain(P),
    LastError(LastErrorPredicate),
    /// The question whether it is (or is not) one of the task's routes.
    Route {
        route: usize,
        wanted: bool,
    },
    /// A question about the value at a place of a document.
    Value {
        document: usize,
        place: usize,
        predicate: DocumentPredicate,
    },
    /// The question whether a literal is (or is not) in the array or among the keys of the object at a place.
    Member {
        document: usize,
        place: Option<usize>,
        member: Member,
        wanted: bool,
    },
    /// A path that no document is deep enough for.
    TooDeep {
        holds: bool,
    },
}

/// A member that is looked for in a container.
#[derive(Clone, Debug, PartialEq)]
struct Member {
    /// The index in [`DocumentPlan::arrays`] and the index in its literals; `None` if no array can be at the path.
    element: Option<(usize, usize)>,
    /// The index of the path that ends with the key; `None` for a literal that cannot be a key.
    key: Option<usize>,
}

impl<P: Planned> Plan<P> {
    /// The plan for a filter.
    pub(super) fn new(expression: &Expression<P>) -> Self {
        let (mut asked, mut routes) = ([const { Vec::new() }; DOCUMENTS_MAX], Vec::new());
        expression.for_each(&mut |predicate| match predicate.source() {
            Source::Document(document, keys, predicate) if keys.len() <= JSON_DEPTH => {
                asked[document].push((keys, predicate));
            }
            Source::Routes(membership) => routes.push(membership.parts().0.clone()),
            _ => {}
        });
        routes.sort_unstable();
        routes.dedup();
        let documents = asked.each_ref().map(|asked| document_plan(asked));
        let mut plan = Self { expression: Expression::All(Vec::new()), documents, routes };
        plan.expression = expression.map(&mut |predicate| plan.question(predicate, &asked));
        plan
    }

    fn question(&self, predicate: &P, asked: &[Vec<AskedOfDocument<'_>>; DOCUMENTS_MAX]) -> Question<P> {
        match predicate.source() {
            Source::LastError(predicate) => Question::LastError(predicate.clone()),
            Source::Routes(membership) if self.routes.len() > FEW => {
                let (route, wanted) = membership.parts();
                Question::Route { route: self.routes.partition_point(|other| other < route), wanted }
            }
            Source::Document(_, keys, predicate) if keys.len() > JSON_DEPTH => {
                Question::TooDeep { holds: *predicate == DocumentPredicate::Presence(false) }
            }
            Source::Document(document, keys, predicate) if asked[document].len() > FEW => {
                self.document_question(document, keys, predicate)
            }
            _ => Question::Plain(predicate.clone()),
        }
    }

    fn document_question(&self, document: usize, keys: &[String], predicate: &DocumentPredicate) -> Question<P> {
        let plan = &self.documents[document];
        let place = plan.paths.place(keys);
        match (predicate, place) {
            (DocumentPredicate::Elements(membership), _) => {
                let (literal, wanted) = membership.parts();
                let array = plan.arrays.iter().position(|(array, _)| Some(*array) == place);
                let element = array.and_then(|array| Some((array, plan.arrays[array].1.place(literal)?)));
                let key = key_path(keys, literal).and_then(|path| plan.paths.place(&path));
                Question::Member { document, place, member: Member { element, key }, wanted }
            }
            (predicate, Some(place)) => Question::Value { document, place, predicate: predicate.clone() },
            // Cannot be: every path that is asked for is in the set.
            (predicate, None) => Question::TooDeep { holds: *predicate == DocumentPredicate::Presence(false) },
        }
    }

    /// Returns whether the filter selects this record.
    pub(super) fn matches(&self, record: &impl Record<P>) -> bool {
        let mut evaluation =
            Evaluation { plan: self, record, passes: [const { None }; DOCUMENTS_MAX], routes: None, last_error: None };
        self.expression.holds(&mut |question| evaluation.answer(question))
    }
}

/// The path of a key of the object at `keys`, if the literal can be a key.
fn key_path(keys: &[String], literal: &Literal) -> Option<Vec<String>> {
    let Literal::Text(key) = literal else { return None };
    Some(keys.iter().chain([key]).cloned().collect())
}

/// The keys behind which a document is asked, and the question.
type AskedOfDocument<'f> = (&'f [String], &'f DocumentPredicate);

fn document_plan(asked: &[AskedOfDocument<'_>]) -> DocumentPlan {
    let looked_for = |(keys, predicate): &AskedOfDocument<'_>| match predicate {
        DocumentPredicate::Elements(membership) => Some((keys.to_vec(), membership.parts().0.clone())),
        _ => None,
    };
    let mut members: Vec<(Vec<String>, Literal)> = asked.iter().filter_map(looked_for).collect();
    let keys: Vec<Vec<String>> = members.iter().filter_map(|(keys, literal)| key_path(keys, literal)).collect();
    let paths = Paths::new(asked.iter().map(|(keys, _)| *keys).chain(keys.iter().map(Vec::as_slice)));
    members.sort_by(|(a, _), (b, _)| a.cmp(b));
    // A document itself is an object: it has no place and no elements.
    let arrays = members.chunk_by(|(a, _), (b, _)| a == b).filter_map(|chunk| {
        let place = paths.place(&chunk.first()?.0)?;
        Some((place, Literals::new(chunk.iter().map(|(_, literal)| literal.clone()).collect())))
    });
    DocumentPlan { arrays: arrays.collect(), paths }
}

/// Literals that are looked for together, in an order in which elements can be searched among them.
#[derive(Clone, Debug, PartialEq)]
struct Literals(Vec<Literal>);

impl Literals {
    fn new(mut literals: Vec<Literal>) -> Self {
        literals.sort_by(order);
        literals.dedup_by(|a, b| order(a, b).is_eq());
        Self(literals)
    }

    fn place(&self, literal: &Literal) -> Option<usize> {
        self.0.binary_search_by(|own| order(own, literal)).ok()
    }

    /// Which of them are elements of the array: one pass, which ends when all are found.
    fn found_in(&self, array: &str) -> Vec<bool> {
        let (mut found, mut left) = (vec![false; self.0.len()], self.0.len());
        for element in elements(array) {
            if let Ok(place) = self.0.binary_search_by(|own| order_of_element(own, &element))
                && !std::mem::replace(&mut found[place], true)
            {
                left -= 1;
                if left == 0 {
                    break;
                }
            }
        }
        found
    }
}

/// Any order in which equal literals, and only those, are equal.
fn order(a: &Literal, b: &Literal) -> Ordering {
    match (a, b) {
        (Literal::Bool(a), Literal::Bool(b)) => a.cmp(b),
        (Literal::Number(a), Literal::Number(b)) => a.compare(*b),
        (Literal::Text(a), Literal::Text(b)) => a.cmp(b),
        _ => rank(a).cmp(&rank(b)),
    }
}

fn rank(literal: &Literal) -> u8 {
    match literal {
        Literal::Null => 0,
        Literal::Bool(_) => 1,
        Literal::Number(_) => 2,
        Literal::Text(_) => 3,
    }
}

/// Returns the order between a literal and an element; containers sort behind every literal.
fn order_of_element(literal: &Literal, element: &Found<'_>) -> Ordering {
    match (literal, element) {
        (Literal::Text(literal), Found::Str(element)) => element.order(literal).reverse(),
        (_, Found::Str(_)) => Ordering::Less,
        (literal, Found::Null) => order(literal, &Literal::Null),
        (literal, Found::Bool(element)) => order(literal, &Literal::Bool(*element)),
        (literal, element) => match element.as_number() {
            Some(element) => order(literal, &Literal::Number(element)),
            None => Ordering::Less,
        },
    }
}

/// The evaluation of one record. Each part of it is read when the first predicate needs it.
struct Evaluation<'p, 'a, P, R> {
    plan: &'p Plan<P>,
    record: &'a R,
    passes: [Option<DocumentPass<'p, 'a>>; DOCUMENTS_MAX],
    /// Which of the plan's routes the record has.
    routes: Option<Vec<bool>>,
    last_error: Option<Option<LastErrorFields<'a>>>,
}

struct DocumentPass<'p, 'a> {
    pass: Pass<'p, 'a>,
    /// True if the record has the document.
    is_there: bool,
    /// Which of an array's literals it holds.
    arrays: Vec<Option<Vec<bool>>>,
}

impl<'p, 'a, P: Planned, R: Record<P>> Evaluation<'p, 'a, P, R> {
    fn answer(&mut self, question: &'p Question<P>) -> bool {
        match question {
            Question::Plain(predicate) => self.record.holds(predicate),
            Question::TooDeep { holds } => *holds,
            Question::LastError(predicate) => {
                predicate.holds(*self.last_error.get_or_insert_with(|| self.record.last_error()))
            }
            Question::Route { route, wanted } => self.has_route(*route) == *wanted,
            Question::Value { document, place, predicate } => {
                predicate.holds(self.document(*document).pass.find(*place))
            }
            Question::Member { document, place, member, wanted } => {
                self.contains(*document, *place, member).is_some_and(|contains| contains == *wanted)
            }
        }
    }

    fn has_route(&mut self, route: usize) -> bool {
        let (record, wanted) = (self.record, &self.plan.routes);
        let routes = self.routes.get_or_insert_with(|| {
            let mut found = vec![false; wanted.len()];
            for own in record.routes() {
                if let Ok(place) = wanted.binary_search_by(|route| route.as_str().cmp(own)) {
                    found[place] = true;
                }
            }
            found
        });
        routes[route]
    }

    fn document(&mut self, number: usize) -> &mut DocumentPass<'p, 'a> {
        let (plan, record) = (&self.plan.documents[number], self.record);
        self.passes[number].get_or_insert_with(|| {
            let text = record.document(number);
            let pass = Pass::new(&plan.paths, text.unwrap_or("{}"));
            DocumentPass { pass, is_there: text.is_some(), arrays: Vec::new() }
        })
    }

    /// Returns whether a container holds a member; nothing for other values.
    fn contains(&mut self, document: usize, place: Option<usize>, member: &Member) -> Option<bool> {
        let plan = &self.plan.documents[document];
        let DocumentPass { pass, is_there, arrays } = self.document(document);
        let found = match place {
            Some(place) => pass.find(place)?,
            None if !*is_there => return None,
            // The document itself.
            None => Found::Object(""),
        };
        match found {
            Found::Array(array) => {
                let (number, literal) = member.element?;
                arrays.resize(plan.arrays.len(), None);
                let held = arrays[number].get_or_insert_with(|| plan.arrays[number].1.found_in(array));
                Some(held[literal])
            }
            Found::Object(_) => Some(member.key.is_some_and(|key| pass.find(key).is_some())),
            _ => None,
        }
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;

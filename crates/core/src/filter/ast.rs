//! What a filter means once it is parsed: a closed, fully typed tree, for backends that translate it as well
//! as for [`eval`](super::eval). Literals stand converted, the path always on the left. The predicates are in `fields.rs`.

use std::convert::Infallible;

use crate::status::word_enum;

/// A boolean combination of predicates.
///
/// Chains are flat: a parsed `All` never holds an `All` directly, nor an `Any` an `Any`, and both hold at least
/// two parts. With `n` levels of parentheses and `not` the tree is therefore at most `2n + 3` deep, and walking
/// it recursively is safe.
#[derive(Clone, Debug, PartialEq)]
pub enum Expression<P> {
    /// Every part holds (`and`).
    All(Vec<Expression<P>>),
    /// At least one part holds (`or`).
    Any(Vec<Expression<P>>),
    /// The part does not hold (`not`).
    Not(Box<Expression<P>>),
    /// The predicate holds.
    Is(P),
}

impl<P> Expression<P> {
    /// The conjunction of `parts`, flat; a single part is returned unchanged.
    pub(super) fn all(parts: Vec<Self>) -> Self {
        let inner = |part| if let Self::All(inner) = part { inner } else { vec![part] };
        Self::one_or(parts.into_iter().flat_map(inner).collect(), Self::All)
    }

    /// Returns the disjunction of `parts`, flat; a single part is returned unchanged.
    pub(super) fn any(parts: Vec<Self>) -> Self {
        let inner = |part| if let Self::Any(inner) = part { inner } else { vec![part] };
        Self::one_or(parts.into_iter().flat_map(inner).collect(), Self::Any)
    }

    fn one_or(mut parts: Vec<Self>, join: fn(Vec<Self>) -> Self) -> Self {
        match parts.pop() {
            Some(only) if parts.is_empty() => only,
            last => {
                parts.extend(last);
                join(parts)
            }
        }
    }

    /// Calls `visit` with every predicate, from left to right.
    pub fn for_each<'e>(&'e self, visit: &mut impl FnMut(&'e P)) {
        match self {
            Self::All(parts) | Self::Any(parts) => parts.iter().for_each(|part| part.for_each(visit)),
            Self::Not(part) => part.for_each(visit),
            Self::Is(predicate) => visit(predicate),
        }
    }

    /// Returns the combination with other predicates.
    pub(super) fn map<Q>(&self, to: &mut impl FnMut(&P) -> Q) -> Expression<Q> {
        match self {
            Self::All(parts) => Expression::All(parts.iter().map(|part| part.map(to)).collect()),
            Self::Any(parts) => Expression::Any(parts.iter().map(|part| part.map(to)).collect()),
            Self::Not(part) => Expression::Not(Box::new(part.map(to))),
            Self::Is(predicate) => Expression::Is(to(predicate)),
        }
    }
}

/// A test of one value: `E` is what it may be compared with for equality, `O` for order.
#[derive(Clone, Debug, PartialEq)]
pub enum Test<E, O = E> {
    /// `==`
    Equal(E),
    /// `!=`
    NotEqual(E),
    /// `<`, `<=`, `>`, `>=`
    Order(Order, O),
    /// `in [...]`
    OneOf(Vec<E>),
    /// `not in [...]`
    NoneOf(Vec<E>),
}

/// A test of a value that may be null: null can be compared and listed, but has no order.
pub type NullableTest<T> = Test<Option<T>, T>;

/// A test of a flag, which has no order.
pub type Flag = Test<bool, Infallible>;

word_enum! {
    /// The comparisons that need an order.
    pub enum Order {
        Less = "<",
        LessOrEqual = "<=",
        Greater = ">",
        GreaterOrEqual = ">=",
    }
}

/// A test of a collection.
#[derive(Clone, Debug, PartialEq)]
pub enum Membership<T> {
    /// `literal in path`
    Contains(T),
    /// `literal not in path`
    Lacks(T),
}

impl<T> Membership<T> {
    /// Returns what is looked for, and whether it must be there.
    pub(super) fn parts(&self) -> (&T, bool) {
        match self {
            Self::Contains(literal) => (literal, true),
            Self::Lacks(literal) => (literal, false),
        }
    }
}

/// A number literal; a float is always finite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// Written without `.` and exponent.
    Int(i64),
    /// Written with `.` or exponent.
    Float(f64),
}

/// A literal of any type, as it may be compared with JSON.
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    /// `null`, `None`
    Null,
    /// `true`, `false`, `True`, `False`
    Bool(bool),
    Number(Number),
    /// A string.
    Text(String),
}

word_enum! {
    /// The JSON documents of a task.
    pub enum Document {
        Args = "args",
        Metadata = "metadata",
        Result = "result",
        /// A document which a task may lack: then no question about it holds but `missing`.
        Worker = "last_run.worker",
        /// A document which a task may lack, too.
        Progress = "progress",
    }
}

/// A question of a filter about a value inside a JSON document (docs/reference/filter-language.md §8).
#[derive(Clone, Debug, PartialEq)]
pub enum DocumentPredicate {
    /// `exists` (true) or `missing` (false): whether there is a value, be it null.
    Presence(bool),
    /// The value itself; types never convert, and only numbers have an order.
    Value(Test<Literal, Number>),
    /// The elements of an array or the keys of an object.
    Elements(Membership<Literal>),
}

word_enum! {
    /// The JSON documents of a worker observation.
    pub enum ObservationDocument {
        Metadata = "metadata",
        /// A document which an observation may lack: then no question about it holds but `missing`.
        Telemetry = "telemetry",
    }
}

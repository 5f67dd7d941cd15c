//! From literals to typed values (docs/reference/filter-language.md §4 and §7): each type a field can have, and the
//! literals it takes. Nothing converts: a number is never read from a string.

use std::convert::Infallible;

use super::ast::{Literal, Membership, Number, Test};
use super::error::{At, Fault};
use super::suggest;
use crate::status::{Status, WorkerStatus};
use crate::time::Timestamp;

/// A type that some literals have.
pub(super) trait FromLiteral: Sized {
    /// The value of the literal, or what was expected instead.
    fn from_literal(literal: At<Literal>) -> Result<Self, Fault>;
}

impl Test<At<Literal>> {
    /// The same test with every literal converted to the type of the field.
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
    /// The same test with the literal converted to the type of the elements.
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

impl FromLiteral for String {
    fn from_literal(literal: At<Literal>) -> Result<Self, Fault> {
        match literal.value {
            Literal::Text(text) => Ok(text),
            _ => Err(literal.wrong_type("a string")),
        }
    }
}

impl FromLiteral for bool {
    fn from_literal(literal: At<Literal>) -> Result<Self, Fault> {
        match literal.value {
            Literal::Bool(value) => Ok(value),
            _ => Err(literal.wrong_type("true or false")),
        }
    }
}

/// What has no order cannot be compared.
impl FromLiteral for Infallible {
    fn from_literal(literal: At<Literal>) -> Result<Self, Fault> {
        Err(Fault::new(
            literal.offset,
            "true and false have no order, expected `==`, `!=`, `in` or `not in`".to_owned(),
        ))
    }
}

impl FromLiteral for Number {
    fn from_literal(literal: At<Literal>) -> Result<Self, Fault> {
        match literal.value {
            Literal::Number(number) => Ok(number),
            _ => Err(literal.wrong_type("a number")),
        }
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
        word(literal, &Status::ALL, Status::as_str)
    }
}

impl FromLiteral for WorkerStatus {
    fn from_literal(literal: At<Literal>) -> Result<Self, Fault> {
        word(literal, &WorkerStatus::ALL, WorkerStatus::as_str)
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

fn word<T: Copy>(literal: At<Literal>, all: &[T], as_str: fn(T) -> &'static str) -> Result<T, Fault> {
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

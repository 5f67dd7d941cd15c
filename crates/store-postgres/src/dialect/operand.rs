//! Literals of a filter as parameters to compare a column with. Numbers are compared exactly: columns hold integers, so
//! every float becomes an integer limit or a constant result. The columns are in `dialect.rs`.

use taskqueue_core::filter::{Number, Order};
use taskqueue_core::{Status, Timestamp};
use tokio_postgres::types::{ToSql, Type};

use crate::session::Param;

/// The value of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Bound {
    /// A number or a time.
    Int(i64),
    /// A text without U+0000.
    Text(String),
    /// Numbers or times.
    Ints(Vec<i64>),
    /// Texts without U+0000.
    Texts(Vec<String>),
}

impl Bound {
    pub(crate) fn param(&self) -> Param<'_> {
        match self {
            Self::Int(value) => (value as &(dyn ToSql + Sync), Type::INT8),
            Self::Text(value) => (value, Type::TEXT),
            Self::Ints(values) => (values, Type::INT8_ARRAY),
            Self::Texts(values) => (values, Type::TEXT_ARRAY),
        }
    }

    /// A list of one element as that element; nothing for an empty list.
    pub(crate) fn single(self) -> Option<Self> {
        match self {
            Self::Ints(values) if values.len() < 2 => values.into_iter().next().map(Self::Int),
            Self::Texts(values) if values.len() < 2 => values.into_iter().next().map(Self::Text),
            values => Some(values),
        }
    }
}

/// What an equality or a list compares with.
pub(crate) struct Listed {
    pub(crate) values: Bound,
    /// Whether null is listed.
    pub(crate) null: bool,
}

impl Listed {
    /// No column holds U+0000, so a text with it equals none.
    pub(crate) fn texts<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let sendable = texts.into_iter().filter(|text| is_sendable(text)).map(str::to_owned);
        Self { values: Bound::Texts(sendable.collect()), null: false }
    }
}

pub(crate) trait Operand {
    /// Those of the literals that the column can hold.
    fn listed(literals: &[&Self]) -> Listed;

    /// The equivalent comparison with a parameter, or its constant result, or nothing if SQL cannot express it.
    fn limit(order: Order, literal: &Self) -> Option<Result<(Order, Bound), bool>>;
}

impl Operand for String {
    fn listed(literals: &[&Self]) -> Listed {
        Listed::texts(literals.iter().map(|text| text.as_str()))
    }
    fn limit(order: Order, literal: &Self) -> Option<Result<(Order, Bound), bool>> {
        is_sendable(literal).then(|| Ok((order, Bound::Text(literal.clone()))))
    }
}

impl Operand for Status {
    fn listed(literals: &[&Self]) -> Listed {
        Listed::texts(literals.iter().map(|status| status.as_str()))
    }
    fn limit(order: Order, literal: &Self) -> Option<Result<(Order, Bound), bool>> {
        Some(Ok((order, Bound::Text(literal.as_str().into()))))
    }
}

impl Operand for Timestamp {
    fn listed(literals: &[&Self]) -> Listed {
        Listed { values: Bound::Ints(literals.iter().map(|time| time.as_micros()).collect()), null: false }
    }
    fn limit(order: Order, literal: &Self) -> Option<Result<(Order, Bound), bool>> {
        Some(Ok((order, Bound::Int(literal.as_micros()))))
    }
}

impl Operand for Number {
    fn listed(literals: &[&Self]) -> Listed {
        let whole = |number: &&Self| match number {
            Self::Int(value) => Some(*value),
            Self::Float(value) if value.fract() == 0.0 => to_int(*value).ok(),
            Self::Float(_) => None,
        };
        Listed { values: Bound::Ints(literals.iter().filter_map(whole).collect()), null: false }
    }
    fn limit(order: Order, literal: &Self) -> Option<Result<(Order, Bound), bool>> {
        let value = match literal {
            Self::Int(value) => Ok(*value),
            // A whole number is below 1.5 exactly when it is below 2, and at most 1.5 exactly when it is at most 1.
            Self::Float(value) => to_int(match order {
                Order::Less | Order::GreaterOrEqual => value.ceil(),
                Order::LessOrEqual | Order::Greater => value.floor(),
            }),
        };
        let beyond = |side: Side| matches!(order, Order::Less | Order::LessOrEqual) == (side == Side::Above);
        Some(value.map(|value| (order, Bound::Int(value))).map_err(beyond))
    }
}

/// On which side of all integers a float lies.
#[derive(PartialEq)]
enum Side {
    Below,
    Above,
}

/// Converts a float without fraction.
fn to_int(whole: f64) -> Result<i64, Side> {
    const TWO_TO_THE_63: f64 = 9_223_372_036_854_775_808.0;
    match whole {
        _ if whole >= TWO_TO_THE_63 => Err(Side::Above),
        _ if whole < -TWO_TO_THE_63 => Err(Side::Below),
        _ => Ok(whole as i64),
    }
}

impl<T: Operand> Operand for Option<T> {
    fn listed(literals: &[&Self]) -> Listed {
        let values: Vec<&T> = literals.iter().filter_map(|literal| literal.as_ref()).collect();
        Listed { null: values.len() < literals.len(), ..T::listed(&values) }
    }
    fn limit(order: Order, literal: &Self) -> Option<Result<(Order, Bound), bool>> {
        T::limit(order, literal.as_ref()?)
    }
}

/// PostgreSQL cannot hold U+0000 in a text.
fn is_sendable(text: &str) -> bool {
    !text.contains('\0')
}

//! The tree that a body is read into. Reading lives in `parse`, writing in `canonical`.

use std::borrow::Cow;

/// A parsed JSON value. It borrows from the text it was read from wherever a string has no escapes.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number without `.` and exponent.
    Int(i64),
    /// A number with `.` or exponent; always finite.
    Float(f64),
    /// A string, escapes resolved.
    Str(Cow<'a, str>),
    Array(Vec<Value<'a>>),
    /// An object: each key once (the last duplicate won), sorted by code point.
    Object(Vec<(Cow<'a, str>, Value<'a>)>),
    /// An object that no field may hold, because of its keys. On the heap: it is rare, and values are many.
    LoneSurrogateKeys(Box<LoneSurrogateKeys<'a>>),
    /// Well-formed JSON text that no field may hold.
    Unusable(Unusable),
}

/// An object with half a surrogate pair in one or more of its keys. It is kept because another error in it may take
/// precedence (docs/reference/errors.md §2).
#[derive(Clone, Debug, PartialEq)]
pub struct LoneSurrogateKeys<'a> {
    /// The members whose keys are whole, as in [`Value::Object`].
    pub members: Vec<(Cow<'a, str>, Value<'a>)>,
    /// The values of the other keys.
    pub keyless: Vec<Value<'a>>,
}

/// Why well-formed JSON text is no usable value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// An integer that does not fit in 64 bits signed.
    IntegerRange,
    /// A number beyond the largest finite float.
    FloatRange,
    /// A string with half a surrogate pair.
    LoneSurrogate,
    /// An object with half a surrogate pair in one of its keys.
    LoneSurrogateKey,
}

impl Value<'_> {
    /// Returns the member of an object.
    pub fn get(&self, name: &str) -> Option<&Self> {
        let Self::Object(members) = self else { return None };
        members.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// Whether containers are nested deeper than `levels`; a container itself is one level.
    pub(super) fn is_deeper_than(&self, levels: usize) -> bool {
        let Some(below) = levels.checked_sub(1) else {
            return matches!(self, Self::Array(_) | Self::Object(_) | Self::LoneSurrogateKeys(_));
        };
        match self {
            Self::Array(items) => items.iter().any(|item| item.is_deeper_than(below)),
            Self::Object(members) => members.iter().any(|(_, member)| member.is_deeper_than(below)),
            Self::LoneSurrogateKeys(object) => {
                let members = object.members.iter().map(|(_, member)| member);
                members.chain(&object.keyless).any(|member| member.is_deeper_than(below))
            }
            _ => false,
        }
    }
}

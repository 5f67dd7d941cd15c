//! Reads the fields of a JSON object in an answer, each by name and type, and says what is wrong in terms of the answer.

use std::borrow::Cow;

use taskqueue_core::json::{JsonObject, Value};
use taskqueue_core::time::Timestamp;

/// What is wrong with a body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unreadable(pub(super) String);

/// An object whose unknown fields are nobody's business.
#[derive(Clone, Copy)]
pub(super) struct Object<'v> {
    /// Sorted by key, as the parser gives them.
    members: &'v [(Cow<'v, str>, Value<'v>)],
    /// What it is, for messages.
    what: &'static str,
}

impl<'v> Object<'v> {
    pub(super) fn of(value: &'v Value<'v>, what: &'static str) -> Result<Self, Unreadable> {
        match value {
            Value::Object(members) => Ok(Self { members, what }),
            _ => Err(Unreadable(format!("the {what} is not an object"))),
        }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    fn get(&self, name: &str) -> Option<&'v Value<'v>> {
        let at = self.members.binary_search_by(|(key, _)| key.as_ref().cmp(name)).ok()?;
        Some(&self.members[at].1)
    }

    pub(super) fn value(&self, name: &str) -> Result<&'v Value<'v>, Unreadable> {
        self.get(name).ok_or_else(|| Unreadable(format!("the {} has no `{name}`", self.what)))
    }

    pub(super) fn wrong<T>(&self, name: &str) -> Result<T, Unreadable> {
        Err(Unreadable(format!("`{name}` of the {} has a wrong type or value", self.what)))
    }

    pub(super) fn object(&self, name: &'static str) -> Result<Self, Unreadable> {
        Self::of(self.value(name)?, name)
    }

    pub(super) fn list(&self, name: &str) -> Result<&'v [Value<'v>], Unreadable> {
        if let Value::Array(items) = self.value(name)? { Ok(items) } else { self.wrong(name) }
    }

    pub(super) fn text(&self, name: &str) -> Result<&'v str, Unreadable> {
        if let Value::Str(text) = self.value(name)? { Ok(text) } else { self.wrong(name) }
    }

    pub(super) fn integer(&self, name: &str) -> Result<i64, Unreadable> {
        if let Value::Int(integer) = self.value(name)? { Ok(*integer) } else { self.wrong(name) }
    }

    /// An integer from 0.
    pub(super) fn count(&self, name: &str) -> Result<u64, Unreadable> {
        u64::try_from(self.integer(name)?).or_else(|_| self.wrong(name))
    }

    /// A string that `parse` accepts.
    pub(super) fn parsed<T>(&self, name: &str, parse: fn(&str) -> Option<T>) -> Result<T, Unreadable> {
        parse(self.text(name)?).map_or_else(|| self.wrong(name), Ok)
    }

    pub(super) fn time(&self, name: &str) -> Result<Timestamp, Unreadable> {
        self.parsed(name, Timestamp::parse)
    }

    /// A JSON object that belongs to the users: kept as it is, 64-bit integers and forms of floats included.
    pub(super) fn json(&self, name: &str) -> Result<JsonObject, Unreadable> {
        JsonObject::from_value(self.value(name)?).or_else(|_| self.wrong(name))
    }

    /// A field that is there but may be null.
    pub(super) fn nullable<T>(
        &self,
        name: &'static str,
        read: impl FnOnce(&Self, &'static str) -> Result<T, Unreadable>,
    ) -> Result<Option<T>, Unreadable> {
        if *self.value(name)? == Value::Null { Ok(None) } else { read(self, name).map(Some) }
    }
}

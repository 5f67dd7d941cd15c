//! Reads the fields of a JSON object, each by name and type. A missing or wrong field is an error whose text
//! names the object; unknown fields are ignored, because a newer server may send them.

use std::borrow::Cow;

use taskqueue_core::json::{JsonObject, Value};
use taskqueue_core::time::Timestamp;

/// What is wrong with an answer.
#[derive(Debug, PartialEq, Eq)]
pub struct Unreadable(pub String);

/// An object whose fields are read one by one.
#[derive(Clone, Copy, Debug)]
pub struct ObjectReader<'v> {
    /// Sorted by key, as the parser gives them.
    members: &'v [(Cow<'v, str>, Value<'v>)],
    /// What it is, for messages.
    what: &'static str,
}

impl<'v> ObjectReader<'v> {
    /// The object in `value`, called `what` in messages.
    pub fn of(value: &'v Value<'v>, what: &'static str) -> Result<Self, Unreadable> {
        match value {
            Value::Object(members) => Ok(Self { members, what }),
            _ => Err(Unreadable(format!("the {what} is not an object"))),
        }
    }

    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    fn get(&self, name: &str) -> Option<&'v Value<'v>> {
        let at = self.members.binary_search_by(|(key, _)| key.as_ref().cmp(name)).ok()?;
        Some(&self.members[at].1)
    }

    pub fn value(&self, name: &str) -> Result<&'v Value<'v>, Unreadable> {
        self.get(name).ok_or_else(|| Unreadable(format!("the {} has no `{name}`", self.what)))
    }

    pub(crate) fn wrong<T>(&self, name: &str) -> Result<T, Unreadable> {
        Err(Unreadable(format!("`{name}` of the {} has a wrong type or value", self.what)))
    }

    pub fn object(&self, name: &'static str) -> Result<Self, Unreadable> {
        Self::of(self.value(name)?, name)
    }

    pub fn list(&self, name: &str) -> Result<&'v [Value<'v>], Unreadable> {
        if let Value::Array(items) = self.value(name)? { Ok(items) } else { self.wrong(name) }
    }

    pub fn text(&self, name: &str) -> Result<&'v str, Unreadable> {
        if let Value::Str(text) = self.value(name)? { Ok(text) } else { self.wrong(name) }
    }

    pub fn integer(&self, name: &str) -> Result<i64, Unreadable> {
        if let Value::Int(integer) = self.value(name)? { Ok(*integer) } else { self.wrong(name) }
    }

    pub fn boolean(&self, name: &str) -> Result<bool, Unreadable> {
        if let Value::Bool(flag) = self.value(name)? { Ok(*flag) } else { self.wrong(name) }
    }

    /// A number, with or without a fraction.
    pub fn number(&self, name: &'static str) -> Result<f64, Unreadable> {
        match self.value(name)? {
            Value::Float(number) => Ok(*number),
            Value::Int(number) => Ok(*number as f64),
            _ => self.wrong(name),
        }
    }

    /// An integer from 0.
    pub fn count(&self, name: &str) -> Result<u64, Unreadable> {
        u64::try_from(self.integer(name)?).or_else(|_| self.wrong(name))
    }

    /// A string that `parse` accepts.
    pub fn parsed<T>(&self, name: &str, parse: fn(&str) -> Option<T>) -> Result<T, Unreadable> {
        parse(self.text(name)?).map_or_else(|| self.wrong(name), Ok)
    }

    pub fn time(&self, name: &str) -> Result<Timestamp, Unreadable> {
        self.parsed(name, Timestamp::parse)
    }

    /// A JSON object that belongs to the users: as it is, 64-bit integers and forms of floats included.
    pub fn json(&self, name: &str) -> Result<JsonObject, Unreadable> {
        JsonObject::from_value(self.value(name)?).or_else(|_| self.wrong(name))
    }

    /// A field that is there but may be null.
    pub fn nullable<T>(
        &self,
        name: &'static str,
        read: impl FnOnce(&Self, &'static str) -> Result<T, Unreadable>,
    ) -> Result<Option<T>, Unreadable> {
        if *self.value(name)? == Value::Null { Ok(None) } else { read(self, name).map(Some) }
    }

    /// A field that may be left out.
    pub fn optional<T>(
        &self,
        name: &'static str,
        read: impl FnOnce(&Self, &'static str) -> Result<T, Unreadable>,
    ) -> Result<Option<T>, Unreadable> {
        if self.has(name) { read(self, name).map(Some) } else { Ok(None) }
    }
}

//! The members of a JSON object in a body: known fields only, each read by its own rule.

use std::borrow::Cow;
use std::sync::Arc;

use taskqueue_core::json::{Unusable, Value};

use super::errors::{BodyErrors, Location};
use super::field;
use crate::ErrorCode;

/// The advice when a field is missing.
pub(crate) const REQUIRED: &str = "this field is required";

/// The members of an object that has no unknown ones.
pub(crate) struct Members<'m, 'v> {
    members: &'m [(Cow<'v, str>, Value<'v>)],
    at: Location<'m>,
    errors: &'m mut BodyErrors,
}

impl<'m, 'v> Members<'m, 'v> {
    /// The members of `value`. Unknown ones are errors; the others are still read.
    pub(crate) fn of(
        value: &'m Value<'v>,
        at: Location<'m>,
        known: &[&str],
        errors: &'m mut BodyErrors,
    ) -> Option<Self> {
        let members = match value {
            Value::Object(members) => members,
            // Such a key is an unknown field that has no name to report it by.
            Value::LoneSurrogateKeys(object) => {
                errors.add(&at, field::unusable(Unusable::LoneSurrogateKey));
                &object.members
            }
            _ => {
                errors.add(&at, super::fields_wanted(known));
                return None;
            }
        };
        for (key, _) in members {
            if !known.contains(&key.as_ref()) {
                errors.add(&Location::Key(&at, key), super::field_unknown(known));
            }
        }
        Some(Self { members, at, errors })
    }

    /// A field that may be left out.
    pub(crate) fn optional<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&Value<'_>, &Location<'_>, &mut BodyErrors) -> Option<T>,
    ) -> Option<T> {
        let (_, value) = self.members.iter().find(|(key, _)| key == name)?;
        read(value, &Location::Key(&self.at, name), self.errors)
    }

    /// A field that must be there.
    pub(crate) fn required<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&Value<'_>, &Location<'_>, &mut BodyErrors) -> Option<T>,
    ) -> Option<T> {
        if !self.has(name) {
            self.errors.add(&Location::Key(&self.at, name), REQUIRED);
            return None;
        }
        self.optional(name, read)
    }

    /// The filter that selects tasks, which must be there. Its syntax is checked later, when the body as a whole is valid.
    pub(crate) fn filter(&mut self) -> Option<Arc<str>> {
        if !self.has("filter") {
            self.errors.add_special(ErrorCode::InvalidFilter, &Location::Key(&self.at, "filter"), REQUIRED);
        }
        self.optional("filter", field::filter)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.members.iter().any(|(key, _)| key == name)
    }

    /// Returns whether the field is there and not null.
    fn gives(&self, name: &str) -> bool {
        self.members.iter().any(|(key, value)| key == name && *value != Value::Null)
    }

    /// Refuses an object without fields. Null does not count for those that are `absent_if_null`.
    pub(crate) fn require_one(&mut self, known: &[&str], absent_if_null: &[&str]) {
        let counts =
            |(key, value): &(Cow<'_, str>, Value<'_>)| *value != Value::Null || !absent_if_null.contains(&key.as_ref());
        if !self.members.iter().any(counts) {
            self.errors.add(&self.at, format!("name at least one of the fields {}", known.join(", ")));
        }
    }

    /// Refuses a new value together with a patch of the old one.
    pub(crate) fn refuse_both(&mut self, value: &str, patch: &str) {
        if self.has(value) && self.gives(patch) {
            let message =
                format!("give {value}, which replaces everything, or {patch}, which changes members; not both");
            self.errors.add(&Location::Key(&self.at, patch), message);
        }
    }

    pub(crate) fn errors(&mut self) -> (&Location<'m>, &mut BodyErrors) {
        (&self.at, self.errors)
    }
}

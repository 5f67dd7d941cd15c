//! The members of a JSON object in a body, known fields only, and the readers of the kinds of fields (docs/reference/http-api.md §1.2 and
//! §3.5). A wrong field gives a finding and no value.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use taskqueue_core::definition::{check_route_count, task_name};
use taskqueue_core::json::{JsonObject, ObjectError, PathStep, Unusable, Value};
use taskqueue_core::limits::{JSON_DEPTH, OUTPUT_TEXT_BYTES, TASK_ROUTES};
use taskqueue_core::observation::WorkerStatus;
use taskqueue_core::scheduling::seconds_as_duration;
use taskqueue_core::{Route, Routes, RunId, TaskId, Timestamp};

use super::errors::{BodyErrors, Location};
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
                errors.add(&at, unusable(Unusable::LoneSurrogateKey));
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
        self.optional("filter", filter)
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

pub(crate) const NAME_RULE: &str = "use 1 to 128 of A-Z a-z 0-9 . _ - and begin with a letter or digit";
pub(crate) const RUN_ID_RULE: &str = "use r_ and exactly 12 of A-Z a-z 0-9 _ -";

/// A task name or null.
pub(crate) fn name(value: &Value<'_>, at: &Location<'_>, errors: &mut BodyErrors) -> Option<Option<Arc<str>>> {
    match value {
        Value::Null => Some(None),
        Value::Str(text) => match task_name(text) {
            Ok(name) => Some(Some(name)),
            Err(_) => {
                let message = "use at most 256 characters and no control characters";
                errors.add_special(ErrorCode::InvalidTaskName, at, message);
                None
            }
        },
        _ => errors.refuse(at, "use a string or null"),
    }
}

/// Args, metadata or result.
pub(crate) fn object(value: &Value<'_>, at: &Location<'_>, errors: &mut BodyErrors) -> Option<JsonObject> {
    match JsonObject::from_value(value) {
        Ok(object) => return Some(object),
        Err(ObjectError::NotAnObject) => errors.add(at, "use a JSON object"),
        Err(ObjectError::TooDeep) => {
            errors.add_special(ErrorCode::JsonTooDeep, at, format!("nest at most {JSON_DEPTH} levels deep"));
        }
        Err(ObjectError::Unusable { path, what }) => add_inside(at, &path, errors, unusable(what)),
    }
    None
}

/// A reader of a field: returns its value or adds a finding.
pub(crate) type FieldReader<T> = fn(&Value<'_>, &Location<'_>, &mut BodyErrors) -> Option<T>;

/// Null is the same as leaving the field out.
pub(crate) fn or_absent<T>(read: FieldReader<T>) -> impl Fn(&Value<'_>, &Location<'_>, &mut BodyErrors) -> Option<T> {
    move |value, at, errors| if *value == Value::Null { None } else { read(value, at, errors) }
}

/// Null is a value, too: it clears what was there.
pub(crate) fn or_null<T>(
    read: FieldReader<T>,
) -> impl Fn(&Value<'_>, &Location<'_>, &mut BodyErrors) -> Option<Option<T>> {
    move |value, at, errors| if *value == Value::Null { Some(None) } else { read(value, at, errors).map(Some) }
}

/// `true` or `false`. Null is the same as leaving it out.
pub(crate) fn flag(value: &Value<'_>, at: &Location<'_>, errors: &mut BodyErrors) -> Option<bool> {
    match value {
        Value::Null => None,
        Value::Bool(flag) => Some(*flag),
        _ => errors.refuse(at, "use true or false"),
    }
}

/// Reads what a run printed.
pub(crate) fn output_text(value: &Value<'_>, at: &Location<'_>, errors: &mut BodyErrors) -> Option<Arc<str>> {
    let text = text(value, at, errors)?;
    if text.len() > OUTPUT_TEXT_BYTES { errors.refuse(at, too_long(OUTPUT_TEXT_BYTES)) } else { Some(text) }
}

/// An object of at most so many bytes in canonical form.
pub(crate) fn small_object<const MOST: usize>(
    value: &Value<'_>,
    at: &Location<'_>,
    errors: &mut BodyErrors,
) -> Option<JsonObject> {
    let object = object(value, at, errors)?;
    if object.as_str().len() > MOST { errors.refuse(at, too_long(MOST)) } else { Some(object) }
}

pub(crate) fn too_long(most: usize) -> String {
    format!("use at most {most} bytes")
}

/// Notes an error at the end of a path inside an object.
fn add_inside(at: &Location<'_>, path: &[PathStep], errors: &mut BodyErrors, message: &'static str) {
    match path.split_first() {
        None => errors.add(at, message),
        Some((PathStep::Key(key), rest)) => add_inside(&Location::Key(at, key), rest, errors, message),
        Some((PathStep::Index(index), rest)) => add_inside(&Location::Index(at, *index), rest, errors, message),
    }
}

pub(crate) fn unusable(what: Unusable) -> &'static str {
    match what {
        Unusable::IntegerRange => "use an integer of 64 bits signed, or write a float",
        Unusable::FloatRange => "use a finite number",
        Unusable::LoneSurrogate => "use a string without half a surrogate pair",
        Unusable::LoneSurrogateKey => "use keys without half a surrogate pair",
    }
}

/// A signed 64-bit integer.
pub(crate) fn integer(value: &Value<'_>, at: &Location<'_>, errors: &mut BodyErrors) -> Option<i64> {
    match value {
        Value::Int(integer) => Some(*integer),
        Value::Unusable(Unusable::IntegerRange) => errors.refuse(at, "use an integer of 64 bits signed"),
        _ => errors.refuse(at, "use an integer"),
    }
}

/// A finite number, with or without a fraction.
pub(crate) fn number(value: &Value<'_>, at: &Location<'_>, errors: &mut BodyErrors) -> Option<f64> {
    value.as_f64().or_else(|| match value {
        Value::Unusable(what @ (Unusable::IntegerRange | Unusable::FloatRange)) => errors.refuse(at, unusable(*what)),
        _ => errors.refuse(at, "use a number"),
    })
}

pub(crate) fn number_from_0(value: &Value<'_>, at: &Location<'_>, errors: &mut BodyErrors) -> Option<f64> {
    match number(value, at, errors)? {
        number @ 0.0.. => Some(number),
        _ => errors.refuse(at, "use a number from 0"),
    }
}

/// A number of seconds from 0.
pub(crate) fn seconds(value: &Value<'_>, at: &Location<'_>, errors: &mut BodyErrors) -> Option<Duration> {
    number_from_0(value, at, errors).map(seconds_as_duration)
}

/// A time.
pub(crate) fn time(value: &Value<'_>, at: &Location<'_>, errors: &mut BodyErrors) -> Option<Timestamp> {
    parsed(value, at, errors, Timestamp::parse, "use a time such as 2026-01-31T12:00:00Z")
}

/// An integer from 0.
pub(crate) fn count(value: &Value<'_>, at: &Location<'_>, errors: &mut BodyErrors) -> Option<u64> {
    u64::try_from(integer(value, at, errors)?).ok().or_else(|| errors.refuse(at, "use an integer from 0"))
}

/// An integer from 1.
pub(crate) fn max_attempts(value: &Value<'_>, at: &Location<'_>, errors: &mut BodyErrors) -> Option<i64> {
    let count = integer(value, at, errors)?;
    if count < 1 { errors.refuse(at, "use an integer from 1") } else { Some(count) }
}

/// A non-empty list of distinct routes, not too many.
pub(crate) fn routes(value: &Value<'_>, at: &Location<'_>, errors: &mut BodyErrors) -> Option<Routes> {
    let Value::Array(items) = value else { return errors.refuse(at, "use a list of routes") };
    // Before any of them is read: a refusal should cost little.
    if check_route_count(items.len()).is_err() {
        return errors.refuse(at, format!("name at most {TASK_ROUTES} routes"));
    }
    let read = |(index, item)| route(item, &Location::Index(at, index), errors);
    // All items are read, so that all wrong ones are reported.
    let routes: Vec<Option<Route>> = items.iter().enumerate().map(read).collect();
    let routes = Routes::requested(routes.into_iter().collect::<Option<_>>()?);
    routes.ok().or_else(|| errors.refuse(at, "name at least one route and each only once"))
}

/// A route.
pub(crate) fn route(value: &Value<'_>, at: &Location<'_>, errors: &mut BodyErrors) -> Option<Route> {
    parsed(value, at, errors, Route::parse, NAME_RULE)
}

/// A run id.
pub(crate) fn run_id(value: &Value<'_>, at: &Location<'_>, errors: &mut BodyErrors) -> Option<RunId> {
    parsed(value, at, errors, RunId::parse, RUN_ID_RULE)
}

/// A task id.
pub(crate) fn task_id(value: &Value<'_>, at: &Location<'_>, errors: &mut BodyErrors) -> Option<TaskId> {
    parsed(value, at, errors, TaskId::parse, "use t_ and exactly 12 of A-Z a-z 0-9 _ -")
}

/// A task id or null.
pub(crate) fn task_id_or_null(value: &Value<'_>, at: &Location<'_>, errors: &mut BodyErrors) -> Option<Option<TaskId>> {
    match value {
        Value::Null => Some(None),
        _ => parsed(value, at, errors, TaskId::parse, "use null, or t_ and exactly 12 of A-Z a-z 0-9 _ -").map(Some),
    }
}

/// The status of a worker.
pub(crate) fn worker_status(value: &Value<'_>, at: &Location<'_>, errors: &mut BodyErrors) -> Option<WorkerStatus> {
    parsed(value, at, errors, WorkerStatus::parse, "use \"idle\" or \"busy\"")
}

/// Any string.
pub(crate) fn text(value: &Value<'_>, at: &Location<'_>, errors: &mut BodyErrors) -> Option<Arc<str>> {
    match value {
        Value::Str(text) => Some(text.as_ref().into()),
        Value::Unusable(what @ Unusable::LoneSurrogate) => errors.refuse(at, unusable(*what)),
        _ => errors.refuse(at, "use a string"),
    }
}

/// The text of a filter.
pub(crate) fn filter(value: &Value<'_>, at: &Location<'_>, errors: &mut BodyErrors) -> Option<Arc<str>> {
    let Value::Str(text) = value else {
        errors.add_special(ErrorCode::InvalidFilter, at, "use a string that holds a filter");
        return None;
    };
    Some(text.as_ref().into())
}

pub(crate) fn parsed<T>(
    value: &Value<'_>,
    at: &Location<'_>,
    errors: &mut BodyErrors,
    parse: fn(&str) -> Option<T>,
    rule: &'static str,
) -> Option<T> {
    let parsed = if let Value::Str(text) = value { parse(text) } else { None };
    parsed.or_else(|| errors.refuse(at, rule))
}

//! The errors of a request: a list of locations with messages, and the one code of the answer.

use std::borrow::Cow;

use taskqueue_core::json::{ObjectWriter, write_array, write_integer, write_string};
use taskqueue_core::limits::JSON_DEPTH;

pub use taskqueue_core::json::PathStep as LocationStep;

use crate::ErrorCode;

/// The number of errors that an answer names; a body may hold thousands.
const ERRORS_SHOWN: usize = 20;
/// The number of characters of a key that a location shows; a key may be as long as the body.
pub(crate) const KEY_CHARS_SHOWN: usize = 128;

/// One error of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestError {
    /// The place, such as `["body", "routes", 0]`.
    pub location: Vec<LocationStep>,
    /// The advice.
    pub message: Cow<'static, str>,
}

impl RequestError {
    /// An error at a named part of the request, such as `["query", "limit"]`.
    pub fn at(part: &str, name: &str, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            location: vec![LocationStep::Key(part.to_owned()), LocationStep::Key(name.to_owned())],
            message: message.into(),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        let write_step = |out: &mut Vec<u8>, step: &LocationStep| match step {
            LocationStep::Key(key) => write_string(out, key),
            LocationStep::Index(index) => write_integer(out, i64::try_from(*index).unwrap_or(i64::MAX)),
        };
        ObjectWriter::append_to(out)
            .field("location", |out| write_array(out, &self.location, write_step))
            .text("message", &self.message)
            .end();
    }
}

/// A request that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// The code of the answer.
    pub code: ErrorCode,
    /// The errors, up to a limit.
    pub errors: Vec<RequestError>,
}

impl Invalid {
    /// An error of the body as a whole.
    pub fn body(code: ErrorCode, message: impl Into<Cow<'static, str>>) -> Self {
        Self::one(code, &Location::Root("body"), message)
    }

    pub(crate) fn one(code: ErrorCode, at: &Location<'_>, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, errors: vec![RequestError { location: at.to_location(), message: message.into() }] }
    }

    /// The message of the answer: what to do.
    pub fn message(&self) -> Cow<'static, str> {
        match (self.code, self.errors.as_slice()) {
            (ErrorCode::InvalidTaskName, _) => {
                "use a task name of at most 256 characters without control characters".into()
            }
            (ErrorCode::JsonTooDeep, _) => format!("nest JSON at most {JSON_DEPTH} levels deep").into(),
            (_, [only]) => only.message.clone(),
            _ => "correct the fields listed in details.errors".into(),
        }
    }

    /// The value of `error.details`.
    pub fn details(&self) -> ObjectWriter {
        let details = ObjectWriter::new();
        match self.code {
            ErrorCode::InvalidTaskName => details,
            ErrorCode::JsonTooDeep => details.integer("max_depth", JSON_DEPTH),
            _ => details.field("errors", |out| write_array(out, &self.errors, |out, error| error.write(out))),
        }
    }
}

/// A location in the body while it is read. It allocates nothing until there is an error to report.
#[derive(Clone, Copy)]
pub enum Location<'p> {
    /// The part of the request.
    Root(&'static str),
    /// A member of an object.
    Key(&'p Location<'p>, &'p str),
    /// An item of a list.
    Index(&'p Location<'p>, usize),
}

impl Location<'_> {
    fn to_location(self) -> Vec<LocationStep> {
        let (mut location, step) = match self {
            Location::Root(part) => (Vec::new(), LocationStep::Key(part.to_owned())),
            Location::Key(parent, key) => {
                (parent.to_location(), LocationStep::Key(key.chars().take(KEY_CHARS_SHOWN).collect()))
            }
            Location::Index(parent, index) => (parent.to_location(), LocationStep::Index(index)),
        };
        location.push(step);
        location
    }
}

/// Collects the errors of a body, and the code of the answer. By docs/reference/errors.md §2 the task name takes
/// precedence over the depth, the depth over the filter of a bulk update, and that over everything else.
pub struct BodyErrors {
    errors: Vec<RequestError>,
    code: ErrorCode,
}

impl BodyErrors {
    pub(crate) fn new(code: ErrorCode) -> Self {
        Self { errors: Vec::new(), code }
    }

    /// Returns whether nothing was wrong.
    pub(crate) fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    /// Adds an error of no special code.
    pub(crate) fn add(&mut self, at: &Location<'_>, message: impl Into<Cow<'static, str>>) {
        if self.errors.len() < ERRORS_SHOWN {
            self.errors.push(RequestError { location: at.to_location(), message: message.into() });
        }
    }

    /// Adds what is wrong, and gives nothing.
    pub(crate) fn refuse<T>(&mut self, at: &Location<'_>, message: impl Into<Cow<'static, str>>) -> Option<T> {
        self.add(at, message);
        None
    }

    /// Adds an error whose code takes precedence over weaker ones.
    pub(crate) fn add_special(&mut self, code: ErrorCode, at: &Location<'_>, message: impl Into<Cow<'static, str>>) {
        if strength(code) > strength(self.code) {
            self.code = code;
        }
        self.add(at, message);
    }

    /// Adds the errors of a part of the body that was read by itself.
    pub(crate) fn append(&mut self, part: Self) {
        if strength(part.code) > strength(self.code) {
            self.code = part.code;
        }
        let room = ERRORS_SHOWN - self.errors.len();
        self.errors.extend(part.errors.into_iter().take(room));
    }

    pub(crate) fn into_result<T>(self, read: Option<T>) -> Result<T, Invalid> {
        read.filter(|_| self.errors.is_empty()).ok_or(Invalid { code: self.code, errors: self.errors })
    }
}

fn strength(code: ErrorCode) -> u8 {
    match code {
        ErrorCode::InvalidTaskName => 3,
        ErrorCode::JsonTooDeep => 2,
        ErrorCode::InvalidFilter => 1,
        _ => 0,
    }
}

//! The value of a field of a task, as it is stored, and its texts for programs and for people.

use std::borrow::Cow;

use super::Kind;
use crate::filter::Number;
use crate::json::{self, Found};
use crate::scheduling::RetryDelay;
use crate::status::Status;
use crate::time::Timestamp;
use crate::words::{self, Units, exact_duration};

/// A value of a task, as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    Text(Cow<'a, str>),
    Number(Number),
    Time(Timestamp),
    Status(Status),
    /// A boolean, a list or an object, as JSON.
    Json(&'a str),
}

impl<'a> Value<'a> {
    pub(super) fn borrowed(text: &'a str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }

    pub(super) fn owned(text: &str) -> Self {
        Self::Text(Cow::Owned(text.to_owned()))
    }

    pub(super) fn integer(value: i64) -> Self {
        Self::Number(Number::Int(value))
    }

    /// What was found in a document; `None` for null, as nothing is shown for it.
    pub fn found(found: Found<'a>) -> Option<Self> {
        match found {
            Found::Null => None,
            Found::Bool(value) => Some(Self::Json(if value { "true" } else { "false" })),
            Found::Int(value) => Some(Self::integer(value)),
            Found::Float(value) => Some(Self::Number(Number::Float(value))),
            Found::Str(text) => Some(Self::Text(text.to_text())),
            Found::Array(text) | Found::Object(text) => Some(Self::Json(text)),
        }
    }

    /// Its text: numbers exactly as they are stored, everything that is no text, number or time as JSON.
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) => Cow::Borrowed(text),
            Self::Number(number) => Cow::Owned(number.to_string()),
            Self::Time(at) => Cow::Owned(at.to_string()),
            Self::Status(status) => Cow::Borrowed(status.as_str()),
            Self::Json(text) => Cow::Borrowed(text),
        }
    }

    /// Its text for people who read at `now`, with times and durations in words.
    pub fn words(&self, kind: Kind, now: Timestamp) -> String {
        match (kind, self) {
            (_, Self::Time(at)) => format!("{at} ({})", words::age(*at, now)),
            (Kind::Seconds, Self::Number(Number::Int(seconds))) => seconds_words(*seconds),
            (Kind::TaskIds, Self::Json(ids)) => {
                let ids = json::elements(ids).filter_map(Value::found);
                ids.map(|id| id.text().into_owned()).collect::<Vec<_>>().join(", ")
            }
            (Kind::RetryDelay, Self::Json(text)) => {
                RetryDelay::from_json(text).map_or_else(|| (*text).to_owned(), |delay| retry_delay_words(&delay))
            }
            _ => self.text().into_owned(),
        }
    }
}

/// `10s, 2 times as long each time, at most 1h`.
fn retry_delay_words(delay: &RetryDelay) -> String {
    let (first, longest) =
        (exact_duration(delay.seconds(), Units::Typed), exact_duration(delay.max_seconds(), Units::Typed));
    if delay.seconds() >= delay.max_seconds() || delay.factor() <= 1.0 {
        return if delay.seconds() <= delay.max_seconds() { first } else { longest };
    }
    format!("{first}, {} times as long each time, at most {longest}", delay.factor())
}

/// `7200 (2h)`.
fn seconds_words(seconds: i64) -> String {
    let words = exact_duration(seconds as f64, Units::Typed);
    if words == format!("{seconds}s") { words } else { format!("{seconds} ({words})") }
}

//! What clients prefer: the `Prefer` header (RFC 7240), of which only `wait` is supported, and the formats of the `Accept` header. What is
//! not understood is ignored, as the RFCs say: a preference is never an error.

use hyper::HeaderMap;
use hyper::header::{ACCEPT, HeaderName, HeaderValue};
use taskqueue_api::headers::{PREFER, PREFERENCE_APPLIED};
use taskqueue_core::limits::WAIT_SECONDS_MAX;

use crate::connection::Disconnect;

const WAIT: &str = "wait";

/// The `Prefer: wait` of a request.
pub(crate) struct WaitPreference {
    pub(crate) seconds: u32,
    /// `None` when a disconnect of the client cannot be noticed.
    pub(crate) disconnect: Option<Disconnect>,
}

/// Returns for how many seconds a caller prefers to wait, at most [`WAIT_SECONDS_MAX`]. The first `wait` counts; if it is
/// malformed, there is none.
pub(crate) fn wait_seconds(headers: &HeaderMap) -> Option<u32> {
    let values = headers.get_all(PREFER).into_iter().filter_map(|value| value.to_str().ok());
    let mut preferences = values.flat_map(|value| split(value, ',')).map(preference);
    let (_, value) = preferences.find(|(name, _)| name.eq_ignore_ascii_case(WAIT))?;
    seconds(value?)
}

/// Returns the header of an answer that says which wait was applied.
pub(crate) fn applied(seconds: u32) -> (HeaderName, HeaderValue) {
    let value = HeaderValue::try_from(format!("{WAIT}={seconds}")).unwrap_or(HeaderValue::from_static(WAIT));
    (HeaderName::from_static(PREFERENCE_APPLIED), value)
}

/// Name and value of `name = value; parameters`.
fn preference(text: &str) -> (&str, Option<&str>) {
    let bare = split(text, ';').next().unwrap_or_default();
    bare.split_once('=').map_or((bare.trim(), None), |(name, value)| (name.trim(), Some(value.trim())))
}

/// Digits, quoted or not; at least 1.
fn seconds(value: &str) -> Option<u32> {
    let digits = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(value);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // A number that does not fit is above the maximum, too.
    let seconds = digits.parse().unwrap_or(WAIT_SECONDS_MAX).min(WAIT_SECONDS_MAX);
    (seconds > 0).then_some(seconds)
}

/// Splits a list; separators inside quotes do not count.
fn split(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let (mut quoted, mut escaped) = (false, false);
    text.split(move |character| {
        let separates = character == separator && !quoted;
        quoted ^= character == '"' && !escaped;
        escaped = quoted && character == '\\' && !escaped;
        separates
    })
}

/// A format that a client takes (RFC 9110, 12.5.1).
pub(crate) struct MediaRange<'a> {
    pub(crate) name: &'a str,
    pub(crate) version: Option<&'a str>,
    /// In thousandths.
    pub(crate) weight: u32,
}

impl<'a> MediaRange<'a> {
    /// Returns all that the `Accept` headers name. What is no text is not there.
    pub(crate) fn accepted(headers: &'a HeaderMap) -> impl Iterator<Item = Self> {
        let values = headers.get_all(ACCEPT).into_iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).map(Self::read)
    }

    fn read(text: &'a str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let mut range = Self { name: parts.next().unwrap_or_default(), version: None, weight: 1_000 };
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            match name.trim_end().to_ascii_lowercase().as_str() {
                "version" => range.version = Some(value.trim().trim_matches('"')),
                "q" => range.weight = weight(value.trim()),
                _ => {}
            }
        }
        range
    }
}

/// Reads a number from 0 to 1, in thousandths; 0 if it is none.
fn weight(text: &str) -> u32 {
    let number = text.parse::<f64>().ok().filter(|number| (0.0..=1.0).contains(number));
    number.map_or(0, |number| (number * 1_000.0).round() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_found_wherever_the_rfc_lets_it_stand() {
        let found = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(PREFER, HeaderValue::from_bytes(value.as_bytes()).unwrap());
            }
            wait_seconds(&headers)
        };
        assert_eq!(found(&[]), None);
        for both in [["respond-async", "wait=10"], ["wait=10", "wait=20"]] {
            assert_eq!(found(&both), Some(10), "{both:?}");
        }
        let cases: [(&[&str], u32); 7] = [
            (&["wait=10", "Wait=10", "WAIT = 10", "wait=\"10\"", "wait=10; foo=bar", "wait=10;foo"], 10),
            (&["respond-async, wait=10", "return=minimal; x=\"a,wait=5\", wait=10", "wait=10, wait=20"], 10),
            (&["x=\"\\\", wait=5\", wait=10"], 10),
            (&["wait=1"], 1),
            (&["wait=007"], 7),
            (&[",, wait=3"], 3),
            (&["wait=60", "wait=61", "wait=99999999999999999999999"], 60),
        ];
        for (values, expected) in cases {
            for value in values {
                assert_eq!(found(&[value]), Some(expected), "{value:?}");
            }
        }
        // Of another preference, malformed, or nothing to wait for: ignored, and the first one counts.
        let ignored: [&[&str]; 3] = [
            &["foo; wait=5", "wait", "wait=", "wait=\"\"", "wait=0", "wait=-1", "wait=+1", "wait=1.5", "wait=1e1"],
            &["wait=10s", "wait=10 20", "wait=\"10", "wait=\u{661}", "wait=x, wait=10"],
            &["waits=10", "await=10"],
        ];
        for value in ignored.concat() {
            assert_eq!(found(&[value]), None, "{value:?}");
        }
    }

    #[test]
    fn what_was_applied_is_said() {
        assert_eq!(applied(60).1, "wait=60");
    }
}

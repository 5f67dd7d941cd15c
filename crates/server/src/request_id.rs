//! The id that names a request in log lines and in the answer to a failure. A client may choose it with the header
//! `X-Request-Id`; it may not choose what else a log line says.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use taskqueue_api::headers::REQUEST_ID;
use taskqueue_core::limits::REQUEST_ID_BYTES;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestId {
    value: Value,
    /// Whether the request has the header, so that its answer gets it, too.
    is_asked_for: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    Made(u64),
    /// A copy: the header itself would keep the buffer of the whole head while a request waits.
    Given(Box<str>),
}

impl RequestId {
    /// The header for the answer, if the request has one.
    pub(crate) fn answer_header(&self) -> Option<(HeaderName, HeaderValue)> {
        let value = self.is_asked_for.then(|| HeaderValue::try_from(self.to_string()).ok()).flatten()?;
        Some((HeaderName::from_static(REQUEST_ID), value))
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Value::Made(number) => write!(f, "{number:016x}"),
            Value::Given(text) => f.write_str(text),
        }
    }
}

/// Counts up from a random number, so that the ids of two processes differ.
pub(crate) struct RequestIds(AtomicU64);

impl RequestIds {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(RandomState::new().hash_one(std::process::id())))
    }

    /// The id that the request names, or a new one.
    pub(crate) fn of(&self, headers: &HeaderMap) -> RequestId {
        let value = given(headers).map_or_else(|| self.next_value(), Value::Given);
        RequestId { value, is_asked_for: headers.contains_key(REQUEST_ID) }
    }

    /// For a request whose headers are not known.
    pub(crate) fn make(&self) -> RequestId {
        RequestId { value: self.next_value(), is_asked_for: false }
    }

    fn next_value(&self) -> Value {
        Value::Made(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

/// The id of the request, if it has exactly one and that is safe to log.
fn given(headers: &HeaderMap) -> Option<Box<str>> {
    let mut values = headers.get_all(REQUEST_ID).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    let bytes = value.as_bytes();
    let is_safe = (1..=REQUEST_ID_BYTES).contains(&bytes.len()) && bytes.iter().all(|byte| is_allowed(*byte));
    is_safe.then(|| String::from_utf8_lossy(bytes).into())
}

/// No blank, quote or equals sign: in a log line of text an id can be mistaken for nothing else.
fn is_allowed(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.:/+@".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(values: &[&[u8]]) -> HeaderMap {
        let name = || HeaderName::from_static(REQUEST_ID);
        values.iter().map(|value| (name(), HeaderValue::from_bytes(value).unwrap())).collect()
    }

    #[test]
    fn an_id_is_used_if_it_is_short_and_cannot_be_mistaken_for_anything_else() {
        let ids = RequestIds::new();
        let longest = "x".repeat(REQUEST_ID_BYTES);
        for text in ["1", "0af7651916cd43dd8448eb211c80319c", "job:7/a.b_c-d+e@host", &longest] {
            let id = ids.of(&headers(&[text.as_bytes()]));
            assert_eq!((id.to_string().as_str(), id.answer_header().unwrap().1.to_str().unwrap()), (text, text));
        }
        let too_long = "x".repeat(REQUEST_ID_BYTES + 1);
        let refused: [&[u8]; 8] =
            [b"", b"a b", b"a\tb", b"status=500", b"\"x\"", b"x\\n", "\u{fc}".as_bytes(), too_long.as_bytes()];
        for text in refused {
            let id = ids.of(&headers(&[text]));
            assert!(matches!(id.value, Value::Made(_)), "{text:?}");
            assert_eq!(id.answer_header().unwrap().1.to_str().unwrap(), id.to_string(), "{text:?}");
        }
        assert!(matches!(ids.of(&headers(&[b"a", b"a"])).value, Value::Made(_)), "two of them");
    }

    #[test]
    fn a_request_without_an_id_gets_a_new_one_and_its_answer_does_not_show_it() {
        let ids = RequestIds::new();
        let (first, second) = (ids.of(&HeaderMap::new()), ids.make());
        assert!(first != second && first.to_string().len() == 16);
        assert_eq!((first.answer_header(), second.answer_header()), (None, None));
    }
}

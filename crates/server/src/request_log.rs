//! The log line of a request, and the id that names the request in it and in the answer to a failure.
//!
//! A line says: method, path template, queue, status, error code, duration, the wait that was asked for, client address, request id, name
//! of the token, trace id. Never query strings, tokens or bodies. Without `--log-requests` only the requests that an operator should see
//! have one: failures of the server, slow requests, and those with a note. A client may choose the id with the header `X-Request-Id`; it
//! may not choose what else a line says.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::extract::Request;
use hyper::header::{HeaderName, HeaderValue};
use hyper::{HeaderMap, Method};
use taskqueue_api::ErrorCode;
use taskqueue_api::headers;
use taskqueue_core::QueueName;
use taskqueue_core::limits::REQUEST_ID_BYTES;
use taskqueue_core::trace::TraceParent;
use tokio::time::Instant;
use tracing::Level;

use crate::auth::NamedToken;
use crate::connection::Disconnect;
use crate::listener::ClientAddress;
use crate::metrics::{PathTemplate, RequestCounts};
use crate::path::queue_component;

/// A request that takes longer is slow.
const SLOW: Duration = Duration::from_secs(1);

/// No method of the API is longer; others are logged as [`OTHER_METHOD`], because a client may send any text.
const METHOD_BYTES: usize = 7;
const OTHER_METHOD: &str = "other";
const ANSWERED: &str = "answered";
const ANSWERED_SLOWLY: &str = "answered slowly";

const TRACEPARENT: HeaderName = HeaderName::from_static(headers::TRACEPARENT);
const REQUEST_ID: HeaderName = HeaderName::from_static(headers::REQUEST_ID);

/// A remark for the log line of a request, as an extension of its response.
#[derive(Clone)]
pub(crate) struct LogNote(pub(crate) String);

/// Returns the level of the line of a request and what it says; `None` if the request leaves none. `busy` is the time that it took without
/// the wait it asked for.
fn line_of(status: u16, has_note: bool, busy: Duration, log_all: bool) -> Option<(Level, &'static str)> {
    match status {
        // A mistake of the server.
        500 => Some((Level::ERROR, ANSWERED)),
        // It could not do it now, or there is a note about it.
        501.. => Some((Level::WARN, ANSWERED)),
        _ if has_note => Some((Level::WARN, ANSWERED)),
        _ if busy > SLOW => Some((Level::INFO, ANSWERED_SLOWLY)),
        _ => log_all.then_some((Level::INFO, ANSWERED)),
    }
}

/// Writes the lines of the requests of one client.
#[derive(Clone, Copy, Default)]
pub(crate) struct RequestLog {
    /// True if every request is logged.
    pub(crate) log_all: bool,
    pub(crate) client: ClientAddress,
}

/// The part of a request under way that its line needs. It holds nothing of the request itself, which a waiting claim drops.
pub(crate) struct RequestRecord {
    log: RequestLog,
    /// `None` if the head was not understood.
    method: Option<Method>,
    path: Box<str>,
    pub(crate) template: PathTemplate,
    at: Instant,
    /// Of a request that may wait.
    disconnect: Option<Disconnect>,
    trace: Option<TraceParent>,
    /// The token of the caller, if it has a name.
    pub(crate) token: Option<Arc<NamedToken>>,
}

impl RequestRecord {
    pub(crate) fn begin(log: RequestLog, request: &Request) -> Self {
        let (method, path) = (Some(request.method().clone()), request.uri().path().into());
        let template = PathTemplate::of(request.uri().path());
        let disconnect = request.extensions().get::<Disconnect>().cloned();
        let trace = trace_of(request.headers());
        Self { log, method, path, template, at: Instant::now(), disconnect, trace, token: None }
    }

    /// Returns the record of a request that was refused before its head was understood.
    pub(crate) fn unread(log: RequestLog) -> Self {
        let (method, path, template) = (None, Box::default(), PathTemplate::UNMATCHED);
        Self { log, method, path, template, at: Instant::now(), disconnect: None, trace: None, token: None }
    }

    /// Counts the request, and logs it if that is due.
    pub(crate) fn end(
        self,
        status: u16,
        code: Option<ErrorCode>,
        note: Option<&str>,
        id: &RequestId,
        counts: &RequestCounts,
    ) {
        let method = self.method.as_ref();
        let duration = method.map_or(Duration::ZERO, |_| self.at.elapsed());
        let waits_since = self.disconnect.and_then(|disconnect| disconnect.waits_since());
        let busy = waits_since.map_or(duration, |since| since.saturating_duration_since(self.at));
        counts.count(method, self.template, status, code, busy);
        let Some((level, words)) = line_of(status, note.is_some(), busy, self.log.log_all) else { return };
        let path = method.map(|_| self.template.as_str());
        // Of other paths that part may be anything, also a secret.
        let queue = path.filter(|path| path.contains("{queue}")).and_then(|_| queue_component(&self.path));
        let (queue, code) = (queue.as_ref().map(QueueName::as_str), code.map(ErrorCode::as_str));
        let as_micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let micros = method.map(|_| as_micros(busy));
        let wait_micros = waits_since.map(|_| as_micros(duration.saturating_sub(busy)));
        let (method, client) = (method.map(shown_method), self.log.client);
        let token = self.token.as_ref().map(|token| &*token.name);
        let trace_id = self.trace.map(|trace| tracing::field::display(trace.trace_id()));
        // The level of an event is a constant, so there is one for each.
        macro_rules! line {
            ($level:expr) => {
                tracing::event!($level, method, path, queue, status, code, micros, wait_micros, %client,
                    request_id = %id, token, trace_id, note, "{words}")
            };
        }
        match level {
            Level::ERROR => line!(Level::ERROR),
            Level::WARN => line!(Level::WARN),
            _ => line!(Level::INFO),
        }
    }
}

/// Returns the trace that the request belongs to, if it names exactly one.
fn trace_of(headers: &HeaderMap) -> Option<TraceParent> {
    let mut values = headers.get_all(TRACEPARENT).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    value.to_str().ok().and_then(TraceParent::parse)
}

fn shown_method(method: &Method) -> &str {
    if method.as_str().len() <= METHOD_BYTES { method.as_str() } else { OTHER_METHOD }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestId {
    value: IdValue,
    /// True if the request has the header, so that its answer gets it, too.
    is_asked_for: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum IdValue {
    Made(u64),
    /// A copy: the header itself would keep the buffer of the whole head while a request waits.
    Given(Box<str>),
}

impl RequestId {
    /// Returns the header for the answer, if the request has one.
    pub(crate) fn answer_header(&self) -> Option<(HeaderName, HeaderValue)> {
        let value = self.is_asked_for.then(|| HeaderValue::try_from(self.to_string()).ok()).flatten()?;
        Some((REQUEST_ID, value))
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            IdValue::Made(number) => write!(f, "{number:016x}"),
            IdValue::Given(text) => f.write_str(text),
        }
    }
}

/// Counts up from a random number, so that the ids of two processes differ.
pub(crate) struct RequestIds(AtomicU64);

impl RequestIds {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(RandomState::new().hash_one(std::process::id())))
    }

    /// Returns the id that the request names, or a new one.
    pub(crate) fn of(&self, headers: &HeaderMap) -> RequestId {
        let mut values = headers.get_all(REQUEST_ID).iter();
        let (first, second) = (values.next(), values.next());
        let given = first.filter(|_| second.is_none()).and_then(given_id);
        let value = given.map_or_else(|| self.next_value(), IdValue::Given);
        RequestId { value, is_asked_for: first.is_some() }
    }

    /// Returns an id for a request whose headers are not known.
    pub(crate) fn make(&self) -> RequestId {
        RequestId { value: self.next_value(), is_asked_for: false }
    }

    fn next_value(&self) -> IdValue {
        IdValue::Made(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

/// Returns the id that a client has given, if it is safe to log.
fn given_id(value: &HeaderValue) -> Option<Box<str>> {
    let bytes = value.as_bytes();
    // No blank, quote or equals sign: in a log line of text an id can be mistaken for nothing else.
    let is_allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:/+@".contains(byte);
    let is_safe = (1..=REQUEST_ID_BYTES).contains(&bytes.len()) && bytes.iter().all(is_allowed);
    is_safe.then(|| String::from_utf8_lossy(bytes).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_an_operator_should_see_is_logged_unless_everything_is_wanted() {
        let (quick, slow) = (SLOW, SLOW + Duration::from_micros(1));
        let (wanted_only, slowly) = ((Level::INFO, ANSWERED), (Level::INFO, ANSWERED_SLOWLY));
        let (warning, bug) = ((Level::WARN, ANSWERED), (Level::ERROR, ANSWERED));
        let cases = [
            (200, false, quick, None, Some(wanted_only)),
            (204, false, Duration::ZERO, None, Some(wanted_only)),
            (409, false, quick, None, Some(wanted_only)),
            (401, false, quick, None, Some(wanted_only)),
            (200, false, slow, Some(slowly), Some(slowly)),
            (422, false, slow, Some(slowly), Some(slowly)),
            (200, true, quick, Some(warning), Some(warning)),
            (500, false, quick, Some(bug), Some(bug)),
            (503, false, slow, Some(warning), Some(warning)),
        ];
        for (status, has_note, busy, by_default, wanted) in cases {
            assert_eq!(line_of(status, has_note, busy, false), by_default, "{status} {busy:?}");
            assert_eq!(line_of(status, has_note, busy, true), wanted, "{status} {busy:?}");
        }
    }

    #[test]
    fn a_method_that_a_client_has_invented_is_not_repeated() {
        let invented = Method::from_bytes("X".repeat(60_000).as_bytes()).unwrap();
        assert_eq!([shown_method(&Method::OPTIONS), shown_method(&invented)], ["OPTIONS", "other"]);
    }

    fn headers(values: &[&[u8]]) -> HeaderMap {
        values.iter().map(|value| (REQUEST_ID, HeaderValue::from_bytes(value).unwrap())).collect()
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
            assert!(matches!(id.value, IdValue::Made(_)), "{text:?}");
            assert_eq!(id.answer_header().unwrap().1.to_str().unwrap(), id.to_string(), "{text:?}");
        }
        assert!(matches!(ids.of(&headers(&[b"a", b"a"])).value, IdValue::Made(_)), "two of them");
    }

    #[test]
    fn a_request_without_an_id_gets_a_new_one_and_its_answer_does_not_show_it() {
        let ids = RequestIds::new();
        let (first, second) = (ids.of(&HeaderMap::new()), ids.make());
        assert!(first != second && first.to_string().len() == 16);
        assert_eq!((first.answer_header(), second.answer_header()), (None, None));
    }
}

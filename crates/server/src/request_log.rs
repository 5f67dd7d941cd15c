//! One line per request: method, path template, status, duration, request id. Never query strings, tokens or bodies.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use axum::extract::Request;
use axum::response::Response;
use hyper::Method;
use taskqueue_api::paths;
use tracing::Level;

/// Names a request in answers and log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestId(u64);

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Counts up from a random number, so that the ids of two processes differ.
pub(crate) struct RequestIds(AtomicU64);

impl RequestIds {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(RandomState::new().hash_one(std::process::id())))
    }

    pub(crate) fn next(&self) -> RequestId {
        RequestId(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

/// A remark for the log line of a request, as an extension of its response.
#[derive(Clone)]
pub(crate) struct Note(pub(crate) String);

/// The log line of a request under way; none if the log level leaves it out.
pub(crate) struct RequestRecord(Option<Begun>);

struct Begun {
    method: Method,
    path: &'static str,
    at: Instant,
}

impl RequestRecord {
    pub(crate) fn begin(request: &Request) -> Self {
        Self(tracing::enabled!(Level::INFO).then(|| Begun {
            method: request.method().clone(),
            path: paths::template_of(request.uri().path()).unwrap_or("unmatched"),
            at: Instant::now(),
        }))
    }

    pub(crate) fn end(self, response: &Response, id: RequestId) {
        let Some(Begun { method, path, at }) = self.0 else { return };
        let (status, micros) =
            (response.status().as_u16(), u64::try_from(at.elapsed().as_micros()).unwrap_or(u64::MAX));
        match response.extensions().get::<Note>() {
            None => tracing::info!(%method, path, status, micros, request_id = %id, "answered"),
            Some(Note(note)) => tracing::warn!(%method, path, status, micros, request_id = %id, note, "answered"),
        }
    }
}

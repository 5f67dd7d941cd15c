//! The body of a request, and how much of it hyper has consumed. Hyper reads a body only while a handler polls it, and the
//! response may be sent long before that: until hyper has consumed the body, the next bytes are not a request.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use hyper::body::{Body as _, Frame, Incoming, SizeHint};

use super::activity::SharedActivity;

/// Which request of a connection.
pub(super) type RequestNumber = u64;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// There was no body, or hyper has read all of it: the next bytes are a request.
    #[default]
    Consumed,
    /// The handler may still read it, perhaps after the response is sent.
    Open,
    /// The handler has dropped it. When hyper is polled next, it skips the rest or closes the connection.
    Dropped,
}

/// How far hyper is with the body of the last request. A report about the body of an earlier one is ignored.
#[derive(Debug, Default)]
pub(super) struct BodyProgress {
    pub(super) request: RequestNumber,
    state: State,
}

impl BodyProgress {
    pub(super) fn next_request(&mut self) -> RequestNumber {
        self.request += 1;
        self.state = State::Consumed;
        self.request
    }

    pub(super) fn begin(&mut self, request: RequestNumber) {
        self.set(State::Open, request);
    }

    pub(super) fn end(&mut self, request: RequestNumber) {
        self.set(State::Consumed, request);
    }

    /// Notes that the rest of the body, if there is one, is not wanted.
    pub(super) fn abandon(&mut self, request: RequestNumber) {
        if self.state == State::Open {
            self.set(State::Dropped, request);
        }
    }

    /// The last request, if its body was dropped. If hyper was polled since then and goes on with the connection, it has
    /// skipped the rest of that body.
    pub(super) fn dropped(&self) -> Option<RequestNumber> {
        (self.state == State::Dropped).then_some(self.request)
    }

    pub(super) fn is_consumed(&self) -> bool {
        self.state == State::Consumed
    }

    fn set(&mut self, state: State, request: RequestNumber) {
        if request == self.request {
            self.state = state;
        }
    }
}

struct TrackedRequestBody {
    /// None only while it is dropped.
    incoming: Option<Incoming>,
    activity: SharedActivity,
    request: RequestNumber,
}

/// Makes the body of a request report its progress to `activity`.
pub(super) fn track(incoming: Incoming, activity: &SharedActivity, request: RequestNumber) -> Body {
    if incoming.is_end_stream() {
        return Body::new(incoming);
    }
    activity.lock().request_body.begin(request);
    Body::new(TrackedRequestBody { incoming: Some(incoming), activity: activity.clone(), request })
}

impl hyper::body::Body for TrackedRequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Some(incoming) = &mut self.incoming else { return Poll::Ready(None) };
        let polled = Pin::new(&mut *incoming).poll_frame(cx);
        // Hyper has consumed the body when it hands over the last frame.
        if matches!(polled, Poll::Ready(None)) || incoming.is_end_stream() {
            self.activity.lock().request_body.end(self.request);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.as_ref().map_or_else(SizeHint::default, Incoming::size_hint)
    }
}

impl Drop for TrackedRequestBody {
    fn drop(&mut self) {
        // In this order: once the activity says that the body was dropped, hyper must know it too.
        drop(self.incoming.take());
        self.activity.lock().request_body.abandon(self.request);
    }
}

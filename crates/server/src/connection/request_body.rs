//! The body of a request under observation. Hyper reads it only when somebody wants it, and an answer may be out long before
//! that: as long as hyper is inside a body, what comes next on the connection is not a request.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use hyper::body::{Body as _, Frame, Incoming, SizeHint};

use super::activity::{RequestNumber, SharedActivity};

/// A body whose end is noted.
struct Arriving {
    /// Nothing only while it is dropped.
    incoming: Option<Incoming>,
    activity: SharedActivity,
    request: RequestNumber,
}

/// Puts the body of a request under observation.
pub(super) fn observe(incoming: Incoming, activity: &SharedActivity, request: RequestNumber) -> Body {
    if incoming.is_end_stream() {
        return Body::new(incoming);
    }
    activity.get().body_begins(request);
    Body::new(Arriving { incoming: Some(incoming), activity: activity.clone(), request })
}

impl hyper::body::Body for Arriving {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Some(incoming) = &mut self.incoming else { return Poll::Ready(None) };
        let polled = Pin::new(&mut *incoming).poll_frame(cx);
        // Hyper is behind the body when it hands over the last of it.
        if matches!(polled, Poll::Ready(None)) || incoming.is_end_stream() {
            self.activity.get().body_ends(self.request);
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

impl Drop for Arriving {
    fn drop(&mut self) {
        // In this order: whoever reads that the body was dropped must find hyper told of it.
        drop(self.incoming.take());
        self.activity.get().body_is_dropped(self.request);
    }
}

//! The service that hyper calls: it tracks when a request begins and when its response ends, and calls the handler.

use std::convert::Infallible;
use std::future::{Future, pending, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::http::{Method, Request, Response};
use hyper::body::{Body as _, Frame, Incoming, SizeHint};
use hyper::service::Service;
use taskqueue_api::headers::PREFER;
use taskqueue_api::{bulk_action, paths};
use taskqueue_core::BulkAction;
use tokio::time::Instant;

use super::activity::{RequestNumber, SharedActivity};
use super::handler::Handler;
use super::waiting::WaitingSlot;
use crate::idle_connections::IdleEntry;

pub(super) struct TrackedService<H> {
    pub(super) handler: H,
    pub(super) activity: SharedActivity,
    pub(super) idle_entry: Arc<IdleEntry>,
    /// For a request that may begin to wait.
    pub(super) waiting_slot: WaitingSlot,
}

impl<H: Handler> Service<Request<Incoming>> for TrackedService<H> {
    type Response = Response<TrackedResponseBody>;
    type Error = Infallible;
    // On the heap: hyper gives the socket back only from a connection that may be moved while a request is under way.
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        if !self.idle_entry.set_busy() {
            return Box::pin(pending());
        }
        let number = self.begin(&request);
        let request = request.map(|incoming| track_request(incoming, &self.activity, number));
        let (handler, track) = (self.handler.clone(), self.track_response());
        // Only a request with a preference can begin to wait; the others need no slot.
        if request.headers().contains_key(PREFER) {
            let slot = self.waiting_slot.clone();
            slot.put(handler, request);
            return Box::pin(async move { Ok(track(poll_fn(|context| slot.poll(context)).await)) });
        }
        Box::pin(async move { Ok(track(handler.handle(request).await)) })
    }
}

/// Returns whether a request is given up when its client has disconnected: a read, and a bulk action, which stops between two portions.
fn ends_with_its_client<B>(request: &Request<B>) -> bool {
    match *request.method() {
        Method::GET | Method::HEAD => true,
        // Most requests are told by this word alone.
        Method::POST if request.uri().path().rsplit('/').nth(1) == Some("bulk") => {
            let template = paths::template_of(request.uri().path());
            BulkAction::ALL.into_iter().any(|action| template == Some(bulk_action::path(action)))
        }
        _ => false,
    }
}

impl<H> TrackedService<H> {
    fn begin(&self, request: &Request<Incoming>) -> RequestNumber {
        let (now, mut activity) = (Instant::now(), self.activity.lock());
        if ends_with_its_client(request) {
            activity.begin_client_check(request.version(), now);
        }
        activity.begin_request(now)
    }

    fn track_response(&self) -> impl FnOnce(Response<Body>) -> Response<TrackedResponseBody> + Send + 'static {
        let activity = self.activity.clone();
        move |response| {
            activity.lock().end_client_check();
            response.map(|body| TrackedResponseBody { body, activity })
        }
    }
}

/// A request body that reports its progress. Hyper reads a body only while a handler polls it, and the response may be sent long before
/// that: until hyper has consumed the body, the next bytes are not a request.
struct TrackedRequestBody {
    /// `None` only while it is dropped.
    incoming: Option<Incoming>,
    activity: SharedActivity,
    request: RequestNumber,
}

/// Makes the body of a request report its progress to `activity`.
fn track_request(incoming: Incoming, activity: &SharedActivity, request: RequestNumber) -> Body {
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

/// A response body whose end is tracked: hyper drops it when it has taken its last byte.
pub(super) struct TrackedResponseBody {
    body: Body,
    activity: SharedActivity,
}

impl Drop for TrackedResponseBody {
    fn drop(&mut self) {
        self.activity.lock().end_response(Instant::now());
    }
}

impl hyper::body::Body for TrackedResponseBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

//! The service that hyper calls: it notes when a request begins and when its answer ends, and hands the rest on.

use std::convert::Infallible;
use std::future::{Future, pending, poll_fn, ready};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::http::{Method, Request, Response};
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::service::Service;
use taskqueue_api::headers::PREFER;
use tokio::time::Instant;

use super::activity::{RequestNumber, SharedActivity};
use super::request_body;
use super::waiting_request::WaitingSlot;
use crate::idle_connections::IdleEntry;

/// Answers requests; cheap to clone.
pub(crate) trait Handler: Clone + Send + Sync + Unpin + 'static {
    /// Answers one request.
    fn handle(&self, request: Request<Body>) -> impl Future<Output = Response<Body>> + Send;
}

/// An extension of an answer: its request showed that the client may call.
#[derive(Clone, Copy)]
pub(crate) struct Authenticated;

/// A handler whose work is noted.
pub(super) struct Observed<H> {
    pub(super) handler: H,
    pub(super) activity: SharedActivity,
    pub(super) idle_entry: Arc<IdleEntry>,
    /// Where requests go that may come to wait.
    pub(super) waiting_slot: WaitingSlot,
    /// The answer to a request that has waited; the next call is for it.
    pub(super) answer: Mutex<Option<Response<Body>>>,
}

impl<H: Handler> Service<Request<Incoming>> for Observed<H> {
    type Response = Response<ObservedBody>;
    type Error = Infallible;
    // On the heap, so that the connection may be moved while a request is under way (hyper wants that for giving
    // back the socket).
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        if !self.idle_entry.works() {
            return Box::pin(pending());
        }
        let number = self.begin(&request);
        let request = request.map(|incoming| request_body::observe(incoming, &self.activity, number));
        let (handler, answered) = (self.handler.clone(), self.answered());
        if let Some(answer) = self.answer.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return Box::pin(ready(Ok(answered(answer))));
        }
        // Only who has a preference can come to wait; the others go the shorter way.
        if request.headers().contains_key(PREFER) {
            let waiting_slot = self.waiting_slot.clone();
            waiting_slot.take_in(handler, request);
            return Box::pin(async move {
                let response = poll_fn(|context| waiting_slot.poll(context)).await;
                Ok(answered(response))
            });
        }
        Box::pin(async move { Ok(answered(handler.handle(request).await)) })
    }
}

impl<H> Observed<H> {
    /// Notes that a request begins.
    fn begin(&self, request: &Request<Incoming>) -> RequestNumber {
        let (now, mut activity) = (Instant::now(), self.activity.get());
        let number = activity.request_begins(now);
        if matches!(*request.method(), Method::GET | Method::HEAD) {
            activity.read_begins(request.version(), now);
        }
        number
    }

    /// Notes that the answer is there, and by what it says whether the client may call.
    fn answered(&self) -> impl FnOnce(Response<Body>) -> Response<ObservedBody> + Send + 'static {
        let (activity, idle_entry) = (self.activity.clone(), Arc::clone(&self.idle_entry));
        move |answer| {
            activity.get().answer_begins();
            if answer.extensions().get::<Authenticated>().is_some() {
                idle_entry.note_authenticated();
            }
            answer.map(|body| ObservedBody { body, activity })
        }
    }
}

/// A response body whose end is noted: hyper drops it when it has taken its last byte.
pub(super) struct ObservedBody {
    body: Body,
    activity: SharedActivity,
}

impl Drop for ObservedBody {
    fn drop(&mut self) {
        self.activity.get().response_ends(Instant::now());
    }
}

impl hyper::body::Body for ObservedBody {
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

//! The service that hyper calls: it notes when a request begins and when its answer ends, and hands the rest on.

use std::convert::Infallible;
use std::future::{Future, poll_fn, ready};
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::http::{Request, Response};
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::service::Service;
use taskqueue_api::headers::PREFER;
use tokio::time::Instant;

use super::activity::Shared;
use super::body;
use super::waiting::Bench;

/// Answers requests; cheap to clone.
pub(crate) trait Handler: Clone + Send + Sync + Unpin + 'static {
    /// Answers one request.
    fn handle(&self, request: Request<Body>) -> impl Future<Output = Response<Body>> + Send;
}

/// A handler whose work is noted.
pub(super) struct Observed<H> {
    pub(super) handler: H,
    pub(super) activity: Shared,
    /// Where requests go that may come to wait.
    pub(super) bench: Bench,
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
        let number = self.activity.get().request_begins(Instant::now());
        let request = request.map(|incoming| body::observe(incoming, &self.activity, number));
        let (handler, activity) = (self.handler.clone(), self.activity.clone());
        if let Some(answer) = self.answer.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return Box::pin(ready(Ok(answer.map(|body| ObservedBody { body, activity }))));
        }
        // Only who has a preference can come to wait; the others go the shorter way.
        if request.headers().contains_key(PREFER) {
            let bench = self.bench.clone();
            bench.take_in(handler, request);
            return Box::pin(async move {
                let response = poll_fn(|context| bench.poll(context)).await;
                Ok(response.map(|body| ObservedBody { body, activity }))
            });
        }
        Box::pin(async move {
            let response = handler.handle(request).await;
            Ok(response.map(|body| ObservedBody { body, activity }))
        })
    }
}

/// A response body whose end is noted: hyper drops it when it has taken its last byte.
pub(super) struct ObservedBody {
    body: Body,
    activity: Shared,
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

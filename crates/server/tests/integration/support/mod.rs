//! A server without a network: requests go straight to the http, over the model store or a stub.

pub(crate) mod lines;
pub(crate) mod served;

use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;

use async_trait::async_trait;
use http_body_util::BodyExt;
use hyper::HeaderMap;
use taskqueue_server::auth::Token;
use taskqueue_server::browser_check::Hosts;
use taskqueue_server::{Limits, http_service};
use taskqueue_store::conformance::model::variant::{Call, ModelVariant};
use taskqueue_store::write_request::WriteRequest;

// What nearly every test names.
pub(crate) use axum::body::Body;
pub(crate) use hyper::{Request, StatusCode};
pub(crate) use serde_json::{Value, json};
pub(crate) use std::sync::Arc;
pub(crate) use std::sync::atomic::Ordering;
pub(crate) use std::time::Duration;
pub(crate) use taskqueue_core::time::Timestamp;
pub(crate) use taskqueue_server::auth::Gate;
pub(crate) use taskqueue_server::http_service::HttpService;
pub(crate) use taskqueue_server::state::AppState;
pub(crate) use taskqueue_store::conformance::ManualClock;
pub(crate) use taskqueue_store::conformance::model::ModelStore;
pub(crate) use taskqueue_store::{Store, StoreError, StoreExt};

pub(crate) const TASK: &str = "t_abcdefghijkl";
pub(crate) const RUN: &str = "r_abcdefghijkl";
pub(crate) const WORKER: &str = "w_abcdefghijkl";
pub(crate) const VERSION: &str = "taskqueue-server-version";

/// An empty model store.
pub(crate) fn model() -> ModelStore {
    ModelStore::new(Arc::new(ManualClock::new(Timestamp::from_micros(1_000_000))))
}

/// What serves a store with the usual limits; without a token to every caller.
pub(crate) fn state_over(store: Arc<dyn Store>, gate: Gate) -> AppState {
    AppState::new(store, gate, Arc::default(), Limits::default())
}

/// A server for this machine only.
pub(crate) fn service(state: AppState) -> HttpService {
    http_service::service(Hosts::default(), state)
}

/// A server over an empty model store, without a token.
pub(crate) fn server() -> HttpService {
    service(state_over(Arc::new(model()), Gate::default()))
}

/// The same with the queue `q`.
pub(crate) async fn with_queue() -> HttpService {
    let http = server();
    expect(&http, StatusCode::CREATED, "PUT", "/api/v2/queues/q", "").await;
    http
}

/// An empty one with the token `s3cret`.
pub(crate) fn guarded_server() -> HttpService {
    service(state_over(Arc::new(model()), Gate::new(Token::parse("s3cret"), None)))
}

/// An answer, read to its end.
pub(crate) struct Answered {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Answered {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {:?}", self.body))
    }

    /// The error code, after a check of the envelope.
    pub(crate) fn code(&self) -> String {
        let json = self.json();
        let envelope = json.as_object().unwrap();
        assert_eq!(envelope.len(), 1, "{json}");
        let error = envelope["error"].as_object().unwrap();
        assert_eq!(error.len(), 3, "{json}");
        assert!(error["details"].is_object() && !error["message"].as_str().unwrap().is_empty(), "{json}");
        assert_eq!(self.header("content-type"), Some("application/json"));
        error["code"].as_str().unwrap().to_owned()
    }

    pub(crate) fn details(&self) -> Value {
        self.json()["error"]["details"].clone()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

pub(crate) async fn send(http: &HttpService, request: Request<Body>) -> Answered {
    let (head, body) = http.call(request).await.into_parts();
    let body = body.collect().await.unwrap().to_bytes().to_vec();
    Answered { status: head.status.as_u16(), headers: head.headers, body }
}

/// Sends JSON, or nothing when `body` is empty.
pub(crate) async fn call(http: &HttpService, method: &str, path: &str, body: &str) -> Answered {
    let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
    if !body.is_empty() {
        request = request.header("content-type", "application/json");
    }
    send(http, request.body(Body::from(body.to_owned())).unwrap()).await
}

/// Sends JSON and expects a status.
pub(crate) async fn expect(http: &HttpService, status: StatusCode, method: &str, path: &str, body: &str) -> Answered {
    let answered = call(http, method, path, body).await;
    let text = String::from_utf8_lossy(&answered.body).into_owned();
    assert_eq!(answered.status, status.as_u16(), "{method} {path} {body}: {text}");
    answered
}

/// A store that fails every request in one way; `None` panics.
pub(crate) struct FailingStore {
    error: Option<StoreError>,
    /// How often it was asked whether it works.
    pub(crate) checks: AtomicUsize,
    /// Commands that are neither executed nor failed, if it keeps them.
    pub(crate) kept: Option<Mutex<Vec<WriteRequest>>>,
    /// How often it was asked for its figures.
    pub(crate) asked_for_figures: AtomicUsize,
    model: ModelStore,
}

impl FailingStore {
    pub(crate) fn new(error: Option<StoreError>) -> Self {
        let (checks, asked_for_figures) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { error, checks, kept: None, asked_for_figures, model: model() }
    }

    /// One whose writer takes commands and never begins them, and that does not say whether it works and how it is.
    pub(crate) fn stuck() -> Self {
        Self { kept: Some(Mutex::default()), ..Self::new(None) }
    }

    fn failure(&self) -> StoreError {
        self.error.clone().unwrap_or_else(|| panic!("secret of the panic"))
    }
}

#[async_trait]
impl ModelVariant for FailingStore {
    fn model(&self) -> &ModelStore {
        &self.model
    }
    fn submit(&self, request: WriteRequest) -> Result<(), StoreError> {
        let Some(kept) = &self.kept else { return Err(self.failure()) };
        kept.lock().unwrap().push(request);
        Ok(())
    }
    async fn before(&self, call: Call) -> Result<(), StoreError> {
        let asked = match call {
            Call::Check => &self.checks,
            Call::Figures | Call::ListQueues => &self.asked_for_figures,
            _ => return Err(self.failure()),
        };
        asked.fetch_add(1, Ordering::SeqCst);
        if self.kept.is_some() { std::future::pending().await } else { Err(self.failure()) }
    }
}

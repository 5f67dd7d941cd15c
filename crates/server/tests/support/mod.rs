//! A server without a network: requests go straight to the http, over the model store or a stub.

#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, reason = "a test may end by panic")]

pub(crate) mod lines;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};

use async_trait::async_trait;
use axum::body::Body;
use http_body_util::BodyExt;
use hyper::{HeaderMap, Request, StatusCode};
use serde_json::Value;
use taskqueue_core::filter::ObservationFilter;
use taskqueue_core::grouping::{GroupPage, ObservationGroupQuery, TaskGroupQuery};
use taskqueue_core::ids::{QueueName, TaskId};
use taskqueue_core::observation::Observation;
use taskqueue_core::selection::{ObservationQuery, Page, TaskQuery, TaskSelection};
use taskqueue_core::stats::{ActivitySeries, QueueStats, SeriesSelection};
use taskqueue_core::task::Task;
use taskqueue_core::time::Timestamp;
use taskqueue_server::auth::Token;
use taskqueue_server::http_service::{HttpService, service};
use taskqueue_server::state::AppState;
use taskqueue_store::activity::ActivityLog;
use taskqueue_store::clock::ManualClock;
use taskqueue_store::command::{ActOnTasks, Acted, BulkUpdate, Output, Updated};
use taskqueue_store::figures::StoreFigures;
use taskqueue_store::model::ModelStore;
use taskqueue_store::page::{WriteTask, WrittenTasks};
use taskqueue_store::waiting::Waiters;
use taskqueue_store::write_request::WriteRequest;
use taskqueue_store::{InstallationSecret, Store, StoreError};

pub(crate) const TASK: &str = "t_abcdefghijkl";
pub(crate) const RUN: &str = "r_abcdefghijkl";
pub(crate) const WORKER: &str = "w_abcdefghijkl";
pub(crate) const VERSION: &str = "taskqueue-server-version";

/// A server over an empty model store, without a token.
pub(crate) fn server() -> HttpService {
    let clock = ManualClock::new(Timestamp::from_micros(1_000_000));
    service(AppState::new(Arc::new(ModelStore::new(Arc::new(clock))), None))
}

/// The same with the token `s3cret`.
pub(crate) fn guarded_server() -> HttpService {
    let clock = ManualClock::new(Timestamp::from_micros(1_000_000));
    service(AppState::new(Arc::new(ModelStore::new(Arc::new(clock))), Token::parse("s3cret")))
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
    activity: Arc<ActivityLog>,
    /// How often it was asked for its figures.
    pub(crate) asked_for_figures: AtomicUsize,
}

impl FailingStore {
    pub(crate) fn new(error: Option<StoreError>) -> Self {
        let (checks, asked_for_figures) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { error, checks, kept: None, activity: Arc::default(), asked_for_figures }
    }

    /// One whose writer takes commands and never begins them, and that does not say whether it works and how it is.
    pub(crate) fn stuck() -> Self {
        Self { kept: Some(Mutex::default()), ..Self::new(None) }
    }

    async fn fail_or_hang<T>(&self) -> Result<T, StoreError> {
        if self.kept.is_some() { std::future::pending().await } else { self.fail() }
    }

    fn fail<T>(&self) -> Result<T, StoreError> {
        Err(self.error.clone().unwrap_or_else(|| panic!("secret of the panic")))
    }
}

#[async_trait]
impl Store for FailingStore {
    fn submit(&self, request: WriteRequest) -> Result<(), StoreError> {
        let Some(kept) = &self.kept else { return self.fail() };
        kept.lock().unwrap().push(request);
        Ok(())
    }
    async fn update_tasks(&self, _: Arc<BulkUpdate>) -> Result<Updated, StoreError> {
        self.fail()
    }
    async fn act_on_tasks(&self, _: Arc<ActOnTasks>) -> Result<Acted, StoreError> {
        self.fail()
    }
    async fn list_queues(&self) -> Result<Vec<QueueName>, StoreError> {
        self.fail()
    }
    async fn get_task(&self, _: &QueueName, _: TaskId) -> Result<Task, StoreError> {
        self.fail()
    }
    async fn read_output(&self, _: &QueueName, _: TaskId, _: u64, _: usize) -> Result<Output, StoreError> {
        self.fail()
    }
    async fn list_tasks(&self, _: &QueueName, _: TaskQuery, _: WriteTask) -> Result<WrittenTasks, StoreError> {
        self.fail()
    }
    async fn count_tasks(&self, _: &QueueName, _: TaskSelection) -> Result<u64, StoreError> {
        self.fail()
    }
    async fn group_tasks(&self, _: &QueueName, _: TaskGroupQuery) -> Result<GroupPage, StoreError> {
        self.fail()
    }
    async fn list_workers(&self, _: &QueueName, _: ObservationQuery) -> Result<Page<Observation>, StoreError> {
        self.fail()
    }
    async fn count_workers(&self, _: &QueueName, _: Option<ObservationFilter>) -> Result<u64, StoreError> {
        self.fail()
    }
    async fn group_workers(&self, _: &QueueName, _: ObservationGroupQuery) -> Result<GroupPage, StoreError> {
        self.fail()
    }
    async fn queue_stats(&self, _: &QueueName) -> Result<QueueStats, StoreError> {
        self.fail()
    }
    async fn activity_series(&self, _: &QueueName, _: SeriesSelection) -> Result<ActivitySeries, StoreError> {
        self.fail()
    }
    async fn figures(&self) -> Result<StoreFigures, StoreError> {
        self.asked_for_figures.fetch_add(1, Ordering::SeqCst);
        self.fail_or_hang().await
    }
    fn activity(&self) -> &Arc<ActivityLog> {
        &self.activity
    }
    fn waiters(&self) -> &Arc<Waiters> {
        static NO_WAITERS: LazyLock<Arc<Waiters>> = LazyLock::new(Arc::default);
        &NO_WAITERS
    }
    async fn installation_secret(&self) -> Result<InstallationSecret, StoreError> {
        self.fail()
    }
    async fn check(&self) -> Result<Vec<String>, StoreError> {
        self.checks.fetch_add(1, Ordering::Relaxed);
        self.fail_or_hang().await
    }
    async fn close(&self) {}
}

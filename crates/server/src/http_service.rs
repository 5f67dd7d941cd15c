//! The steps of every request: request id, authentication, the route table, and the headers of every answer. One function
//! instead of a stack of layers, so that the order of docs/reference/http-api.md §4 can be read here.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use hyper::header::{HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Request, StatusCode};
use taskqueue_api::ErrorCode;
use taskqueue_api::headers;
use taskqueue_store::clock::wall_clock;

use crate::auth::TokenMistake;
use crate::browser_check::{self, Hosts};
use crate::connection::Handler;
use crate::endpoints::{API_PREFIX, needs_token};
use crate::error::{ApiError, HOLD_BUSY};
use crate::extract::discard;
use crate::idle_connections::IdleEntry;
use crate::listener::ClientAddress;
use crate::metrics::PathTemplate;
use crate::pages::{self, Pages, Session};
use crate::path::{is_unroutable, normalised_uri};
use crate::request_log::{LogNote, RequestId, RequestIds, RequestLog, RequestRecord};
use crate::router::{self, Routes};
use crate::routes;
use crate::state::AppState;

const SERVER_VERSION: HeaderName = HeaderName::from_static(headers::SERVER_VERSION);

/// Answers requests. Cheap to clone.
#[derive(Clone)]
pub struct HttpService {
    inner: Arc<ServiceParts>,
    log: RequestLog,
    /// `None` where there are only requests.
    connection: Option<Arc<IdleEntry>>,
}

struct ServiceParts {
    routes: Routes,
    state: AppState,
    hosts: Hosts,
    request_ids: RequestIds,
}

/// Builds the service for all connections. Without a token it accepts requests for these hosts.
pub fn service(hosts: Hosts, state: AppState) -> HttpService {
    with_routes(router::routes(state.clone()), hosts, state)
}

/// Returns the service of a listener for nothing but metrics, which needs no token.
pub(crate) fn metrics_service(hosts: Hosts, state: &AppState) -> HttpService {
    let state = state.without_token();
    with_routes(router::metrics_routes(state.clone()), hosts, state)
}

fn with_routes(routes: Routes, hosts: Hosts, state: AppState) -> HttpService {
    let inner = ServiceParts { routes, state, hosts, request_ids: RequestIds::new() };
    HttpService { inner: Arc::new(inner), log: RequestLog::default(), connection: None }
}

impl HttpService {
    /// Returns this service with a line for every request, not only slow ones and failures of the server.
    #[must_use]
    pub fn log_requests(mut self, log_all: bool) -> Self {
        self.log.log_all = log_all;
        self
    }

    /// Answers one request; every failure becomes an answer, too.
    pub async fn call(&self, mut request: Request<Body>) -> Response {
        let id = self.inner.request_ids.of(request.headers());
        if let Some(uri) = normalised_uri(request.uri()) {
            *request.uri_mut() = uri;
        }
        let mut record = RequestRecord::begin(self.log, &request);
        let mut response = match self.inner.state.pages.as_deref().filter(|_| pages::is_for_page(&request)) {
            Some(pages) => Box::pin(self.show_page(pages, request, &mut record, &id)).await,
            None => self.answer(request, &mut record, &id).await,
        };
        if let Some((name, value)) = id.answer_header() {
            response.headers_mut().insert(name, value);
        }
        let (status, note) = (response.status().as_u16(), response.extensions().get::<LogNote>());
        let code = if status < 400 { None } else { response.extensions().get::<ErrorCode>().copied() };
        record.end(status, code, note.map(|LogNote(text)| text.as_str()), &id, &self.inner.state.metrics.requests);
        // Pages have no code.
        if status == 503 && code.is_none_or(|code| code == ErrorCode::DatabaseBusy) {
            // Boxed: no other request pays for its room.
            Box::pin(tokio::time::sleep(HOLD_BUSY)).await;
        }
        response
    }

    /// Answers a program.
    async fn answer(&self, mut request: Request<Body>, record: &mut RequestRecord, id: &RequestId) -> Response {
        let is_api = request.uri().path().starts_with(API_PREFIX);
        let caller = self.inner.state.gate.identify(request.headers(), wall_clock);
        let checked = caller.as_ref().map(drop).map_err(|mistake| *mistake);
        // Other paths need no token, and their answers do not carry the version.
        let authorised = if needs_token(request.uri().path()) { checked } else { Ok(()) };
        if let Ok(Some(token)) = caller {
            record.token = Some(Arc::clone(&token));
            request.extensions_mut().insert(token);
        }

        let (head, body) = request.into_parts();
        let admitted = self.admit(&head, authorised);
        if admitted.is_ok() && checked.is_ok() {
            self.note_authentication();
        }
        let mut response = match admitted {
            Ok(()) => with_id_of_failure(self.route(record.template, Request::from_parts(head, body), id).await, id),
            Err(refusal) => {
                discard(body);
                refusal.into_response()
            }
        };
        if is_api && authorised.is_ok() {
            let version = HeaderValue::from_static(env!("CARGO_PKG_VERSION"));
            response.headers_mut().insert(SERVER_VERSION, version);
        }
        response
    }

    /// Answers a browser. Whether somebody who is not known may see a page is decided by the page.
    async fn show_page(
        &self,
        pages: &Pages,
        mut request: Request<Body>,
        record: &mut RequestRecord,
        id: &RequestId,
    ) -> Response {
        let gate = &self.inner.state.gate;
        let session = pages.identify(gate, request.headers());
        let is_known = session.is_some();
        if let Some(Session { viewer, token }) = session {
            record.token = token;
            request.extensions_mut().insert(viewer);
        }
        let (head, body) = request.into_parts();
        if let Some(refusal) = pages::refusal_page(gate, &self.inner.hosts, &head) {
            discard(body);
            return refusal;
        }
        if is_known {
            self.note_authentication();
        }
        match pages::page_redirect(&head) {
            Some(redirect) => {
                discard(body);
                redirect
            }
            None => pages::completed_page(self.route(record.template, Request::from_parts(head, body), id).await),
        }
    }

    /// Remembers that the client is known: its connection is closed after those of others.
    fn note_authentication(&self) {
        self.connection.iter().for_each(|connection| connection.set_authenticated());
    }

    /// Makes the checks that come before all others.
    fn admit(&self, head: &Parts, authorised: Result<(), TokenMistake>) -> Result<(), ApiError> {
        let host = browser_check::host_field(head.version, &head.headers)?;
        if self.inner.state.gate.is_open() {
            return browser_check::check(&self.inner.hosts, host, head).map_err(ApiError::forbidden);
        }
        authorised.map_err(ApiError::unauthorized)
    }

    async fn route(&self, template: PathTemplate, request: Request<Body>, id: &RequestId) -> Response {
        if is_unroutable(request.uri().path()) {
            return routes::unknown_path(request).await;
        }
        let mut answer = pin!(self.inner.routes.answer(template, request));
        // A panic is a bug, but it must not end the connection.
        let caught = poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| answer.as_mut().poll(context))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(response)) => Poll::Ready(Ok(response)),
            Err(panic) => Poll::Ready(Err(panic)),
        });
        caught.await.unwrap_or_else(|panic| {
            tracing::error!(request_id = %id, panic = panic_text(&*panic), "a handler panicked");
            ApiError::internal(&id.to_string()).into_response()
        })
    }
}

impl Handler for HttpService {
    async fn handle(&self, request: Request<Body>) -> Response {
        self.call(request).await
    }

    fn for_client(mut self, client: ClientAddress, connection: &Arc<IdleEntry>) -> Self {
        self.log.client = client;
        self.connection = Some(Arc::clone(connection));
        self
    }

    fn refused(&self, status: u16, code: ErrorCode) {
        let record = RequestRecord::unread(self.log);
        record.end(status, Some(code), None, &self.inner.request_ids.make(), &self.inner.state.metrics.requests);
    }
}

/// Names the request in the answer of a handler that failed.
fn with_id_of_failure(response: Response, id: &RequestId) -> Response {
    match response.status() {
        StatusCode::INTERNAL_SERVER_ERROR => ApiError::internal(&id.to_string()).into_response(),
        _ => response,
    }
}

/// Returns the message of a panic.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("of another type than text")
}

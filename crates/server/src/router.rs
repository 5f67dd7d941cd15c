//! Who answers a request, and the document at `/openapi.json`, both from the route table of `endpoints.rs`. The description of an
//! operation stands above its handler in `routes`; what is the same for every operation is added here.

use std::pin::Pin;
use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::handler::Handler;
use axum::middleware::map_request;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use hyper::header::{CONTENT_LENGTH, HeaderValue};
use hyper::{Method, StatusCode};
use taskqueue_api::headers::{JSON, PREFERENCE_APPLIED, SERVER_VERSION};
use taskqueue_api::paths;
use taskqueue_core::access::Need;
use taskqueue_dashboard::Mode;
use tower::Service;
use utoipa::openapi::path::{Operation, Parameter, PathItem};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    self as document, Components, ContentBuilder, Header, HeaderBuilder, InfoBuilder, ObjectBuilder, OpenApi, Ref,
    RefOr, ResponseBuilder, Type,
};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::endpoints::{self, API_PREFIX, TABLE, needs_token, with_endpoints};
use crate::error::ApiError;
use crate::extract::{Call, discard, discard_the_rest};
use crate::metrics::PathTemplate;
use crate::respond;
use crate::routes::{self, HandlerResult, batches, discovery, lists, queues, runs, tasks};
use crate::state::AppState;

/// Answers the requests of one method and path.
type Endpoint = Box<dyn Fn(Request, AppState) -> EndpointFuture + Send + Sync>;
type EndpointFuture = Pin<Box<dyn Future<Output = Response> + Send>>;

fn endpoint<T: 'static>(handler: impl Handler<T, AppState, Future = EndpointFuture>) -> Endpoint {
    Box::new(move |request, state| handler.clone().call(request, state))
}

macro_rules! handlers {
    ($($method:ident $path:ident, $need:expr, $errors:expr => $module:ident::$handler:ident;)*) => {
        [$( (routes!($module::$handler), endpoint($module::$handler)) ),*]
    };
}

/// Returns every endpoint with its method and path, and the document that describes them.
fn table() -> (Vec<(Method, &'static str, Endpoint)>, OpenApi) {
    let (mut described, mut listed) = (OpenApiRouter::new(), Vec::new());
    for ((method, path, ..), (mut route, endpoint)) in TABLE.iter().zip(with_endpoints!(handlers)) {
        let is_described = |(described, item)| described == path && operations(item).any(|(known, _)| known == *method);
        debug_assert!(
            route.1.paths.iter_mut().all(is_described),
            "{method} {path} names the handler of another endpoint"
        );
        listed.push((method.clone(), *path, endpoint));
        described = described.routes(route);
    }
    (listed, described.into_openapi())
}

/// The endpoints of a listener. Which of them a request is for follows from its template, which is known already.
pub(crate) struct Routes {
    state: AppState,
    /// In the order of [`paths::ALL`].
    of_paths: Vec<Vec<(Method, Endpoint)>>,
    /// The dashboard, if there is one, and the answer to all other requests.
    others: Router,
}

impl Routes {
    fn new(
        state: AppState,
        endpoints: impl IntoIterator<Item = (Method, &'static str, Endpoint)>,
        others: Router,
    ) -> Self {
        let mut of_paths: Vec<Vec<_>> = paths::ALL.map(|_| Vec::new()).into();
        for (method, path, endpoint) in endpoints {
            if let Some(place) = paths::ALL.iter().position(|known| *known == path) {
                of_paths[place].push((method, endpoint));
            }
        }
        let others = others.fallback(routes::unknown_path).method_not_allowed_fallback(routes::other_method);
        Self { state, of_paths, others }
    }

    /// Answers a request whose path has this template.
    pub(crate) async fn answer(&self, template: PathTemplate, request: Request) -> Response {
        let Some(endpoints) = self.of_paths.get(template.place()).filter(|endpoints| !endpoints.is_empty()) else {
            let Ok(response) = Box::pin(self.others.clone().call(request)).await;
            return response;
        };
        let is_head = *request.method() == Method::HEAD;
        let method = if is_head { &Method::GET } else { request.method() };
        let Some((_, endpoint)) = endpoints.iter().find(|(known, _)| known == method) else {
            discard(request.into_body());
            return ApiError::method_not_allowed(allowed(endpoints)).into_response();
        };
        let mut response = endpoint(request, self.state.clone()).await;
        tell_length(&mut response);
        if is_head {
            // A GET whose answer is cut off.
            *response.body_mut() = Body::empty();
        }
        response
    }
}

/// Returns the methods of a path, for the header `Allow`.
fn allowed(endpoints: &[(Method, Endpoint)]) -> HeaderValue {
    let methods = endpoints.iter().map(|(method, _)| if *method == Method::GET { "GET,HEAD" } else { method.as_str() });
    HeaderValue::try_from(methods.collect::<Vec<_>>().join(",")).unwrap_or(HeaderValue::from_static(""))
}

/// Tells the length of an answer; a 204 must have none.
fn tell_length(response: &mut Response) {
    if let Some(length) = response.body().size_hint().exact()
        && response.status() != StatusCode::NO_CONTENT
    {
        response.headers_mut().insert(CONTENT_LENGTH, length.into());
    }
}

/// Returns all routes. For methods of which they are no endpoints, `count` and `claim` are task or worker ids, although invalid ones; what
/// these need is in `endpoints::need_of`.
pub(crate) fn routes(state: AppState) -> Routes {
    let task = |path| {
        [
            (Method::PUT, path, endpoint(tasks::create_task)),
            (Method::PATCH, path, endpoint(tasks::update_task)),
            (Method::DELETE, path, endpoint(tasks::delete_task)),
        ]
    };
    let others = [
        (Method::GET, paths::CLAIM, endpoint(tasks::get_task)),
        (Method::PUT, paths::WORKER_COUNT, endpoint(runs::report_worker)),
        (Method::DELETE, paths::WORKER_COUNT, endpoint(runs::withdraw_worker)),
    ];
    let as_ids = task(paths::TASK_COUNT).into_iter().chain(task(paths::CLAIM)).chain(others);
    Routes::new(state.clone(), table().0.into_iter().chain(as_ids), pages(state))
}

/// Returns the dashboard, if there is one. Its pages are not in the document: they are for people.
fn pages(state: AppState) -> Router {
    let mode = state.pages.as_ref().map_or(Mode::Off, |pages| pages.mode);
    // A form that is refused before it was read to its end: the browser shows the answer only if it could send all of it.
    taskqueue_dashboard::router(Arc::new(state), mode).layer(map_request(discard_the_rest))
}

/// Returns the routes of a listener that serves nothing but metrics.
pub(crate) fn metrics_routes(state: AppState) -> Routes {
    let metrics = (Method::GET, paths::METRICS, endpoint(discovery::metrics));
    Routes::new(state, [metrics], Router::new())
}

const BEARER: &str = "bearer";

const DENIED: &str = "`forbidden`: the token lacks the scope or the queue; or the server has no token, and a web page may have sent this";

static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| {
    let document = describe(table().1);
    // Serialising plain data with text keys does not fail.
    serde_json::to_vec(&document).unwrap_or_default().into()
});

/// This document.
#[utoipa::path(
    get, path = paths::OPENAPI, tag = "discovery",
    responses((status = 200, description = "The OpenAPI document.", body = Object, content_type = "application/json")),
)]
async fn openapi_document(_: Call) -> HandlerResult {
    Ok(respond::json(StatusCode::OK, DOCUMENT.clone()))
}

fn describe(mut document: OpenApi) -> OpenApi {
    document.info = InfoBuilder::new()
        .title("taskqueue")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some("A task queue: clients create tasks, workers claim and finish them under leases."))
        .build();
    let components = document.components.get_or_insert_with(Components::new);
    let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    components.security_schemes.insert(BEARER.to_owned(), RefOr::T(scheme));
    for (path, item) in &mut document.paths.paths {
        let is_api = path.starts_with(API_PREFIX);
        for (method, operation) in operations(item) {
            if needs_token(path) {
                add_error(operation, "403", DENIED);
                describe_security(operation, endpoints::need_of(&method, path));
            }
            add_error(operation, "400", "`invalid_request`: the request is not valid HTTP/1.1, as without a `Host`");
            add_error(operation, "403", "`forbidden`: the server has no token, and a web page may have sent this");
            let most = if path.contains("/batch/") { "16 MiB" } else { "1 MiB" };
            add_error(operation, "413", &format!("`request_too_large`: the body exceeds {most}"));
            for (status, codes) in endpoints::errors_of(&method, path) {
                add_error(operation, &status.to_string(), &codes);
            }
            add_error(operation, "500", "`internal_error`: a bug of the server");
            if is_api {
                describe_api(operation);
            }
            if needs_token(path) {
                describe_unauthorized(operation);
            }
        }
    }
    document
}

/// The scope that a token needs stands where OpenAPI has the roles of other kinds of security.
fn describe_security(operation: &mut Operation, need: Option<Need>) {
    let scope = if let Some(Need::Scope(scope) | Need::Everywhere(scope)) = need { Some(scope.as_str()) } else { None };
    operation.security = Some(vec![SecurityRequirement::new(BEARER, scope)]);
}

fn describe_api(operation: &mut Operation) {
    add_error(
        operation,
        "503",
        "`database_busy`: nothing was done and nothing will be; or `database_unavailable`, whose message tells when \
         the outcome is not known. Try again after `Retry-After` seconds",
    );
    let is_prefer =
        |parameter: &RefOr<Parameter>| matches!(parameter, RefOr::T(parameter) if parameter.name == "Prefer");
    let can_wait = operation.parameters.iter().flatten().any(is_prefer);
    for (status, response) in &mut operation.responses.responses {
        let RefOr::T(response) = response else { continue };
        if can_wait && status.starts_with('2') {
            let given = text_header("`wait=N`: the wait that was given, in seconds.");
            response.headers.insert(PREFERENCE_APPLIED.to_owned(), given);
        }
        response.headers.insert(SERVER_VERSION.to_owned(), text_header("The version of the server's package."));
        if status == "503" {
            response.headers.insert("retry-after".to_owned(), text_header("Seconds."));
        }
    }
    // These answers come without the version, as the one to callers without the token: they are to requests that are never routed.
    add_error(operation, "414", "`invalid_request`: the path with its query is too long");
    add_error(operation, "431", "`invalid_request`: the request head is too large");
}

fn describe_unauthorized(operation: &mut Operation) {
    add_error(operation, "401", "`unauthorized`: the token is missing, wrong or expired");
    if let Some(RefOr::T(response)) = operation.responses.responses.get_mut("401") {
        response.headers.insert("www-authenticate".to_owned(), text_header("`Bearer`"));
    }
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = (Method, &mut Operation)> {
    let PathItem { get, put, post, delete, patch, .. } = item;
    let methods = [Method::GET, Method::PUT, Method::POST, Method::DELETE, Method::PATCH];
    let operations = methods.into_iter().zip([get, put, post, delete, patch]);
    operations.filter_map(|(method, operation)| Some((method, operation.as_mut()?)))
}

fn add_error(operation: &mut Operation, status: &str, description: &str) {
    let envelope = ContentBuilder::new().schema(Some(Ref::from_schema_name("ErrorEnvelope"))).build();
    let response: document::Response = ResponseBuilder::new().description(description).content(JSON, envelope).build();
    operation.responses.responses.entry(status.to_owned()).or_insert(RefOr::T(response));
}

fn text_header(description: &str) -> RefOr<Header> {
    let text = ObjectBuilder::new().schema_type(Type::String);
    RefOr::T(HeaderBuilder::new().schema(Some(text)).description(Some(description)).build())
}

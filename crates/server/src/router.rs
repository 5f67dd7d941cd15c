//! The route table, in the contract's order, and the document at `/openapi.json`. Each line of the table registers handlers together with
//! their schema, so the table and the document always agree. Which scope of a token each of them needs, and
//! its errors, are in `endpoints.rs`. The description of an operation stands above its handler in `routes`; what is the same for every
//! operation is added here.

use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::middleware::map_request;
use axum::routing::{get, put};
use bytes::Bytes;
use hyper::{Method, StatusCode};
use taskqueue_api::headers::{JSON, PREFERENCE_APPLIED, SERVER_VERSION};
use taskqueue_api::paths;
use taskqueue_core::access::Need;
use taskqueue_dashboard::Mode;
use utoipa::openapi::path::{Operation, Parameter, PathItem};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    Components, ContentBuilder, Header, HeaderBuilder, InfoBuilder, ObjectBuilder, OpenApi, Ref, RefOr, Response,
    ResponseBuilder, Type,
};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::endpoints::{self, API_PREFIX, needs_token};
use crate::extract::{Call, discard_the_rest};
use crate::respond;
use crate::routes::{self, HandlerResult, batches, discovery, lists, queues, runs, tasks};
use crate::state::AppState;

/// Returns every route, and the document that describes them.
pub(crate) fn table() -> (Router<AppState>, OpenApi) {
    OpenApiRouter::new()
        // Discovery
        .routes(routes!(discovery::health))
        .routes(routes!(discovery::livez))
        .routes(routes!(discovery::readyz))
        .routes(routes!(openapi_document))
        .routes(routes!(discovery::metrics))
        .routes(routes!(discovery::capabilities))
        // Queues
        .routes(routes!(queues::create_queue, queues::delete_queue))
        .routes(routes!(queues::list_queues))
        .routes(routes!(queues::queue_stats))
        .routes(routes!(queues::get_settings, queues::change_settings))
        // Tasks
        .routes(routes!(tasks::create_task, tasks::get_task, tasks::update_task, tasks::delete_task))
        .routes(routes!(lists::list_tasks, tasks::update_tasks))
        .routes(routes!(lists::count_tasks))
        .routes(routes!(tasks::cancel_task))
        .routes(routes!(tasks::requeue_task))
        .routes(routes!(tasks::explain_task))
        .routes(routes!(tasks::cancel_tasks))
        .routes(routes!(tasks::requeue_tasks))
        .routes(routes!(tasks::delete_tasks))
        // Worker observations
        .routes(routes!(lists::list_workers))
        .routes(routes!(lists::count_workers))
        .routes(routes!(runs::report_worker, runs::withdraw_worker))
        .routes(routes!(runs::report_telemetry))
        // Worker protocol
        .routes(routes!(runs::claim_task))
        .routes(routes!(runs::heartbeat))
        .routes(routes!(runs::report_progress))
        .routes(routes!(runs::complete_task))
        .routes(routes!(runs::fail_task))
        .routes(routes!(runs::unclaim_task))
        // Output
        .routes(routes!(runs::read_output, runs::add_output))
        // Batches
        .routes(routes!(batches::create_tasks))
        .routes(routes!(batches::claim_tasks))
        .routes(routes!(batches::report_runs))
        .split_for_parts()
}

/// Returns the route table with the fallbacks. For methods of which they are no endpoints, `count` and `claim` are task or worker ids,
/// although invalid ones.
pub(crate) fn router(state: AppState) -> Router {
    let task = || put(tasks::create_task).patch(tasks::update_task).delete(tasks::delete_task);
    let worker = put(runs::report_worker).delete(runs::withdraw_worker);
    let (router, _) = table();
    router
        .route(paths::TASK_COUNT, task())
        .route(paths::CLAIM, task().merge(get(tasks::get_task)))
        .route(paths::WORKER_COUNT, worker)
        .with_state(state.clone())
        .merge(pages(state))
        .fallback(routes::unknown_path)
        .method_not_allowed_fallback(routes::other_method)
}

/// Returns the dashboard, if there is one. Its pages are not in the document: they are for people.
fn pages(state: AppState) -> Router {
    let mode = state.pages.as_ref().map_or(Mode::Off, |pages| pages.mode);
    // A form that is refused before it was read to its end: the browser shows the answer only if it could send all of it.
    taskqueue_dashboard::router(Arc::new(state), mode).layer(map_request(discard_the_rest))
}

/// Returns the table of a listener that serves nothing but metrics.
pub(crate) fn metrics_router(state: AppState) -> Router {
    Router::new()
        .route(paths::METRICS, get(discovery::metrics))
        .fallback(routes::unknown_path)
        .method_not_allowed_fallback(routes::other_method)
        .with_state(state)
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
    let response: Response = ResponseBuilder::new().description(description).content(JSON, envelope).build();
    operation.responses.responses.entry(status.to_owned()).or_insert(RefOr::T(response));
}

fn text_header(description: &str) -> RefOr<Header> {
    let text = ObjectBuilder::new().schema_type(Type::String);
    RefOr::T(HeaderBuilder::new().schema(Some(text)).description(Some(description)).build())
}

//! The document at `/openapi.json`: the descriptions of the routes, and what is the same for every operation. Rendered once.

use std::sync::LazyLock;

use bytes::Bytes;
use hyper::Method;
use taskqueue_api::headers::{JSON, SERVER_VERSION};
use taskqueue_core::access::Need;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    Components, ContentBuilder, Header, HeaderBuilder, InfoBuilder, ObjectBuilder, OpenApi, Ref, RefOr, Response,
    ResponseBuilder, Type,
};

use crate::endpoint_scopes::{self, API_PREFIX, needs_token};
use crate::router;

const BEARER: &str = "bearer";

const DENIED: &str = "`forbidden`: the token lacks the scope or the queue; or the server has no token, and a web page may have sent this";

static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| {
    let document = describe(router::table().1);
    // Serialising plain data with text keys does not fail.
    serde_json::to_vec(&document).unwrap_or_default().into()
});

/// The document as JSON.
pub fn document() -> Bytes {
    DOCUMENT.clone()
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
                describe_security(operation, endpoint_scopes::need_of(&method, path));
            }
            add_error(operation, "400", "`invalid_request`: the request is not valid HTTP/1.1, as without a `Host`");
            add_error(operation, "403", "`forbidden`: the server has no token, and a web page may have sent this");
            add_error(operation, "413", "`request_too_large`: the body exceeds 1 MiB");
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
    let scope = match need {
        Some(Need::Scope(scope) | Need::Everywhere(scope)) => Some(scope.as_str()),
        Some(Need::Nothing | Need::AnyToken) | None => None,
    };
    operation.security = Some(vec![SecurityRequirement::new(BEARER, scope)]);
}

fn describe_api(operation: &mut Operation) {
    add_error(
        operation,
        "503",
        "`database_busy`: nothing was done and nothing will be; or `database_unavailable`, whose message tells when \
         the outcome is not known. Try again after `Retry-After` seconds",
    );
    for (status, response) in &mut operation.responses.responses {
        let RefOr::T(response) = response else { continue };
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
    methods
        .into_iter()
        .zip([get, put, post, delete, patch])
        .filter_map(|(method, operation)| Some((method, operation.as_mut()?)))
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

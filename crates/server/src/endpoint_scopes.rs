//! Which endpoint needs which scope of a token (docs/reference/http-api.md §2.3): one line for each line of the route table, in its
//! order. An endpoint without a line here is closed to all tokens but those of administrators, and a test finds it.

use std::borrow::Cow;

use axum::extract::MatchedPath;
use hyper::Method;
use hyper::http::request::Parts;
use taskqueue_api::paths;
use taskqueue_core::access::Need::{self, AnyToken, Nothing};
use taskqueue_core::access::{Denial, Scope};

use crate::auth::NamedToken;
use crate::error::ApiError;
use crate::path::queue_text;

/// Pages for browsers, which are opened by a session instead of a token.
pub(crate) const PAGES_PREFIX: &str = "/ui/";

/// Paths that need a token where there is one, and whose answers carry the version.
pub(crate) const API_PREFIX: &str = "/api/";

const READ: Need = Need::Scope(Scope::Read);
const SUBMIT: Need = Need::Scope(Scope::Submit);
const WORK: Need = Need::Scope(Scope::Work);
const ADMIN: Need = Need::Scope(Scope::Admin);

/// For what tells of all queues at once.
const EVERYWHERE: Need = Need::Everywhere(Scope::Read);

const TABLE: &[(Method, &str, Need)] = &[
    // Discovery
    (Method::GET, paths::HEALTH, Nothing),
    (Method::GET, paths::LIVEZ, Nothing),
    (Method::GET, paths::READYZ, Nothing),
    (Method::GET, paths::OPENAPI, Nothing),
    (Method::GET, paths::METRICS, EVERYWHERE),
    (Method::GET, paths::CAPABILITIES, AnyToken),
    // Queues
    (Method::PUT, paths::QUEUE, ADMIN),
    (Method::DELETE, paths::QUEUE, ADMIN),
    (Method::GET, paths::QUEUES, READ),
    (Method::GET, paths::STATS, READ),
    (Method::GET, paths::SETTINGS, READ),
    (Method::PATCH, paths::SETTINGS, ADMIN),
    // Tasks
    (Method::PUT, paths::TASK, SUBMIT),
    (Method::GET, paths::TASK, READ),
    (Method::PATCH, paths::TASK, SUBMIT),
    (Method::DELETE, paths::TASK, SUBMIT),
    (Method::GET, paths::TASKS, READ),
    (Method::PATCH, paths::TASKS, SUBMIT),
    (Method::GET, paths::TASK_COUNT, READ),
    (Method::POST, paths::CANCEL, SUBMIT),
    (Method::POST, paths::REQUEUE, SUBMIT),
    (Method::GET, paths::EXPLAIN, READ),
    (Method::POST, paths::BULK_CANCEL, SUBMIT),
    (Method::POST, paths::BULK_REQUEUE, SUBMIT),
    (Method::POST, paths::BULK_DELETE, SUBMIT),
    // Worker observations
    (Method::GET, paths::WORKERS, READ),
    (Method::GET, paths::WORKER_COUNT, READ),
    (Method::PUT, paths::WORKER, WORK),
    (Method::DELETE, paths::WORKER, WORK),
    (Method::POST, paths::TELEMETRY, WORK),
    // Worker protocol
    (Method::POST, paths::CLAIM, WORK),
    (Method::POST, paths::HEARTBEAT, WORK),
    (Method::POST, paths::PROGRESS, WORK),
    (Method::POST, paths::COMPLETE, WORK),
    (Method::POST, paths::FAIL, WORK),
    (Method::POST, paths::UNCLAIM, WORK),
    // Output
    (Method::GET, paths::OUTPUT, READ),
    (Method::POST, paths::OUTPUT, WORK),
    // Batches
    (Method::POST, paths::BATCH_CREATE, SUBMIT),
    (Method::POST, paths::BATCH_CLAIM, WORK),
    (Method::POST, paths::BATCH_REPORT, WORK),
    // Words in the place of an id, which are invalid ids for these methods.
    (Method::PUT, paths::TASK_COUNT, SUBMIT),
    (Method::PATCH, paths::TASK_COUNT, SUBMIT),
    (Method::DELETE, paths::TASK_COUNT, SUBMIT),
    (Method::GET, paths::CLAIM, READ),
    (Method::PUT, paths::CLAIM, SUBMIT),
    (Method::PATCH, paths::CLAIM, SUBMIT),
    (Method::DELETE, paths::CLAIM, SUBMIT),
    (Method::PUT, paths::WORKER_COUNT, WORK),
    (Method::DELETE, paths::WORKER_COUNT, WORK),
];

/// Returns whether a path needs a token where there is one.
pub(crate) fn needs_token(path: &str) -> bool {
    path.starts_with(API_PREFIX) || path == paths::METRICS
}

/// Returns what the endpoint of a method and a template needs. HEAD is a GET whose answer is cut off.
pub(crate) fn need_of(method: &Method, template: &str) -> Option<Need> {
    let method = if *method == Method::HEAD { &Method::GET } else { method };
    let line = TABLE.iter().find(|(known, path, _)| known == method && *path == template)?;
    Some(line.2)
}

/// Checks that this token opens a request that was routed.
pub(crate) fn check(token: &NamedToken, head: &Parts) -> Result<(), ApiError> {
    let template = head.extensions.get::<MatchedPath>().map_or("", MatchedPath::as_str);
    let need = need_of(&head.method, template).unwrap_or(ADMIN);
    let queue: Option<Cow<'_, str>> = template.contains("{queue}").then(|| queue_text(head.uri.path()));
    let denied = |denial: Denial<'_>| ApiError::denied(&token.name, denial);
    token.grant.check(need, queue.as_deref()).map_err(denied)
}

//! Which endpoint needs which scope of a token (docs/reference/http-api.md §2.3), and which errors it may answer: one line for each
//! line of the route table, in its order. An endpoint without a line here is closed to all tokens but those of administrators, and a
//! test finds it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use hyper::Method;
use hyper::http::request::Parts;
use taskqueue_api::ErrorCode::{
    self, ExpectationFailed, FilterTooLarge, InvalidCursor, InvalidFilter, InvalidRequest, InvalidTaskId, JsonTooDeep,
    OutputNotFound, QueueHasRunningTasks, QueueNotEmpty, QueueNotFound, RunFinalized, RunIdConflict, StaleRun,
    TaskDataTooLarge, TaskIdConflict, TaskNotFound, TaskRunning, TaskStateConflict, UpdateConflict, WorkerNotFound,
    WorkerRouteConflict,
};
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

const OF_QUEUE: &[ErrorCode] = &[QueueNotFound, InvalidRequest];
const OF_QUEUE_BODY: &[ErrorCode] = &[QueueNotFound, InvalidRequest, JsonTooDeep];
const OF_LIST: &[ErrorCode] = &[QueueNotFound, InvalidRequest, InvalidCursor, InvalidFilter, FilterTooLarge];
const OF_TASK: &[ErrorCode] = &[QueueNotFound, TaskNotFound, InvalidRequest, InvalidTaskId];
const OF_ACTION: &[ErrorCode] = &[QueueNotFound, TaskNotFound, TaskStateConflict, InvalidRequest, InvalidTaskId];
const OF_BULK_ACTION: &[ErrorCode] = &[QueueNotFound, ExpectationFailed, InvalidFilter, FilterTooLarge, InvalidRequest];
const OF_RUN_DATA: &[ErrorCode] = &[
    QueueNotFound,
    TaskNotFound,
    StaleRun,
    RunFinalized,
    InvalidRequest,
    JsonTooDeep,
    InvalidTaskId,
    TaskDataTooLarge,
];
const OF_RUN_END: &[ErrorCode] =
    &[QueueNotFound, TaskNotFound, StaleRun, RunFinalized, InvalidRequest, InvalidTaskId, JsonTooDeep];
const OF_NEW_OUTPUT: &[ErrorCode] =
    &[QueueNotFound, TaskNotFound, StaleRun, InvalidRequest, JsonTooDeep, InvalidTaskId];

/// What each endpoint needs, and its errors in the order in which the document names them. Those that every
/// endpoint has are not here, nor statuses that the description of an operation says more about.
const TABLE: &[(Method, &str, Need, &[ErrorCode])] = &[
    // Discovery
    (Method::GET, paths::HEALTH, Nothing, &[]),
    (Method::GET, paths::LIVEZ, Nothing, &[]),
    (Method::GET, paths::READYZ, Nothing, &[]),
    (Method::GET, paths::OPENAPI, Nothing, &[]),
    (Method::GET, paths::METRICS, EVERYWHERE, &[]),
    (Method::GET, paths::CAPABILITIES, AnyToken, &[]),
    // Queues
    (Method::PUT, paths::QUEUE, ADMIN, &[]),
    (Method::DELETE, paths::QUEUE, ADMIN, &[QueueNotFound, QueueNotEmpty, QueueHasRunningTasks]),
    (Method::GET, paths::QUEUES, READ, &[]),
    (Method::GET, paths::STATS, READ, OF_QUEUE),
    (Method::GET, paths::SETTINGS, READ, OF_QUEUE),
    (Method::PATCH, paths::SETTINGS, ADMIN, OF_QUEUE_BODY),
    // Tasks
    (Method::PUT, paths::TASK, SUBMIT, &[QueueNotFound, TaskIdConflict]),
    (Method::GET, paths::TASK, READ, OF_TASK),
    (Method::PATCH, paths::TASK, SUBMIT, &[QueueNotFound, TaskNotFound, TaskRunning, UpdateConflict]),
    (Method::DELETE, paths::TASK, SUBMIT, &[QueueNotFound, TaskRunning, InvalidRequest, InvalidTaskId]),
    (Method::GET, paths::TASKS, READ, OF_LIST),
    (Method::PATCH, paths::TASKS, SUBMIT, &[QueueNotFound, UpdateConflict]),
    (Method::GET, paths::TASK_COUNT, READ, OF_LIST),
    (Method::POST, paths::CANCEL, SUBMIT, OF_ACTION),
    (Method::POST, paths::REQUEUE, SUBMIT, OF_ACTION),
    (Method::GET, paths::EXPLAIN, READ, OF_TASK),
    (Method::POST, paths::BULK_CANCEL, SUBMIT, OF_BULK_ACTION),
    (Method::POST, paths::BULK_REQUEUE, SUBMIT, OF_BULK_ACTION),
    (Method::POST, paths::BULK_DELETE, SUBMIT, OF_BULK_ACTION),
    // Worker observations
    (Method::GET, paths::WORKERS, READ, OF_LIST),
    (Method::GET, paths::WORKER_COUNT, READ, OF_LIST),
    (Method::PUT, paths::WORKER, WORK, &[QueueNotFound, WorkerRouteConflict, InvalidRequest, JsonTooDeep]),
    (Method::DELETE, paths::WORKER, WORK, OF_QUEUE),
    (Method::POST, paths::TELEMETRY, WORK, &[QueueNotFound, WorkerNotFound, InvalidRequest, JsonTooDeep]),
    // Worker protocol
    (Method::POST, paths::CLAIM, WORK, &[QueueNotFound, StaleRun, RunIdConflict, InvalidRequest, JsonTooDeep]),
    (Method::POST, paths::HEARTBEAT, WORK, OF_RUN_DATA),
    (Method::POST, paths::PROGRESS, WORK, OF_RUN_DATA),
    (Method::POST, paths::COMPLETE, WORK, OF_RUN_DATA),
    (Method::POST, paths::FAIL, WORK, OF_RUN_END),
    (Method::POST, paths::UNCLAIM, WORK, OF_RUN_END),
    // Output
    (Method::GET, paths::OUTPUT, READ, &[QueueNotFound, TaskNotFound, OutputNotFound, InvalidRequest, InvalidTaskId]),
    (Method::POST, paths::OUTPUT, WORK, OF_NEW_OUTPUT),
    // Batches
    (Method::POST, paths::BATCH_CREATE, SUBMIT, OF_QUEUE),
    (Method::POST, paths::BATCH_CLAIM, WORK, OF_QUEUE_BODY),
    (Method::POST, paths::BATCH_REPORT, WORK, OF_QUEUE),
];

/// Returns whether a path needs a token where there is one.
pub(crate) fn needs_token(path: &str) -> bool {
    path.starts_with(API_PREFIX) || path == paths::METRICS
}

fn line_of(method: &Method, template: &str) -> Option<&'static (Method, &'static str, Need, &'static [ErrorCode])> {
    // HEAD is a GET whose answer is cut off.
    let method = if *method == Method::HEAD { &Method::GET } else { method };
    TABLE.iter().find(|(known, path, ..)| known == method && *path == template)
}

/// Returns what the endpoint of a method and a template needs. Words in the place of an id are invalid ids for other methods.
pub(crate) fn need_of(method: &Method, template: &str) -> Option<Need> {
    let of_id = || match template {
        paths::TASK_COUNT | paths::CLAIM => line_of(method, paths::TASK),
        paths::WORKER_COUNT => line_of(method, paths::WORKER),
        _ => None,
    };
    line_of(method, template).or_else(of_id).map(|(_, _, need, _)| *need)
}

/// Returns the errors of an endpoint for the document: each status, and its codes in words.
pub(crate) fn errors_of(method: &Method, template: &str) -> BTreeMap<u16, String> {
    let mut codes: BTreeMap<u16, Vec<String>> = BTreeMap::new();
    for code in line_of(method, template).into_iter().flat_map(|(_, _, _, errors)| *errors) {
        codes.entry(code.status()).or_default().push(format!("`{code}`"));
    }
    let words = |codes: Vec<String>| match codes.split_last() {
        Some((last, others @ [_, ..])) => format!("{} or {last}", others.join(", ")),
        _ => codes.concat(),
    };
    codes.into_iter().map(|(status, codes)| (status, words(codes))).collect()
}

/// Checks that this token opens a request that was routed.
pub(crate) fn check(token: &NamedToken, head: &Parts) -> Result<(), ApiError> {
    let template = paths::template_of(head.uri.path()).unwrap_or_default();
    let need = need_of(&head.method, template).unwrap_or(ADMIN);
    let queue: Option<Cow<'_, str>> = template.contains("{queue}").then(|| queue_text(head.uri.path()));
    let denied = |denial: Denial<'_>| ApiError::denied(&token.name, denial);
    token.grant.check(need, queue.as_deref()).map_err(denied)
}

//! The route table, by the sections of the contract: which scope of a token each endpoint needs (docs/reference/http-api.md §2.3),
//! which errors it may answer, and its handler.

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

/// The route table, for a macro that makes something of each line: method and path (a name of `paths`) of an endpoint, what it needs, and
/// its errors in the order in which the document names them; then its handler, as `router.rs` names it, which calls this macro for it.
/// Errors that every endpoint has are not here, nor statuses that the description of an operation says more about.
macro_rules! with_endpoints {
    ($make:ident) => {
        $make! {
            // Discovery
            GET HEALTH, Nothing, &[] => discovery::health;
            GET LIVEZ, Nothing, &[] => discovery::livez;
            GET READYZ, Nothing, &[] => discovery::readyz;
            GET OPENAPI, Nothing, &[] => self::openapi_document;
            GET METRICS, EVERYWHERE, &[] => discovery::metrics;
            GET CAPABILITIES, AnyToken, &[] => discovery::capabilities;
            // Queues
            PUT QUEUE, ADMIN, &[] => queues::create_queue;
            DELETE QUEUE, ADMIN, &[QueueNotFound, QueueNotEmpty, QueueHasRunningTasks] => queues::delete_queue;
            GET QUEUES, READ, &[] => queues::list_queues;
            GET STATS, READ, OF_QUEUE => queues::queue_stats;
            GET SETTINGS, READ, OF_QUEUE => queues::get_settings;
            PATCH SETTINGS, ADMIN, OF_QUEUE_BODY => queues::change_settings;
            // Tasks
            PUT TASK, SUBMIT, &[QueueNotFound, TaskIdConflict] => tasks::create_task;
            GET TASK, READ, OF_TASK => tasks::get_task;
            PATCH TASK, SUBMIT, &[QueueNotFound, TaskNotFound, TaskRunning, UpdateConflict] => tasks::update_task;
            DELETE TASK, SUBMIT, &[QueueNotFound, TaskRunning, InvalidRequest, InvalidTaskId] => tasks::delete_task;
            GET TASKS, READ, OF_LIST => lists::list_tasks;
            PATCH TASKS, SUBMIT, &[QueueNotFound, UpdateConflict] => tasks::update_tasks;
            GET TASK_COUNT, READ, OF_LIST => lists::count_tasks;
            POST CANCEL, SUBMIT, OF_ACTION => tasks::cancel_task;
            POST REQUEUE, SUBMIT, OF_ACTION => tasks::requeue_task;
            GET EXPLAIN, READ, OF_TASK => tasks::explain_task;
            POST BULK_CANCEL, SUBMIT, OF_BULK_ACTION => tasks::cancel_tasks;
            POST BULK_REQUEUE, SUBMIT, OF_BULK_ACTION => tasks::requeue_tasks;
            POST BULK_DELETE, SUBMIT, OF_BULK_ACTION => tasks::delete_tasks;
            // Worker observations
            GET WORKERS, READ, OF_LIST => lists::list_workers;
            GET WORKER_COUNT, READ, OF_LIST => lists::count_workers;
            PUT WORKER, WORK, &[QueueNotFound, WorkerRouteConflict, InvalidRequest, JsonTooDeep] => runs::report_worker;
            DELETE WORKER, WORK, OF_QUEUE => runs::withdraw_worker;
            POST TELEMETRY, WORK, &[QueueNotFound, WorkerNotFound, InvalidRequest, JsonTooDeep] => runs::report_telemetry;
            // Worker protocol
            POST CLAIM, WORK, &[QueueNotFound, StaleRun, RunIdConflict, InvalidRequest, JsonTooDeep] => runs::claim_task;
            POST HEARTBEAT, WORK, OF_RUN_DATA => runs::heartbeat;
            POST PROGRESS, WORK, OF_RUN_DATA => runs::report_progress;
            POST COMPLETE, WORK, OF_RUN_DATA => runs::complete_task;
            POST FAIL, WORK, OF_RUN_END => runs::fail_task;
            POST UNCLAIM, WORK, OF_RUN_END => runs::unclaim_task;
            // Output
            GET OUTPUT, READ, &[QueueNotFound, TaskNotFound, OutputNotFound, InvalidRequest, InvalidTaskId] => runs::read_output;
            POST OUTPUT, WORK, OF_NEW_OUTPUT => runs::add_output;
            // Batches
            POST BATCH_CREATE, SUBMIT, OF_QUEUE => batches::create_tasks;
            POST BATCH_CLAIM, WORK, OF_QUEUE_BODY => batches::claim_tasks;
            POST BATCH_REPORT, WORK, OF_QUEUE => batches::report_runs;
        }
    };
}
pub(crate) use with_endpoints;

macro_rules! lines {
    ($($method:ident $path:ident, $need:expr, $errors:expr => $module:ident::$handler:ident;)*) => {
        &[$((Method::$method, paths::$path, $need, $errors)),*]
    };
}

type Line = (Method, &'static str, Need, &'static [ErrorCode]);

/// The table without the handlers.
pub(crate) const TABLE: &[Line] = with_endpoints!(lines);

/// Returns whether a path needs a token where there is one.
pub(crate) fn needs_token(path: &str) -> bool {
    path.starts_with(API_PREFIX) || path == paths::METRICS
}

fn line_of(method: &Method, template: &str) -> Option<&'static Line> {
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

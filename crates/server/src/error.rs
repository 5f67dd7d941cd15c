//! The one mapping from all errors to the error envelope (docs/reference/errors.md §3). A new refusal does
//! not compile until it has a code here.

use std::borrow::Cow;
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use hyper::StatusCode;
use hyper::header::{ALLOW, CONNECTION, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use taskqueue_api::ErrorCode;
use taskqueue_api::batch::{BatchError, ItemError, ItemsWriter, refused_item};
use taskqueue_api::body::{Invalid, RequestError};
use taskqueue_api::error::Error;
use taskqueue_api::headers::BEARER;
use taskqueue_core::access::Denial;
use taskqueue_core::cursor::InvalidCursor;
use taskqueue_core::filter::FilterError;
use taskqueue_core::json::{ObjectWriter, write_array, write_string};
use taskqueue_core::limits::{BATCH_BODY_BYTES, FILTER_BYTES, NAME_CHARS, REQUEST_BODY_BYTES, TASK_DATA_BYTES};
use taskqueue_core::{QueueName, Refusal, RunId, TaskId};
use taskqueue_store::StoreError;

use crate::auth::TokenMistake;
use crate::browser_check::{BrowserRefusal, InvalidHost};
use crate::memory_budget::NoRoom;
use crate::respond;

/// After how many seconds a caller should try again when the storage is busy: a batch of writes takes far less.
const RETRY_BUSY_SECONDS: &str = "1";
/// How long the answer of a busy server is held back. Clients that repeat at once, whatever `Retry-After` says, would otherwise take the
/// processor that others need: 32 of them had 26,000 answers a second.
pub(crate) const HOLD_BUSY: Duration = Duration::from_millis(100);
/// The seconds after which a caller should try again when the storage failed, which takes longer to repair.
const RETRY_UNAVAILABLE_SECONDS: &str = "5";

/// The message when there is no memory for a request or its answer.
pub(crate) const NO_ROOM: &str = "too much data is under way; try again a little later";

/// An answer that is not a success.
#[derive(Debug)]
pub(crate) struct ApiError {
    status: StatusCode,
    code: ErrorCode,
    message: Cow<'static, str>,
    details: ObjectWriter,
    /// Boxed: few errors have one, and every result of a handler has room for an error.
    header: Option<Box<(HeaderName, HeaderValue)>>,
}

impl ApiError {
    /// Returns an error with its code, a message that says what to do, and details.
    pub(crate) fn new(code: ErrorCode, message: impl Into<Cow<'static, str>>, details: ObjectWriter) -> Self {
        let header = match code {
            ErrorCode::Unauthorized => Some((WWW_AUTHENTICATE, HeaderValue::from_static(BEARER))),
            ErrorCode::DatabaseBusy => Some((RETRY_AFTER, HeaderValue::from_static(RETRY_BUSY_SECONDS))),
            ErrorCode::DatabaseUnavailable | ErrorCode::ServerStopping => {
                Some((RETRY_AFTER, HeaderValue::from_static(RETRY_UNAVAILABLE_SECONDS)))
            }
            _ => None,
        };
        let status = StatusCode::from_u16(code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Self { status, code, message: message.into(), details, header: header.map(Box::new) }
    }

    /// Returns an error without details.
    fn plain(code: ErrorCode, message: &'static str) -> Self {
        Self::new(code, message, ObjectWriter::new())
    }

    pub(crate) fn unauthorized(mistake: TokenMistake) -> Self {
        let message = match mistake {
            TokenMistake::Missing => "the token is missing; send the header Authorization: Bearer <token>",
            TokenMistake::Malformed => {
                "the Authorization header cannot be read; send it once, in the form Authorization: Bearer <token>"
            }
            TokenMistake::Wrong => "the token is wrong or has expired; ask whoever runs the server for one",
        };
        Self::plain(ErrorCode::Unauthorized, message)
    }

    /// Refuses a request that a web page may have sent to a server without a token.
    pub(crate) fn forbidden(reason: BrowserRefusal) -> Self {
        let (reason, message) = match reason {
            BrowserRefusal::Host => (
                "foreign_host",
                "without a token this server takes requests for this machine only; send them to 127.0.0.1 or localhost, \
                 or start the server with --allow-host and the name in the Host header",
            ),
            BrowserRefusal::Origin => (
                "foreign_origin",
                "without a token this server takes no requests of web pages of another origin; start it with a token \
                 and send that, or leave the Origin header out",
            ),
            BrowserRefusal::CrossSite => (
                "cross_site",
                "without a token this server takes no requests that other web pages cause; start it with a token and \
                 send that, or enter the address yourself",
            ),
        };
        Self::new(ErrorCode::Forbidden, message, ObjectWriter::new().text("reason", reason))
    }

    /// Refuses a token that does not open this, and says what it lacks. The name of a queue is a part of the path, of any length.
    pub(crate) fn denied(token: &str, denial: Denial<'_>) -> Self {
        let queue = denial.queue.map(|name| name.chars().take(NAME_CHARS).collect::<String>());
        let lacks_scope = denial.scope.map(|scope| format!("does not have the scope {scope}"));
        let lacks_queue = queue.as_deref().map(|name| match name {
            "*" => "is not for all queues".to_owned(),
            name => format!("is not for the queue {name}"),
        });
        let lacks = lacks_scope.into_iter().chain(lacks_queue).collect::<Vec<_>>().join(" and ");
        let details =
            ObjectWriter::new().optional(denial.scope, |details, scope| details.text("scope", scope.as_str()));
        let details = details.optional(queue.as_ref(), |details, queue| details.text("queue", queue));
        let message = format!("the token {token} {lacks}; ask whoever runs the server for one that opens this");
        Self::new(ErrorCode::Forbidden, message, details)
    }

    /// Refuses a request because the server is about to end.
    pub(crate) fn stopping() -> Self {
        Self::plain(ErrorCode::ServerStopping, "this server is stopping; use another one")
    }

    /// Refuses a request because the storage did not answer a check.
    pub(crate) fn not_ready() -> Self {
        Self::plain(ErrorCode::DatabaseUnavailable, "the storage does not work now; see the log")
    }

    pub(crate) fn unknown_path(path: &str) -> Self {
        let details = ObjectWriter::new().text("path", path);
        Self::new(ErrorCode::NotFound, "no such path; GET /openapi.json lists all", details)
    }

    /// `allow` is the value of the `Allow` header.
    pub(crate) fn method_not_allowed(allow: HeaderValue) -> Self {
        let methods = allow.to_str().unwrap_or_default().split(',').map(str::trim);
        let methods = methods.filter(|method| !method.is_empty());
        let details = ObjectWriter::new().field("allow", |out| write_array(out, methods, write_string));
        let message = "this path takes other methods, listed in details.allow";
        Self { header: Some(Box::new((ALLOW, allow))), ..Self::new(ErrorCode::MethodNotAllowed, message, details) }
    }

    /// Refuses a body above its limit in bytes, which is a number of MiB.
    pub(crate) fn request_too_large(limit: usize) -> Self {
        let details = ObjectWriter::new().integer("max_bytes", limit);
        Self::new(ErrorCode::RequestTooLarge, format!("send a body of at most {} MiB", limit >> 20), details)
    }

    /// Refuses a body that did not arrive, or not in time. The connection cannot be used again.
    pub(crate) fn incomplete_body(message: &'static str) -> Self {
        let header = Some(Box::new((CONNECTION, HeaderValue::from_static("close"))));
        Self { header, ..Invalid::body(ErrorCode::InvalidRequest, message).into() }
    }

    pub(crate) fn invalid_task_id(text: &str) -> Self {
        let message = "use a task id of t_ and exactly 12 of A-Z a-z 0-9 _ -";
        Self::new(ErrorCode::InvalidTaskId, message, ObjectWriter::new().text("task_id", text))
    }

    pub(crate) fn internal(request_id: &str) -> Self {
        let message = "the server made a mistake; report it with details.request_id";
        Self::new(ErrorCode::InternalError, message, ObjectWriter::new().text("request_id", request_id))
    }

    /// Returns the error of a repeated claim in a batch whose task does not fit into the answer.
    pub(crate) fn no_room_for_claimed() -> Self {
        let message = "this run has a task that does not fit into the answer now; repeat its claim with fewer others";
        Self::plain(ErrorCode::DatabaseBusy, message)
    }

    /// Appends it to the answer of a batch, as the error of one item; `ids` are what the item is known by.
    pub(crate) fn write_item(self, out: &mut ItemsWriter, ids: &[(&str, &str)]) {
        out.refused(ids, self.code, &self.message, self.details);
    }

    /// Returns the error of one item for an answer that is written later.
    pub(crate) fn into_item(self, ids: &[(&str, &str)]) -> Vec<u8> {
        refused_item(ids, self.code, &self.message, self.details)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut body = Vec::with_capacity(256);
        Error::write(&mut body, self.code, &self.message, self.details);
        let mut response = respond::json(self.status, body);
        // For the log.
        response.extensions_mut().insert(self.code);
        response.headers_mut().extend(self.header.map(|header| *header));
        response
    }
}

impl From<NoRoom> for ApiError {
    fn from(NoRoom: NoRoom) -> Self {
        Self::plain(ErrorCode::DatabaseBusy, NO_ROOM)
    }
}

impl From<InvalidHost> for ApiError {
    /// The `Host` header is not valid HTTP, so the status is not that of an invalid request.
    fn from(InvalidHost(message): InvalidHost) -> Self {
        let error = Self::plain(ErrorCode::InvalidRequest, message);
        Self { status: StatusCode::BAD_REQUEST, ..error }
    }
}

impl From<Invalid> for ApiError {
    fn from(invalid: Invalid) -> Self {
        Self::new(invalid.code, invalid.message(), invalid.details())
    }
}

impl From<BatchError> for ApiError {
    fn from(error: BatchError) -> Self {
        match error {
            BatchError::Invalid(invalid) => invalid.into(),
            BatchError::TooLarge => {
                let message = "send fewer items at once: their JSON takes more than 16 MiB as it is stored";
                let details = ObjectWriter::new().integer("max_bytes", BATCH_BODY_BYTES);
                Self::new(ErrorCode::RequestTooLarge, message, details)
            }
        }
    }
}

impl From<ItemError> for ApiError {
    fn from(error: ItemError) -> Self {
        match error {
            ItemError::Invalid(invalid) => invalid.into(),
            ItemError::TaskId(text) => Self::invalid_task_id(&text),
            ItemError::TooLarge => Self::request_too_large(REQUEST_BODY_BYTES),
        }
    }
}

impl From<FilterError> for ApiError {
    fn from(error: FilterError) -> Self {
        match error {
            FilterError::TooLarge => {
                let message = format!("use a filter of at most {FILTER_BYTES} bytes");
                Self::new(ErrorCode::FilterTooLarge, message, ObjectWriter::new().integer("max_bytes", FILTER_BYTES))
            }
            FilterError::Invalid { column, message } => {
                Self::new(ErrorCode::InvalidFilter, message, ObjectWriter::new().integer("column", column))
            }
        }
    }
}

impl From<InvalidCursor> for ApiError {
    fn from(InvalidCursor: InvalidCursor) -> Self {
        Refusal::InvalidCursor.into()
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        let (code, message) = match error {
            StoreError::Refused(refusal) => return refusal.into(),
            // `http_service.rs` adds the request id.
            StoreError::Broken(_) => return Self::internal(""),
            StoreError::Busy => {
                (ErrorCode::DatabaseBusy, "the storage is busy and nothing was done; try again a little later")
            }
            StoreError::Unavailable => (
                ErrorCode::DatabaseUnavailable,
                "the storage does not work now and nothing was done; try again a little later",
            ),
            StoreError::PartlyDone => (
                ErrorCode::DatabaseUnavailable,
                "the storage failed: a part of this may be done, and the rest is not; repeat the request to do it",
            ),
            StoreError::OutcomeUnknown => (
                ErrorCode::DatabaseUnavailable,
                "the storage did not tell whether this was done: the outcome is not known; read before you repeat it",
            ),
        };
        Self::plain(code, message)
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        use ErrorCode as Code;
        let message = refusal.to_string();
        let of_queue = |queue: QueueName| ObjectWriter::new().text("queue", queue.as_str());
        let of_task = |id: TaskId| ObjectWriter::new().text("task_id", id.as_str());
        let of_run = |id: RunId| ObjectWriter::new().text("run_id", id.as_str());
        let (code, details) = match refusal {
            Refusal::QueueNotFound { queue } => (Code::QueueNotFound, of_queue(queue)),
            Refusal::QueueNotEmpty { queue, tasks } => (Code::QueueNotEmpty, of_queue(queue).integer("tasks", tasks)),
            Refusal::QueueHasRunningTasks { queue, running } => {
                (Code::QueueHasRunningTasks, of_queue(queue).integer("running", running))
            }
            Refusal::TaskNotFound { queue, task_id } => {
                (Code::TaskNotFound, of_queue(queue).text("task_id", task_id.as_str()))
            }
            Refusal::WorkerNotFound { queue, worker_id } => {
                (Code::WorkerNotFound, of_queue(queue).text("worker_id", worker_id.as_str()))
            }
            Refusal::OutputNotFound { task_id } => (Code::OutputNotFound, of_task(task_id)),
            Refusal::TaskIdConflict { queue, task_id } => {
                (Code::TaskIdConflict, of_task(task_id).text("queue", queue.as_str()))
            }
            Refusal::TaskRunning { task_id } => (Code::TaskRunning, of_task(task_id)),
            Refusal::TaskStateConflict { task_id, status, .. } => {
                (Code::TaskStateConflict, of_task(task_id).text("status", status.as_str()))
            }
            Refusal::UpdateConflict { task_id, field, attempt } => {
                (Code::UpdateConflict, of_task(task_id).text("field", field).integer("attempt", attempt))
            }
            Refusal::NotArchivable { task_id, status } => {
                (Code::UpdateConflict, of_task(task_id).text("field", "archived").text("status", status.as_str()))
            }
            Refusal::TooManyRouteLimits => {
                let errors = vec![RequestError::at("body", "route_limits", message)];
                return Invalid { code: Code::InvalidRequest, errors }.into();
            }
            Refusal::BulkUpdateTooLarge { tasks, dependencies, routes, most_tasks } => {
                let found = ObjectWriter::new().integer("tasks", tasks).integer("dependencies", dependencies);
                (Code::UpdateTooLarge, found.integer("routes", routes).integer("max_tasks", most_tasks))
            }
            Refusal::TaskDataTooLarge => {
                (Code::TaskDataTooLarge, ObjectWriter::new().integer("max_bytes", TASK_DATA_BYTES))
            }
            Refusal::StaleRun { run_id } => (Code::StaleRun, of_run(run_id)),
            Refusal::RunFinalized { end } => (Code::RunFinalized, ObjectWriter::new().text("action", end.as_str())),
            Refusal::RunIdConflict { run_id } => (Code::RunIdConflict, of_run(run_id)),
            Refusal::WorkerRouteConflict { worker_id } => {
                (Code::WorkerRouteConflict, ObjectWriter::new().text("worker_id", worker_id.as_str()))
            }
            Refusal::ExpectationFailed { expected, matched } => {
                let numbers = ObjectWriter::new().integer("expected", expected).integer("matched", matched);
                (Code::ExpectationFailed, numbers)
            }
            Refusal::InvalidCursor => (Code::InvalidCursor, ObjectWriter::new()),
        };
        Self::new(code, message, details)
    }
}

//! The error envelope, the one form of every answer that is not a success; and every error code of the contract with its text and
//! its HTTP status, in one table (docs/reference/errors.md §3). Which refusal becomes which code is decided in the `server` crate.

use std::borrow::BorrowMut;
use std::fmt;

use taskqueue_core::json::{JsonObject, ObjectWriter, Value};
use utoipa::ToSchema;

use crate::object_reader::{ObjectReader, Unreadable};

/// The one form of every error.
#[derive(ToSchema)]
pub struct ErrorEnvelope {
    /// The error.
    pub error: Error,
}

/// An error.
#[derive(Clone, Debug, PartialEq, Eq, ToSchema)]
pub struct Error {
    /// What clients branch on.
    #[schema(value_type = ErrorCode)]
    pub code: Code,
    /// What to do, for people.
    pub message: String,
    /// Informative.
    #[schema(value_type = Object)]
    pub details: JsonObject,
}

impl Error {
    /// Appends the error in its envelope.
    pub fn write(out: &mut Vec<u8>, code: ErrorCode, message: &str, details: ObjectWriter) {
        Self::write_field(ObjectWriter::append_to(out), code, message, details).end();
    }

    /// Adds the error to an object, as its envelope has it.
    pub(crate) fn write_field<B: BorrowMut<Vec<u8>>>(
        object: ObjectWriter<B>,
        code: ErrorCode,
        message: &str,
        details: ObjectWriter,
    ) -> ObjectWriter<B> {
        object.object("error", |error| {
            let error = error.text("code", code.as_str()).text("message", message);
            error.field("details", |out| out.extend_from_slice(&details.end()))
        })
    }

    /// Reads the error in its envelope, or in an item of a batch.
    pub fn read(value: &Value<'_>) -> Result<Self, Unreadable> {
        let error = ObjectReader::of(value, "answer")?.object("error")?;
        Ok(Self {
            code: Code::from(error.text("code")?),
            message: error.text("message")?.to_owned(),
            // Informative only: details that cannot be read are no reason to lose the code.
            details: error.json("details").unwrap_or(JsonObject::empty()),
        })
    }
}

/// The code that callers branch on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Code {
    /// A code of the contract.
    Known(ErrorCode),
    /// A code of a newer server.
    Other(String),
}

impl Code {
    /// The text in `error.code`.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Known(code) => code.as_str(),
            Self::Other(text) => text,
        }
    }
}

impl From<&str> for Code {
    fn from(text: &str) -> Self {
        ErrorCode::parse(text).map_or_else(|| Self::Other(text.to_owned()), Self::Known)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Declares the error codes, in the order of their statuses: each with its text and its HTTP status.
macro_rules! error_codes {
    ($( $(#[$doc:meta])* $code:ident = $text:literal, $status:literal; )+) => {
        /// What clients branch on.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ToSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum ErrorCode {
            $( $(#[$doc])* $code, )+
        }

        impl ErrorCode {
            /// All of them, in the order of their statuses.
            pub const ALL: [Self; [$($text),+].len()] = [$(Self::$code),+];

            const fn row(self) -> (&'static str, u16) {
                match self {
                    $(Self::$code => ($text, $status),)+
                }
            }
        }
    };
}

error_codes! {
    /// The token is missing or wrong.
    Unauthorized = "unauthorized", 401;
    /// The token does not open this; or there is no token, and a web page may have sent this.
    Forbidden = "forbidden", 403;
    /// No such path.
    NotFound = "not_found", 404;
    /// No such queue.
    QueueNotFound = "queue_not_found", 404;
    /// No such task in an existing queue.
    TaskNotFound = "task_not_found", 404;
    /// There is no live observation of the worker.
    WorkerNotFound = "worker_not_found", 404;
    /// No output of the task is kept.
    OutputNotFound = "output_not_found", 404;
    /// The path does not take this method.
    MethodNotAllowed = "method_not_allowed", 405;
    /// The id is taken by a task with another definition.
    TaskIdConflict = "task_id_conflict", 409;
    /// A running task takes no update and no deletion.
    TaskRunning = "task_running", 409;
    /// No such transition from the task's state.
    TaskStateConflict = "task_state_conflict", 409;
    /// The update would leave a pending task without a remaining attempt.
    UpdateConflict = "update_conflict", 409;
    /// The run is neither active nor the latest finished one.
    StaleRun = "stale_run", 409;
    /// The run has ended in another way.
    RunFinalized = "run_finalized", 409;
    /// The run id is active for another queue or route.
    RunIdConflict = "run_id_conflict", 409;
    /// The worker is known with another route.
    WorkerRouteConflict = "worker_route_conflict", 409;
    /// The queue has tasks and the deletion does not cascade.
    QueueNotEmpty = "queue_not_empty", 409;
    /// The queue has running tasks.
    QueueHasRunningTasks = "queue_has_running_tasks", 409;
    /// A bulk action found another number of tasks than expected.
    ExpectationFailed = "expectation_failed", 409;
    /// The body exceeds its limit.
    RequestTooLarge = "request_too_large", 413;
    /// A body, query parameter or identifier is invalid.
    InvalidRequest = "invalid_request", 422;
    /// The cursor is malformed or of another selection.
    InvalidCursor = "invalid_cursor", 422;
    /// The creation body is invalid.
    InvalidTask = "invalid_task", 422;
    /// The task name is too long or has control characters.
    InvalidTaskName = "invalid_task_name", 422;
    /// The task id in the path is invalid.
    InvalidTaskId = "invalid_task_id", 422;
    /// The filter is invalid.
    InvalidFilter = "invalid_filter", 422;
    /// The filter exceeds its limit.
    FilterTooLarge = "filter_too_large", 422;
    /// The update body is invalid.
    InvalidUpdate = "invalid_update", 422;
    /// The bulk update would write more than one transaction may take.
    UpdateTooLarge = "update_too_large", 422;
    /// JSON is nested too deeply.
    JsonTooDeep = "json_too_deep", 422;
    /// The stored data of the task would exceed its limit.
    TaskDataTooLarge = "task_data_too_large", 422;
    /// A bug of the server.
    InternalError = "internal_error", 500;
    /// The storage cannot take the request now.
    DatabaseBusy = "database_busy", 503;
    /// The storage failed.
    DatabaseUnavailable = "database_unavailable", 503;
    /// The server is about to end.
    ServerStopping = "server_stopping", 503;
}

impl ErrorCode {
    /// The text in `error.code`.
    pub const fn as_str(self) -> &'static str {
        self.row().0
    }

    /// The HTTP status.
    pub const fn status(self) -> u16 {
        self.row().1
    }

    /// The code that `text` names.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|code| code.as_str() == text)
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_reads_back_from_its_text_and_is_listed_by_status() {
        for code in ErrorCode::ALL {
            assert_eq!(ErrorCode::parse(code.as_str()), Some(code));
        }
        let schema = serde_json::to_value(<ErrorCode as utoipa::PartialSchema>::schema()).unwrap();
        let expected = serde_json::json!(ErrorCode::ALL.map(ErrorCode::as_str).to_vec());
        assert_eq!(schema["enum"], expected, "the schema says the same");
        assert!(ErrorCode::ALL.is_sorted_by_key(|code| code.status()));
        assert_eq!(ErrorCode::parse("Unauthorized"), None);
    }
}

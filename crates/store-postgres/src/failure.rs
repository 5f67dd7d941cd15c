//! Driver errors: each is logged once, with what was being done, and becomes a `StoreError`.

use taskqueue_store::StoreError;
use tokio_postgres::Error;
use tokio_postgres::error::{DbError, Severity, SqlState};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Another transaction committed first. The same work in a new transaction sees its changes.
    Conflict,
    /// A lock, a connection or time was not available.
    Busy,
    /// A pooler between this server and the database has dropped a prepared statement.
    StatementLost,
    /// The connection was lost.
    Lost,
    Failed,
}

pub(crate) fn cause(error: &Error) -> Cause {
    let Some(code) = error.code() else { return Cause::Lost };
    match *code {
        SqlState::UNIQUE_VIOLATION
        // See `SAVE_OBSERVATIONS`.
        | SqlState::NOT_NULL_VIOLATION
        | SqlState::T_R_DEADLOCK_DETECTED
        | SqlState::T_R_SERIALIZATION_FAILURE => Cause::Conflict,
        SqlState::LOCK_NOT_AVAILABLE
        | SqlState::QUERY_CANCELED
        | SqlState::TOO_MANY_CONNECTIONS
        | SqlState::CONFIGURATION_LIMIT_EXCEEDED => Cause::Busy,
        // Only `Session::begin` divides: by zero if the connection has another server process.
        SqlState::INVALID_SQL_STATEMENT_NAME | SqlState::DUPLICATE_PSTATEMENT | SqlState::DIVISION_BY_ZERO => {
            Cause::StatementLost
        }
        SqlState::ADMIN_SHUTDOWN
        | SqlState::CRASH_SHUTDOWN
        | SqlState::CANNOT_CONNECT_NOW
        | SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT => Cause::Lost,
        _ if code.code().starts_with("08") || is_fatal(error) => Cause::Lost,
        _ => Cause::Failed,
    }
}

/// Whether the connection ends with this error, whatever its code: new versions add codes.
fn is_fatal(error: &Error) -> bool {
    let severity = error.as_db_error().and_then(DbError::parsed_severity);
    matches!(severity, Some(Severity::Fatal | Severity::Panic))
}

/// Logs a driver error and turns it into what the caller may know.
pub(crate) fn failed(doing: &'static str, error: &Error) -> StoreError {
    let text = describe(error);
    match cause(error) {
        // `session.rs` has logged it.
        Cause::StatementLost => StoreError::Unavailable,
        Cause::Busy | Cause::Conflict => {
            tracing::warn!(doing, error = text, "the database is busy");
            StoreError::Busy
        }
        Cause::Lost | Cause::Failed => {
            tracing::error!(doing, error = text, "the database failed");
            StoreError::Unavailable
        }
    }
}

/// The cause of an error that undoes a transaction. A conflict is not logged: the transaction is tried again.
pub(crate) fn log_unless_conflict(doing: &'static str, error: &Error) -> Cause {
    let cause = cause(error);
    if cause != Cause::Conflict {
        failed(doing, error);
    }
    cause
}

/// The error with the database's message and code, which the driver's own text leaves out.
pub(crate) fn describe(error: &Error) -> String {
    match error.as_db_error() {
        Some(error) => format!("{} ({})", error.message(), error.code().code()),
        None => match std::error::Error::source(error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        },
    }
}

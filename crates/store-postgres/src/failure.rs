//! Where errors of the driver end: each is logged once with what was being done and becomes a `StoreError`.

use taskqueue_store::StoreError;
use tokio_postgres::Error;
use tokio_postgres::error::{DbError, Severity, SqlState};

/// What an error of the driver means for whoever was at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Another transaction was first: the same work, begun anew, sees what it did.
    Conflict,
    /// Somebody holds what was needed, or the database has no connection or no time left.
    Busy,
    /// A pooler between us and the database forgot a prepared statement.
    StatementLost,
    /// The connection is gone.
    Lost,
    /// Anything else.
    Failed,
}

/// What an error means.
pub(crate) fn cause(error: &Error) -> Cause {
    const CONFLICT: &[SqlState] = &[
        SqlState::UNIQUE_VIOLATION,
        // See `save_observations.sql`.
        SqlState::NOT_NULL_VIOLATION,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::T_R_SERIALIZATION_FAILURE,
    ];
    const BUSY: &[SqlState] = &[
        SqlState::LOCK_NOT_AVAILABLE,
        SqlState::QUERY_CANCELED,
        SqlState::TOO_MANY_CONNECTIONS,
        SqlState::CONFIGURATION_LIMIT_EXCEEDED,
    ];
    const STATEMENT_LOST: &[SqlState] = &[
        SqlState::INVALID_SQL_STATEMENT_NAME,
        SqlState::DUPLICATE_PSTATEMENT,
        // Nothing of ours divides, except `Session::begin` when it finds itself elsewhere.
        SqlState::DIVISION_BY_ZERO,
    ];
    const LOST: &[SqlState] = &[
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::CANNOT_CONNECT_NOW,
        SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
    ];
    match error.code() {
        None => Cause::Lost,
        Some(code) if CONFLICT.contains(code) => Cause::Conflict,
        Some(code) if BUSY.contains(code) => Cause::Busy,
        Some(code) if STATEMENT_LOST.contains(code) => Cause::StatementLost,
        Some(code) if LOST.contains(code) || code.code().starts_with("08") || is_fatal(error) => Cause::Lost,
        Some(_) => Cause::Failed,
    }
}

/// Whether the connection ends with this error, whatever its code: more of them come with every version.
fn is_fatal(error: &Error) -> bool {
    let severity = error.as_db_error().and_then(DbError::parsed_severity);
    matches!(severity, Some(Severity::Fatal | Severity::Panic))
}

/// Turns a driver error into what the caller may know, and logs the rest.
pub(crate) fn failed(doing: &'static str, error: &Error) -> StoreError {
    let said = describe(error);
    match cause(error) {
        // Whoever noticed it has said so (`session.rs`).
        Cause::StatementLost => StoreError::Unavailable,
        Cause::Busy | Cause::Conflict => {
            tracing::warn!(doing, error = said, "the database is busy");
            StoreError::Busy
        }
        Cause::Lost | Cause::Failed => {
            tracing::error!(doing, error = said, "the database failed");
            StoreError::Unavailable
        }
    }
}

/// What an error means for a transaction, which is undone by it. Being overtaken is no failure: the work is begun anew.
pub(crate) fn log_unless_conflict(doing: &'static str, error: &Error) -> Cause {
    let cause = cause(error);
    if cause != Cause::Conflict {
        failed(doing, error);
    }
    cause
}

/// An error with everything that the database said about it. The driver's own text hides that.
pub(crate) fn describe(error: &Error) -> String {
    match error.as_db_error() {
        Some(told) => format!("{} ({})", told.message(), told.code().code()),
        None => match std::error::Error::source(error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        },
    }
}

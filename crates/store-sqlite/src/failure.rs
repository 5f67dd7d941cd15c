//! Where errors of the driver end: each is logged once with what was being done and becomes a `StoreError`.

use rusqlite::ErrorCode;
use taskqueue_store::StoreError;

/// Turns a driver error into what the caller may know, and logs the rest.
pub(crate) fn failed(doing: &'static str, error: &rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            tracing::warn!(doing, %error, "another process holds the database");
            StoreError::Busy
        }
        _ => {
            tracing::error!(doing, %error, "the database failed");
            StoreError::Unavailable
        }
    }
}

/// Adds what was being done to a driver error.
pub(crate) trait Doing<T> {
    /// Maps the error through [`failed`].
    fn doing(self, what: &'static str) -> Result<T, StoreError>;
}

impl<T> Doing<T> for rusqlite::Result<T> {
    fn doing(self, what: &'static str) -> Result<T, StoreError> {
        self.map_err(|error| failed(what, &error))
    }
}

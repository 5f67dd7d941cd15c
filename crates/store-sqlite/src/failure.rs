//! Driver errors: each is logged once, with what was being done, and becomes a `StoreError`.

use rusqlite::{ErrorCode, ffi};
use taskqueue_store::{StoreError, StoreResult};

/// Logs a driver error and turns it into what the caller may know.
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

/// The result of a failed `COMMIT`. The last write to the log makes a transaction valid, so if a write failed, the disk was
/// full, or a lock was not obtained, there is no transaction. After any other error, such as a failed sync, the log may hold
/// all of it, and a restart would find it there.
pub(crate) fn failed_commit(error: &rusqlite::Error) -> StoreError {
    let failure = failed("committing", error);
    let code = error.sqlite_error().map(|error| error.extended_code);
    let never_written = matches!(code, Some(ffi::SQLITE_IOERR_WRITE | ffi::SQLITE_FULL));
    if never_written || failure == StoreError::Busy { failure } else { StoreError::OutcomeUnknown }
}

/// Returns whether the database could be read, but what it said makes no sense.
pub(crate) fn is_unreadable(error: &rusqlite::Error) -> bool {
    error.sqlite_error().is_none()
}

/// Adds what was being done to a driver error.
pub(crate) trait Doing<T> {
    fn doing(self, what: &'static str) -> StoreResult<T>;
}

impl<T> Doing<T> for rusqlite::Result<T> {
    fn doing(self, what: &'static str) -> StoreResult<T> {
        self.map_err(|error| failed(what, &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_undone_for_sure_only_when_its_last_write_was_never_made() {
        for (code, expected) in [
            (ffi::SQLITE_FULL, StoreError::Unavailable),
            (ffi::SQLITE_IOERR_WRITE, StoreError::Unavailable),
            (ffi::SQLITE_BUSY, StoreError::Busy),
            (ffi::SQLITE_IOERR, StoreError::OutcomeUnknown),
            (ffi::SQLITE_IOERR_FSYNC, StoreError::OutcomeUnknown),
            (ffi::SQLITE_CORRUPT, StoreError::OutcomeUnknown),
        ] {
            let error = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
            assert_eq!(failed_commit(&error), expected, "{code}");
        }
    }
}

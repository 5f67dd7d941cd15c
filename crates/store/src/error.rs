//! What a store can answer besides success. Driver errors end here: they are logged where they happen and never shown.

use taskqueue_core::refusal::Refusal;

/// Why a store did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// A rule says no. Nothing was changed, except that a lease which had ended before is now recorded as ended.
    #[error("refused: {0:?}")]
    Refused(Refusal),
    /// The storage cannot take the request now (queue full, lock not obtained in time). Nothing was changed, unless the
    /// command had begun and only took too long: then it may still be done.
    #[error("the storage is busy")]
    Busy,
    /// The storage failed (disk full, I/O error, unreachable); nothing was acknowledged.
    #[error("the storage is unavailable")]
    Unavailable,
}

impl From<Refusal> for StoreError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

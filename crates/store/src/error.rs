//! What a store can answer besides success. Driver errors end here: they are logged where they happen and never shown.

use taskqueue_core::refusal::Refusal;

/// Why a store did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// A rule says no; nothing was changed.
    #[error("refused: {0:?}")]
    Refused(Refusal),
    /// The storage cannot take the request now (queue full, lock not obtained in time); nothing was changed.
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

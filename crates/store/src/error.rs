//! What a store can answer besides success. Driver errors end here: they are logged where they happen and never shown.

use taskqueue_core::refusal::Refusal;

/// Why a store did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// A rule forbids it. Nothing was changed, except that a lease which had ended before is now recorded as ended.
    #[error("refused: {0:?}")]
    Refused(Refusal),
    /// The storage cannot take the request now (queue full, no turn or lock in time). Nothing was done, and nothing will be.
    #[error("the storage is busy")]
    Busy,
    /// The storage failed (disk full, I/O error, unreachable). Nothing was done.
    #[error("the storage is unavailable")]
    Unavailable,
    /// The command had begun and its end is not known: the storage failed or was lost while it committed, or gave no
    /// answer in time. It may have been done, or may still be.
    #[error("it is not known whether the command was done")]
    OutcomeUnknown,
    /// The storage failed in the middle of a bulk action: a part of it was done, or may have been.
    #[error("a part of it may have been done")]
    PartlyDone,
    /// Something happened that cannot happen: a bug. The transaction is undone, and the writer logs it.
    #[error("a bug: {0}")]
    Broken(&'static str),
}

impl From<Refusal> for StoreError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

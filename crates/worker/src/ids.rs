//! New ids, which nobody else has.

use taskqueue_core::ids::{ID_BYTES, RunId, WorkerId};

/// The system gave no random numbers, without which no run can be owned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no random numbers to be had: {0}")]
pub struct NoRandomness(String);

/// A run id that was never used.
pub(crate) fn run_id() -> Result<RunId, NoRandomness> {
    random().map(RunId::from_bytes)
}

/// The id of a worker loop that never was.
pub(crate) fn worker_id() -> Result<WorkerId, NoRandomness> {
    random().map(WorkerId::from_bytes)
}

fn random() -> Result<[u8; ID_BYTES], NoRandomness> {
    let mut bytes = [0; ID_BYTES];
    getrandom::fill(&mut bytes).map_err(|error| NoRandomness(error.to_string()))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_their_form_and_differ() {
        assert_ne!(run_id().unwrap(), run_id().unwrap());
        assert_ne!(worker_id().unwrap(), worker_id().unwrap());
    }
}

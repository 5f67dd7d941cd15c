//! New random ids.

use taskqueue_core::ids::{ID_BYTES, RunId, WorkerId};

/// The system gave no random numbers, which run ids need.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the system gives no random numbers: {0}")]
pub struct NoRandomness(String);

pub(crate) fn run_id() -> Result<RunId, NoRandomness> {
    random_bytes().map(RunId::from_bytes)
}

pub(crate) fn worker_id() -> Result<WorkerId, NoRandomness> {
    random_bytes().map(WorkerId::from_bytes)
}

fn random_bytes() -> Result<[u8; ID_BYTES], NoRandomness> {
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

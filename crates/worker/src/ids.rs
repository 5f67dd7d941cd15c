//! New ids: 9 random bytes, which base64 writes as the 12 characters behind the prefix.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use taskqueue_core::ids::{RunId, WorkerId};

/// The system gave no random numbers, without which no run can be owned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no random numbers to be had: {0}")]
pub struct NoRandomness(String);

/// A run id that was never used.
pub(crate) fn run_id() -> Result<RunId, NoRandomness> {
    RunId::parse(&random(RunId::PREFIX)?).ok_or_else(|| NoRandomness("not the form of a run id".to_owned()))
}

/// The id of a worker loop that never was.
pub(crate) fn worker_id() -> Result<WorkerId, NoRandomness> {
    WorkerId::parse(&random(WorkerId::PREFIX)?).ok_or_else(|| NoRandomness("not the form of a worker id".to_owned()))
}

fn random(prefix: &str) -> Result<String, NoRandomness> {
    let mut bytes = [0; 9];
    getrandom::fill(&mut bytes).map_err(|error| NoRandomness(error.to_string()))?;
    Ok(format!("{prefix}{}", URL_SAFE_NO_PAD.encode(bytes)))
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

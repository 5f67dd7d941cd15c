//! Ids of new tasks: random ones. Those that are derived from what a task is to do are made by `taskqueue_core::derived_ids`.

use taskqueue_client::TaskId;
pub(crate) use taskqueue_core::derived_ids::DerivedIds;
use taskqueue_core::ids::ID_BYTES;

use crate::failure::Failure;

pub(crate) fn random_id() -> Result<TaskId, Failure> {
    let mut bytes = [0; ID_BYTES];
    getrandom::fill(&mut bytes).map_err(|error| Failure::Refused(format!("cannot get random numbers: {error}")))?;
    Ok(TaskId::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_ids_differ() {
        assert_ne!(random_id().unwrap(), random_id().unwrap());
    }
}

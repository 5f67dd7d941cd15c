//! Ids of new tasks: random ones, and ones derived from the definition, so that submitting the same file again creates no
//! task twice.

use std::collections::HashMap;

use sha2::{Digest, Sha256};
use taskqueue_client::{Definition, TaskId};
use taskqueue_core::ids::ID_BYTES;

use crate::failure::Failure;

/// The beginning of a definition's digest, long enough that collisions do not happen.
type DigestPrefix = [u8; 16];

pub(crate) fn random_id() -> Result<TaskId, Failure> {
    let mut bytes = [0; ID_BYTES];
    getrandom::fill(&mut bytes).map_err(|error| Failure::Refused(format!("cannot get random numbers: {error}")))?;
    Ok(TaskId::from_bytes(bytes))
}

/// Derives ids for a sequence of definitions. Equal definitions get different ids, and the n-th of them always the same.
/// Takes some 30 bytes per different definition.
#[derive(Debug, Default)]
pub(crate) struct DerivedIds(HashMap<DigestPrefix, u32>);

impl DerivedIds {
    pub(crate) fn next(&mut self, definition: &Definition) -> TaskId {
        let identity = definition.identity();
        let mut prefix = DigestPrefix::default();
        prefix.copy_from_slice(&identity[..size_of::<DigestPrefix>()]);
        let occurrence = self.0.entry(prefix).or_default();
        let digest = Sha256::new().chain_update(identity).chain_update(occurrence.to_be_bytes()).finalize();
        *occurrence += 1;
        let mut bytes = [0; ID_BYTES];
        bytes.copy_from_slice(&digest[..ID_BYTES]);
        TaskId::from_bytes(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(priority: i64) -> Definition {
        Definition { priority, ..Definition::default() }
    }

    #[test]
    fn equal_definitions_get_different_ids_and_a_repetition_the_same_ones() {
        let ids = || {
            let mut derived = DerivedIds::default();
            [1, 1, 2, 1].map(|priority| derived.next(&definition(priority)))
        };
        let first = ids();
        assert_eq!(first, ids());
        let mut sorted = first.to_vec();
        sorted.sort();
        sorted.dedup();
        assert_eq!(sorted.len(), 4);
    }

    #[test]
    fn derived_ids_never_change_between_versions() {
        // If this fails, a file that was submitted by an earlier version would be submitted twice.
        let id = DerivedIds::default().next(&Definition::default());
        assert_eq!(id.as_str(), "t_VyfkuvbI4mro");
    }

    #[test]
    fn random_ids_differ() {
        assert_ne!(random_id().unwrap(), random_id().unwrap());
    }
}

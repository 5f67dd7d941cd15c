//! Ids of new tasks: random ones, and ones derived from what the task is, so that submitting the same again creates
//! nothing twice.

use std::collections::HashMap;

use sha2::{Digest, Sha256};
use taskqueue_client::{Definition, TaskId};
use taskqueue_core::ids::ID_BYTES;

use crate::failure::Failure;

/// What of a definition's digest tells its occurrences apart: 16 bytes, so that chance plays no part.
type Content = [u8; 16];

/// A new id that nobody else has.
pub(crate) fn random_id() -> Result<TaskId, Failure> {
    let mut bytes = [0; ID_BYTES];
    getrandom::fill(&mut bytes).map_err(|error| Failure::Refused(format!("no random numbers to be had: {error}")))?;
    Ok(TaskId::from_bytes(bytes))
}

/// Gives ids to definitions one after the other: the n-th of equal ones always gets the same id, and each another.
///
/// This takes some 30 bytes for each different definition, which is what it costs to know that a line came before.
#[derive(Debug, Default)]
pub(crate) struct DerivedIds(HashMap<Content, u32>);

impl DerivedIds {
    pub(crate) fn next(&mut self, definition: &Definition) -> TaskId {
        let identity = definition.identity();
        let mut content = Content::default();
        content.copy_from_slice(&identity[..size_of::<Content>()]);
        let occurrence = self.0.entry(content).or_default();
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

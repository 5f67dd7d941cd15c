//! Ids of new tasks: random ones, and ones derived from what the task is, so that submitting the same again creates
//! nothing twice.

use std::collections::HashMap;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use taskqueue_client::{Definition, TaskId};

use crate::failure::Failure;

/// Bytes behind the prefix of an id; base64 makes exactly 12 characters of them.
const ID_BYTES: usize = 9;

/// What of a definition's digest tells its occurrences apart: 16 bytes, so that chance plays no part.
type Content = [u8; 16];

/// A new id that nobody else has.
pub(crate) fn random_id() -> Result<TaskId, Failure> {
    let mut bytes = [0; ID_BYTES];
    getrandom::fill(&mut bytes).map_err(|error| Failure::Refused(format!("no random numbers to be had: {error}")))?;
    task_id(bytes)
}

/// Gives ids to definitions one after the other: the n-th of equal ones always gets the same id, and each another.
///
/// This takes some 30 bytes for each different definition, which is what it costs to know that a line came before.
#[derive(Debug, Default)]
pub(crate) struct DerivedIds(HashMap<Content, u32>);

impl DerivedIds {
    pub(crate) fn next(&mut self, definition: &Definition) -> Result<TaskId, Failure> {
        let identity = definition.identity();
        let mut content = Content::default();
        content.copy_from_slice(&identity[..size_of::<Content>()]);
        let occurrence = self.0.entry(content).or_default();
        let digest = Sha256::new().chain_update(identity).chain_update(occurrence.to_be_bytes()).finalize();
        *occurrence += 1;
        let mut bytes = [0; ID_BYTES];
        bytes.copy_from_slice(&digest[..ID_BYTES]);
        task_id(bytes)
    }
}

fn task_id(bytes: [u8; ID_BYTES]) -> Result<TaskId, Failure> {
    let text = format!("{}{}", TaskId::PREFIX, URL_SAFE_NO_PAD.encode(bytes));
    TaskId::parse(&text).ok_or_else(|| Failure::Refused(format!("{text} is no task id")))
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
            [1, 1, 2, 1].map(|priority| derived.next(&definition(priority)).unwrap())
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
        let id = DerivedIds::default().next(&Definition::default()).unwrap();
        assert_eq!(id.as_str(), "t_VyfkuvbI4mro");
    }

    #[test]
    fn random_ids_differ() {
        assert_ne!(random_id().unwrap(), random_id().unwrap());
    }
}

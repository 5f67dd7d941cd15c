//! Ids that are derived from what a task is to do, so that the same sweep or file can be submitted again and no task is created
//! twice (docs/decisions/0037-how-the-command-line-submits-many.md).

use std::collections::HashMap;

use sha2::{Digest, Sha256};

use crate::definition::Definition;
use crate::ids::{ID_BYTES, TaskId};
use crate::json::write_string;

/// The beginning of a digest, long enough that collisions do not happen.
type DigestPrefix = [u8; 16];

/// Derives ids for a sequence of definitions from their args, their names and the label of the batch. Definitions that are
/// equal in these get different ids, and the n-th of them always the same. Takes some 30 bytes per different definition.
#[derive(Debug, Default)]
pub struct DerivedIds {
    batch: Option<String>,
    occurrences: HashMap<DigestPrefix, u32>,
}

impl DerivedIds {
    pub fn new(batch: Option<&str>) -> Self {
        Self { batch: batch.map(str::to_owned), occurrences: HashMap::new() }
    }

    pub fn next(&mut self, definition: &Definition) -> TaskId {
        let identity = self.identity(definition);
        let mut prefix = DigestPrefix::default();
        prefix.copy_from_slice(&identity[..size_of::<DigestPrefix>()]);
        let occurrence = self.occurrences.entry(prefix).or_default();
        let digest = Sha256::new().chain_update(identity).chain_update(occurrence.to_be_bytes()).finalize();
        *occurrence += 1;
        let mut bytes = [0; ID_BYTES];
        bytes.copy_from_slice(&digest[..ID_BYTES]);
        TaskId::from_bytes(bytes)
    }

    /// The digest of the canonical JSON of what is in an id. Priority, routes, metadata and attempts are not.
    fn identity(&self, definition: &Definition) -> [u8; 32] {
        let digest = Sha256::new().chain_update(b"{\"args\":").chain_update(definition.args.as_str());
        // What follows is short; args can be long, and are not copied.
        let mut rest = Vec::with_capacity(64);
        for (key, value) in [(",\"batch\":", self.batch.as_deref()), (",\"name\":", definition.name.as_deref())] {
            rest.extend_from_slice(key.as_bytes());
            match value {
                Some(value) => write_string(&mut rest, value),
                None => rest.extend_from_slice(b"null"),
            }
        }
        rest.push(b'}');
        digest.chain_update(rest).finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::Routes;
    use crate::json::JsonObject;

    fn definition(args: &str) -> Definition {
        Definition { args: JsonObject::from_canonical(args), ..Definition::default() }
    }

    fn first(batch: Option<&str>, definition: &Definition) -> TaskId {
        DerivedIds::new(batch).next(definition)
    }

    #[test]
    fn equal_definitions_get_different_ids_and_a_repetition_the_same_ones() {
        let ids = || {
            let mut derived = DerivedIds::default();
            [r#"{"x":1}"#, r#"{"x":1}"#, r#"{"x":2}"#, r#"{"x":1}"#].map(|args| derived.next(&definition(args)))
        };
        let first = ids();
        assert_eq!(first, ids());
        let mut sorted = first.to_vec();
        sorted.sort();
        sorted.dedup();
        assert_eq!(sorted.len(), 4);
    }

    #[test]
    fn args_name_and_batch_are_in_the_id_and_nothing_else() {
        let plain = definition(r#"{"x":1}"#);
        let id = first(None, &plain);
        let other = Definition {
            priority: 9,
            max_attempts: 1,
            metadata: JsonObject::from_canonical(r#"{"m":1}"#),
            routes: Routes::from_json(r#"["gpu"]"#),
            ..plain.clone()
        };
        assert_eq!(first(None, &other), id);
        let named = Definition { name: Some("null".into()), ..plain.clone() };
        for (batch, definition) in [(None, &named), (Some("b"), &plain), (Some("null"), &plain), (Some("b"), &named)] {
            assert_ne!(first(batch, definition), id, "{batch:?} {definition:?}");
        }
        assert_ne!(first(Some("null"), &plain), first(None, &named));
        assert_ne!(first(None, &definition(r#"{"x":1.0}"#)), id);
    }

    #[test]
    fn derived_ids_never_change_between_versions() {
        // If this fails, a file that was submitted by an earlier version would be submitted twice.
        let id = DerivedIds::default().next(&Definition::default());
        assert_eq!(id.as_str(), "t_HLEWinKUTsc1");
    }
}

//! How much of a plan is saved at a time. Without merge patches no JSON is loaded, and only the number of tasks counts; with
//! them, the bytes that they apply to and those that they produce.

use std::collections::BTreeMap;

use taskqueue_core::task::TaskHead;
use taskqueue_core::update::{Effect, Update};

use crate::transaction::TaskKey;

/// Heads that are loaded and saved at a time: some hundred kilobytes, and some megabytes if each has as many dependencies as it may.
const SAVED_AT_ONCE: usize = 250;
/// Bytes of JSON that merge patches apply to at a time, and that they produce. One task more may begin below it, and it may
/// be a large one.
const MERGED_AT_ONCE: usize = 4 * 1_048_576;

/// The next tasks to be saved. A backend may keep what is saved of them in memory.
pub(super) fn next_effects(
    changes: &mut impl Iterator<Item = (TaskKey, Effect)>,
    update: &Update,
) -> BTreeMap<TaskKey, Effect> {
    let (mut effects, mut bytes) = (BTreeMap::new(), 0);
    while effects.len() < SAVED_AT_ONCE && bytes < MERGED_AT_ONCE {
        let Some((key, effect)) = changes.next() else { break };
        bytes += if update.has_patches() { effect.definition_bytes as usize } else { 0 };
        effects.insert(key, effect);
    }
    effects
}

/// Whether the JSON of a task is loaded together with that of the one before it, for `chunk_by`.
pub(super) fn loaded_together(update: &Update) -> impl FnMut(&(TaskKey, TaskHead), &(TaskKey, TaskHead)) -> bool {
    let (has_patches, mut bytes) = (update.has_patches(), 0);
    move |(_, before), _| {
        bytes += if has_patches { before.definition_bytes } else { 0 };
        let fits = bytes < MERGED_AT_ONCE;
        bytes = if fits { bytes } else { 0 };
        fits
    }
}

#[cfg(test)]
mod tests {
    use taskqueue_core::definition::Routes;
    use taskqueue_core::ids::TaskId;
    use taskqueue_core::json::JsonObject;
    use taskqueue_core::limits::TASK_DATA_BYTES;
    use taskqueue_core::task::Lifecycle;
    use taskqueue_core::time::Timestamp;

    use super::*;

    fn patch() -> Update {
        Update { args_patch: Some(JsonObject::empty()), ..Update::default() }
    }

    fn effect(bytes: usize) -> Effect {
        Effect { definition_bytes: bytes as u32, args: true, metadata: false, result: false }
    }

    fn head(bytes: usize) -> TaskHead {
        TaskHead {
            id: TaskId::parse("t_abcdefghijkl").unwrap(),
            priority: 0,
            max_attempts: 3,
            routes: Routes::default(),
            scheduling: Default::default(),
            definition_bytes: bytes,
            progress_bytes: 0,
            lifecycle: Lifecycle::created(Timestamp::from_micros(1), 1),
        }
    }

    /// The sizes of all portions of tasks that become so large.
    fn saved(update: &Update, sizes: &[usize]) -> Vec<usize> {
        let mut changes = sizes.iter().zip(0..).map(|(bytes, key)| (TaskKey(key), effect(*bytes)));
        let portions = std::iter::from_fn(|| Some(next_effects(&mut changes, update).len()));
        portions.take_while(|tasks| *tasks > 0).collect()
    }

    /// The sizes of all portions of tasks that are so large.
    fn loaded(update: &Update, sizes: &[usize]) -> Vec<usize> {
        let heads: Vec<_> = sizes.iter().zip(0..).map(|(bytes, key)| (TaskKey(key), head(*bytes))).collect();
        heads.chunk_by(loaded_together(update)).map(<[_]>::len).collect()
    }

    #[test]
    fn small_tasks_are_saved_250_at_a_time_and_loaded_together() {
        let small = vec![100; 600];
        for update in [patch(), Update::default()] {
            assert_eq!(saved(&update, &small), [250, 250, 100]);
            assert_eq!(loaded(&update, &small[..250]), [250]);
        }
    }

    #[test]
    fn large_tasks_with_patches_are_few_at_a_time() {
        let large = vec![TASK_DATA_BYTES; 10];
        assert_eq!(saved(&patch(), &large), [4, 4, 2]);
        assert_eq!(loaded(&patch(), &large), [4, 4, 2]);
        assert_eq!(saved(&Update::default(), &large), [10], "their JSON is not loaded");
        assert_eq!(loaded(&Update::default(), &large), [10]);
        let mixed = [1, TASK_DATA_BYTES, 4 * TASK_DATA_BYTES, 1, 1];
        assert_eq!((saved(&patch(), &mixed), loaded(&patch(), &mixed)), (vec![3, 2], vec![3, 2]));
        assert_eq!((saved(&patch(), &[]), loaded(&patch(), &[])), (vec![], vec![]));
    }
}

//! What a transaction loads and saves for bulk updates and bulk actions.

use std::ops::ControlFlow;
use std::sync::Arc;

use taskqueue_core::task::{Task, TaskHead};
use taskqueue_core::update::{Documents, Effect, Update};
use taskqueue_store::StoreError;
use taskqueue_store::bulk::{Limit, Planned};
use taskqueue_store::bulk_action::{ChangeRecord, FoundTask, Now};
use taskqueue_store::command::BulkUpdate;
use taskqueue_store::transaction::{BatchTransaction, Loaded, Queue, QueueKey, TaskKey};

use super::SqliteTransaction;
use crate::bulk::{self, ChangeTracker};
use crate::failure::Doing;
use crate::snapshot::Snapshot;

impl BatchTransaction for SqliteTransaction<'_> {
    type Snapshot = Arc<ChangeTracker>;

    /// Nothing changes until the write is done, because nobody else writes.
    fn changed_since(&mut self, planned: &Planned<Arc<ChangeTracker>>) -> Loaded<Option<Vec<TaskKey>>> {
        let tracker = &planned.snapshot;
        Ok(if tracker.is_few() { tracker.take() } else { None })
    }

    fn visit_matching(
        &mut self,
        queue: Queue<'_>,
        bulk: &BulkUpdate,
        limit: &Limit,
        each: &mut (dyn FnMut(TaskKey, &Task) -> ControlFlow<()> + Send),
    ) -> Loaded<()> {
        let file = Snapshot { connection: self.connection, active: None };
        match bulk::visit_matching(&file, queue.key, bulk, limit, each) {
            Ok(ControlFlow::Continue(())) => Ok(()),
            Ok(ControlFlow::Break(())) => Err(StoreError::Busy),
            Err(error) => Err(error.into_store_error("filtering tasks")),
        }
    }

    fn load_existing(&mut self, queue: Queue<'_>, keys: &[TaskKey]) -> Loaded<Vec<(TaskKey, Task)>> {
        let load = |key: &TaskKey| bulk::load_existing(self.connection, (queue.key, queue.name), *key);
        let found =
            keys.iter().map(|key| Ok(load(key)?.map(|task| (*key, task)))).collect::<rusqlite::Result<Vec<_>>>();
        Ok(found.doing("loading a task")?.into_iter().flatten().collect())
    }

    fn load_found(
        &mut self,
        _: QueueKey,
        found: &[FoundTask],
        changes: Option<&dyn ChangeRecord>,
    ) -> Loaded<Vec<(FoundTask, Now)>> {
        self.what_became_of(found, changes)
    }

    fn load_documents(&mut self, keys: &[TaskKey]) -> Loaded<Vec<(TaskKey, Documents)>> {
        keys.iter().map(|key| Ok((*key, self.load_own_documents(*key)?))).collect()
    }

    fn save_effect(
        &mut self,
        queue: QueueKey,
        key: TaskKey,
        heads: (&TaskHead, &TaskHead),
        update: &Update,
        effect: Effect,
        merged: Option<&Documents>,
    ) -> Loaded<()> {
        // At each task of a bulk update; for other commands the writer has looked.
        if update.routes.is_some() && !self.claim_index.has_room(queue, 0, 0) {
            return Err(StoreError::Busy);
        }
        let args = merged.map(|merged| &merged.args).or(update.args.as_ref());
        let metadata = merged.map(|merged| &merged.metadata).or(update.metadata.as_ref());
        let changed = Update {
            name: update.name.clone(),
            args: args.filter(|_| effect.args).cloned(),
            metadata: metadata.filter(|_| effect.metadata).cloned(),
            result: update.result.clone().filter(|_| effect.result),
            ..Update::default()
        };
        self.save_updated(queue, key, heads, &changed)
    }
}

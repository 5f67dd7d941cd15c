//! What tasks wait for: pairs of a dependency and a task, and the dependents that are left to be settled (docs/decisions/0063).
//! What follows from it is decided in `core`, the steps are in `store`.

use rusqlite::params;
use taskqueue_core::dependency::DependencyState;
use taskqueue_core::ids::TaskId;
use taskqueue_core::scheduling::Dependencies;
use taskqueue_core::task::Status;
use taskqueue_store::transaction::{Dependents, Loaded, QueueKey, TaskKey, Unsettled};

use super::SqliteTransaction;
use crate::each_row::CONTINUE;
use crate::rows;
use crate::statements as sql;

impl SqliteTransaction<'_> {
    /// Those that wait for a task. Nobody else holds any.
    pub(super) fn list_dependents(
        &mut self,
        queue: QueueKey,
        dependency: TaskId,
        after: Option<TaskKey>,
        most: usize,
    ) -> Loaded<Dependents> {
        let mut tasks = Vec::new();
        let after = after.map_or(i64::MIN, |after| after.0);
        let values = params![queue.0, dependency.as_str(), after, i64::try_from(most).unwrap_or(i64::MAX)];
        self.each(sql::LIST_DEPENDENTS, values, "listing dependents", |row| {
            tasks.push((TaskKey(row.get("task_key")?), rows::dependency_state(row)?));
            Ok(CONTINUE)
        })?;
        Ok(Dependents { tasks, held_elsewhere: false })
    }

    pub(super) fn note_dependency(
        &mut self,
        queue: QueueKey,
        dependency: TaskId,
        task: TaskKey,
        state: DependencyState,
    ) -> Loaded<()> {
        let values = params![queue.0, dependency.as_str(), task.0, state as i64];
        self.run(sql::SAVE_DEPENDENCY, values, "noting a dependency").map(drop)
    }

    pub(super) fn status_of(&self, queue: QueueKey, id: TaskId) -> Loaded<Option<Status>> {
        if self.claim_index.running_task(queue, id).is_some() {
            return Ok(Some(Status::Running));
        }
        self.one(sql::FIND_STATUS_BY_ID, params![queue.0, id.as_str()], "looking up a dependency", rows::status)
    }

    pub(super) fn noted(&self, queue: QueueKey, task: TaskKey, id: TaskId) -> Loaded<Option<DependencyState>> {
        let values = params![queue.0, id.as_str(), task.0];
        self.one(sql::FIND_DEPENDENCY, values, "looking up a dependency", rows::dependency_state)
    }

    pub(crate) fn note_dependencies(
        &mut self,
        queue: QueueKey,
        task: TaskKey,
        before: &Dependencies,
        after: &[(TaskId, DependencyState)],
    ) -> Loaded<()> {
        for id in before.as_slice() {
            // Both are sorted.
            if after.binary_search_by_key(id, |(id, _)| *id).is_err() {
                self.forget_dependency(queue, *id, task)?;
            }
        }
        for (id, state) in after {
            self.note_dependency(queue, *id, task, *state)?;
            self.claim_index.awaited.add(queue, *id);
        }
        Ok(())
    }

    /// A task is deleted: what it waited for is forgotten.
    pub(super) fn forget_dependencies(&mut self, queue: QueueKey, task: TaskKey, of: &Dependencies) -> Loaded<()> {
        of.as_slice().iter().try_for_each(|id| self.forget_dependency(queue, *id, task))
    }

    fn forget_dependency(&self, queue: QueueKey, dependency: TaskId, task: TaskKey) -> Loaded<()> {
        let values = params![queue.0, dependency.as_str(), task.0];
        self.run(sql::DELETE_DEPENDENCY, values, "forgetting a dependency").map(drop)
    }

    pub(crate) fn note_unsettled(&mut self, queue: QueueKey, dependency: TaskId) -> Loaded<()> {
        self.save_unsettled(queue, dependency, None)?;
        self.left_unsettled.insert((queue, dependency));
        self.claim_index.unsettled.insert(queue);
        Ok(())
    }

    fn save_unsettled(&self, queue: QueueKey, dependency: TaskId, after: Option<TaskKey>) -> Loaded<()> {
        let values = params![queue.0, dependency.as_str(), after.map(|key| key.0)];
        self.run(sql::SAVE_UNSETTLED, values, "leaving dependents to be settled").map(drop)
    }

    pub(super) fn first_unsettled(&mut self, of: Option<QueueKey>) -> Loaded<Option<Unsettled>> {
        let unsettled = &self.claim_index.unsettled;
        if of.map_or(unsettled.is_empty(), |queue| !unsettled.contains(&queue)) {
            return Ok(None);
        }
        let doing = "looking for dependents to settle";
        let found = match of {
            Some(queue) => self.one(sql::FIND_UNSETTLED_OF_QUEUE, params![queue.0], doing, rows::unsettled)?,
            None => self.one(sql::FIND_UNSETTLED, [], doing, rows::unsettled)?,
        };
        let Some((queue, dependency, after)) = found else {
            self.claim_index.unsettled.retain(|queue| of.is_some_and(|of| of != *queue));
            return Ok(None);
        };
        self.left_unsettled.remove(&(queue, dependency));
        Ok(Some(Unsettled { queue, dependency, status: self.status_of(queue, dependency)?, after }))
    }

    pub(super) fn note_settled(&mut self, unsettled: &Unsettled, after: Option<TaskKey>) -> Loaded<()> {
        let Unsettled { queue, dependency, .. } = *unsettled;
        if self.left_unsettled.contains(&(queue, dependency)) {
            return Ok(());
        }
        if after.is_some() {
            return self.save_unsettled(queue, dependency, after);
        }
        let values = params![queue.0, dependency.as_str()];
        self.run(sql::DELETE_UNSETTLED, values, "noting that dependents were settled").map(drop)
    }

    /// Removes some of what is noted in a deleted queue, and gives how much that was.
    pub(crate) fn delete_dependencies(&mut self, queue: i64, most: u32) -> Loaded<usize> {
        self.run(sql::DELETE_DEPENDENCIES, params![queue, most], "deleting dependencies")
    }
}

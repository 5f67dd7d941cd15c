//! Dependencies: what a task waits for is looked up when it is created, updated or requeued; when a task changes, those that wait
//! for it are settled. In the same transaction, as long as they are few; the rest is left to the upkeep. The reasons:
//! docs/decisions/0063.

use std::collections::VecDeque;

use taskqueue_core::dependency::{FailedDependency, unmet, unmet_after};
use taskqueue_core::scheduling::{Dependencies, OnDependencyFailure};
use taskqueue_core::{DependencyState, Status, TaskHead, TaskId, lifecycle};

use super::{Execution, QueueRef};
use crate::StoreResult;
use crate::transaction::{BatchTransaction, Dependents, Loaded, Needed, Queue, QueueKey, TaskKey, Unsettled};

/// Dependents that are loaded at a time.
const LOADED_AT_ONCE: usize = 250;
/// Dependents of one task that are settled with it. Its caller waits for them: on PostgreSQL 400 took 63 to 93 milliseconds.
const SETTLED_WITH_TASK: usize = 250;

/// How far dependents were settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Settled {
    All,
    /// Behind this one there may be more.
    Until(Option<TaskKey>),
    /// Another transaction holds some of them.
    NotAll,
}

impl<T: BatchTransaction> Execution<'_, T> {
    /// Returns what each dependency is to a task, which may have waited for some of them before.
    pub(crate) fn look_up(
        &mut self,
        queue: QueueKey,
        task: Option<TaskKey>,
        dependencies: &Dependencies,
    ) -> StoreResult<Vec<(TaskId, DependencyState)>> {
        let ids = dependencies.as_slice();
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        self.after_commit.done.dependencies(ids.len());
        let statuses = self.tx.load_statuses(queue, ids)?;
        let noted = match task {
            // What is noted of one that exists does not matter.
            Some(task) if statuses.contains(&None) => self.tx.load_noted(queue, task, ids)?,
            _ => vec![None; ids.len()],
        };
        let states = statuses.into_iter().zip(noted).map(|(status, noted)| DependencyState::looked_up(status, noted));
        Ok(ids.iter().copied().zip(states).collect())
    }

    /// Saves what a task waits for now, and what follows from it. `task` is what was saved of it; `before` is what it waited for.
    pub(crate) fn save_looked_up(
        &mut self,
        queue: Queue<'_>,
        key: TaskKey,
        before: &Dependencies,
        task: &TaskHead,
        found: &[(TaskId, DependencyState)],
    ) -> StoreResult<()> {
        self.after_commit.done.dependencies(before.len());
        self.tx.replace_dependencies(queue.key, key, before, found)?;
        let change = lifecycle::settle_dependencies(task, unmet(found), FailedDependency::among(found), self.tx.now());
        change.map_or(Ok(()), |change| self.save_change(queue.into(), key, task, &change))
    }

    /// Because of which dependencies a task would be cancelled again at once if it were requeued now.
    pub(super) fn requeue_blockers(&mut self, queue: QueueKey, key: TaskKey, task: &TaskHead) -> Loaded<Vec<TaskId>> {
        if task.scheduling.on_dependency_failure != OnDependencyFailure::Cancel {
            return Ok(Vec::new());
        }
        let found = self.look_up(queue, Some(key), &task.scheduling.dependencies)?;
        Ok(lifecycle::requeued_in_vain_by(task, &found))
    }

    /// Cancels a pending task if something that it waits for is noted as failed. What is noted is enough: whatever changes a
    /// dependency notes it for the task, which is held here.
    pub(super) fn settle_by_notes(&mut self, queue: QueueRef<'_>, key: TaskKey, task: &TaskHead) -> StoreResult<()> {
        let ids = task.scheduling.dependencies.as_slice();
        self.after_commit.done.dependencies(ids.len());
        let noted = self.tx.load_noted(queue.key, key, ids)?;
        let known: Vec<_> = ids.iter().zip(noted).filter_map(|(id, noted)| Some((*id, noted?))).collect();
        let (unmet, failed) = (task.lifecycle.unmet, FailedDependency::among(&known));
        let change = lifecycle::settle_dependencies(task, unmet, failed, self.tx.now());
        change.map_or(Ok(()), |change| self.save_change(queue, key, task, &change))
    }

    /// A task has changed: those that wait for it are settled, and those that wait for the ones which are cancelled because of
    /// that.
    pub(super) fn settle(&mut self, queue: QueueRef<'_>, id: TaskId, status: Option<Status>) -> StoreResult<()> {
        let (mut first, mut changed) = (Some((id, status)), VecDeque::new());
        while let Some((dependency, status)) = first.take().or_else(|| changed.pop_front()) {
            if !self.tx.may_have_dependents(queue.key, dependency)? {
                continue;
            }
            let unsettled = Unsettled { queue: queue.key, dependency, status, after: None };
            if self.settle_some(queue, unsettled, SETTLED_WITH_TASK, &mut changed)?.0 != Settled::All {
                self.tx.leave_unsettled(queue.key, dependency)?;
            }
        }
        Ok(())
    }

    /// Settles dependents that were left, of all queues or of one, as many as this transaction may. Gives how many that were, and
    /// whether there may be more.
    pub(super) fn settle_left(&mut self, of: Option<Queue<'_>>) -> StoreResult<(u64, bool)> {
        let (mut settled, mut more, mut is_blocked) = (0, false, false);
        while let Some(unsettled) = self.tx.find_unsettled(of.map(|queue| queue.key))? {
            let queue = QueueRef { key: unsettled.queue, name: of.map(|queue| queue.name) };
            let mut changed = VecDeque::new();
            let (reached, count) = self.settle_some(queue, unsettled, usize::MAX, &mut changed)?;
            settled += count;
            for (id, status) in changed {
                self.settle(queue, id, status)?;
            }
            match reached {
                // Of those that were cancelled some may be left in turn, and a store looks at some only.
                Settled::All => {
                    self.tx.save_settled(&unsettled, None)?;
                    more = true;
                }
                Settled::Until(after) => {
                    // Without a place nothing of it was settled, and it stays noted as it is.
                    if after.is_some() {
                        self.tx.save_settled(&unsettled, after)?;
                    }
                    // What others hold may have taken the room of all the rest: then it is not tried again at once.
                    return Ok((settled, more || after.is_some() || !is_blocked));
                }
                // It stays noted, from the first one on. Others are at it, maybe for long, and the next one has its turn.
                Settled::NotAll => is_blocked = true,
            }
        }
        Ok((settled, more))
    }

    /// Settles dependents of one task, at most `most` and as many as the transaction may.
    fn settle_some(
        &mut self,
        queue: QueueRef<'_>,
        Unsettled { dependency, status, mut after, .. }: Unsettled,
        most: usize,
        changed: &mut VecDeque<(TaskId, Option<Status>)>,
    ) -> StoreResult<(Settled, u64)> {
        let (state, mut count) = (status.map_or(DependencyState::Deleted, DependencyState::of), 0);
        loop {
            let room = self.after_commit.take_dependents(LOADED_AT_ONCE.min(most - count));
            if room == 0 {
                return Ok((Settled::Until(after), count as u64));
            }
            let Dependents { tasks, held_elsewhere } = self.tx.dependents(queue.key, dependency, after, room)?;
            self.after_commit.dependents_left += room - tasks.len();
            after = tasks.last().map(|(key, _)| *key).or(after);
            count += tasks.len();
            let is_last = tasks.len() < room;
            for (key, noted) in tasks {
                let before = self.tx.load_head(key)?;
                if noted != state {
                    self.tx.save_dependency(queue.key, dependency, key, state)?;
                }
                let unmet = unmet_after(before.lifecycle.unmet, noted, state);
                let failed = FailedDependency::of(dependency, state);
                if let Some(change) = lifecycle::settle_dependencies(&before, unmet, failed, self.tx.now()) {
                    self.save_alone(queue, key, &before, &change)?;
                    self.after_commit.settled.insert(key);
                    if change.lifecycle.status != before.lifecycle.status {
                        self.tx.prepare(queue.key, Needed::Dependents(before.id))?;
                        changed.push_back((before.id, Some(change.lifecycle.status)));
                    }
                }
            }
            if held_elsewhere {
                return Ok((Settled::NotAll, count as u64));
            }
            if is_last {
                return Ok((Settled::All, count as u64));
            }
        }
    }
}

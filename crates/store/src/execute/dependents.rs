//! Dependencies: what a task waits for is looked up when it is created, updated or requeued; when a task changes, those that wait
//! for it are settled. In the same transaction, as long as they are few; the rest is left to the upkeep. The reasons:
//! docs/decisions/0063.

use std::collections::VecDeque;

use taskqueue_core::dependency::{DependencyState, FailedDependency, unmet, unmet_after};
use taskqueue_core::ids::TaskId;
use taskqueue_core::lifecycle;
use taskqueue_core::scheduling::{Dependencies, OnDependencyFailure};
use taskqueue_core::task::{Status, TaskHead};

use super::{Executed, QueueRef, save_alone, save_change};
use crate::after_commit::AfterCommit;
use crate::transaction::{Dependents, Needed, Queue, QueueKey, TaskKey, Transaction, Unsettled};

/// Dependents that are loaded at a time.
const LOADED_AT_ONCE: usize = 250;
/// Dependents of one task that are settled with it. Its caller waits for them: on PostgreSQL 400 took 63 to 93 milliseconds.
const SETTLED_WITH_TASK: usize = 250;

/// What each dependency is to a task, which may have waited for some of them before.
pub(super) fn look_up<T: Transaction>(
    tx: &mut T,
    queue: QueueKey,
    task: Option<TaskKey>,
    dependencies: &Dependencies,
    after_commit: &mut AfterCommit,
) -> Executed<Vec<(TaskId, DependencyState)>> {
    let ids = dependencies.as_slice();
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    after_commit.done.dependencies(ids.len());
    let statuses = tx.load_statuses(queue, ids)?;
    let noted = match task {
        // What is noted of one that exists does not matter.
        Some(task) if statuses.contains(&None) => tx.load_noted(queue, task, ids)?,
        _ => vec![None; ids.len()],
    };
    let states = statuses.into_iter().zip(noted).map(|(status, noted)| DependencyState::looked_up(status, noted));
    Ok(ids.iter().copied().zip(states).collect())
}

/// Saves what a task waits for now, and what follows from it. `task` is what was saved of it; `before` is what it waited for.
pub(super) fn save_looked_up<T: Transaction>(
    tx: &mut T,
    queue: Queue<'_>,
    key: TaskKey,
    before: &Dependencies,
    task: &TaskHead,
    found: &[(TaskId, DependencyState)],
    after_commit: &mut AfterCommit,
) -> Executed<()> {
    after_commit.done.dependencies(before.len());
    tx.replace_dependencies(queue.key, key, before, found)?;
    match lifecycle::settle_dependencies(task, unmet(found), FailedDependency::among(found), tx.now()) {
        Some(change) => save_change(tx, queue.into(), key, task, &change, after_commit),
        None => Ok(()),
    }
}

/// Looks up what a task waits for after an update of many. They hold the queue alone, so that nothing of it is busy.
pub(crate) fn look_again<T: Transaction>(
    tx: &mut T,
    queue: Queue<'_>,
    key: TaskKey,
    before: &Dependencies,
    task: &TaskHead,
    after_commit: &mut AfterCommit,
) -> Executed<()> {
    let found = look_up(tx, queue.key, Some(key), &task.scheduling.dependencies, after_commit)?;
    save_looked_up(tx, queue, key, before, task, &found, after_commit)
}

/// Because of which dependencies a task would be cancelled again at once if it were requeued now.
pub(super) fn requeued_in_vain_by<T: Transaction>(
    tx: &mut T,
    queue: QueueKey,
    key: TaskKey,
    task: &TaskHead,
    after_commit: &mut AfterCommit,
) -> Executed<Vec<TaskId>> {
    if task.scheduling.on_dependency_failure != OnDependencyFailure::Cancel {
        return Ok(Vec::new());
    }
    let found = look_up(tx, queue, Some(key), &task.scheduling.dependencies, after_commit)?;
    Ok(lifecycle::requeued_in_vain_by(task, &found))
}

/// Cancels a pending task if something that it waits for is noted as failed. What is noted is enough: whatever changes a
/// dependency notes it for the task, which is held here.
pub(super) fn settle_by_notes<T: Transaction>(
    tx: &mut T,
    queue: QueueRef<'_>,
    key: TaskKey,
    task: &TaskHead,
    after_commit: &mut AfterCommit,
) -> Executed<()> {
    let ids = task.scheduling.dependencies.as_slice();
    after_commit.done.dependencies(ids.len());
    let noted = tx.load_noted(queue.key, key, ids)?;
    let known: Vec<_> = ids.iter().zip(noted).filter_map(|(id, noted)| Some((*id, noted?))).collect();
    match lifecycle::settle_dependencies(task, task.lifecycle.unmet, FailedDependency::among(&known), tx.now()) {
        Some(change) => save_change(tx, queue, key, task, &change, after_commit),
        None => Ok(()),
    }
}

/// A task has changed: those that wait for it are settled, and those that wait for the ones which are cancelled because of that.
pub(super) fn settle<T: Transaction>(
    tx: &mut T,
    queue: QueueRef<'_>,
    id: TaskId,
    status: Option<Status>,
    after_commit: &mut AfterCommit,
) -> Executed<()> {
    let (mut first, mut changed) = (Some((id, status)), VecDeque::new());
    while let Some((dependency, status)) = first.take().or_else(|| changed.pop_front()) {
        if !tx.may_have_dependents(queue.key, dependency)? {
            continue;
        }
        let unsettled = Unsettled { queue: queue.key, dependency, status, after: None };
        if settle_some(tx, queue, unsettled, SETTLED_WITH_TASK, after_commit, &mut changed)?.0 != Settled::All {
            tx.leave_unsettled(queue.key, dependency)?;
        }
    }
    Ok(())
}

/// How far dependents were settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Settled {
    All,
    /// Behind this one there may be more.
    Until(Option<TaskKey>),
    /// Another transaction holds some of them.
    NotAll,
}

/// Settles dependents that were left, of all queues or of one, as many as this transaction may. Gives how many that were, and
/// whether there may be more.
pub(super) fn settle_left<T: Transaction>(
    tx: &mut T,
    of: Option<Queue<'_>>,
    after_commit: &mut AfterCommit,
) -> Executed<(u64, bool)> {
    let (mut settled, mut more) = (0, false);
    while let Some(unsettled) = tx.find_unsettled(of.map(|queue| queue.key))? {
        let queue = QueueRef { key: unsettled.queue, name: of.map(|queue| queue.name) };
        let mut changed = VecDeque::new();
        let (reached, count) = settle_some(tx, queue, unsettled, usize::MAX, after_commit, &mut changed)?;
        settled += count;
        for (id, status) in changed {
            settle(tx, queue, id, status, after_commit)?;
        }
        match reached {
            // Of those that were cancelled some may be left in turn, and a store looks at some only.
            Settled::All => {
                tx.save_settled(&unsettled, None)?;
                more = true;
            }
            Settled::Until(after) => {
                // Without a place nothing of it was settled, and it stays noted as it is.
                if after.is_some() {
                    tx.save_settled(&unsettled, after)?;
                }
                return Ok((settled, true));
            }
            // It stays noted, from the first one on. Others are at it.
            Settled::NotAll => return Ok((settled, false)),
        }
    }
    Ok((settled, more))
}

/// Settles dependents of one task, at most `most` and as many as the transaction may.
fn settle_some<T: Transaction>(
    tx: &mut T,
    queue: QueueRef<'_>,
    Unsettled { dependency, status, mut after, .. }: Unsettled,
    most: usize,
    after_commit: &mut AfterCommit,
    changed: &mut VecDeque<(TaskId, Option<Status>)>,
) -> Executed<(Settled, u64)> {
    let (state, mut count) = (status.map_or(DependencyState::Deleted, DependencyState::of), 0);
    loop {
        let room = after_commit.take_dependents(LOADED_AT_ONCE.min(most - count));
        if room == 0 {
            return Ok((Settled::Until(after), count as u64));
        }
        let Dependents { tasks, held_elsewhere } = tx.dependents(queue.key, dependency, after, room)?;
        after_commit.return_dependents(room - tasks.len());
        after = tasks.last().map(|(key, _)| *key).or(after);
        count += tasks.len();
        let is_last = tasks.len() < room;
        for (key, noted) in tasks {
            let before = tx.load_head(key)?;
            if noted != state {
                tx.save_dependency(queue.key, dependency, key, state)?;
            }
            let unmet = unmet_after(before.lifecycle.unmet, noted, state);
            let failed = FailedDependency::of(dependency, state);
            if let Some(change) = lifecycle::settle_dependencies(&before, unmet, failed, tx.now()) {
                save_alone(tx, queue, key, &before, &change, after_commit)?;
                after_commit.settled(key);
                if change.lifecycle.status != before.lifecycle.status {
                    tx.prepare(queue.key, Needed::Dependents(before.id))?;
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

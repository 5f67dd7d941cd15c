//! A portion of a bulk action: each of its tasks is decided again, as if a command for it alone had come. The portions are made
//! in `bulk_action.rs`.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use taskqueue_core::lifecycle::{self, TaskAction};
use taskqueue_core::{BulkAction, Refusal, TaskHead, TaskId};

use super::Execution;
use crate::bulk::LOADED_AT_ONCE;
use crate::bulk_action::{BlockedTask, FoundState, FoundTask, waited_for};
use crate::command::{ActOnFound, ActOnTasks, PortionOutcome};
use crate::transaction::{BatchTransaction, Needed, Queue, TaskKey};
use crate::{StoreError, StoreResult};

/// How long a portion may go on after its first task: other commands wait for its end. The task that is under way is finished. What
/// was loaded before, together with the first one, is what the others of them need: ended there, each would be loaded again.
const TIME_LIMIT: Duration = Duration::from_millis(20);
/// Tasks whose heads are loaded at a time.
const HEADS_AT_ONCE: usize = 250;

impl<T: BatchTransaction> Execution<'_, T> {
    pub(crate) fn act_on_found(&mut self, command: &ActOnFound) -> StoreResult<PortionOutcome> {
        let act = &*command.act;
        let queue = self.existing_queue(&act.queue)?;
        if queue.key != command.queue {
            return Err(Refusal::QueueNotFound { queue: act.queue.clone() }.into());
        }
        let (blocked, acted) = (HashMap::new(), PortionOutcome::default());
        let mut portion = Portion { execution: self, act, queue, until: None, blocked, acted };
        for found in command.tasks.chunks(HEADS_AT_ONCE) {
            if portion.is_over() {
                portion.acted.left.extend(found);
                continue;
            }
            let tx = &mut *portion.execution.tx;
            let found = tx.load_found(queue.key, found, command.changes.as_deref())?;
            if act.action == BulkAction::Requeue {
                tx.prepare(queue.key, Needed::Requeues(&mut found.iter().filter_map(|(_, now)| now.head())))?;
            }
            portion.decide(found)?;
        }
        Ok(portion.end())
    }
}

/// A portion under way.
struct Portion<'a, 'e, T> {
    execution: &'a mut Execution<'e, T>,
    act: &'a ActOnTasks,
    queue: Queue<'a>,
    /// Nothing before anything was decided: every portion gets further.
    until: Option<Instant>,
    /// Those that would be requeued in vain, by what they wait for. It may come behind them.
    blocked: HashMap<TaskId, Vec<(FoundTask, TaskId)>>,
    acted: PortionOutcome,
}

impl<T: BatchTransaction> Portion<'_, '_, T> {
    fn is_over(&self) -> bool {
        self.until.is_some_and(|until| self.execution.after_commit.done.is_full() || Instant::now() >= until)
    }

    fn has_decided(&mut self) {
        self.until.get_or_insert_with(|| Instant::now() + TIME_LIMIT);
    }

    /// In the order in which they were found: what deleting a task does to those that wait for it must not depend on which of them
    /// others have changed meanwhile.
    fn decide(&mut self, found: Vec<(FoundTask, FoundState)>) -> StoreResult<()> {
        let mut changed = Vec::new();
        for (found, now) in found {
            if let FoundState::Unchanged(_) = now
                && !self.execution.after_commit.settled.contains(&found.key)
            {
                self.decide_changed(&std::mem::take(&mut changed))?;
            }
            match now {
                FoundState::Held => self.acted.left.push(found),
                FoundState::Changed => changed.push(found),
                // It waits for one of those before it.
                FoundState::Unchanged(_) if self.execution.after_commit.settled.contains(&found.key) => {
                    changed.push(found)
                }
                FoundState::Unchanged(_) if self.is_over() => self.acted.left.push(found),
                // What was found was selected.
                FoundState::Unchanged(head) => self.act_on(found, &head)?,
            }
        }
        self.decide_changed(&changed)
    }

    /// Tasks that may not be selected any more.
    fn decide_changed(&mut self, changed: &[FoundTask]) -> StoreResult<()> {
        for found in changed.chunks(LOADED_AT_ONCE) {
            if self.is_over() {
                self.acted.left.extend(found);
                continue;
            }
            let keys: Vec<TaskKey> = found.iter().map(|found| found.key).collect();
            let changed_before = keys.iter().filter(|key| self.execution.after_commit.settled.contains(key)).count();
            for (key, mut task) in self.execution.tx.load_existing(self.queue, &keys)? {
                // One of these may wait for another.
                if keys.iter().filter(|key| self.execution.after_commit.settled.contains(key)).count() > changed_before
                {
                    task = self.execution.tx.load_task(self.queue, key)?;
                }
                let found = found.iter().find(|found| found.key == key);
                if let Some(found) = found.filter(|_| self.act.selection.matches(&task.view())) {
                    self.act_on(*found, &task.head())?;
                }
            }
            self.has_decided();
        }
        Ok(())
    }

    /// A task that is selected, and those before it that it was in the way of.
    fn act_on(&mut self, found: FoundTask, before: &TaskHead) -> StoreResult<()> {
        self.act_on_one(found, before)?;
        let mut freed = VecDeque::from(self.take_freed(before.id));
        while let Some((found, id)) = freed.pop_front() {
            if self.is_over() {
                self.acted.left.push(found);
                continue;
            }
            let before = self.execution.tx.load_head(found.key)?;
            self.act_on_one(found, &before)?;
            freed.extend(self.take_freed(id));
        }
        Ok(())
    }

    /// Those that waited for this task, if it was requeued now.
    fn take_freed(&mut self, id: TaskId) -> Vec<(FoundTask, TaskId)> {
        let freed = (self.acted.requeued.last() == Some(&id)).then(|| self.blocked.remove(&id));
        freed.flatten().unwrap_or_default()
    }

    /// Acts on a task. What it waits for may be held by another transaction; then its turn comes later.
    fn act_on_one(&mut self, found: FoundTask, before: &TaskHead) -> StoreResult<()> {
        match self.try_to_act_on(found, before) {
            Err(StoreError::Busy) => self.acted.left.push(found),
            done => done?,
        }
        self.has_decided();
        Ok(())
    }

    fn end(mut self) -> PortionOutcome {
        for (dependency, blocked) in self.blocked {
            let blocked = blocked.into_iter().map(|(found, id)| BlockedTask::new(found, id, dependency));
            self.acted.blocked.extend(blocked);
        }
        self.acted
    }

    fn try_to_act_on(&mut self, found: FoundTask, before: &TaskHead) -> StoreResult<()> {
        let key = found.key;
        if !self.act.action.applies_to().contains(before.lifecycle.status) {
            return Ok(());
        }
        let action = match self.act.action {
            BulkAction::Cancel => TaskAction::Cancel,
            BulkAction::Requeue => {
                let failed = self.execution.requeue_blockers(self.queue.key, key, before)?;
                if let Some(dependency) = waited_for(&failed) {
                    self.blocked.entry(dependency).or_default().push((found, before.id));
                    return Ok(());
                }
                TaskAction::Requeue
            }
            BulkAction::Delete => {
                lifecycle::check_deletion(before)?;
                self.execution.delete_existing(self.queue.into(), key, before)?;
                self.acted.changed += 1;
                return Ok(());
            }
        };
        let (now, pending_seq) = (self.execution.tx.now(), self.execution.tx.next_pending_seq());
        if let Some(change) = lifecycle::act(before, action, now, pending_seq)? {
            self.execution.save_action(self.queue, key, before, &change)?;
            self.acted.changed += 1;
            if action == TaskAction::Requeue {
                self.acted.requeued.push(before.id);
            }
        }
        Ok(())
    }
}

//! A portion of a bulk action: each of its tasks is decided again, as if a command for it alone had come. The portions are made
//! in `bulk_action.rs`.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use taskqueue_core::bulk_action::BulkAction;
use taskqueue_core::ids::TaskId;
use taskqueue_core::lifecycle::{self, TaskAction};
use taskqueue_core::refusal::Refusal;
use taskqueue_core::task::TaskHead;

use super::dependents::requeued_in_vain_by;
use super::{Executed, delete_existing, existing_queue, save_action};
use crate::StoreError;
use crate::after_commit::AfterCommit;
use crate::bulk_action::{BlockedTask, FoundTask, Now, waited_for};
use crate::command::{ActOnFound, ActOnTasks, ActedOnFound};
use crate::transaction::{BatchTransaction, Needed, Queue, TaskKey};

/// How long a portion may go on after its first task: other commands wait for its end. The task that is under way is finished. What
/// was loaded before, together with the first one, is what the others of them need: ended there, each would be loaded again.
const TIME_LIMIT: Duration = Duration::from_millis(20);
/// Tasks whose heads are loaded at a time.
const HEADS_AT_ONCE: usize = 250;
/// Whole tasks that are loaded at a time: 16 MiB, should each be as large as it may be.
const LOADED_AT_ONCE: usize = 8;

pub(super) fn act_on_found<T: BatchTransaction>(
    tx: &mut T,
    command: &ActOnFound,
    after_commit: &mut AfterCommit,
) -> Executed<ActedOnFound> {
    let act = &*command.act;
    let queue = existing_queue(tx, &act.queue)?;
    if queue.key != command.queue {
        return Err(Refusal::QueueNotFound { queue: act.queue.clone() }.into());
    }
    let mut portion = Portion { act, queue, until: None, blocked: HashMap::new(), acted: ActedOnFound::default() };
    for found in command.tasks.chunks(HEADS_AT_ONCE) {
        if portion.is_over(after_commit) {
            portion.acted.left.extend(found);
        } else {
            let found = tx.load_found(queue.key, found, command.changes.as_deref())?;
            if act.action == BulkAction::Requeue {
                tx.prepare(queue.key, Needed::Requeues(&mut found.iter().filter_map(|(_, now)| now.head())))?;
            }
            portion.decide(tx, found, after_commit)?;
        }
    }
    Ok(portion.end())
}

struct Portion<'a> {
    act: &'a ActOnTasks,
    queue: Queue<'a>,
    /// Nothing before anything was decided: every portion gets further.
    until: Option<Instant>,
    /// Those that would be requeued in vain, by what they wait for. It may come behind them.
    blocked: HashMap<TaskId, Vec<(FoundTask, TaskId)>>,
    acted: ActedOnFound,
}

impl Portion<'_> {
    fn is_over(&self, after_commit: &AfterCommit) -> bool {
        self.until.is_some_and(|until| after_commit.done.is_full() || Instant::now() >= until)
    }

    fn has_decided(&mut self) {
        self.until.get_or_insert_with(|| Instant::now() + TIME_LIMIT);
    }

    /// In the order in which they were found: what deleting a task does to those that wait for it must not depend on which of them
    /// others have changed meanwhile.
    fn decide<T: BatchTransaction>(
        &mut self,
        tx: &mut T,
        found: Vec<(FoundTask, Now)>,
        after_commit: &mut AfterCommit,
    ) -> Executed<()> {
        let mut changed = Vec::new();
        for (found, now) in found {
            if let Now::Unchanged(_) = now
                && !after_commit.has_settled(found.key)
            {
                self.decide_changed(tx, &std::mem::take(&mut changed), after_commit)?;
            }
            match now {
                Now::Held => self.acted.left.push(found),
                Now::Changed => changed.push(found),
                // It waits for one of those before it.
                Now::Unchanged(_) if after_commit.has_settled(found.key) => changed.push(found),
                Now::Unchanged(_) if self.is_over(after_commit) => self.acted.left.push(found),
                // What was found was selected.
                Now::Unchanged(head) => self.act_on(tx, found, &head, after_commit)?,
            }
        }
        self.decide_changed(tx, &changed, after_commit)
    }

    /// Tasks that may not be selected any more.
    fn decide_changed<T: BatchTransaction>(
        &mut self,
        tx: &mut T,
        changed: &[FoundTask],
        after_commit: &mut AfterCommit,
    ) -> Executed<()> {
        for found in changed.chunks(LOADED_AT_ONCE) {
            if self.is_over(after_commit) {
                self.acted.left.extend(found);
                continue;
            }
            let keys: Vec<TaskKey> = found.iter().map(|found| found.key).collect();
            let changed_before = keys.iter().filter(|key| after_commit.has_settled(**key)).count();
            for (key, mut task) in tx.load_existing(self.queue, &keys)? {
                // One of these may wait for another.
                if keys.iter().filter(|key| after_commit.has_settled(**key)).count() > changed_before {
                    task = tx.load_task(self.queue, key)?;
                }
                let found = found.iter().find(|found| found.key == key);
                if let Some(found) = found.filter(|_| self.act.selects(&task.view())) {
                    self.act_on(tx, *found, &task.head(), after_commit)?;
                }
            }
            self.has_decided();
        }
        Ok(())
    }

    /// A task that is selected, and those before it that it was in the way of.
    fn act_on<T: BatchTransaction>(
        &mut self,
        tx: &mut T,
        found: FoundTask,
        before: &TaskHead,
        after_commit: &mut AfterCommit,
    ) -> Executed<()> {
        self.act_on_one(tx, found, before, after_commit)?;
        let mut freed = VecDeque::from(self.take_freed(before.id));
        while let Some((found, id)) = freed.pop_front() {
            if self.is_over(after_commit) {
                self.acted.left.push(found);
                continue;
            }
            let before = tx.load_head(found.key)?;
            self.act_on_one(tx, found, &before, after_commit)?;
            freed.extend(self.take_freed(id));
        }
        Ok(())
    }

    /// Those that waited for this task, if it was requeued now.
    fn take_freed(&mut self, id: TaskId) -> Vec<(FoundTask, TaskId)> {
        let freed = (self.acted.requeued.last() == Some(&id)).then(|| self.blocked.remove(&id));
        freed.flatten().unwrap_or_default()
    }

    /// What a task waits for may be held by another transaction; then its turn comes later.
    fn act_on_one<T: BatchTransaction>(
        &mut self,
        tx: &mut T,
        found: FoundTask,
        before: &TaskHead,
        after_commit: &mut AfterCommit,
    ) -> Executed<()> {
        match self.try_to_act_on(tx, found, before, after_commit) {
            Err(StoreError::Busy) => self.acted.left.push(found),
            done => done?,
        }
        self.has_decided();
        Ok(())
    }

    fn end(mut self) -> ActedOnFound {
        for (dependency, blocked) in self.blocked {
            let blocked = blocked.into_iter().map(|(found, id)| BlockedTask::new(found, id, dependency));
            self.acted.blocked.extend(blocked);
        }
        self.acted
    }

    fn try_to_act_on<T: BatchTransaction>(
        &mut self,
        tx: &mut T,
        found: FoundTask,
        before: &TaskHead,
        after_commit: &mut AfterCommit,
    ) -> Executed<()> {
        let key = found.key;
        if !self.act.action.applies_to().contains(before.lifecycle.status) {
            return Ok(());
        }
        let action = match self.act.action {
            BulkAction::Cancel => TaskAction::Cancel,
            BulkAction::Requeue => {
                let failed = requeued_in_vain_by(tx, self.queue.key, key, before, after_commit)?;
                if let Some(dependency) = waited_for(&failed) {
                    self.blocked.entry(dependency).or_default().push((found, before.id));
                    return Ok(());
                }
                TaskAction::Requeue
            }
            BulkAction::Delete => {
                lifecycle::check_deletion(before)?;
                delete_existing(tx, self.queue.into(), key, before, after_commit)?;
                self.acted.changed += 1;
                return Ok(());
            }
        };
        if let Some(change) = lifecycle::act(before, action, tx.now(), tx.next_pending_seq())? {
            save_action(tx, self.queue, key, before, &change, after_commit)?;
            self.acted.changed += 1;
            if action == TaskAction::Requeue {
                self.acted.requeued.push(before.id);
            }
        }
        Ok(())
    }
}

//! A portion of a bulk action: each of its tasks is decided again, as if a command for it alone had come. The portions are made
//! in `bulk_action.rs`.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use taskqueue_core::bulk_action::BulkAction;
use taskqueue_core::lifecycle::{self, TaskAction};
use taskqueue_core::refusal::Refusal;
use taskqueue_core::task::{Task, TaskHead};

use super::dependents::requeued_in_vain_by;
use super::{Executed, delete_existing, existing_queue, save_action};
use crate::StoreError;
use crate::after_commit::AfterCommit;
use crate::bulk_action::{BlockedTask, FoundTask, Now};
use crate::command::{ActOnFound, ActOnTasks, ActedOnFound};
use crate::transaction::{Queue, TaskKey, Transaction};

/// How long a portion may go on: other commands wait for its end. The task that is under way is finished.
const TIME_LIMIT: Duration = Duration::from_millis(20);
/// Tasks whose heads are loaded at a time.
const HEADS_AT_ONCE: usize = 250;
/// Whole tasks that are loaded at a time: 16 MiB, should each be as large as it may be.
const LOADED_AT_ONCE: usize = 8;

pub(super) fn act_on_found<T: Transaction>(
    tx: &mut T,
    command: &ActOnFound,
    after_commit: &mut AfterCommit,
) -> Executed<ActedOnFound> {
    let act = &*command.act;
    let queue = existing_queue(tx, &act.queue)?;
    if queue.key != command.queue {
        return Err(Refusal::QueueNotFound { queue: act.queue.clone() }.into());
    }
    let until = Instant::now() + TIME_LIMIT;
    let mut portion = Portion { act, queue, until, has_decided: false, acted: ActedOnFound::default() };
    for found in command.tasks.chunks(HEADS_AT_ONCE) {
        if portion.is_over() {
            portion.acted.left.extend(found);
        } else {
            let found = tx.load_found(queue.key, found, command.changes.as_deref())?;
            if act.action == BulkAction::Requeue {
                tx.expect_requeues(queue.key, &mut found.iter().filter_map(|(_, now)| now.head()));
            }
            portion.decide(tx, found, after_commit)?;
        }
    }
    Ok(portion.acted)
}

struct Portion<'a> {
    act: &'a ActOnTasks,
    queue: Queue<'a>,
    until: Instant,
    /// Whether anything was decided.
    has_decided: bool,
    acted: ActedOnFound,
}

impl Portion<'_> {
    /// Not before the first task: every portion gets further.
    fn is_over(&self) -> bool {
        self.has_decided && Instant::now() >= self.until
    }

    fn decide<T: Transaction>(
        &mut self,
        tx: &mut T,
        found: Vec<(FoundTask, Now)>,
        after_commit: &mut AfterCommit,
    ) -> Executed<()> {
        // In their order: they may wait for those before them, and may be changed with them.
        let mut changed = Vec::new();
        for (found, now) in found {
            if now.head().is_some() && !after_commit.has_settled(found.key) {
                self.decide_again(tx, std::mem::take(&mut changed), after_commit)?;
            }
            match now {
                Now::Held => self.acted.left.push(found),
                Now::Unchanged(_) if self.is_over() => self.acted.left.push(found),
                // What was found was selected.
                Now::Unchanged(head) if !after_commit.has_settled(found.key) => {
                    self.act_on(tx, found, &head, after_commit)?;
                }
                Now::Changed | Now::Unchanged(_) => changed.push(found),
            }
            if changed.len() == LOADED_AT_ONCE {
                self.decide_again(tx, std::mem::take(&mut changed), after_commit)?;
            }
        }
        self.decide_again(tx, changed, after_commit)
    }

    /// These may have changed since they were found.
    fn decide_again<T: Transaction>(
        &mut self,
        tx: &mut T,
        found: Vec<FoundTask>,
        after_commit: &mut AfterCommit,
    ) -> Executed<()> {
        if found.is_empty() || self.is_over() {
            self.acted.left.extend(found);
            return Ok(());
        }
        self.has_decided = true;
        let keys: Vec<TaskKey> = found.iter().map(|found| found.key).collect();
        let changed_before = keys.iter().filter(|key| after_commit.has_settled(**key)).count();
        let mut loaded: HashMap<TaskKey, Task> = tx.load_existing(self.queue, &keys)?.into_iter().collect();
        for found in found {
            let Some(mut task) = loaded.remove(&found.key) else { continue };
            // One of these may wait for another.
            if keys.iter().filter(|key| after_commit.has_settled(**key)).count() > changed_before {
                task = tx.load_task(self.queue, found.key)?;
            }
            if self.act.selects(&task.view()) {
                self.act_on(tx, found, &task.head(), after_commit)?;
            }
        }
        Ok(())
    }

    /// A task that is selected. What it waits for may be held by another transaction; then its turn comes later.
    fn act_on<T: Transaction>(
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
        Ok(())
    }

    fn try_to_act_on<T: Transaction>(
        &mut self,
        tx: &mut T,
        found: FoundTask,
        before: &TaskHead,
        after_commit: &mut AfterCommit,
    ) -> Executed<()> {
        let key = found.key;
        self.has_decided = true;
        if !self.act.action.applies_to().contains(before.lifecycle.status) {
            return Ok(());
        }
        let action = match self.act.action {
            BulkAction::Cancel => TaskAction::Cancel,
            BulkAction::Requeue => {
                let failed = requeued_in_vain_by(tx, self.queue.key, key, before)?;
                if let Some(blocked) = BlockedTask::new(found, before.id, &failed) {
                    self.acted.blocked.push(blocked);
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

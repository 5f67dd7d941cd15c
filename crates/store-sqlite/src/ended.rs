//! Tasks that have ended in queues which keep them for a limited time (docs/decisions/0064): noted when they end, and found again
//! when their time is over. Nothing is noted in other queues. When a queue gets such a setting, its tasks are read once, some at a
//! time, to note those that had ended before. What may be deleted is decided in `core`.

use rusqlite::{Row, params};
use taskqueue_core::{Retention, Status, Statuses, TaskHead, Timestamp};
use taskqueue_store::transaction::{Loaded, Outdated, QueueKey, TaskKey, Transaction};

use crate::claim_index::queue_settings::DueKind;
use crate::queries::{CONTINUE, Doing, NextRow, each_row};
use crate::transaction::SqliteTransaction;
use crate::{rows, statements as sql};

/// Tasks of a queue that are read at a time when it gets a retention, and that are noted: a few milliseconds.
const READ_AT_ONCE: usize = 4_000;
const NOTED_AT_ONCE: usize = 1_000;

impl SqliteTransaction<'_> {
    /// A task was created, has changed or was deleted: notes that it has ended, or that it has not any more. An update of a task
    /// that never ran is its latest end.
    pub(crate) fn note_end(&mut self, queue: QueueKey, key: TaskKey, change: [Option<&TaskHead>; 2]) -> Loaded<()> {
        let [before, after] = change.map(|head| head.and_then(ended));
        if before == after {
            return Ok(());
        }
        if let Some((status, ended_at)) = before
            && self.claim_index.settings.ended.may_have(queue, status, ended_at)
        {
            let values = params![queue.0, status.as_str(), ended_at.as_micros(), key.0];
            self.file.run(&sql::DELETE_ENDED, values, "forgetting the end of a task")?;
        }
        if let Some((status, ended_at)) = after
            && self.claim_index.settings.of(queue).is_some_and(|settings| settings.retention.seconds(status).is_some())
        {
            self.insert_ended(queue, status, ended_at, key)?;
        }
        Ok(())
    }

    fn insert_ended(&mut self, queue: QueueKey, status: Status, ended_at: Timestamp, key: TaskKey) -> Loaded<()> {
        let values = params![queue.0, status.as_str(), ended_at.as_micros(), key.0];
        self.file.run(&sql::INSERT_ENDED, values, "noting the end of a task")?;
        self.claim_index.settings.ended.add(queue, status, ended_at);
        Ok(())
    }

    /// Begins to read the tasks of a queue, if tasks of a state are kept for a limited time that were kept for ever.
    pub(crate) fn retention_changed(&mut self, queue: QueueKey, before: &Retention, after: &Retention) -> Loaded<()> {
        if after.limited().is_within(before.limited()) {
            return Ok(());
        }
        // From the first one on.
        self.file.run(&sql::SAVE_ENDED_READ, params![queue.0, i64::MIN, ""], "beginning to read ended tasks")?;
        let reading = &mut self.claim_index.settings.ended.reading;
        if !reading.contains(&queue) {
            reading.push(queue);
        }
        Ok(())
    }

    /// Ended tasks that are kept no longer, at most `most`. What is noted of them is removed: they are deleted next, in this
    /// transaction. What is noted of tasks that have changed since is dropped.
    pub(crate) fn outdated(&mut self, most: usize) -> Loaded<Outdated> {
        let mut outdated = Outdated { tasks: Vec::new(), more: self.read_ended()? };
        let mut left = most;
        for due in self.claim_index.settings.due_kinds(self.now(), most) {
            if left == 0 {
                outdated.more = true;
                break;
            }
            self.claim_index.settings.ended.looked_at(due);
            let (looked_at, is_last) = self.take_ended(due, left, &mut outdated.tasks)?;
            left = left.saturating_sub(looked_at);
            outdated.more |= !is_last;
        }
        Ok(outdated)
    }

    /// Takes what is noted of a kind and due, at most so many. Gives how many that were, and whether these are all.
    fn take_ended(&mut self, due: DueKind, most: usize, tasks: &mut Vec<(QueueKey, TaskKey)>) -> Loaded<(usize, bool)> {
        let DueKind { queue, status, until } = due;
        let until = until.unwrap_or(Timestamp::from_micros(i64::MAX));
        let values = params![queue.0, status.as_str(), until.as_micros(), most as i64];
        let noted = self.file.all(&sql::LIST_ENDED, values, "finding ended tasks", rows::ended)?;
        if let Some((ended_at, key)) = noted.last() {
            let values = params![queue.0, status.as_str(), ended_at.as_micros(), key.0];
            self.file.run(&sql::DELETE_FIRST_ENDED, values, "finding ended tasks")?;
        }
        for (ended_at, key) in noted.iter().filter(|_| due.until.is_some()) {
            let head = self.file.one(&sql::LOAD_HEAD, [key.0], "loading a task", rows::head)?;
            // What it has become since was noted.
            if head.as_ref().and_then(ended) == Some((status, *ended_at)) {
                tasks.push((queue, *key));
            }
        }
        let values = params![queue.0, status.as_str()];
        let first = self.file.one(&sql::FIND_FIRST_ENDED, values, "finding ended tasks", rows::ended)?;
        self.claim_index.settings.ended.set_first(queue, status, first.map(|(ended_at, _)| ended_at));
        Ok((noted.len(), noted.len() < most))
    }

    /// Reads some tasks of a queue whose tasks are being read. Returns whether there may be more.
    fn read_ended(&mut self) -> Loaded<bool> {
        let Some(queue) = self.claim_index.settings.ended.reading.first().copied() else { return Ok(false) };
        let place = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?));
        let place = self.file.one(&sql::LOAD_ENDED_READ, [queue.0], "reading ended tasks", place)?;
        let Some((created_at, id)) = place else {
            self.claim_index.settings.ended.reading.remove(0);
            return Ok(!self.claim_index.settings.ended.reading.is_empty());
        };
        let settings = self.claim_index.settings.of(queue);
        let limited = settings.map_or(Statuses::NONE, |settings| settings.retention.limited());
        let (mut read, mut last, mut found) = (0, None, Vec::new());
        let values = params![queue.0, created_at, id];
        let heads = sql::LIST_HEADS_BY_CREATION.choose(false);
        let listed = each_row(self.file.connection, heads, values, |row| {
            read += 1;
            last = Some(rows::position(row)?);
            if limited.contains(rows::status(row)?) {
                found.push((rows::key(row)?, rows::head(row)?));
            }
            Ok(if read == READ_AT_ONCE || found.len() == NOTED_AT_ONCE { NextRow::Break(()) } else { CONTINUE })
        });
        listed.doing("reading ended tasks")?;
        for (key, head) in &found {
            if let Some((status, ended_at)) = ended(head) {
                self.insert_ended(queue, status, ended_at, *key)?;
            }
        }
        match last.filter(|_| read == READ_AT_ONCE || found.len() == NOTED_AT_ONCE) {
            Some((created_at, id)) => {
                let values = params![queue.0, created_at.as_micros(), id.as_str()];
                self.file.run(&sql::SAVE_ENDED_READ, values, "reading ended tasks")?;
            }
            None => {
                self.file.run(&sql::DELETE_ENDED_READ, [queue.0], "reading ended tasks")?;
                self.claim_index.settings.ended.reading.remove(0);
            }
        }
        Ok(!self.claim_index.settings.ended.reading.is_empty())
    }
}

/// The state in which a task has ended, and when.
fn ended(head: &TaskHead) -> Option<(Status, Timestamp)> {
    Some((head.lifecycle.status, head.lifecycle.ended_at()?))
}

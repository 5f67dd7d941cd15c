//! Removal of the tasks of deleted queues, of what they waited for and of what was counted there, some at a time. When that happens is up to the writer.

use rusqlite::params;
use taskqueue_store::transaction::{Loaded, Transaction};

use crate::each_row::CONTINUE;
use crate::rows;
use crate::statements as sql;
use crate::transaction::SqliteTransaction;

/// Pieces of output after which the tasks that are left wait for the next time: the full output of a dozen tasks, some
/// milliseconds.
const MOST_PIECES: usize = 1_000;

/// Spans of activity that are removed at a time: a millisecond or two. A queue has about 10,000.
const MOST_SPANS: u32 = 500;

/// Dependencies that are removed at a time: a millisecond or two.
const MOST_DEPENDENCIES: u32 = 500;

impl SqliteTransaction<'_> {
    /// Removes up to `most` tasks of a deleted queue, fewer if they have much output. Returns whether anything may be left to purge.
    pub(crate) fn purge(&mut self, most: u32) -> Loaded<bool> {
        let Some((queue, runs_kept_until)) = self.one(sql::FIND_PURGE, [], "looking for a purge", rows::purge)? else {
            return Ok(false);
        };
        let mut keys = Vec::new();
        self.each(sql::LIST_PURGEABLE_TASKS, params![queue, most], "listing tasks to purge", |row| {
            keys.push(rows::key(row)?);
            Ok(CONTINUE)
        })?;
        let mut pieces = 0;
        for key in &keys {
            let finished_run = self.load_head(*key)?.lifecycle.finished_run;
            pieces += self.delete_rows(*key, finished_run, runs_kept_until)?;
            if pieces >= MOST_PIECES {
                break;
            }
        }
        let are_left = !keys.is_empty()
            || self.delete_dependencies(queue, MOST_DEPENDENCIES)? > 0
            || self.delete_spans(queue, MOST_SPANS)? > 0;
        if !are_left {
            self.run(sql::DELETE_PURGE, [queue], "ending a purge")?;
        }
        Ok(true)
    }
}

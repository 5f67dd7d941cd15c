//! What the claim index writes to the file from time to time, so that neither memory nor a start grows with the number of
//! finished tasks: which tasks may be living (`living_tasks.rs`), the used run ids (`used_runs.rs`), and how far that goes.
//! The hot path only adds to lists in memory. The reasons: docs/decisions/0002.

use rusqlite::{Connection, params};
use taskqueue_core::delta::{Delta, TallyLine};
use taskqueue_core::task::Status;
use taskqueue_core::time::Timestamp;
use taskqueue_store::transaction::TaskKey;

use crate::used_runs::{IndexRequests, UsedRuns};
use crate::{catch_up, living_tasks, statements as sql, used_runs};

/// Changes in memory after which a store that is closed writes them: with fewer the next start reads them as quickly.
const CLOSING_CHANGES: usize = 1_024;

/// When the history is written, and what it may take in memory.
#[derive(Clone, Copy, Debug)]
pub struct HistoryOptions {
    /// Changes after which they are written: creations, ends of tasks and runs, deletions. So many rows does a start read
    /// after a crash, besides those of living tasks.
    pub flush_after: usize,
    /// The memory of the filters over used run ids: 10 bits for each, as far as they fit.
    pub filter_bytes: usize,
}

impl Default for HistoryOptions {
    fn default() -> Self {
        Self { flush_after: 32_768, filter_bytes: 16 << 20 }
    }
}

/// How far the history was written, from the table `claim_index`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Marks {
    pub(crate) last_key: i64,
    pub(crate) flushed_at: Timestamp,
    pub(crate) latest_at: Timestamp,
}

impl Marks {
    pub(crate) fn load(connection: &Connection) -> rusqlite::Result<Self> {
        connection.prepare_cached(sql::LOAD_MARKS)?.query_row([], |row| {
            let time = |column| row.get(column).map(Timestamp::from_micros);
            Ok(Self { last_key: row.get("last_key")?, flushed_at: time("flushed_at")?, latest_at: time("latest_at")? })
        })
    }

    /// The latest time is only ever moved forward.
    pub(crate) fn save(&self, connection: &Connection) -> rusqlite::Result<()> {
        let values = params![self.last_key, self.flushed_at.as_micros(), self.latest_at.as_micros()];
        connection.prepare_cached(sql::SAVE_MARKS)?.execute(values).map(drop)
    }
}

#[derive(Default)]
pub(crate) struct History {
    /// Nothing in a transfer, which leaves all of this to the first start.
    options: Option<HistoryOptions>,
    pub(crate) runs: UsedRuns,
    pub(crate) marks: Marks,
    /// The last key that was given to a task. A key is not given again, even if the last task was deleted: its bit may be
    /// written as one that has ended.
    last_key: i64,
    /// Tasks that have become pending or running, or have ended, since the last flush. Also what a start found to differ.
    changes: Vec<(TaskKey, bool)>,
    /// Tasks that were requeued in this transaction, and whose bit may not be set.
    revived: Vec<(TaskKey, bool)>,
    /// Whether this transaction has changed tasks that a start may not read.
    touched: bool,
    /// Whether the store is being closed.
    closing: bool,
    /// Whether this process has found it damaged and made it anew.
    made_anew: bool,
}

impl History {
    pub(crate) fn new(options: HistoryOptions, builder: Option<IndexRequests>) -> Self {
        let runs = UsedRuns::new(options.filter_bytes, builder);
        Self { options: Some(options), runs, ..Self::default() }
    }

    /// Drops what is not in the file and reads what is. If that is damaged, it is made anew, but only once: reading all tasks
    /// at each claim would help nobody.
    pub(crate) fn reload(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        if self.runs.is_damaged() && !self.made_anew {
            self.make_anew(connection)?;
        }
        match self.read(connection) {
            Err(error) if used_runs::is_damage(&error) && !self.made_anew => {
                self.make_anew(connection)?;
                self.read(connection)
            }
            read => read,
        }
    }

    /// Everything here can be found in the rows of the tasks and of the deleted runs. The latest time is kept.
    fn make_anew(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        tracing::error!("the list of used run ids in the database is damaged; it is made anew from all tasks");
        let transaction = connection.unchecked_transaction()?;
        let Marks { flushed_at, latest_at, .. } = Marks::load(&transaction)?;
        clear(&transaction)?;
        Marks { latest_at: latest_at.max(flushed_at), ..Marks::default() }.save(&transaction)?;
        transaction.commit()?;
        while catch_up::write_part(connection)? {}
        self.runs.made_anew();
        self.made_anew = true;
        Ok(())
    }

    fn read(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        (self.changes, self.revived, self.touched) = (Vec::new(), Vec::new(), false);
        self.marks = Marks::load(connection)?;
        let last_key = connection.prepare_cached(sql::FIND_LAST_KEY)?.query_row([], |row| row.get(0))?;
        self.last_key = self.marks.last_key.max(last_key);
        self.runs.reload(connection)
    }

    #[cfg(test)]
    pub(crate) fn last_key(&self) -> i64 {
        self.last_key
    }

    /// The key for a new task; in a transfer the database chooses it.
    pub(crate) fn next_key(&self) -> Option<i64> {
        self.options.map(|_| self.last_key + 1)
    }

    /// Records that a task was created with this key. A creation that found its task there uses up none: a start reads what
    /// lies behind the last flush by its keys.
    pub(crate) fn key_given(&mut self, task: TaskKey) {
        self.last_key = self.last_key.max(task.0);
    }

    /// Records that a task is pending or running, or no longer. Said of tasks whose bit may be otherwise.
    pub(crate) fn set_living(&mut self, task: TaskKey, is: bool) {
        self.changes.push((task, is));
    }

    /// Records a change of a task.
    pub(crate) fn apply(&mut self, task: TaskKey, delta: &Delta<'_>) {
        let is_living = |line: TallyLine<'_>| matches!(line.status, Status::Pending | Status::Running);
        let (before, after) = (delta.tally.removed, delta.tally.added);
        let (was, is) = (before.is_some_and(is_living), after.is_some_and(is_living));
        if was != is {
            self.set_living(task, is);
        }
        if is && !was && before.is_some() && task.0 <= self.marks.last_key {
            self.revived.push((task, true));
        }
        if let Some(run_id) = delta.run.removed {
            self.runs.end(run_id);
        }
        if let Some(run_id) = delta.run.added {
            self.runs.begin(run_id);
        }
    }

    /// Records that the row of a task was removed, also of one that was pending when its queue was deleted.
    pub(crate) fn removed(&mut self, task: TaskKey) {
        self.set_living(task, false);
    }

    /// Records a change that leaves no other trace for a start: the update of a task that may have ended long ago.
    pub(crate) fn touch(&mut self) {
        self.touched = true;
    }

    fn unflushed(&self) -> usize {
        self.changes.len() + self.runs.changed()
    }

    pub(crate) fn is_due(&self) -> bool {
        let full = self.options.is_some_and(|options| self.unflushed() >= options.flush_after);
        full || self.closing || self.runs.must_flush()
    }

    /// Whether a store that is closed should write what it has. The next transaction then does.
    pub(crate) fn close(&mut self) -> bool {
        self.closing = self.unflushed() >= CLOSING_CHANGES;
        self.is_due()
    }

    /// Writes what the transaction must write, at its end. Most have nothing.
    pub(crate) fn finish(&mut self, connection: &Connection, now: Timestamp) -> rusqlite::Result<()> {
        if self.options.is_none() {
            return Ok(());
        }
        if std::mem::take(&mut self.touched) {
            connection.prepare_cached(sql::TOUCH_MARKS)?.execute([now.as_micros()])?;
        }
        if self.is_due() {
            self.flush(connection, now)?;
        } else if !self.revived.is_empty() {
            living_tasks::save(connection, std::mem::take(&mut self.revived))?;
        }
        self.runs.work(connection)
    }

    /// Writes everything that is only in memory. All of it is what this transaction commits, or an earlier one did.
    pub(crate) fn flush(&mut self, connection: &Connection, now: Timestamp) -> rusqlite::Result<()> {
        self.revived.clear();
        living_tasks::save(connection, std::mem::take(&mut self.changes))?;
        self.runs.flush(connection)?;
        self.marks = Marks { last_key: self.last_key, flushed_at: now, latest_at: self.marks.latest_at.max(now) };
        self.marks.save(connection)
    }
}

/// Removes everything, so that the next start reads all tasks.
pub(crate) fn clear(connection: &Connection) -> rusqlite::Result<()> {
    living_tasks::clear(connection)?;
    used_runs::clear(connection)?;
    connection.prepare_cached(sql::CLEAR_MARKS)?.execute([]).map(drop)
}

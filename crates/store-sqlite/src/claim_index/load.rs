//! Loads the claim index from the file: the living tasks, the tasks behind the last flush, and the runs that have ended since.
//! What ended before the last flush is not read (docs/decisions/0002). At a start the clock is set by it.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use rusqlite::{Connection, Result, Row, params};
use taskqueue_core::{Status, TaskHead, Timestamp, lease};
use taskqueue_store::{Clock, QueueKey, TaskKey};

use super::ClaimIndex;
use super::queue_settings::EndedTasks;
use super::room::Room;
use crate::history::{History, HistoryOptions};
use crate::pending_order::{PendingLists, PendingOrder};
use crate::queries::{CONTINUE, all_rows, each_row, first_row};
use crate::rows::{self, PackedHead};
use crate::used_runs::segment::IndexRequests;
use crate::waiting_tasks::WaitingLists;
use crate::{history, statements as sql};

/// A claim index while its rows are read.
struct IndexLoader<'a> {
    connection: &'a Connection,
    index: &'a mut ClaimIndex,
    queues: HashSet<i64>,
    pending: HashMap<QueueKey, PendingLists>,
    waiting: WaitingLists,
}

impl ClaimIndex {
    /// An index that is not loaded yet.
    pub(crate) fn new(options: HistoryOptions, builder: Option<IndexRequests>, room: Room) -> Self {
        Self { history: History::new(options, builder), room, ..Self::default() }
    }

    /// Becomes what the file holds. What is in memory about segments that are there is kept.
    pub(crate) fn reload(&mut self, connection: &Connection) -> Result<()> {
        // Two indexes at once could be more than there is memory for.
        let history = std::mem::take(&mut self.history);
        // What was known of tasks may be wrong now, as after an update.
        let updates = self.updates + 1;
        let room = self.room.emptied();
        *self = Self { history, updates, room, ..Self::default() };
        self.history.reload(connection)?;
        let marks = self.history.marks;
        for (queue, name) in all_rows(connection, &sql::LOAD_QUEUES, [], rows::queue)?.into_iter().flatten() {
            self.add_queue(name, queue);
        }
        // Before the tasks: running ones are counted where claims are limited.
        each_row(connection, &sql::LOAD_ALL_SETTINGS, [], |row| {
            self.set_settings(QueueKey(row.get("queue_key")?), rows::settings(row)?);
            Ok(CONTINUE)
        })?;
        self.settings.ended = EndedTasks::load(connection)?;
        self.load_tasks(connection)?;
        self.awaited.load(connection, self.queues.values().copied())?;
        let unsettled = all_rows(connection, &sql::LIST_UNSETTLED_QUEUES, [], |row| row.get(0).map(QueueKey))?;
        self.unsettled = unsettled.into_iter().collect();
        // Of tasks that were deleted since the last flush.
        let kept_until = lease::run_ids_kept_until(marks.flushed_at).as_micros();
        each_row(connection, &sql::LOAD_DELETED_RUNS, [kept_until], |row| {
            self.history.runs.end(rows::run_id(row)?);
            Ok(CONTINUE)
        })?;
        // The service was also up at its last write: a run may have been claimed after the last scan in the file.
        let last_scan_at = first_row(connection, &sql::LOAD_SCAN, [], rows::scan_time)?.unwrap_or_default();
        self.latest_at = self.latest_at.max(last_scan_at).max(marks.latest_at).max(marks.flushed_at);
        self.last_scan_at = Some(self.latest_at).filter(|_| self.has_active_runs());
        Ok(())
    }

    fn load_tasks(&mut self, connection: &Connection) -> Result<()> {
        let queues: HashSet<i64> = self.queues.values().map(|queue| queue.0).collect();
        let last_key = self.history.marks.last_key;
        let (pending, waiting) = (HashMap::new(), WaitingLists::default());
        let mut loading = IndexLoader { connection, index: self, queues, pending, waiting };
        history::visit_living(connection, |keys, ranges| {
            let mut ended: HashSet<TaskKey> = keys.iter().copied().collect();
            for range in ranges {
                each_row(connection, &sql::LOAD_CLAIM_INDEX, [range.start(), range.end()], |row| {
                    let key = rows::claim_index(row)?.key;
                    // Of a row between them without a bit, all is known.
                    if ended.contains(&key) && loading.add(row)? {
                        ended.remove(&key);
                    }
                    Ok(CONTINUE)
                })?;
            }
            ended.into_iter().for_each(|key| loading.index.history.set_living(key, false));
            Ok(())
        })?;
        each_row(connection, &sql::LOAD_CLAIM_INDEX, [last_key + 1, i64::MAX], |row| {
            if loading.add(row)? {
                let key = rows::claim_index(row)?.key;
                loading.index.history.set_living(key, true);
            }
            Ok(CONTINUE)
        })?;
        let (pending, waiting) = (loading.pending, loading.waiting);
        self.waiting = waiting.into_tasks();
        self.pending = pending.into_iter().map(|(queue, lists)| (queue, lists.into_order())).collect();
        self.pending_bytes = self.pending.values().map(PendingOrder::bytes).sum();
        Ok(())
    }
}

impl IndexLoader<'_> {
    /// Adds what a row says. Returns whether its task is pending or running.
    fn add(&mut self, row: &Row<'_>) -> Result<bool> {
        let task = rows::claim_index(row)?;
        self.index.rows_read += 1;
        self.index.last_pending_seq = self.index.last_pending_seq.max(task.head.pending_seq);
        self.index.latest_at = self.index.latest_at.max(task.head.updated_at);
        // Also of a deleted queue: the run stays used, before the purge and for a while after it.
        if let Some(run_id) = task.finished_run_id
            && task.head.updated_at >= self.index.history.marks.flushed_at
        {
            self.index.history.runs.end(run_id);
            each_row(self.connection, &sql::LOAD_PAST_RUNS, [task.key.0, task.key.0], |row| {
                self.index.history.runs.end(rows::run_id(row)?);
                Ok(CONTINUE)
            })?;
        }
        let queue = QueueKey(task.queue_key);
        if !self.queues.contains(&queue.0) {
            return Ok(false);
        }
        if task.status == Status::Running {
            let mut statement = self.connection.prepare_cached(&sql::LOAD_HEAD)?;
            self.index.set_running(queue, task.key, statement.query_row([task.key.0], rows::head)?);
        }
        if task.status == Status::Pending {
            let rank = (Reverse(task.head.priority), task.head.pending_seq);
            match task.head.extended.not_before {
                _ if task.head.extended.unmet > 0 => self.waiting.add_blocked(queue, task.key),
                // Its time may have come. It is not known here; the next batch moves it.
                Some(not_before) => self.waiting.add_delayed(queue, (not_before, task.key), rank, task.head.routes),
                None => self.pending.entry(queue).or_default().add(rank, task.key, task.head.routes),
            }
        }
        Ok(matches!(task.status, Status::Pending | Status::Running))
    }
}

/// Reads what the file holds and sets the clock by it. If the clock goes back all the same, because the times in the file
/// cannot be right, then the deadlines in those times are set again.
pub(crate) fn load_at_start(index: &mut ClaimIndex, connection: &mut Connection, clock: &dyn Clock) -> Result<()> {
    index.reload(connection)?;
    let latest_at = index.latest_at;
    clock.start_after(latest_at);
    let now = clock.now();
    if now < latest_at {
        tracing::warn!(
            %latest_at,
            "the latest time in the database is more than a day ahead of this machine's clock; the clock is used, and \
             running leases are reset to 300 seconds from now"
        );
        let running = index.running.iter().map(|(task, running)| (*task, running.head.clone()));
        shorten_deadlines(connection, running.collect(), now)?;
        index.reload(connection)?;
    }
    index.no_scan_after(now);
    connection.execute(&sql::SAVE_ACTIVITY_SINCE, [now.as_micros()])?;
    if index.history.is_due() {
        let transaction = connection.transaction()?;
        index.history.flush(&transaction, now)?;
        transaction.commit()?;
    }
    tracing::debug!(rows = index.rows_read, "loaded the pending and running tasks");
    Ok(())
}

/// Corrects deadlines that are far in the future, because the stored times came from a wrong clock (docs/decisions/0005): leases
/// and other deadlines end as if they had begun now. Timestamps of tasks do not change, nor does `not_before`, which may be what a
/// client said. `running` are all running tasks.
fn shorten_deadlines(connection: &mut Connection, running: Vec<(TaskKey, TaskHead)>, now: Timestamp) -> Result<()> {
    let tx = connection.transaction()?;
    shorten_leases(&tx, running, now)?;
    let kept_until = lease::run_ids_kept_until(now).as_micros();
    tx.execute(&sql::BOUND_DELETED_RUNS, params![kept_until])?;
    tx.execute(&sql::BOUND_PURGES, params![kept_until])?;
    // Live workers report again within seconds.
    tx.execute(&sql::DELETE_LATE_OBSERVATIONS, params![now.as_micros()])?;
    tx.execute(&sql::SAVE_SCAN, params![now.as_micros()])?;
    // What is known of the latest time may be of tasks that were deleted. This reads all tasks; it is not for every start.
    let mut latest_at = Timestamp::default();
    each_row(&tx, &sql::LIST_HEADS, [], |row| {
        latest_at = latest_at.max(rows::claim_index(row)?.head.updated_at);
        Ok(CONTINUE)
    })?;
    tx.execute(&sql::RESET_MARKS, params![latest_at.as_micros(), now.as_micros()])?;
    tx.commit()
}

fn shorten_leases(connection: &Connection, running: Vec<(TaskKey, TaskHead)>, now: Timestamp) -> Result<()> {
    let mut save = connection.prepare_cached(&sql::SAVE_HEAD)?;
    for (key, mut head) in running {
        if let Some(run) = head.lifecycle.run.and_then(|run| lease::brought_back(run, now)) {
            head.lifecycle.run = Some(run);
            save.execute(params![key.0, head.lifecycle.status.as_str(), PackedHead::of(&head).pack()])?;
        }
    }
    Ok(())
}

//! Tasks that have ended in queues which keep them for a limited time (docs/decisions/0064): noted when they end, and found again
//! when their time is over. Nothing is noted in other queues. When a queue gets such a setting, its tasks are read once, some at a
//! time, to note those that had ended before. What may be deleted is decided in `core`.
//!
//! A transaction that ends a task either holds its queue, and has the settings that count; or it holds the clock, as scans and upkeep
//! do. The reading is a part of the upkeep: it comes before a change of the settings that a scan has not seen, or after its end.

use std::collections::{BTreeMap, HashSet};

use parking_lot::Mutex;
use taskqueue_core::{Retention, Status, TaskHead, Timestamp};
use taskqueue_store::transaction::{Loaded, Outdated, QueueKey, TaskKey, Transaction};
use tokio_postgres::Error;

use crate::changes::RowSet;
use crate::derived_tables::{ENDED, ended_rows};
use crate::rows::{self, EndedRow};
use crate::session::{Params, Session, Sql};
use crate::statements as sql;
use crate::transaction::PostgresTransaction;

/// Tasks of a queue that are read at a time when it gets a retention: some milliseconds.
const READ_AT_ONCE: usize = 1_000;
/// Queues whose ended tasks are looked at in one transaction. With an upkeep each second, 10,000 queues have their turn in half a minute.
const QUEUES_AT_ONCE: i64 = 400;
const MICROS: i64 = 1_000_000;

/// Where the next search of this process begins, so that no queue waits for all tasks of another one.
#[derive(Debug, Default)]
pub(crate) struct NextSearch(Mutex<Begin>);

#[derive(Clone, Copy, Debug, Default)]
struct Begin {
    /// Behind this queue; from the first one if there is none.
    after: Option<i64>,
    /// Whether the last search has found enough before it had looked at all queues.
    is_cut: bool,
}

/// The state in which a task has ended, and when, if it is kept for a limited time.
pub(crate) fn noted_end(retention: &Retention, head: &TaskHead) -> Option<(Status, Timestamp)> {
    let status = head.lifecycle.status;
    retention.seconds(status)?;
    Some((status, head.lifecycle.ended_at()?))
}

/// Notes for how long a queue keeps ended tasks; and lets its tasks be read if it has kept some of them for ever until now.
pub(crate) async fn save_retention(
    session: &Session,
    queue: QueueKey,
    [before, after]: [&Retention; 2],
) -> Result<(), Error> {
    if before == after {
        return Ok(());
    }
    let kept = Retention::STATUSES.into_iter().filter_map(|status| Some((status, after.seconds(status)?)));
    let micros = |seconds: u64| i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(MICROS);
    let (statuses, kept): (Vec<&str>, Vec<i64>) =
        kept.map(|(status, seconds)| (status.as_str(), micros(seconds))).unzip();
    session.execute(&sql::SAVE_RETENTION, &[&queue.0, &statuses, &kept]).await?;
    if !after.limited().is_within(before.limited()) {
        session.execute(&sql::BEGIN_ENDED_READING, &[&queue.0]).await?;
    }
    Ok(())
}

/// Tasks that are held, and what is noted of tasks that are not as it says.
type HeldAndDropped = (Vec<(QueueKey, TaskKey)>, Vec<EndedRow>);

impl PostgresTransaction<'_> {
    /// Ended tasks that may be kept no longer, at most `most`. They are held. What is noted of tasks that have changed since, or are
    /// gone, is removed.
    pub(crate) fn outdated(&mut self, most: usize) -> Loaded<Outdated> {
        if self.is_idle {
            return Ok(Outdated::default());
        }
        let reads_on = self.read_ended()?;
        let (noted, more) = self.list_outdated(most)?;
        let (tasks, dropped) = self.hold_noted(&noted)?;
        self.write_ended(ENDED.remove, &dropped)?;
        // Those that others hold have their turn later. If they are all there is, it is not tried again at once.
        let gets_further = !tasks.is_empty() || !dropped.is_empty() || noted.is_empty();
        Ok(Outdated { tasks, more: reads_on || (more && gets_further) })
    }

    /// What is noted of tasks whose time is over, of the next queues; and whether it is worth to look again at once.
    fn list_outdated(&mut self, most: usize) -> Loaded<(Vec<EndedRow>, bool)> {
        let begin = *self.next_search.0.lock();
        let (now, after) = (self.clock.now.as_micros(), begin.after.unwrap_or(i64::MIN));
        let kept = self.query("finding ended tasks", &sql::LIST_RETENTION, &[&after, &QUEUES_AT_ONCE])?;
        let (mut queues, mut statuses, mut until) = (Vec::new(), Vec::new(), Vec::new());
        for row in &kept {
            queues.push(rows::found_queue(row)?.0);
            statuses.push(rows::get::<Status>(row, "status")?.as_str());
            until.push(now.saturating_sub(rows::get(row, "kept_micros")?));
        }
        let limit = i64::try_from(most).unwrap_or(i64::MAX);
        let params: Params<'_> = &[&queues, &statuses, &until, &limit];
        let found = match queues.is_empty() {
            true => Vec::new(),
            false => self.query("finding ended tasks", &sql::LIST_OUTDATED, params)?,
        };
        let found = found.iter().map(rows::ended).collect::<Result<Vec<_>, _>>()?;
        let is_cut = found.len() >= most;
        queues.dedup();
        let last = queues.last().copied().filter(|_| queues.len() == QUEUES_AT_ONCE as usize);
        let after = if is_cut { found.last().map(|row| row.queue.0) } else { last };
        *self.next_search.0.lock() = Begin { after, is_cut };
        Ok((found, is_cut || begin.is_cut))
    }

    /// Those of these tasks that are as they were noted, now held with their queues; and what is noted of tasks that are not.
    fn hold_noted(&mut self, noted: &[EndedRow]) -> Loaded<HeldAndDropped> {
        let queues = self.hold_queues(&noted.iter().map(|row| row.queue).collect())?;
        // What this transaction has changed already has its turn in the next one, as do tasks of queues that others have for themselves.
        let may_change = |row: &&EndedRow| queues.contains(&row.queue) && !self.rows.tasks.contains_key(&row.key);
        let noted: BTreeMap<TaskKey, &EndedRow> = noted.iter().filter(may_change).map(|row| (row.key, row)).collect();
        if noted.is_empty() {
            return Ok((Vec::new(), Vec::new()));
        }
        let keys: Vec<i64> = noted.keys().map(|key| key.0).collect();
        let locked = self.query("holding ended tasks", &sql::LOCK_ENDED, &[&keys])?;
        let (mut tasks, mut dropped, mut held) = (Vec::new(), Vec::new(), HashSet::new());
        for row in &locked {
            let (key, queue, head) = (rows::key(row)?, rows::queue_key(row)?, rows::head(row)?);
            held.insert(key);
            let Some(noted) = noted.get(&key) else { continue };
            let is_current = (Some(noted.ended_at), noted.status) == (head.lifecycle.ended_at(), head.lifecycle.status);
            if is_current {
                self.rows.add_held(key, queue, head);
                tasks.push((queue, key));
            } else {
                dropped.push(**noted);
            }
        }
        let others: Vec<i64> = noted.keys().filter(|key| !held.contains(key)).map(|key| key.0).collect();
        let gone = self.deleted_among(others)?;
        dropped.extend(gone.iter().filter_map(|key| noted.get(key)).map(|row| **row));
        Ok((tasks, dropped))
    }

    /// Reads some tasks of a queue whose tasks are being read. Returns whether there may be more.
    fn read_ended(&mut self) -> Loaded<bool> {
        let Some(row) = self.first("reading ended tasks", &sql::LOCK_ENDED_READING, &[])? else { return Ok(false) };
        let (queue, after): (QueueKey, &str) = (rows::found_queue(&row)?, rows::get(&row, "after_id")?);
        let params: Params<'_> = &[&queue.0, &after, &(READ_AT_ONCE as i64)];
        let found = self.query("reading ended tasks", &sql::READ_ENDED, params)?;
        let retention = self.load_settings(queue)?.unwrap_or_default().retention;
        let mut ended = Vec::new();
        for row in &found {
            let (key, head) = (rows::key(row)?, rows::head(row)?);
            let noted = noted_end(&retention, &head);
            ended.extend(noted.map(|(status, ended_at)| EndedRow { queue, status, ended_at, key }));
        }
        self.write_ended(ENDED.add, &ended)?;
        self.wrote = true;
        let last = found.last().filter(|_| found.len() == READ_AT_ONCE).map(rows::id).transpose()?;
        let (sql, params): (_, Params<'_>) = match &last {
            Some(last) => (&sql::SAVE_ENDED_READING, &[&queue.0, &last.as_str()]),
            None => (&sql::DELETE_ENDED_READING, &[&queue.0]),
        };
        self.execute("reading ended tasks", sql, params)?;
        Ok(true)
    }

    fn write_ended(&mut self, sql: &'static Sql, noted: &[EndedRow]) -> Loaded<()> {
        if noted.is_empty() {
            return Ok(());
        }
        self.wrote = true;
        self.execute("noting ended tasks", sql, &ended_rows(noted).columns()).map(drop)
    }
}

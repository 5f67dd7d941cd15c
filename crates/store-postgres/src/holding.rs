//! What a command of several items needs before it changes anything: whether other transactions hold any of it. A command that is
//! busy has changed nothing, so that the writer can try it again (docs/decisions/0009, 0039). And what a scan of the leases can hold.

use std::time::{Duration, Instant};

use taskqueue_core::{QueueName, Route, Task, TaskId, Timestamp};
use taskqueue_store::{Loaded, Queue, QueueKey, StoreError, TaskKey};
use tokio_postgres::Row;

use crate::session::Params;
use crate::transaction::PostgresTransaction;
use crate::transaction_rows::Found;
use crate::{rows, statements as sql};

/// Tasks of claims that are loaded at once, at most.
const TASKS_AT_ONCE: usize = 256;
/// Bytes of tasks that are loaded at once, the last task aside. `PICK_TASKS` has more of them, for the first ones.
const BYTES_AT_ONCE: i64 = 4 * 1_048_576;
/// How long the outage credit waits for tasks that other transactions hold: far longer than a batch takes.
const CREDIT_PATIENCE: Duration = Duration::from_secs(1);
/// Pause before it tries to lock them again.
const CREDIT_PAUSE: Duration = Duration::from_millis(20);

impl PostgresTransaction<'_> {
    /// Whether a queue exists, and whether this transaction holds it.
    pub(crate) fn look_up_queue(&mut self, name: &QueueName) -> Loaded<Found<QueueKey>> {
        if let Some(known) = self.rows.queues.get(name) {
            return Ok(*known);
        }
        // Named by the batch, but not locked: missing or held by another transaction.
        let row = self.first("finding a queue", &sql::FIND_QUEUE, &[&name.as_str()])?;
        let found = if row.is_some() { Found::HeldElsewhere } else { Found::Missing };
        self.rows.queues.insert(name.clone(), found);
        Ok(found)
    }

    /// Finds out which of these tasks are missing and which are held by other transactions, if that is not known.
    pub(crate) fn find_tasks(&mut self, queue: QueueKey, ids: &mut dyn Iterator<Item = TaskId>) -> Loaded<()> {
        let unknown: Vec<TaskId> = ids.filter(|id| !self.rows.ids.contains_key(&(queue, *id))).collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let texts: Vec<&str> = unknown.iter().map(TaskId::as_str).collect();
        let found = self.query("finding tasks", &sql::FIND_TASKS, &[&queue.0, &texts])?;
        self.rows.ids.extend(unknown.into_iter().map(|id| ((queue, id), Found::Missing)));
        for row in &found {
            self.rows.ids.insert((queue, rows::get(row, "id")?), Found::HeldElsewhere);
        }
        Ok(())
    }

    /// Whether there are pending tasks of a route besides those that this transaction has changed or holds for claims. Also if a
    /// run id of the batch has been used since: the same claim, sent to another server, may have taken the last task.
    pub(crate) fn others_hold_pending(&mut self, queue: QueueKey, route: &Route) -> Loaded<bool> {
        let (ours, runs) = (self.rows.unready_or_picked(queue, route, self.clock.now), self.rows.unused_runs());
        let now = self.clock.now.as_micros();
        let (ready, used): (Params<'_>, Params<'_>) = (&[&queue.0, &route.as_str(), &ours, &now], &[&runs]);
        // In this order: a task that has just left the first is found through its run by the second.
        let (ready, used) = ((&sql::FIND_READY, ready), (&sql::FIND_RUNS, used));
        let (ready, used) = self.query_both("finding pending tasks", ready, used)?;
        Ok(ready.first().is_some_and(|row| row.get(0)) || !used.is_empty())
    }

    /// How many claims of a route this transaction has tasks for, at most `most`.
    pub(crate) fn hold_picks(&mut self, queue: QueueKey, route: &Route, most: usize) -> Loaded<usize> {
        let picked = self.rows.claimable_picks(queue, route, self.clock.now);
        if picked < most && self.others_hold_pending(queue, route)? {
            return Err(StoreError::Busy);
        }
        Ok(picked.min(most))
    }

    /// Locks up to `most` running tasks whose lease ends by `until`. Tasks that other transactions hold are left to the next scan: a
    /// lease may end late. The outage credit is given only once, so it waits for them, but not for ever: all other work
    /// waits meanwhile, and a client of the database may hold a row for long.
    pub(crate) fn lock_running(&mut self, until: Timestamp, most: usize) -> Loaded<Vec<Row>> {
        let (session, until_micros, begun) = (self.session, until.as_micros(), Instant::now());
        let credits = until > self.clock.now;
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let asked = async {
            loop {
                let rows = session.query(&sql::LOCK_RUNNING, &[&until_micros, &most]).await?;
                if !credits || begun.elapsed() > CREDIT_PATIENCE {
                    return Ok(rows);
                }
                let all = session.first(&sql::COUNT_RUNNING, &[&until_micros]).await?;
                if all.map(|row| row.get::<_, i64>("tasks")).is_none_or(|tasks| tasks <= rows.len() as i64) {
                    return Ok(rows);
                }
                tokio::time::sleep(CREDIT_PAUSE).await;
            }
        };
        self.wait("locking running tasks", asked)
    }

    /// Loads a task with its heavy part, and some of those that will be asked for next. Busy if it is not held and its run has
    /// changed since its head was loaded: what was decided by the head may be wrong.
    pub(crate) fn load_ahead(&mut self, key: TaskKey) -> Loaded<()> {
        let run = |tx: &Self| tx.rows.tasks.get(&key).map(|entry| entry.head.lifecycle.run.map(|run| run.run_id));
        let before = run(self);
        let next = self.rows.next_without_body(key, self.clock.now);
        let wanted: Vec<i64> = std::iter::once(key).chain(next).take(TASKS_AT_ONCE).map(|key| key.0).collect();
        let loaded = self.query("loading tasks", &sql::LOAD_FIRST_TASKS, &[&wanted, &BYTES_AT_ONCE])?;
        loaded.iter().try_for_each(|row| self.rows.add_whole(row).map(drop))?;
        if before.is_some() && before != run(self) { Err(StoreError::Busy) } else { Ok(()) }
    }

    /// Loads the heavy part of a task.
    pub(crate) fn load_body(&mut self, key: TaskKey) -> Loaded<()> {
        let rows = self.query("loading tasks", &sql::LOAD_TASKS_BY_KEY, &[&vec![key.0]])?;
        rows.iter().try_for_each(|row| self.rows.add_whole(row).map(drop))
    }

    /// Those of these tasks that exist in the queue, as the commands so far have left them.
    pub(crate) fn load_current(&mut self, queue: Queue<'_>, keys: &[TaskKey]) -> Loaded<Vec<(TaskKey, Task)>> {
        let wanted: Vec<i64> = keys.iter().map(|key| key.0).collect();
        let rows = self.query("loading tasks", &sql::LOAD_TASKS_BY_KEY, &[&wanted])?;
        let mut found = Vec::with_capacity(rows.len());
        // Each row is dropped when it was read: several may be large.
        for row in rows {
            let (row, key) = (&row, rows::key(&row)?);
            if rows::queue_key(row)? != queue.key {
                continue;
            }
            match self.rows.tasks.get(&key).map(|entry| (entry.held, entry.deleted)) {
                Some((_, true)) => {}
                Some((true, false)) => {
                    self.rows.add_whole(row)?;
                    found.extend(self.rows.tasks.get(&key).and_then(|entry| Some((key, entry.task(queue.name)?))));
                }
                Some((false, false)) | None => found.push((key, rows::task(row, queue.name)?)),
            }
        }
        Ok(found)
    }

    /// Loads a task that is only read, without its heavy part, and with it those of all claims that are repeated.
    pub(crate) fn load_heads_ahead(&mut self, key: TaskKey) -> Loaded<()> {
        let wanted: Vec<i64> = self.rows.unknown_repeated().chain([key]).map(|key| key.0).collect();
        let loaded = self.query("loading tasks", &sql::LOAD_HEADS, &[&wanted])?;
        loaded.iter().try_for_each(|row| self.rows.add_read(row))
    }
}

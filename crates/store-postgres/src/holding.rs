//! What a command of several items needs before it changes anything: whether other transactions hold any of it. A command that is
//! busy has changed nothing, so that the writer can try it again (docs/decisions/0009, 0039).

use futures_util::future::join;
use taskqueue_core::ids::{Route, TaskId};
use taskqueue_store::StoreError;
use taskqueue_store::transaction::{Loaded, QueueKey, TaskKey};
use tokio_postgres::types::ToSql;

use crate::rows;
use crate::statements as sql;
use crate::transaction::PostgresTransaction;
use crate::transaction_rows::Found;

/// Repeated claims whose tasks are loaded at once: a task has up to 1 MiB.
const LOADED_AT_ONCE: usize = 16;
/// Bytes of picked tasks that are loaded at once, the last task aside. `pick_tasks.sql` has more of them, for the first ones.
const BYTES_AT_ONCE: usize = 4 * 1_048_576;

impl PostgresTransaction<'_> {
    /// Finds out which of these tasks are missing and which are held by other transactions, if that is not known.
    pub(crate) fn find_tasks(&mut self, queue: QueueKey, ids: &mut dyn Iterator<Item = TaskId>) -> Loaded<()> {
        let unknown: Vec<TaskId> = ids.filter(|id| !self.rows.ids.contains_key(&(queue, *id))).collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let (session, texts) = (self.session, unknown.iter().map(TaskId::as_str).collect::<Vec<_>>());
        let asked = async { session.query(&sql::FIND_TASKS, &[&queue.0, &texts]).await };
        let found = self.wait("finding tasks", asked)?;
        self.rows.ids.extend(unknown.into_iter().map(|id| ((queue, id), Found::Missing)));
        for row in &found {
            self.rows.ids.insert((queue, rows::found_id(row)?), Found::HeldElsewhere);
        }
        Ok(())
    }

    /// Whether there are pending tasks of a route besides those that this transaction has changed or holds for claims. Also if a
    /// run id of the batch has been used since: the same claim, sent to another server, may have taken the last task.
    pub(crate) fn others_hold_pending(&mut self, queue: QueueKey, route: &Route) -> Loaded<bool> {
        let (ours, runs) = (self.rows.unready_or_picked(queue, route), self.rows.unused_runs());
        let (session, route) = (self.session, route.as_str());
        let asked = async {
            // In this order: a task that has just left the first is found through its run by the second.
            let params: [&(dyn ToSql + Sync); 3] = [&queue.0, &route, &ours];
            let ready = session.first(&sql::FIND_READY, &params);
            let (ready, used) = join(ready, session.first(&sql::FIND_RUNS, &[&runs])).await;
            Ok((ready?, used?))
        };
        let (ready, used) = self.wait("finding pending tasks", asked)?;
        Ok(ready.is_some_and(|row| row.get(0)) || used.is_some())
    }

    /// How many claims of a route this transaction has tasks for, at most `most`.
    pub(crate) fn hold_picks(&mut self, queue: QueueKey, route: &Route, most: usize) -> Loaded<usize> {
        let picked = self.rows.claimable_picks(queue, route);
        if picked < most && self.others_hold_pending(queue, route)? {
            return Err(StoreError::Busy);
        }
        Ok(picked.min(most))
    }

    /// Loads a task with its heavy part, and some of those that will be asked for next.
    pub(crate) fn load_ahead(&mut self, key: TaskKey) -> Loaded<()> {
        let mut next = self.rows.picks_without_body(BYTES_AT_ONCE);
        if !next.contains(&key) {
            next = self.rows.repeated_without_body(LOADED_AT_ONCE);
        }
        if !next.contains(&key) {
            next = vec![key];
        }
        self.load_bodies(&next)
    }
}

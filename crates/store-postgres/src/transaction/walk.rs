//! Dependents that are loaded ahead: those of many tasks at once, and down a chain those of the tasks that are cancelled with them.
//! Asked for one by one, each would cost a round trip. It is no more than a guess: what is asked for and is not here is looked up.

use std::collections::HashSet;

use futures_util::future::join;
use taskqueue_core::ids::TaskId;
use taskqueue_store::transaction::{Loaded, QueueKey};
use tokio_postgres::types::ToSql;

use super::PostgresTransaction;
use crate::rows;
use crate::statements as sql;
use crate::transaction_rows::Found;

/// Pairs that are found at once: a few milliseconds, and few tasks are held that the transaction does not get to.
const WALKED: usize = 250;
/// Pairs that are listed at once. Since they were found there may be more.
const LISTED: i64 = 1_000;

impl PostgresTransaction<'_> {
    /// If the dependents of this task were expected to be asked for: loads them together with others that are expected.
    pub(super) fn walk_from(&mut self, queue: QueueKey, dependency: TaskId) -> Loaded<()> {
        let Some((roots, follows)) = self.rows.dependencies.take_expected(queue, dependency, WALKED) else {
            return Ok(());
        };
        let (session, most) = (self.session, i64::try_from(WALKED).unwrap_or(i64::MAX));
        let texts: Vec<&str> = roots.iter().map(TaskId::as_str).collect();
        let asked = async { session.query(&sql::WALK_DEPENDENTS, &[&queue.0, &texts, &most, &follows]).await };
        let found = self.wait("finding dependents", asked)?;
        let found = found.iter().map(rows::walked).collect::<Result<Vec<_>, _>>()?;
        // Of the last one there may be more, and nothing of those behind it.
        let last = found.last().filter(|_| found.len() == WALKED).map(|walked| walked.dependency);
        let followed = found.iter().filter(|walked| walked.goes_on).filter_map(|walked| walked.id);
        let mut seen = HashSet::new();
        let reached = roots.iter().copied().chain(followed).take_while(|id| Some(*id) != last);
        let reached: Vec<TaskId> = reached.filter(|id| seen.insert(*id)).collect();
        if reached.is_empty() {
            return Ok(());
        }
        let keys = found.iter().filter(|walked| seen.contains(&walked.dependency)).map(|walked| walked.task.0);
        self.hold_walked(queue, &reached, &keys.collect::<Vec<_>>())
    }

    /// Locks these tasks, and lists who waits for `reached`.
    fn hold_walked(&mut self, queue: QueueKey, reached: &[TaskId], keys: &[i64]) -> Loaded<()> {
        let (session, texts) = (self.session, reached.iter().map(TaskId::as_str).collect::<Vec<_>>());
        let asked = async {
            // In this order: nobody begins to wait for a locked task, and what is noted of it does not change any more.
            let (lock, list): ([&(dyn ToSql + Sync); 2], [&(dyn ToSql + Sync); 3]) =
                ([&keys, &queue.0], [&queue.0, &texts, &LISTED]);
            let locked = session.query(&sql::LOCK_FOUND, &lock);
            let (locked, listed) = join(locked, session.query(&sql::LIST_WALKED_DEPENDENTS, &list)).await;
            Ok((locked?, listed?))
        };
        let (locked, listed) = self.wait("loading dependents", asked)?;
        self.rows.add_held_rows(&locked)?;
        for row in &listed {
            self.rows.dependencies.add(&rows::dependency(row)?);
        }
        if (listed.len() as i64) < LISTED {
            let is_known = |id: &&TaskId| self.is_known(queue, **id);
            let complete: HashSet<_> = reached.iter().filter(is_known).map(|id| (queue, *id)).collect();
            self.rows.dependencies.expected.retain(|dependency, _| !complete.contains(dependency));
            self.rows.dependencies.complete.extend(complete);
        }
        Ok(())
    }

    /// Whether this transaction held a task, or knew that there is none, before it listed who waits for it.
    fn is_known(&self, queue: QueueKey, id: TaskId) -> bool {
        self.rows.ids.get(&(queue, id)) == Some(&Found::Missing)
            || self.known_status(queue, id).is_some_and(|found| found != Found::HeldElsewhere)
    }
}

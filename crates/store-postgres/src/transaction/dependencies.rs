//! Delayed tasks, and tasks that wait for others (docs/decisions/0063). Whoever looks up a dependency locks its row, and whoever
//! changes a task looks for those that wait for it after it holds the task, so that one of two servers sees the other. Nobody waits
//! for a lock: what others hold is tried again for some milliseconds, and is then busy or left for later. What is
//! noted of a dependency is written only by who holds the task that waits.
//!
//! Dependents that are loaded ahead: those of many tasks at once, and down a chain those of the tasks that are cancelled with them.
//! Asked for one by one, each would cost a round trip. It is no more than a guess: what is asked for and is not here is looked up.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use taskqueue_core::{DependencyState, Status, Statuses, TaskId};
use taskqueue_store::StoreError;
use taskqueue_store::transaction::{Dependents, Loaded, QueueKey, TaskKey, Transaction, Unsettled};
use tokio_postgres::Row;

use super::PostgresTransaction;
use crate::dependency_rows::Dependency;
use crate::derived_tables::state_number;
use crate::rows::{self, UnsettledRow};
use crate::session::Params;
use crate::statements as sql;
use crate::transaction_rows::Found;

/// How long a transaction that has its queue for itself waits for tasks that others hold: far longer than a batch takes. They have
/// locked them before they knew that they may not change them.
const PATIENCE: Duration = Duration::from_secs(1);
/// Pause before tasks that others hold are tried again.
const PAUSE: Duration = Duration::from_millis(5);
/// Pauses of a transaction for dependents that others hold, at most. Those that are still held then are left to the upkeep.
const PAUSES: u32 = 4;
/// Dependencies whose status is looked up ahead, together with those that are asked for.
const LOOKED_UP: usize = 250;
/// Tasks that were left unsettled which one transaction looks at, at most: some hundred milliseconds.
const UNSETTLED: usize = 500;
/// How many of them it loads, and locks, at a time.
const UNSETTLED_AT_ONCE: i64 = 100;
/// Tasks that did not exist when they were waited for which one transaction looks at, at most: a few milliseconds.
const MISSING_AT_ONCE: i64 = 1_000;

/// Pairs that are found at once: a few milliseconds, and few tasks are held that the transaction does not get to.
const WALKED: usize = 250;
/// Pairs that are listed at once. Since they were found there may be more.
const LISTED: i64 = 1_000;

impl PostgresTransaction<'_> {
    /// Those of these queues, which no command has named, whose tasks this transaction may change, with the settings that count. Others
    /// may hold one for themselves alone.
    pub(crate) fn hold_queues(&mut self, queues: &HashSet<QueueKey>) -> Loaded<HashSet<QueueKey>> {
        let named = |tx: &Self, queue| tx.rows.queues.values().any(|found| *found == Found::Here(queue));
        let is_known = |tx: &Self, queue| tx.rows.dependencies.held_queues.contains_key(&queue) || named(tx, queue);
        let unknown: Vec<i64> = queues.iter().filter(|queue| !is_known(self, **queue)).map(|queue| queue.0).collect();
        if !unknown.is_empty() {
            let found = self.query("locking queues", &sql::LOCK_QUEUES_BY_KEY, &[&unknown])?;
            let mut locked = HashSet::new();
            for row in &found {
                let queue = rows::found_queue(row)?;
                locked.insert(queue);
                // What was read before may have changed until now.
                self.rows.settings.insert(queue, rows::settings(row)?);
            }
            let held = unknown.into_iter().map(QueueKey).map(|queue| (queue, locked.contains(&queue)));
            self.rows.dependencies.held_queues.extend(held);
        }
        let is_held =
            |queue| self.rows.dependencies.held_queues.get(&queue).copied().unwrap_or_else(|| named(self, queue));
        Ok(queues.iter().copied().filter(|queue| is_held(*queue)).collect())
    }

    /// Who waits for a task, held. What others hold is tried a few times more: the upkeep looks at new tasks for some milliseconds,
    /// and a task that could be claimed at once would be left to it.
    pub(super) fn hold_dependents(
        &mut self,
        (queue, dependency): Dependency,
        after: Option<TaskKey>,
        most: usize,
    ) -> Loaded<Dependents> {
        let is_complete = self.rows.dependencies.complete.contains(&(queue, dependency));
        if !is_complete && self.hold_queues(&HashSet::from([queue]))?.is_empty() {
            return Ok(Dependents { tasks: Vec::new(), held_elsewhere: true });
        }
        loop {
            let found = self.try_to_hold_dependents((queue, dependency), after, most)?;
            if !found.held_elsewhere || self.rows.dependencies.pauses == PAUSES {
                return Ok(found);
            }
            self.rows.dependencies.pauses += 1;
            self.rows.dependencies.complete.remove(&(queue, dependency));
            self.wait("loading dependents", async {
                tokio::time::sleep(PAUSE).await;
                Ok(())
            })?;
        }
    }

    fn try_to_hold_dependents(
        &mut self,
        (queue, dependency): Dependency,
        after: Option<TaskKey>,
        most: usize,
    ) -> Loaded<Dependents> {
        let is_here = |tx: &Self| tx.rows.dependencies.complete.contains(&(queue, dependency));
        if !is_here(self) {
            self.walk_from((queue, dependency))?;
        }
        if is_here(self) {
            return Ok(self.held_dependents((queue, dependency), after, None, most));
        }
        self.rows.dependencies.held_elsewhere.remove(&(queue, dependency));
        let mut listed_until = after;
        loop {
            let (first, limit) = (listed_until.map_or(i64::MIN, |key| key.0), i64::try_from(most).unwrap_or(i64::MAX));
            let params: Params<'_> = &[&queue.0, &dependency.as_str(), &first, &limit];
            // In this order: what is noted of a locked task does not change any more.
            let (lock, list) = ((&sql::LOCK_DEPENDENTS, params), (&sql::LIST_DEPENDENTS, params));
            let (locked, listed) = self.query_both("loading dependents", lock, list)?;
            self.rows.add_held_rows(&locked)?;
            for row in &listed {
                let row = rows::dependency(row)?;
                listed_until = Some(row.task);
                self.rows.add_listed(&row);
            }
            let more = listed.len() == most;
            let found = self.held_dependents((queue, dependency), after, listed_until.filter(|_| more), most);
            if !more || found.held_elsewhere || found.tasks.len() == most {
                return Ok(found);
            }
        }
    }

    /// Of what is here, behind `after` and up to `until`.
    fn held_dependents(
        &self,
        (queue, dependency): Dependency,
        after: Option<TaskKey>,
        until: Option<TaskKey>,
        most: usize,
    ) -> Dependents {
        let held_elsewhere = self.rows.dependencies.held_elsewhere.contains(&(queue, dependency));
        let behind = self.rows.dependencies.dependents((queue, dependency), after);
        let wanted = behind.take_while(|(key, _)| until.is_none_or(|until| *key <= until)).take(most);
        Dependents { tasks: wanted.collect(), held_elsewhere }
    }

    /// The status of a task that this transaction holds or has locked against changes.
    pub(super) fn known_status(&self, queue: QueueKey, id: TaskId) -> Option<Found<Status>> {
        if self.rows.deleted_ids.contains(&(queue, id)) {
            return Some(Found::Missing);
        }
        if let Some(Found::Here(key)) = self.rows.ids.get(&(queue, id))
            && let Some(entry) = self.rows.tasks.get(key).filter(|entry| entry.held)
        {
            return Some(Found::Here(entry.head.lifecycle.status));
        }
        self.rows.dependencies.statuses.get(&(queue, id)).copied()
    }

    /// Locks tasks against changes of which this transaction knows nothing yet.
    pub(super) fn lock_statuses(&mut self, queue: QueueKey, ids: &[TaskId]) -> Loaded<()> {
        let unknown_among = |tx: &Self, ids: &[TaskId]| {
            ids.iter().copied().filter(|id| tx.known_status(queue, *id).is_none()).collect::<Vec<_>>()
        };
        let mut unknown = unknown_among(self, ids);
        if unknown.is_empty() {
            return Ok(());
        }
        while unknown.len() < LOOKED_UP
            && let Some((_, next)) = self.rows.dependencies.looked_up_next.pop_front_if(|(other, _)| *other == queue)
        {
            unknown.extend(unknown_among(self, next.as_slice()));
        }
        unknown.sort_unstable();
        unknown.dedup();
        let (session, texts) = (self.session, unknown.iter().map(TaskId::as_str).collect::<Vec<_>>());
        let (is_patient, begun) = (self.rows.dependencies.is_alone, Instant::now());
        let asked = async {
            loop {
                let found = session.query(&sql::LOCK_STATUSES, &[&queue.0, &texts]).await?;
                let is_held = |row: &Row| matches!(rows::locked_status(row), Ok((_, Found::HeldElsewhere)));
                if !is_patient || begun.elapsed() > PATIENCE || !found.iter().any(is_held) {
                    return Ok(found);
                }
                tokio::time::sleep(PAUSE).await;
            }
        };
        let found = self.wait("looking up dependencies", asked)?;
        self.rows.dependencies.statuses.extend(unknown.into_iter().map(|id| ((queue, id), Found::Missing)));
        for row in &found {
            let (id, found) = rows::locked_status(row)?;
            self.rows.dependencies.statuses.insert((queue, id), found);
        }
        Ok(())
    }

    pub(super) fn hold_unsettled(&mut self) -> Loaded<Option<Unsettled>> {
        loop {
            let Some(row) = self.next_unsettled()? else { return Ok(None) };
            if !row.has_queue {
                self.rows.dependencies.worked_off.push(row.key);
                continue;
            }
            let status = match self.load_statuses(row.queue, &[row.dependency]) {
                // Others are changing it.
                Err(StoreError::Busy) => continue,
                statuses => statuses?.into_iter().next().flatten(),
            };
            if row.was_missing && status.is_none() {
                self.rows.dependencies.worked_off.push(row.key);
                continue;
            }
            self.rows.dependencies.found_unsettled.insert((row.queue, row.dependency), row.key);
            let (queue, dependency, after) = (row.queue, row.dependency, row.after);
            return Ok(Some(Unsettled { queue, dependency, status, after }));
        }
    }

    /// The next one that was left unsettled. Some are loaded at a time, with their status, and their dependents are expected.
    fn next_unsettled(&mut self) -> Loaded<Option<UnsettledRow>> {
        let (last, seen) = self.rows.dependencies.unsettled_seen;
        if !self.rows.dependencies.loaded_unsettled.is_empty() || seen >= UNSETTLED {
            return Ok(self.rows.dependencies.loaded_unsettled.pop_front());
        }
        if seen == 0 {
            self.confirm_missing()?;
        }
        let found = self.query("finding what is unsettled", &sql::FIND_UNSETTLED, &[&last, &UNSETTLED_AT_ONCE])?;
        let found = found.iter().map(rows::unsettled).collect::<Result<VecDeque<_>, _>>()?;
        let Some(last) = found.back().map(|row| row.key) else { return Ok(None) };
        self.rows.dependencies.unsettled_seen = (last, seen + found.len());
        let mut named: BTreeMap<QueueKey, Vec<TaskId>> = BTreeMap::new();
        for row in found.iter().filter(|row| row.has_queue) {
            named.entry(row.queue).or_default().push(row.dependency);
        }
        for (queue, ids) in named {
            self.lock_statuses(queue, &ids)?;
        }
        for row in found.iter().filter(|row| row.has_queue && row.after.is_none()) {
            let follows = match self.known_status(row.queue, row.dependency) {
                Some(Found::Here(status)) => DependencyState::of(status).has_failed(),
                _ => true,
            };
            self.rows.dependencies.expect(row.queue, row.dependency, follows);
        }
        self.rows.dependencies.loaded_unsettled = found;
        Ok(self.rows.dependencies.loaded_unsettled.pop_front())
    }

    /// Most tasks that did not exist when they were waited for are what is noted of them.
    fn confirm_missing(&mut self) -> Loaded<()> {
        let statuses = Statuses::ALL.words();
        let states: Vec<i16> =
            Status::ALL.into_iter().map(|status| state_number(DependencyState::of(status))).collect();
        let params: Params<'_> = &[&MISSING_AT_ONCE, &statuses, &states];
        self.wrote |= self.execute("looking up missing dependencies", &sql::CONFIRM_MISSING, params)? > 0;
        Ok(())
    }

    /// If the dependents of this task were expected to be asked for: loads them together with others that are expected.
    fn walk_from(&mut self, (queue, dependency): Dependency) -> Loaded<()> {
        let expected = self.rows.dependencies.take_expected((queue, dependency), WALKED);
        let Some((roots, follows)) = expected else { return Ok(()) };
        let most = i64::try_from(WALKED).unwrap_or(i64::MAX);
        let texts: Vec<&str> = roots.iter().map(TaskId::as_str).collect();
        let found = self.query("finding dependents", &sql::WALK_DEPENDENTS, &[&queue.0, &texts, &most, &follows])?;
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
        let texts: Vec<&str> = reached.iter().map(TaskId::as_str).collect();
        let (lock, list): (Params<'_>, Params<'_>) = (&[&keys, &queue.0], &[&queue.0, &texts, &LISTED]);
        // In this order: nobody begins to wait for a locked task, and what is noted of it does not change any more.
        let (lock, list) = ((&sql::LOCK_FOUND, lock), (&sql::LIST_WALKED_DEPENDENTS, list));
        let (locked, listed) = self.query_both("loading dependents", lock, list)?;
        self.rows.add_held_rows(&locked)?;
        for id in reached {
            self.rows.dependencies.held_elsewhere.remove(&(queue, *id));
        }
        for row in &listed {
            self.rows.add_listed(&rows::dependency(row)?);
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

//! One write transaction. It reads and changes the rows in memory (`transaction_rows.rs`), and loads from the database what is
//! not there yet. The changes are written as set statements when the transaction ends. Nothing is decided here.
//!
//! The writer loads in advance what a batch names (`prefetch.rs`), so that most commands run no statement.

mod dependencies;
mod ending;

use std::ops::Range;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::join;
use taskqueue_core::output::OutputChange;
use taskqueue_core::{
    Change, Delta, Dependencies, DependencyState, Identity, KeptOutput, Observation, QueueName, QueueSettings, Route,
    RunId, RunningTasks, Status, Task, TaskHead, TaskId, Timestamp, WorkerId,
};
use taskqueue_store::StoreError;
use taskqueue_store::activity::{ActivityRow, ProcessId};
use taskqueue_store::transaction::{
    Dependents, Loaded, Needed, Outdated, Over, Queue, QueueKey, QueueTally, RunUse, TaskKey, Transaction, Unsettled,
};
use tokio::runtime::Runtime;
use tokio_postgres::{Error, Row};

pub(crate) use self::ending::{Ended, TransactionId};
use crate::clock::Clock;
use crate::ended::NextSearch;
use crate::failure::{Cause, log_unless_conflict};
use crate::purge::DeadEntries;
use crate::session::{Params, Session, Sql};
use crate::transaction_rows::{Body, Entry, Found, TransactionRows};
use crate::{rows, statements as sql};

/// Numbers in one value of the sequence, see the migration.
pub(crate) const BLOCK: i64 = 1_024;

/// A running transaction. The writer begins and ends it.
pub(crate) struct PostgresTransaction<'a> {
    pub(crate) session: &'a Session,
    pub(crate) runtime: &'a Runtime,
    pub(crate) dead: &'a DeadEntries,
    pub(crate) clock: Clock,
    /// The unused part of the last block of numbers.
    pub(crate) numbers: Range<i64>,
    pub(crate) rows: TransactionRows,
    /// The shard of the tally that this transaction writes to.
    pub(crate) shard: i16,
    /// Why the database failed, if it did: then nothing of this transaction is kept.
    pub(crate) failure: Option<Cause>,
    /// Whether anything was sent that changes the database.
    pub(crate) wrote: bool,
    /// Whether the database can tell later whether this transaction was committed.
    pub(crate) settles: bool,
    /// Where the next search for outdated tasks begins.
    pub(crate) next_search: &'a NextSearch,
    /// Delayed tasks that became claimable when this transaction was begun.
    pub(crate) released: usize,
    /// Whether this is an upkeep that has nothing to do.
    pub(crate) is_idle: bool,
}

pub(crate) const NO_TASK: StoreError = StoreError::Broken("a task that was found cannot be loaded");

impl PostgresTransaction<'_> {
    /// Waits for the database on the writer's thread.
    pub(crate) fn wait<T>(&mut self, doing: &'static str, asked: impl Future<Output = Result<T, Error>>) -> Loaded<T> {
        self.runtime.block_on(asked).map_err(|error| self.failed(doing, &error))
    }

    /// Runs a statement and returns its rows.
    pub(crate) fn query(&mut self, doing: &'static str, sql: &'static Sql, params: Params<'_>) -> Loaded<Vec<Row>> {
        self.wait(doing, self.session.query(sql, params))
    }

    /// Runs a statement and returns its first row.
    pub(crate) fn first(&mut self, doing: &'static str, sql: &'static Sql, params: Params<'_>) -> Loaded<Option<Row>> {
        self.wait(doing, self.session.first(sql, params))
    }

    /// Runs a statement and returns how many rows it has changed.
    pub(crate) fn execute(&mut self, doing: &'static str, sql: &'static Sql, params: Params<'_>) -> Loaded<u64> {
        self.wait(doing, self.session.execute(sql, params))
    }

    /// Runs two statements in this order, which are sent at once, and returns the rows of each.
    pub(crate) fn query_both(
        &mut self,
        doing: &'static str,
        first: (&'static Sql, Params<'_>),
        second: (&'static Sql, Params<'_>),
    ) -> Loaded<(Vec<Row>, Vec<Row>)> {
        let asked = join(self.session.query(first.0, first.1), self.session.query(second.0, second.1));
        self.wait(doing, asked.map(|(first, second)| Ok((first?, second?))))
    }

    pub(crate) fn failed(&mut self, doing: &'static str, error: &Error) -> StoreError {
        self.failure.get_or_insert(log_unless_conflict(doing, error));
        StoreError::Unavailable
    }

    fn entry(&mut self, key: TaskKey) -> Loaded<&mut Entry> {
        // A command finds a task before it loads it. Only a task that was found by its run, which locks nothing, can be
        // missing: it was deleted since, and the command sees that when it is tried again.
        self.rows.tasks.get_mut(&key).ok_or(StoreError::Busy)
    }

    /// A task that is to be changed. It must be locked by this transaction, because other servers change tasks too.
    pub(crate) fn held_entry(&mut self, key: TaskKey) -> Loaded<&mut Entry> {
        if self.rows.tasks.get(&key).is_none_or(|entry| !entry.held) {
            tracing::error!(task = key.0, "a task was to be changed that this transaction does not hold");
            return Err(StoreError::Broken("a task was to be changed that this transaction does not hold"));
        }
        self.entry(key)
    }
}

impl Transaction for PostgresTransaction<'_> {
    fn now(&self) -> Timestamp {
        self.clock.now
    }

    fn next_pending_seq(&mut self) -> i64 {
        if let Some(number) = self.numbers.next() {
            return number;
        }
        let block = self.first("taking numbers", &sql::TAKE_NUMBERS, &[]);
        // Without a block the transaction has failed, and this number is never written.
        let first = block.ok().flatten().map_or(0, |row| row.get::<_, i64>("first_number"));
        self.numbers = first..first + BLOCK;
        self.numbers.next().unwrap_or_default()
    }

    fn find_queue(&mut self, name: &QueueName) -> Loaded<Option<QueueKey>> {
        self.look_up_queue(name)?.key()
    }

    /// One that another transaction holds is there until that is committed.
    fn insert_queue(&mut self, name: &QueueName) -> Loaded<bool> {
        if self.look_up_queue(name)? != Found::Missing {
            return Ok(false);
        }
        let key = QueueKey(self.next_pending_seq());
        self.rows.queues.insert(name.clone(), Found::Here(key));
        self.rows.new_queues.insert(name.clone(), key);
        self.rows.settings.insert(key, None);
        Ok(true)
    }

    fn tally_queue(&mut self, queue: QueueKey) -> Loaded<QueueTally> {
        let row = self.first("counting tasks", &sql::TALLY_QUEUE, &[&queue.0])?;
        let row = row.ok_or(StoreError::Broken("no row counts the tasks of a queue"))?;
        Ok(QueueTally { tasks: rows::get(&row, "tasks")?, running: rows::get(&row, "running")? })
    }

    fn delete_queue(&mut self, queue: Queue<'_>, runs_kept_until: Timestamp) -> Loaded<()> {
        self.wrote = true;
        let params: Params<'_> = &[&queue.key.0, &runs_kept_until.as_micros()];
        self.execute("deleting a queue", &sql::DELETE_QUEUE, params)?;
        self.rows.queues.insert(queue.name.clone(), Found::Missing);
        Ok(())
    }

    fn find_task(&mut self, queue: QueueKey, id: TaskId) -> Loaded<Option<TaskKey>> {
        self.find_tasks(queue, &mut std::iter::once(id))?;
        self.rows.ids.get(&(queue, id)).copied().unwrap_or(Found::Missing).key()
    }

    fn prepare(&mut self, queue: QueueKey, needed: Needed<'_>) -> Loaded<usize> {
        match needed {
            Needed::Tasks(ids) => {
                self.find_tasks(queue, &mut ids.iter().copied())?;
                ids.into_iter().try_for_each(|id| self.find_task(queue, id).map(drop))?;
            }
            Needed::Dependencies(ids) => drop(self.load_statuses(queue, &ids)?),
            Needed::Pending(route, most) => return self.hold_picks(queue, route, most),
            Needed::Runs(runs) => self.rows.repeated.extend(runs.iter().filter_map(|usage| match usage {
                RunUse::Active(_, key) => Some(*key),
                RunUse::New | RunUse::Past => None,
            })),
            Needed::Dependents(id) => self.rows.dependencies.expect(queue, id, true),
            Needed::Requeues(tasks) => self.rows.dependencies.expect_requeues(queue, tasks),
        }
        Ok(0)
    }

    fn load_task(&mut self, queue: Queue<'_>, key: TaskKey) -> Loaded<Task> {
        if self.rows.tasks.get(&key).is_none_or(|entry| entry.body.is_none()) {
            self.load_ahead(key)?;
        }
        self.entry(key)?.task(queue.name).ok_or(NO_TASK)
    }

    fn load_head(&mut self, key: TaskKey) -> Loaded<TaskHead> {
        if !self.rows.tasks.contains_key(&key) {
            self.load_heads_ahead(key)?;
        }
        self.entry(key).map(|entry| entry.head.clone())
    }

    fn load_result_bytes(&mut self, key: TaskKey) -> Loaded<usize> {
        if self.entry(key)?.known_result_bytes().is_none() {
            self.load_body(key)?;
        }
        self.entry(key)?.known_result_bytes().ok_or(NO_TASK)
    }

    fn load_output(&mut self, key: TaskKey) -> Loaded<Option<KeptOutput>> {
        self.output_entry(key).map(|output| output.kept.clone())
    }

    fn save_output(&mut self, _queue: QueueKey, key: TaskKey, change: &OutputChange<'_>) -> Loaded<()> {
        self.held_entry(key)?;
        self.output_entry(key).map(|output| output.save(change))
    }

    fn load_identity(&mut self, key: TaskKey) -> Loaded<Identity> {
        if self.rows.tasks.get(&key).is_none_or(|entry| entry.identity.is_none()) {
            self.load_body(key)?;
        }
        self.entry(key)?.identity.ok_or(NO_TASK)
    }

    fn insert_task(&mut self, queue: QueueKey, task: &Task, identity: &Identity) -> Loaded<Option<TaskKey>> {
        if self.find_task(queue, task.id)?.is_some() {
            return Ok(None);
        }
        // Its first number in the pending order is unique among all keys.
        let key = TaskKey(task.lifecycle.pending_seq);
        let mut entry = Entry::new(queue, task.head());
        entry.body = Some(Body { definition: task.definition.clone(), outcome: task.outcome.clone() });
        entry.identity = Some(*identity);
        self.rows.ids.insert((queue, task.id), Found::Here(key));
        self.rows.deleted_ids.remove(&(queue, task.id));
        self.rows.tasks.insert(key, entry);
        Ok(Some(key))
    }

    fn save_change(&mut self, queue: QueueKey, key: TaskKey, before: &TaskHead, change: &Change) -> Loaded<()> {
        self.know_settings(queue, &[&before.lifecycle, &change.lifecycle])?;
        self.rows.count_run(queue, before, &change.lifecycle);
        let entry = self.held_entry(key)?;
        entry.apply_change(change);
        let run = Delta::between(Some(before), Some(&entry.head)).run;
        if entry.is_new && change.lifecycle.status.is_ended() {
            // Others do not see it before this is committed: who begins to wait for it meanwhile takes it for missing, and is not found
            // here. The upkeep may look at that one before, and at this one only afterwards.
            self.rows.dependencies.unsettled.insert((queue, before.id, true));
        }
        self.rows.apply_run(queue, key, &run);
        Ok(())
    }

    fn save_update(&mut self, _queue: QueueKey, key: TaskKey, before: &Task, after: &Task) -> Loaded<()> {
        self.held_entry(key)?.apply_update(before, after);
        Ok(())
    }

    fn delete_task(&mut self, queue: QueueKey, key: TaskKey, before: &TaskHead, kept_until: Timestamp) -> Loaded<()> {
        self.know_settings(queue, &[&before.lifecycle])?;
        self.held_entry(key)?.deleted = true;
        self.rows.deleted_runs_kept_until = kept_until;
        self.rows.ids.insert((queue, before.id), Found::Missing);
        self.rows.deleted_ids.insert((queue, before.id));
        self.rows.dependencies.replace(queue, key, &before.scheduling.dependencies, &[]);
        Ok(())
    }

    fn may_have_dependents(&mut self, queue: QueueKey, _: TaskId) -> Loaded<bool> {
        let known = &self.rows.dependencies;
        if known.waits_in.contains(&queue) {
            return Ok(true);
        }
        if known.unused {
            return Ok(false);
        }
        if let Some(known) = known.queues.get(&queue) {
            return Ok(*known);
        }
        let row = self.first("finding dependents", &sql::HAS_DEPENDENTS, &[&queue.0])?;
        let found = row.is_some_and(|row| row.get(0));
        self.rows.dependencies.queues.insert(queue, found);
        Ok(found)
    }

    fn dependents(&mut self, queue: QueueKey, id: TaskId, after: Option<TaskKey>, most: usize) -> Loaded<Dependents> {
        self.hold_dependents((queue, id), after, most)
    }

    fn save_dependency(&mut self, queue: QueueKey, id: TaskId, task: TaskKey, state: DependencyState) -> Loaded<()> {
        self.rows.dependencies.save(queue, id, task, Some(state));
        Ok(())
    }

    fn load_statuses(&mut self, queue: QueueKey, ids: &[TaskId]) -> Loaded<Vec<Option<Status>>> {
        self.lock_statuses(queue, ids)?;
        ids.iter().map(|id| self.known_status(queue, *id).unwrap_or(Found::Missing).key()).collect()
    }

    fn load_noted(&mut self, queue: QueueKey, task: TaskKey, ids: &[TaskId]) -> Loaded<Vec<Option<DependencyState>>> {
        let is_known = |id: &&TaskId| self.rows.dependencies.pairs.contains_key(&(queue, **id, task));
        let texts: Vec<&str> = ids.iter().filter(|id| !is_known(id)).map(TaskId::as_str).collect();
        // A requeue asks twice: whether it would be in vain, and what it waits for.
        if !texts.is_empty() {
            for row in self.query("loading dependencies", &sql::LIST_NOTED, &[&queue.0, &task.0, &texts])? {
                self.rows.dependencies.add(&rows::dependency(&row)?);
            }
        }
        let noted = |id: &TaskId| self.rows.dependencies.pairs.get(&(queue, *id, task))?.state;
        Ok(ids.iter().map(noted).collect())
    }

    fn replace_dependencies(
        &mut self,
        queue: QueueKey,
        task: TaskKey,
        before: &Dependencies,
        after: &[(TaskId, DependencyState)],
    ) -> Loaded<()> {
        self.rows.dependencies.replace(queue, task, before, after);
        Ok(())
    }

    fn leave_unsettled(&mut self, queue: QueueKey, dependency: TaskId) -> Loaded<()> {
        self.rows.dependencies.unsettled.insert((queue, dependency, false));
        Ok(())
    }

    fn find_unsettled(&mut self, of: Option<QueueKey>) -> Loaded<Option<Unsettled>> {
        if of.is_some() || self.is_idle { Ok(None) } else { self.hold_unsettled() }
    }

    fn save_settled(&mut self, unsettled: &Unsettled, after: Option<TaskKey>) -> Loaded<()> {
        let found = self.rows.dependencies.found_unsettled.remove(&(unsettled.queue, unsettled.dependency));
        let Some(key) = found else { return Ok(()) };
        let Some(after) = after else {
            self.rows.dependencies.worked_off.push(key);
            return Ok(());
        };
        self.wrote = true;
        self.execute("noting what was settled", &sql::SAVE_SETTLED, &[&key, &after.0]).map(drop)
    }

    /// They were released before this transaction, in one of their own.
    fn release_delayed(&mut self) -> Loaded<usize> {
        Ok(std::mem::take(&mut self.released))
    }

    fn load_settings(&mut self, queue: QueueKey) -> Loaded<Option<Arc<QueueSettings>>> {
        if let Some(known) = self.rows.settings.get(&queue) {
            return Ok(known.clone());
        }
        // The batch does not name the queue: a scan, or upkeep.
        let row = self.first("loading settings", &sql::LOAD_SETTINGS, &[&vec![queue.0]])?;
        let settings = row.as_ref().map(rows::settings).transpose()?.flatten();
        self.rows.settings.insert(queue, settings.clone());
        Ok(settings)
    }

    fn count_running(&mut self, queue: QueueKey, route: &Route) -> Loaded<RunningTasks> {
        self.running_in_turn(queue, route)
    }

    fn save_settings(&mut self, queue: Queue<'_>, settings: &QueueSettings) -> Loaded<()> {
        self.save_settings_of(queue.key, settings)
    }

    fn find_outdated(&mut self, most: usize) -> Loaded<Outdated> {
        self.outdated(most)
    }

    fn find_run(&mut self, run_id: RunId) -> Loaded<RunUse> {
        if let Some(known) = self.rows.runs.get(&run_id) {
            return Ok(*known);
        }
        let rows = self.query("finding a run", &sql::FIND_RUNS, &[&vec![run_id.as_str()]])?;
        self.rows.runs.insert(run_id, RunUse::New);
        rows.iter().try_for_each(|row| self.rows.add_run(row))?;
        Ok(self.rows.runs.get(&run_id).copied().unwrap_or(RunUse::New))
    }

    /// Busy if other transactions hold all pending tasks: a claim may answer "nothing" only if there is none.
    fn first_pending(&mut self, queue: QueueKey, route: &Route) -> Loaded<Option<TaskKey>> {
        if let Some(key) = self.rows.next_pick(queue, route, self.clock.now) {
            return Ok(Some(key));
        }
        if self.others_hold_pending(queue, route)? { Err(StoreError::Busy) } else { Ok(None) }
    }

    fn running_until(&mut self, until: Timestamp, most: usize) -> Loaded<Vec<(QueueKey, TaskKey)>> {
        let rows = self.lock_running(until, most)?;
        let take = |row: &Row| {
            let (key, queue) = (rows::key(row)?, rows::queue_key(row)?);
            self.rows.add_held(key, queue, rows::head(row)?);
            Ok((queue, key))
        };
        rows.iter().map(take).collect()
    }

    fn save_scan(&mut self) -> Loaded<()> {
        let (now, offset) = (self.clock.now.as_micros(), self.clock.offset_micros);
        let ahead_since = self.clock.ahead_since.map(Timestamp::as_micros);
        self.clock.last_scan_at = Some(self.clock.now);
        self.wrote = true;
        self.execute("remembering the scan", &sql::SAVE_SCAN, &[&now, &offset, &ahead_since]).map(drop)
    }

    fn save_activity(&mut self, process: ProcessId, rows: &[ActivityRow]) -> Loaded<()> {
        self.save_counted(process, rows)
    }

    fn forget(&mut self, over: Over) -> Loaded<u64> {
        let now = self.clock.now.as_micros();
        let forgotten = match over {
            Over::DeletedRuns { most } => {
                self.execute("forgetting run ids", &sql::FORGET_DELETED_RUNS, &[&now, &i64::from(most)])?
            }
            Over::Activity { unit, before, most } => {
                let (seconds, before, most) = (unit.seconds(), before.as_micros(), i64::from(most));
                self.execute("forgetting activity", &sql::FORGET_ACTIVITY, &[&seconds, &before, &most])?
            }
            Over::Observations => {
                self.execute("deleting expired observations", &sql::DELETE_EXPIRED_OBSERVATIONS, &[&now])?
            }
        };
        self.wrote |= forgotten > 0;
        Ok(forgotten)
    }

    fn load_observation(&mut self, queue: Queue<'_>, id: WorkerId) -> Loaded<Option<Observation>> {
        if let Some(known) = self.rows.observations.get(&(queue.key, id)) {
            return Ok(known.clone());
        }
        let (names, ids) = (vec![queue.name.as_str()], vec![id.as_str()]);
        let row = self.first("loading an observation", &sql::LOAD_OBSERVATIONS, &[&names, &ids])?;
        let observation = row.map(|row| rows::observation(&row, queue.name)).transpose()?;
        self.rows.observations.insert((queue.key, id), observation.clone());
        Ok(observation)
    }

    fn save_observation(&mut self, queue: QueueKey, id: WorkerId, observation: Option<&Observation>) -> Loaded<()> {
        self.rows.save_observation(queue, id, observation);
        Ok(())
    }
}

//! One write transaction on the file: a function for each thing that can be loaded or saved, each a statement of `sql/`
//! or a lookup in the claim index. Nothing is decided here.

mod activity;
mod output;
mod task_rows;

use std::collections::HashMap;
use std::ops::ControlFlow;

use rusqlite::{Connection, OptionalExtension, Params, Row, params};
use taskqueue_core::activity::Unit;
use taskqueue_core::definition::{Definition, Identity, Routes};
use taskqueue_core::delta::{Delta, TallyLine};
use taskqueue_core::ids::{QueueName, Route, RunId, TaskId, WorkerId};
use taskqueue_core::lifecycle::Change;
use taskqueue_core::observation::Observation;
use taskqueue_core::output::{KeptOutput, OutputChange};
use taskqueue_core::task::{FinishedRun, Status, Task, TaskHead};
use taskqueue_core::time::Timestamp;
use taskqueue_core::update::{Documents, Effect, Update};
use taskqueue_store::StoreError;
use taskqueue_store::activity::{ActivityRow, ProcessId};
use taskqueue_store::bulk::Limit;
use taskqueue_store::bulk_action::{ChangeRecord, FoundTask, Now};
use taskqueue_store::command::BulkUpdate;
use taskqueue_store::transaction::{Loaded, Queue, QueueKey, QueueTally, RunUse, TaskKey, Transaction};
use taskqueue_store::transfer::DeletedRun;

use crate::bulk::{self, ChangedTasks};
use crate::claim_index::ClaimIndex;
use crate::each_row::{CONTINUE, NextRow, each_row};
use crate::failure::Doing;
use crate::prepared::Prepared;
use crate::rows::{self, PackedDocuments, PackedHead, PackedOutcome};
use crate::snapshot::Snapshot;
use crate::statements as sql;

const NO_TASK: StoreError = StoreError::Broken("a task that was found cannot be loaded");

/// A write transaction under way on the writer's connection. Beginning and committing is the writer's business.
pub(crate) struct SqliteTransaction<'a> {
    connection: &'a Connection,
    prepared: Prepared<'a>,
    claim_index: &'a mut ClaimIndex,
    /// Differences of the counts, written once at the end: a batch changes few counts many times.
    tally: HashMap<(QueueKey, Routes, Status), i64>,
    now: Timestamp,
    /// How much memory the pending order may use. A bulk update checks it at each task; for other commands the writer does.
    pub(crate) pending_bytes: usize,
    pub(crate) changed_tasks: ChangedTasks,
}

impl<'a> SqliteTransaction<'a> {
    /// A transaction at `now`, which the caller has begun.
    pub(crate) fn new(connection: &'a Connection, claim_index: &'a mut ClaimIndex, now: Timestamp) -> Self {
        let (prepared, tally, changed_tasks) = (Prepared::new(connection), HashMap::new(), ChangedTasks::default());
        Self { connection, prepared, claim_index, tally, now, pending_bytes: usize::MAX, changed_tasks }
    }

    /// Writes what was deferred. Must come before `COMMIT`.
    pub(crate) fn finish(&mut self) -> Loaded<()> {
        self.flush_tally()?;
        self.claim_index.history.finish(self.connection, self.now).doing("writing the history")
    }

    pub(crate) fn run(&self, statement: &'static str, params: impl Params, doing: &'static str) -> Loaded<usize> {
        self.prepared.with(statement, |s| s.execute(params)).doing(doing)
    }

    pub(crate) fn one<T>(
        &self,
        statement: &'static str,
        params: impl Params,
        doing: &'static str,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Loaded<Option<T>> {
        self.prepared.with(statement, |s| s.query_row(params, read).optional()).doing(doing)
    }

    pub(crate) fn each(
        &self,
        statement: &str,
        params: impl Params,
        doing: &'static str,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<NextRow>,
    ) -> Loaded<()> {
        each_row(self.connection, statement, params, read).doing(doing)
    }

    /// Applies what a change of a task means for the counts and the claim index.
    fn apply(&mut self, queue: QueueKey, key: TaskKey, delta: &Delta<'_>, after: Option<&TaskHead>) {
        for (line, difference) in [(delta.tally.removed, -1), (delta.tally.added, 1)] {
            if let Some(TallyLine { routes, status }) = line {
                *self.tally.entry((queue, routes.clone(), status)).or_default() += difference;
            }
        }
        self.claim_index.apply(queue, key, delta, after);
        self.changed_tasks.add(queue, key);
    }

    fn flush_tally(&mut self) -> Loaded<()> {
        for ((queue, routes, status), difference) in std::mem::take(&mut self.tally) {
            if difference == 0 {
                continue;
            }
            let (queue, routes, status) = (queue.0, routes.as_json(), status.as_str());
            self.run(sql::ADD_TALLY, params![queue, routes, status, difference], "counting tasks")?;
            if difference < 0 {
                self.run(sql::DELETE_EMPTY_TALLY, params![queue, routes, status], "counting tasks")?;
            }
        }
        Ok(())
    }

    /// Saves the head of a task, and what `changed` holds besides.
    fn save_updated(
        &mut self,
        queue: QueueKey,
        key: TaskKey,
        (before, after): (&TaskHead, &TaskHead),
        changed: &Update,
    ) -> Loaded<()> {
        let outcome = match &changed.result {
            Some(result) => self.changed_outcome(key, |outcome| outcome.result = result.clone())?,
            None => None,
        };
        self.save_rows(key, (before, after), outcome.as_ref())?;
        if let Some(name) = &changed.name {
            self.run(sql::SAVE_NAME, params![key.0, name], "updating a task")?;
        }
        self.save_documents(key, changed.args.as_ref(), changed.metadata.as_ref())?;
        self.claim_index.history.touch();
        self.claim_index.updated();
        self.apply(queue, key, &Delta::between(Some(before), Some(after)), Some(after));
        Ok(())
    }

    /// Removes the rows of a task. Its run ids are moved to those of deleted tasks. Returns how many pieces of output it had.
    pub(crate) fn delete_rows(
        &mut self,
        key: TaskKey,
        finished_run: Option<FinishedRun>,
        runs_kept_until: Timestamp,
    ) -> Loaded<usize> {
        let mut runs: Vec<RunId> = Vec::new();
        self.each(sql::LIST_PAST_RUNS, [key.0], "listing past runs", |row| {
            runs.push(rows::run_id(row)?);
            Ok(CONTINUE)
        })?;
        runs.extend(finished_run.map(|run| run.run_id));
        // A purge may come late. Behind all that was forgotten, so that it is found when it is to be forgotten.
        let kept_until = runs_kept_until.max(Timestamp::from_micros(self.now.as_micros() + 1));
        for run_id in runs {
            self.add_deleted_run((kept_until, run_id))?;
        }
        for statement in [sql::DELETE_PAST_RUNS, sql::DELETE_OUTCOME, sql::DELETE_DEFINITION, sql::DELETE_TASK] {
            self.run(statement, [key.0], "deleting a task")?;
        }
        self.claim_index.history.removed(key);
        self.delete_output(key)
    }

    /// Records a run id of a deleted task. The claim index has it already.
    pub(crate) fn add_deleted_run(&mut self, (kept_until, run_id): DeletedRun) -> Loaded<()> {
        let values = params![kept_until.as_micros(), run_id.as_str()];
        self.run(sql::INSERT_DELETED_RUN, values, "keeping a run id").map(drop)
    }
}

impl Transaction for SqliteTransaction<'_> {
    fn now(&self) -> Timestamp {
        self.now
    }

    fn next_pending_seq(&mut self) -> i64 {
        self.claim_index.next_pending_seq()
    }

    fn find_queue(&mut self, name: &QueueName) -> Loaded<Option<QueueKey>> {
        Ok(self.claim_index.queue(name))
    }

    fn insert_queue(&mut self, name: &QueueName) -> Loaded<()> {
        self.run(sql::INSERT_QUEUE, [name.as_str()], "creating a queue")?;
        self.claim_index.add_queue(name.clone(), QueueKey(self.connection.last_insert_rowid()));
        Ok(())
    }

    fn tally_queue(&mut self, queue: QueueKey) -> Loaded<QueueTally> {
        self.flush_tally()?;
        let mut tally = QueueTally::default();
        self.each(sql::LIST_TALLY, [queue.0], "counting tasks", |row| {
            let line = rows::tally(row)?;
            tally.tasks += line.tasks;
            tally.running += if line.status == Status::Running { line.tasks } else { 0 };
            Ok(CONTINUE)
        })?;
        Ok(tally)
    }

    /// The tasks of a deleted queue can no longer be reached. They are purged later, some at a time.
    fn delete_queue(&mut self, queue: Queue<'_>, runs_kept_until: Timestamp) -> Loaded<()> {
        for statement in [sql::DELETE_QUEUE, sql::DELETE_OBSERVATIONS, sql::DELETE_TALLY] {
            self.run(statement, [queue.key.0], "deleting a queue")?;
        }
        let purge = params![queue.key.0, runs_kept_until.as_micros()];
        self.run(sql::INSERT_PURGE, purge, "deleting a queue")?;
        self.claim_index.remove_queue(queue);
        Ok(())
    }

    fn find_task(&mut self, queue: QueueKey, id: TaskId) -> Loaded<Option<TaskKey>> {
        if let Some(key) = self.claim_index.running_task(queue, id) {
            return Ok(Some(key));
        }
        self.one(sql::FIND_TASK, params![queue.0, id.as_str()], "finding a task", rows::key)
    }

    fn load_task(&mut self, queue: Queue<'_>, key: TaskKey) -> Loaded<Task> {
        self.one(&sql::LOAD_TASK, [key.0], "loading a task", |row| rows::task(row, queue.name))?.ok_or(NO_TASK)
    }

    fn load_head(&mut self, key: TaskKey) -> Loaded<TaskHead> {
        if let Some(head) = self.claim_index.running_head(key) {
            return Ok(head.clone());
        }
        self.one(&sql::LOAD_HEAD, [key.0], "loading a task", rows::head)?.ok_or(NO_TASK)
    }

    fn load_found(
        &mut self,
        _: QueueKey,
        found: &[FoundTask],
        changes: Option<&dyn ChangeRecord>,
    ) -> Loaded<Vec<(FoundTask, Now)>> {
        self.what_became_of(found, changes)
    }

    fn load_documents(&mut self, keys: &[TaskKey]) -> Loaded<Vec<(TaskKey, Documents)>> {
        keys.iter().map(|key| Ok((*key, self.load_own_documents(*key)?))).collect()
    }

    fn load_result_bytes(&mut self, key: TaskKey) -> Loaded<usize> {
        let read = |row: &Row<'_>| Ok(rows::packed_outcome(row, 0)?.result.len());
        let bytes = self.one(sql::LOAD_OUTCOME, [key.0], "loading an outcome", read)?;
        Ok(bytes.unwrap_or(PackedOutcome::NONE.result.len()))
    }

    fn load_output(&mut self, key: TaskKey) -> Loaded<Option<KeptOutput>> {
        let read = |row: &Row<'_>| rows::kept_output(row, 0);
        Ok(self.one(sql::LOAD_OUTPUT, [key.0], "loading output", read)?.flatten())
    }

    fn save_output(&mut self, _: QueueKey, key: TaskKey, change: &OutputChange<'_>) -> Loaded<()> {
        self.save_kept_output(key, change)
    }

    fn load_identity(&mut self, key: TaskKey) -> Loaded<Identity> {
        self.one(sql::LOAD_IDENTITY, [key.0], "loading an identity", |row| row.get(0))?.ok_or(NO_TASK)
    }

    fn visit_matching(
        &mut self,
        queue: Queue<'_>,
        bulk: &BulkUpdate,
        limit: &Limit,
        each: &mut (dyn FnMut(TaskKey, &Task) -> ControlFlow<()> + Send),
    ) -> Loaded<()> {
        let file = Snapshot { connection: self.connection, active: None };
        match bulk::visit_matching(&file, queue.key, bulk, limit, each) {
            Ok(ControlFlow::Continue(())) => Ok(()),
            Ok(ControlFlow::Break(())) => Err(StoreError::Busy),
            Err(error) => Err(error.into_store_error("filtering tasks")),
        }
    }

    fn load_existing(&mut self, queue: Queue<'_>, keys: &[TaskKey]) -> Loaded<Vec<(TaskKey, Task)>> {
        let load = |key: &TaskKey| bulk::load_existing(self.connection, (queue.key, queue.name), *key);
        let found =
            keys.iter().map(|key| Ok(load(key)?.map(|task| (*key, task)))).collect::<rusqlite::Result<Vec<_>>>();
        Ok(found.doing("loading a task")?.into_iter().flatten().collect())
    }

    fn insert_task(&mut self, queue: QueueKey, task: &Task, identity: &Identity) -> Loaded<bool> {
        let (Definition { name, args, metadata, .. }, lifecycle) = (&task.definition, &task.lifecycle);
        let head = task.head();
        let values = params![
            queue.0,
            task.id.as_str(),
            lifecycle.created_at.as_micros(),
            lifecycle.status.as_str(),
            PackedHead::of(&head).pack(),
            name,
            self.claim_index.history.next_key(),
        ];
        if self.run(sql::INSERT_TASK, values, "creating a task")? == 0 {
            return Ok(false);
        }
        let key = TaskKey(self.connection.last_insert_rowid());
        self.claim_index.history.key_given(key);
        let documents = PackedDocuments { args: args.as_str(), metadata: metadata.as_str() }.pack();
        self.run(sql::INSERT_DEFINITION, params![key.0, identity, documents], "creating a task")?;
        self.apply(queue, key, &Delta::between(None, Some(&head)), Some(&head));
        Ok(true)
    }

    fn save_change(&mut self, queue: QueueKey, key: TaskKey, before: &TaskHead, change: &Change) -> Loaded<()> {
        let after = change.head_after(before);
        let delta = Delta::between(Some(before), Some(&after));
        let outcome = match change.keeps_outcome() {
            true => None,
            false => self.changed_outcome(key, |outcome| change.apply_to_outcome(outcome))?,
        };
        self.save_rows(key, (before, &after), outcome.as_ref())?;
        if let Some(run_id) = delta.past_run {
            self.run(sql::INSERT_PAST_RUN, params![key.0, run_id.as_str()], "remembering a run")?;
        }
        self.apply(queue, key, &delta, Some(&after));
        Ok(())
    }

    fn save_update(&mut self, queue: QueueKey, key: TaskKey, before: &Task, after: &Task) -> Loaded<()> {
        let (old, new) = (&before.definition, &after.definition);
        let result = &after.outcome.result;
        // They are one column.
        let has_new_documents = old.args != new.args || old.metadata != new.metadata;
        let changed = Update {
            name: (old.name != new.name).then(|| new.name.clone()),
            args: has_new_documents.then(|| new.args.clone()),
            metadata: has_new_documents.then(|| new.metadata.clone()),
            result: (before.outcome.result != *result).then(|| result.clone()),
            ..Update::default()
        };
        self.save_updated(queue, key, (&before.head(), &after.head()), &changed)
    }

    fn save_effect(
        &mut self,
        queue: QueueKey,
        key: TaskKey,
        heads: (&TaskHead, &TaskHead),
        update: &Update,
        effect: Effect,
        merged: Option<&Documents>,
    ) -> Loaded<()> {
        if update.routes.is_some() && !self.claim_index.may_grow(queue, self.pending_bytes) {
            return Err(StoreError::Busy);
        }
        let args = merged.map(|merged| &merged.args).or(update.args.as_ref());
        let metadata = merged.map(|merged| &merged.metadata).or(update.metadata.as_ref());
        let changed = Update {
            name: update.name.clone(),
            args: args.filter(|_| effect.args).cloned(),
            metadata: metadata.filter(|_| effect.metadata).cloned(),
            result: update.result.clone().filter(|_| effect.result),
            ..Update::default()
        };
        self.save_updated(queue, key, heads, &changed)
    }

    fn delete_task(
        &mut self,
        queue: QueueKey,
        key: TaskKey,
        before: &TaskHead,
        runs_kept_until: Timestamp,
    ) -> Loaded<()> {
        self.delete_rows(key, before.lifecycle.finished_run, runs_kept_until)?;
        self.apply(queue, key, &Delta::between(Some(before), None), None);
        Ok(())
    }

    fn find_run(&mut self, run_id: RunId) -> Loaded<RunUse> {
        self.claim_index.run_use(self.connection, run_id).doing("looking for a run id")
    }

    fn forget_deleted_runs(&mut self, most: u32) -> Loaded<()> {
        let runs = &mut self.claim_index.history.runs;
        runs.forget_over(self.connection, self.now, most).doing("forgetting run ids")
    }

    fn first_pending(&mut self, queue: QueueKey, route: &Route) -> Loaded<Option<TaskKey>> {
        Ok(self.claim_index.first_pending(queue, route.as_str()))
    }

    fn running_until(&mut self, until: Timestamp) -> Loaded<Vec<(QueueKey, TaskKey)>> {
        Ok(self.claim_index.running_until(until))
    }

    fn last_scan_at(&mut self) -> Loaded<Option<Timestamp>> {
        Ok(self.claim_index.last_scan_at)
    }

    /// Written to the file only while runs are active: without any, an outage harms nobody, and an idle server need not write.
    fn save_scan(&mut self) -> Loaded<()> {
        self.claim_index.last_scan_at = Some(self.now);
        if self.claim_index.has_active_runs() {
            self.run(sql::SAVE_SCAN, [self.now.as_micros()], "remembering the scan")?;
        }
        Ok(())
    }

    fn save_activity(&mut self, process: ProcessId, rows: &[ActivityRow]) -> Loaded<()> {
        self.save_spans(process, rows)
    }

    fn forget_activity(&mut self, unit: Unit, before: Timestamp, most: u32) -> Loaded<()> {
        self.forget_spans(unit, before, most)
    }

    fn load_observation(&mut self, queue: Queue<'_>, id: WorkerId) -> Loaded<Option<Observation>> {
        let values = params![queue.key.0, id.as_str()];
        self.one(&sql::LOAD_OBSERVATION, values, "loading an observation", |row| rows::observation(row, queue.name))
    }

    fn save_observation(&mut self, queue: QueueKey, observation: &Observation) -> Loaded<()> {
        let report = &observation.report;
        let values = params![
            queue.0,
            observation.id.as_str(),
            report.route.as_str(),
            report.status.as_str(),
            report.task_id.as_ref().map(TaskId::as_str),
            observation.last_seen_at.as_micros(),
            observation.expires_at.as_micros(),
            report.metadata.as_str(),
            observation.telemetry.as_ref().map(|telemetry| telemetry.value.as_str()),
            observation.telemetry.as_ref().map(|telemetry| telemetry.updated_at.as_micros()),
        ];
        self.run(sql::SAVE_OBSERVATION, values, "saving an observation").map(drop)
    }

    fn delete_observation(&mut self, queue: QueueKey, id: WorkerId) -> Loaded<()> {
        self.run(sql::DELETE_OBSERVATION, params![queue.0, id.as_str()], "deleting an observation").map(drop)
    }

    fn delete_expired_observations(&mut self) -> Loaded<u64> {
        let until = [self.now.as_micros()];
        let deleted = self.run(sql::DELETE_EXPIRED_OBSERVATIONS, until, "deleting expired observations")?;
        Ok(deleted as u64)
    }
}

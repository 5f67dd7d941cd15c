//! One write transaction on the file: a function for each thing that can be loaded or saved, each a statement of `sql/`
//! or a lookup in the claim index. Nothing is decided here.

mod task_rows;

use std::collections::HashSet;
use std::sync::Arc;

use rusqlite::{Connection, Row, params};
use taskqueue_core::output::OutputChange;
use taskqueue_core::{
    Change, Definition, Delta, Dependencies, DependencyState, Identity, KeptOutput, Observation, Outcome, QueueName,
    QueueSettings, Route, RunId, RunningTasks, Status, Task, TaskHead, TaskId, Timestamp, Update, WorkerId,
};
use taskqueue_store::StoreError;
use taskqueue_store::activity::{ActivityRow, ProcessId};
use taskqueue_store::transaction::{
    Dependents, Loaded, Outdated, Over, Queue, QueueKey, QueueTally, RELEASED_AT_ONCE, RunUse, TaskKey, Transaction,
    Unsettled,
};

use self::task_rows::{TallyDifferences, delete_rows_of_queue};
use crate::bulk::ChangedTasks;
use crate::claim_index::ClaimIndex;
use crate::output::OutputWriter;
use crate::queries::{Doing, Prepared, Snapshot};
use crate::rows::{self, PackedDocuments, PackedHead, PackedOutcome};
use crate::statements as sql;

const NO_TASK: StoreError = StoreError::Broken("a task that was found cannot be loaded");

/// A write transaction under way on the writer's connection. Beginning and committing is the writer's business.
pub(crate) struct SqliteTransaction<'a> {
    pub(crate) file: Prepared<'a>,
    pub(crate) claim_index: &'a mut ClaimIndex,
    /// Differences of the counts, written once at the end: a batch changes few counts many times.
    tally: TallyDifferences,
    now: Timestamp,
    /// Delayed tasks that became claimable in this transaction and were not told of yet.
    released: usize,
    /// True if the time of a delayed task has come.
    pub(crate) has_released: bool,
    /// Dependencies whose dependents were left to be settled since they were looked for.
    left_unsettled: HashSet<(QueueKey, TaskId)>,
    pub(crate) changed_tasks: ChangedTasks,
}

impl<'a> SqliteTransaction<'a> {
    /// A transaction at `now`, which the caller has begun.
    pub(crate) fn new(connection: &'a Connection, claim_index: &'a mut ClaimIndex, now: Timestamp) -> Self {
        let (file, tally) = (Prepared::new(connection), TallyDifferences::default());
        let (left_unsettled, changed_tasks) = (HashSet::new(), ChangedTasks::default());
        claim_index.loaded_without_outcome = None;
        Self { file, claim_index, tally, now, released: 0, has_released: false, left_unsettled, changed_tasks }
    }

    /// Moves delayed tasks whose time has come to the pending order, at most so many.
    pub(crate) fn release_due(&mut self, most: usize) {
        let released = self.claim_index.release_due(self.now, most);
        self.add_released(released);
    }

    fn add_released(&mut self, released: usize) {
        self.released += released;
        self.has_released |= released > 0;
    }

    /// Writes what was deferred. Must come before `COMMIT`.
    pub(crate) fn finish(&mut self) -> Loaded<()> {
        self.tally.write(&self.file)?;
        self.claim_index.history.finish(self.file.connection, self.now).doing("writing the history")
    }

    /// The file as this transaction sees it.
    pub(crate) fn snapshot(&self) -> Snapshot<'_> {
        Snapshot { connection: self.file.connection, active: None }
    }

    /// The state of a task that others wait for.
    fn status_of(&self, queue: QueueKey, id: TaskId) -> Loaded<Option<Status>> {
        if self.claim_index.running_task(queue, id).is_some() {
            return Ok(Some(Status::Running));
        }
        let values = params![queue.0, id.as_str()];
        self.file.one(&sql::FIND_STATUS_BY_ID, values, "looking up a dependency", rows::status)
    }

    fn delete_dependency(&self, queue: QueueKey, dependency: TaskId, task: TaskKey) -> Loaded<()> {
        let values = params![queue.0, dependency.as_str(), task.0];
        self.file.run(&sql::DELETE_DEPENDENCY, values, "forgetting a dependency").map(drop)
    }

    /// Notes that the dependents of a task behind a key are to be looked at again.
    fn save_unsettled(&self, queue: QueueKey, dependency: TaskId, after: Option<TaskKey>) -> Loaded<()> {
        let values = params![queue.0, dependency.as_str(), after.map(|key| key.0)];
        self.file.run(&sql::SAVE_UNSETTLED, values, "leaving dependents to be settled").map(drop)
    }

    /// Applies what a change of a task means for its used run ids, the counts, the claim index and the note of its end.
    fn apply(&mut self, queue: QueueKey, key: TaskKey, [before, after]: [Option<&TaskHead>; 2]) -> Loaded<()> {
        let delta = Delta::between(before, after);
        // The run ids of a task that is deleted were moved with its rows.
        if let (Some(run_id), Some(_)) = (delta.past_run, after) {
            self.file.run(&sql::INSERT_PAST_RUN, params![key.0, run_id.as_str()], "remembering a run")?;
        }
        self.tally.add(queue, &delta);
        self.claim_index.apply(queue, key, &delta, after, self.now);
        self.changed_tasks.add(queue, key);
        self.note_end(queue, key, [before, after])
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

    fn insert_queue(&mut self, name: &QueueName) -> Loaded<bool> {
        if self.claim_index.queue(name).is_some() {
            return Ok(false);
        }
        self.file.run(&sql::INSERT_QUEUE, [name.as_str()], "creating a queue")?;
        self.claim_index.add_queue(name.clone(), QueueKey(self.file.connection.last_insert_rowid()));
        Ok(true)
    }

    fn tally_queue(&mut self, queue: QueueKey) -> Loaded<QueueTally> {
        self.tally.write(&self.file)?;
        let read =
            |row: &Row<'_>| Ok(QueueTally { tasks: rows::count(row, "tasks")?, running: rows::count(row, "running")? });
        Ok(self.file.one(&sql::TALLY_QUEUE, [queue.0], "counting tasks", read)?.unwrap_or_default())
    }

    /// The tasks of a deleted queue can no longer be reached. They are purged later, some at a time.
    fn delete_queue(&mut self, queue: Queue<'_>, runs_kept_until: Timestamp) -> Loaded<()> {
        self.file.run(&sql::DELETE_QUEUE, [queue.key.0], "deleting a queue")?;
        delete_rows_of_queue(&self.file, queue.key)?;
        let purge = params![queue.key.0, runs_kept_until.as_micros()];
        self.file.run(&sql::INSERT_PURGE, purge, "deleting a queue")?;
        self.claim_index.remove_queue(queue);
        Ok(())
    }

    fn find_task(&mut self, queue: QueueKey, id: TaskId) -> Loaded<Option<TaskKey>> {
        if let Some(key) = self.claim_index.running_task(queue, id) {
            return Ok(Some(key));
        }
        self.file.one(&sql::FIND_TASK, params![queue.0, id.as_str()], "finding a task", rows::key)
    }

    fn load_task(&mut self, queue: Queue<'_>, key: TaskKey) -> Loaded<Task> {
        let read = |row: &Row<'_>| rows::task(row, queue.name);
        let task = self.file.one(&sql::LOAD_TASK, [key.0], "loading a task", read)?.ok_or(NO_TASK)?;
        self.claim_index.loaded_without_outcome = (task.outcome == Outcome::empty()).then_some(key);
        Ok(task)
    }

    fn load_head(&mut self, key: TaskKey) -> Loaded<TaskHead> {
        if let Some(head) = self.claim_index.running_head(key) {
            return Ok(head.clone());
        }
        self.file.one(&sql::LOAD_HEAD, [key.0], "loading a task", rows::head)?.ok_or(NO_TASK)
    }

    fn load_result_bytes(&mut self, key: TaskKey) -> Loaded<usize> {
        let read = |row: &Row<'_>| Ok(PackedOutcome::of_row(row, 0)?.result.len());
        let bytes = self.file.one(&sql::LOAD_OUTCOME, [key.0], "loading an outcome", read)?;
        Ok(bytes.unwrap_or(PackedOutcome::NONE.result.len()))
    }

    fn load_output(&mut self, key: TaskKey) -> Loaded<Option<KeptOutput>> {
        let read = |row: &Row<'_>| rows::kept_output(row, 0);
        Ok(self.file.one(&sql::LOAD_OUTPUT, [key.0], "loading output", read)?.flatten())
    }

    fn save_output(&mut self, _: QueueKey, key: TaskKey, change: &OutputChange<'_>) -> Loaded<()> {
        OutputWriter { file: &self.file, key }.save(change)
    }

    fn load_identity(&mut self, key: TaskKey) -> Loaded<Identity> {
        self.file.one(&sql::LOAD_IDENTITY, [key.0], "loading an identity", |row| row.get(0))?.ok_or(NO_TASK)
    }

    fn insert_task(&mut self, queue: QueueKey, task: &Task, identity: &Identity) -> Loaded<Option<TaskKey>> {
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
        if self.file.run(&sql::INSERT_TASK, values, "creating a task")? == 0 {
            return Ok(None);
        }
        let key = TaskKey(self.file.connection.last_insert_rowid());
        self.claim_index.history.key_given(key);
        let documents = PackedDocuments { args: args.as_str(), metadata: metadata.as_str() }.pack();
        self.file.run(&sql::INSERT_DEFINITION, params![key.0, identity, documents], "creating a task")?;
        self.apply(queue, key, [None, Some(&head)])?;
        Ok(Some(key))
    }

    fn save_change(&mut self, queue: QueueKey, key: TaskKey, before: &TaskHead, change: &Change) -> Loaded<()> {
        let after = change.head_after(before);
        let outcome = match change.keeps_outcome() {
            true => None,
            false => self.changed_outcome(key, |outcome| change.apply_to_outcome(outcome))?,
        };
        self.save_rows(key, (before, &after), outcome.as_ref())?;
        self.apply(queue, key, [Some(before), Some(&after)])
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

    fn delete_task(&mut self, queue: QueueKey, key: TaskKey, before: &TaskHead, kept_until: Timestamp) -> Loaded<()> {
        self.delete_rows(key, before.lifecycle.finished_run, kept_until)?;
        for id in before.scheduling.dependencies.as_slice() {
            self.delete_dependency(queue, *id, key)?;
        }
        self.apply(queue, key, [Some(before), None])
    }

    fn may_have_dependents(&mut self, queue: QueueKey, dependency: TaskId) -> Loaded<bool> {
        Ok(self.claim_index.awaited.may_hold(queue, dependency))
    }

    fn dependents(&mut self, queue: QueueKey, id: TaskId, after: Option<TaskKey>, most: usize) -> Loaded<Dependents> {
        let after = after.map_or(i64::MIN, |after| after.0);
        let values = params![queue.0, id.as_str(), after, i64::try_from(most).unwrap_or(i64::MAX)];
        let tasks = self.file.all(&sql::LIST_DEPENDENTS, values, "listing dependents", rows::dependent)?;
        // Nobody else holds any.
        Ok(Dependents { tasks, held_elsewhere: false })
    }

    fn save_dependency(&mut self, queue: QueueKey, id: TaskId, task: TaskKey, state: DependencyState) -> Loaded<()> {
        let values = params![queue.0, id.as_str(), task.0, state as i64];
        self.file.run(&sql::SAVE_DEPENDENCY, values, "noting a dependency").map(drop)
    }

    fn load_statuses(&mut self, queue: QueueKey, ids: &[TaskId]) -> Loaded<Vec<Option<Status>>> {
        ids.iter().map(|id| self.status_of(queue, *id)).collect()
    }

    fn load_noted(&mut self, queue: QueueKey, task: TaskKey, ids: &[TaskId]) -> Loaded<Vec<Option<DependencyState>>> {
        let noted = |id: &TaskId| {
            let values = params![queue.0, id.as_str(), task.0];
            self.file.one(&sql::FIND_DEPENDENCY, values, "looking up a dependency", rows::dependency_state)
        };
        ids.iter().map(noted).collect()
    }

    fn replace_dependencies(
        &mut self,
        queue: QueueKey,
        task: TaskKey,
        before: &Dependencies,
        after: &[(TaskId, DependencyState)],
    ) -> Loaded<()> {
        for id in before.as_slice() {
            // Both are sorted.
            if after.binary_search_by_key(id, |(id, _)| *id).is_err() {
                self.delete_dependency(queue, *id, task)?;
            }
        }
        for (id, state) in after {
            self.save_dependency(queue, *id, task, *state)?;
            self.claim_index.awaited.add(queue, *id);
        }
        Ok(())
    }

    fn leave_unsettled(&mut self, queue: QueueKey, dependency: TaskId) -> Loaded<()> {
        self.save_unsettled(queue, dependency, None)?;
        self.left_unsettled.insert((queue, dependency));
        self.claim_index.unsettled.insert(queue);
        Ok(())
    }

    fn find_unsettled(&mut self, of: Option<QueueKey>) -> Loaded<Option<Unsettled>> {
        let unsettled = &self.claim_index.unsettled;
        if of.map_or(unsettled.is_empty(), |queue| !unsettled.contains(&queue)) {
            return Ok(None);
        }
        let doing = "looking for dependents to settle";
        let found = match of {
            Some(queue) => self.file.one(&sql::FIND_UNSETTLED_OF_QUEUE, [queue.0], doing, rows::unsettled)?,
            None => self.file.one(&sql::FIND_UNSETTLED, [], doing, rows::unsettled)?,
        };
        let Some((queue, dependency, after)) = found else {
            self.claim_index.unsettled.retain(|queue| of.is_some_and(|of| of != *queue));
            return Ok(None);
        };
        self.left_unsettled.remove(&(queue, dependency));
        Ok(Some(Unsettled { queue, dependency, status: self.status_of(queue, dependency)?, after }))
    }

    fn save_settled(&mut self, unsettled: &Unsettled, after: Option<TaskKey>) -> Loaded<()> {
        let Unsettled { queue, dependency, .. } = *unsettled;
        if self.left_unsettled.contains(&(queue, dependency)) {
            return Ok(());
        }
        if after.is_some() {
            return self.save_unsettled(queue, dependency, after);
        }
        let values = params![queue.0, dependency.as_str()];
        self.file.run(&sql::DELETE_UNSETTLED, values, "noting that dependents were settled").map(drop)
    }

    /// Returns those that were released at the beginning of the batch count.
    fn release_delayed(&mut self) -> Loaded<usize> {
        self.release_due(RELEASED_AT_ONCE.saturating_sub(self.released));
        Ok(std::mem::take(&mut self.released))
    }

    fn load_settings(&mut self, queue: QueueKey) -> Loaded<Option<Arc<QueueSettings>>> {
        Ok(self.claim_index.settings.of(queue).cloned())
    }

    fn count_running(&mut self, queue: QueueKey, route: &Route) -> Loaded<RunningTasks> {
        Ok(self.claim_index.settings.count_running(queue, route))
    }

    fn save_settings(&mut self, queue: Queue<'_>, settings: &QueueSettings) -> Loaded<()> {
        let before = self.claim_index.settings.of(queue.key).cloned().unwrap_or_default();
        if *settings == QueueSettings::default() {
            self.file.run(&sql::DELETE_SETTINGS, [queue.key.0], "saving settings")?;
        } else {
            self.file.run(&sql::SAVE_SETTINGS, params![queue.key.0, settings.to_json()], "saving settings")?;
        }
        self.claim_index.set_settings(queue.key, settings.clone());
        self.retention_changed(queue.key, &before.retention, &settings.retention)
    }

    fn find_outdated(&mut self, most: usize) -> Loaded<Outdated> {
        self.outdated(most)
    }

    fn find_run(&mut self, run_id: RunId) -> Loaded<RunUse> {
        self.claim_index.run_use(self.file.connection, run_id).doing("looking for a run id")
    }

    fn first_pending(&mut self, queue: QueueKey, route: &Route) -> Loaded<Option<TaskKey>> {
        let released = self.claim_index.release_for(queue, route.as_str(), self.now);
        self.add_released(released);
        Ok(self.claim_index.first_pending(queue, route.as_str()))
    }

    fn running_until(&mut self, until: Timestamp, most: usize) -> Loaded<Vec<(QueueKey, TaskKey)>> {
        Ok(self.claim_index.running_until(until, most))
    }

    /// Written to the file only while runs are active: without any, an outage harms nobody, and an idle server need not write.
    fn save_scan(&mut self) -> Loaded<()> {
        self.claim_index.last_scan_at = Some(self.now);
        if self.claim_index.has_active_runs() {
            self.file.run(&sql::SAVE_SCAN, [self.now.as_micros()], "remembering the scan")?;
        }
        Ok(())
    }

    fn save_activity(&mut self, process: ProcessId, rows: &[ActivityRow]) -> Loaded<()> {
        for ActivityRow { queue, span, activity } in rows {
            let (unit, start) = (span.unit.seconds(), rows::seconds(span.start));
            let values = params![queue.0, unit, start, process.0, activity.to_bytes()];
            self.file.run(&sql::SAVE_ACTIVITY, values, "saving activity")?;
        }
        Ok(())
    }

    fn forget(&mut self, over: Over) -> Loaded<u64> {
        let forgotten = match over {
            Over::DeletedRuns { most } => {
                let runs = &mut self.claim_index.history.runs;
                runs.forget_over(self.file.connection, self.now, most).doing("forgetting run ids")?
            }
            Over::Activity { unit, before, most } => {
                let values = params![unit.seconds(), rows::seconds(before), most];
                self.file.run(&sql::FORGET_ACTIVITY, values, "forgetting activity")?
            }
            Over::Observations => {
                let until = [self.now.as_micros()];
                self.file.run(&sql::DELETE_EXPIRED_OBSERVATIONS, until, "deleting expired observations")?
            }
        };
        Ok(forgotten as u64)
    }

    fn load_observation(&mut self, queue: Queue<'_>, id: WorkerId) -> Loaded<Option<Observation>> {
        let values = params![queue.key.0, id.as_str()];
        self.file
            .one(&sql::LOAD_OBSERVATION, values, "loading an observation", |row| rows::observation(row, queue.name))
    }

    fn save_observation(&mut self, queue: QueueKey, id: WorkerId, observation: Option<&Observation>) -> Loaded<()> {
        let Some(observation) = observation else {
            let values = params![queue.0, id.as_str()];
            return self.file.run(&sql::DELETE_OBSERVATION, values, "deleting an observation").map(drop);
        };
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
        self.file.run(&sql::SAVE_OBSERVATION, values, "saving an observation").map(drop)
    }
}

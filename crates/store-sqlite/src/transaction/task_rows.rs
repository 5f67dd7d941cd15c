//! Saves and removes the rows of one task. Its columns hold several things packed together: what does not change of a column is
//! loaded first. Also the removal of the tasks of deleted queues, some at a time; when that happens is up to the writer.

use std::collections::BTreeMap;

use rusqlite::params;
use taskqueue_core::delta::TallyLine;
use taskqueue_core::task::FinishedRun;
use taskqueue_core::{Delta, Documents, JsonObject, Outcome, Routes, Status, TaskHead, Timestamp, Update};
use taskqueue_store::transaction::{Loaded, QueueKey, TaskKey, Transaction};
use taskqueue_store::transfer::DeletedRun;

use super::{NO_TASK, SqliteTransaction};
use crate::output::OutputWriter;
use crate::queries::Prepared;
use crate::rows::{self, PackedDocuments, PackedHead, PackedOutcome};
use crate::statements::{self as sql, Sql};

/// Pieces of output after which the tasks that are left to purge wait for the next time: the full output of a dozen tasks, some
/// milliseconds.
const MOST_PIECES: usize = 1_000;

/// The outcome of a task after a change.
pub(super) struct OutcomeAfter {
    outcome: Outcome,
    /// True if the task had an outcome before.
    had_row: bool,
}

impl SqliteTransaction<'_> {
    /// Saves the narrow row and the outcome, as far as they have changed.
    pub(super) fn save_rows(
        &self,
        key: TaskKey,
        (before, after): (&TaskHead, &TaskHead),
        outcome: Option<&OutcomeAfter>,
    ) -> Loaded<()> {
        let Some(OutcomeAfter { outcome, had_row }) = outcome else {
            return self.save_head(key, (before, after));
        };
        // Most tasks have no result and no error. They need no row.
        let outcome_key = (*outcome != Outcome::empty()).then_some(key.0);
        match outcome_key {
            Some(key) => {
                let values = params![key, PackedOutcome::of(outcome).pack()];
                self.file.run(&sql::SAVE_OUTCOME, values, "saving an outcome")?;
            }
            None => drop(self.file.run(&sql::DELETE_OUTCOME, [key.0], "clearing an outcome")?),
        }
        if *had_row == outcome_key.is_some() {
            return self.save_head(key, (before, after));
        }
        let values = params![key.0, after.lifecycle.status.as_str(), PackedHead::of(after).pack(), outcome_key];
        self.file.run(&sql::SAVE_HEAD_AND_OUTCOME_KEY, values, "saving a task").map(drop)
    }

    /// Progress of the same size as before changes nothing here.
    fn save_head(&self, key: TaskKey, (before, after): (&TaskHead, &TaskHead)) -> Loaded<()> {
        if before == after {
            return Ok(());
        }
        let values = params![key.0, after.lifecycle.status.as_str(), PackedHead::of(after).pack()];
        self.file.run(&sql::SAVE_HEAD, values, "saving a task").map(drop)
    }

    /// The outcome of a task after this change, if it is another one. Most tasks have none until they are completed: the file is
    /// not asked for what is known to be missing.
    pub(super) fn changed_outcome(
        &mut self,
        key: TaskKey,
        change: impl FnOnce(&mut Outcome),
    ) -> Loaded<Option<OutcomeAfter>> {
        let is_missing = self.claim_index.lacks_outcome(key);
        let load = || self.file.one(&sql::LOAD_OUTCOME, [key.0], "loading an outcome", rows::outcome);
        let loaded = if is_missing { None } else { load()? };
        debug_assert!(!is_missing || load()?.is_none(), "task {} has an outcome", key.0);
        let had_row = loaded.is_some();
        let before = loaded.unwrap_or_else(Outcome::empty);
        let mut outcome = before.clone();
        change(&mut outcome);
        Ok((outcome != before).then(|| {
            self.claim_index.gets_outcome(key);
            OutcomeAfter { outcome, had_row }
        }))
    }

    /// Saves what is given of args and metadata.
    pub(super) fn save_documents(
        &self,
        key: TaskKey,
        args: Option<&JsonObject>,
        metadata: Option<&JsonObject>,
    ) -> Loaded<()> {
        let loaded: Documents;
        let (args, metadata) = match (args, metadata) {
            (None, None) => return Ok(()),
            (Some(args), Some(metadata)) => (args, metadata),
            (args, metadata) => {
                loaded = self.load_own_documents(key)?;
                (args.unwrap_or(&loaded.args), metadata.unwrap_or(&loaded.metadata))
            }
        };
        let packed = PackedDocuments { args: args.as_str(), metadata: metadata.as_str() }.pack();
        self.file.run(&sql::SAVE_DOCUMENTS, params![key.0, packed], "updating a task").map(drop)
    }

    pub(crate) fn load_own_documents(&self, key: TaskKey) -> Loaded<Documents> {
        self.file.one(&sql::LOAD_DOCUMENTS, [key.0], "loading a task", rows::documents)?.ok_or(NO_TASK)
    }

    /// Saves the head of a task, and what `changed` holds besides.
    pub(crate) fn save_updated(
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
            self.file.run(&sql::SAVE_NAME, params![key.0, name], "updating a task")?;
        }
        self.save_documents(key, changed.args.as_ref(), changed.metadata.as_ref())?;
        self.claim_index.history.touch();
        self.claim_index.updates += 1;
        self.apply(queue, key, [Some(before), Some(after)])
    }

    /// Removes the rows of a task. Its run ids are moved to those of deleted tasks. Returns how many pieces of output it had.
    pub(crate) fn delete_rows(
        &mut self,
        key: TaskKey,
        finished_run: Option<FinishedRun>,
        runs_kept_until: Timestamp,
    ) -> Loaded<usize> {
        let mut runs = self.file.all(&sql::LIST_PAST_RUNS, [key.0], "listing past runs", rows::run_id)?;
        // Most tasks have none.
        if !runs.is_empty() {
            self.file.run(&sql::DELETE_PAST_RUNS, [key.0], "deleting a task")?;
        }
        runs.extend(finished_run.map(|run| run.run_id));
        // A purge may come late. Behind all that was forgotten, so that it is found when it is to be forgotten.
        let kept_until = runs_kept_until.max(Timestamp::from_micros(self.now.as_micros() + 1));
        for run_id in runs {
            self.add_deleted_run((kept_until, run_id))?;
        }
        for statement in [&sql::DELETE_OUTCOME, &sql::DELETE_DEFINITION, &sql::DELETE_TASK] {
            self.file.run(statement, [key.0], "deleting a task")?;
        }
        // Also of a task that was pending when its queue was deleted.
        self.claim_index.history.set_living(key, false);
        OutputWriter { file: &self.file, key }.delete()
    }

    /// Records a run id of a deleted task. The claim index has it already.
    pub(crate) fn add_deleted_run(&mut self, (kept_until, run_id): DeletedRun) -> Loaded<()> {
        let values = params![kept_until.as_micros(), run_id.as_str()];
        self.file.run(&sql::INSERT_DELETED_RUN, values, "keeping a run id").map(drop)
    }

    /// Removes up to `most` tasks of a deleted queue, fewer if they have much output. Returns whether anything may be left to purge.
    pub(crate) fn purge(&mut self, most: u32) -> Loaded<bool> {
        let found = self.file.one(&sql::FIND_PURGE, [], "looking for a purge", rows::purge)?;
        let Some((queue, runs_kept_until)) = found else { return Ok(false) };
        let few = params![queue.0, most];
        let keys = self.file.all(&sql::LIST_PURGEABLE_TASKS, few, "listing tasks to purge", rows::key)?;
        let mut pieces = 0;
        for key in &keys {
            let finished_run = self.load_head(*key)?.lifecycle.finished_run;
            pieces += self.delete_rows(*key, finished_run, runs_kept_until)?;
            if pieces >= MOST_PIECES {
                break;
            }
        }
        if keys.is_empty() && !purge_rows_of_queue(&self.file, queue)? {
            self.file.run(&sql::DELETE_PURGE, [queue.0], "ending a purge")?;
        }
        Ok(true)
    }
}

// The tables whose rows follow from the tasks of a queue or belong to it: how they go with the queue, and the counts of tasks. What
// else follows from tasks is kept in memory (`claim_index.rs`), or noted where tasks end (`ended.rs`).

/// Tables whose rows of a queue are all deleted with it: they are few.
static DELETED_WITH_QUEUE: [&Sql; 5] = [
    &sql::DELETE_OBSERVATIONS,
    &sql::DELETE_TALLY,
    &sql::DELETE_SETTINGS,
    &sql::DELETE_UNSETTLED_OF_QUEUE,
    &sql::DELETE_ENDED_READ,
];

/// Tables whose rows are deleted later. A queue has about 10,000 rows of activity.
static DELETED_LATER: [&Sql; 2] = [&sql::DELETE_DEPENDENCIES, &sql::DELETE_ACTIVITY];
/// So many of them at a time: a millisecond or two.
const DELETED_AT_ONCE: u32 = 500;

/// Deletes the rows that go with a queue.
pub(super) fn delete_rows_of_queue(file: &Prepared<'_>, queue: QueueKey) -> Loaded<()> {
    let mut deletions = DELETED_WITH_QUEUE.iter();
    deletions.try_for_each(|statement| file.run(statement, [queue.0], "deleting a queue").map(drop))
}

/// Deletes some rows of a queue that was deleted. Returns whether there were any.
fn purge_rows_of_queue(file: &Prepared<'_>, queue: QueueKey) -> Loaded<bool> {
    for statement in DELETED_LATER {
        if file.run(statement, params![queue.0, DELETED_AT_ONCE], "purging a queue")? > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The differences of the counts of tasks by queue, routes and status. A batch changes few counts many times, so that they are
/// written once, at its end.
#[derive(Default)]
pub(super) struct TallyDifferences(BTreeMap<(QueueKey, Routes, Status), TallyDifference>);

/// The number of tasks that came or, if negative, went, and that of archived ones among them.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct TallyDifference {
    tasks: i64,
    archived: i64,
}

impl TallyDifferences {
    pub(super) fn add(&mut self, queue: QueueKey, delta: &Delta<'_>) {
        for (line, difference) in [(delta.tally.removed, -1), (delta.tally.added, 1)] {
            if let Some(TallyLine { routes, status, archived }) = line {
                let counted = self.0.entry((queue, routes.clone(), status)).or_default();
                counted.tasks += difference;
                counted.archived += if archived { difference } else { 0 };
            }
        }
    }

    /// Writes the differences. None are left.
    pub(super) fn write(&mut self, file: &Prepared<'_>) -> Loaded<()> {
        for ((queue, routes, status), difference) in std::mem::take(&mut self.0) {
            if difference == TallyDifference::default() {
                continue;
            }
            let (queue, routes, status) = (queue.0, routes.as_json(), status.as_str());
            let TallyDifference { tasks, archived } = difference;
            let values = params![queue, routes, status, tasks, archived];
            // Most counts are there and stay above zero.
            let other = if tasks < 0 { &sql::DELETE_EMPTIED_TALLY } else { &sql::ADD_TALLY };
            if file.run(&sql::CHANGE_TALLY, values, "counting tasks")? == 0
                && file.run(other, values, "counting tasks")? == 0
            {
                file.run(&sql::ADD_TALLY, values, "counting tasks")?;
            }
        }
        Ok(())
    }
}

//! A file as source or target of a transfer (`store::transfer`). The process owns the file as a server does, and everything
//! happens in one transaction, which is rolled back unless it is committed. Rows are written by the same functions as those
//! of a server (`transaction.rs`).
//!
//! SQLite runs on the calling thread: the command does nothing else meanwhile.

mod begin;

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;

use async_trait::async_trait;
use rusqlite::{Connection, Params, Row, params};
use taskqueue_core::definition::routes_of;
use taskqueue_core::dependency::DependencyState;
use taskqueue_core::ids::{QueueName, RunId, TaskId};
use taskqueue_core::lifecycle::{Change, ErrorChange, LastRunChange, ProgressChange};
use taskqueue_core::observation::Observation;
use taskqueue_core::scheduling::Dependencies;
use taskqueue_core::settings::QueueSettings;
use taskqueue_core::task::{Status, Task};
use taskqueue_core::time::Timestamp;
use taskqueue_store::StoreError;
use taskqueue_store::transaction::{Queue, QueueKey, TaskKey, Transaction};
use taskqueue_store::transfer::{
    CHUNK_BYTES, CHUNK_RUNS, CHUNK_TASKS, Chunk, DeletedRun, Source, Target, Totals, TransferredOutput, TransferredTask,
};

use crate::claim_index::ClaimIndex;
use crate::each_row::{CONTINUE, each_row};
use crate::failure::Doing;
use crate::output::transferred_output;
use crate::ownership::Ownership;
use crate::transaction::SqliteTransaction;
use crate::{checkpoint, history, rows, statements as sql};

/// The connection is closed before the file is released.
pub struct SqliteTransfer {
    connection: Connection,
    ownership: Ownership,
    queues: BTreeMap<QueueKey, QueueName>,
    keys: HashMap<QueueName, QueueKey>,
}

impl SqliteTransfer {
    fn one<T>(
        &self,
        statement: &str,
        doing: &'static str,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.connection.prepare_cached(statement).and_then(|mut s| s.query_row([], read)).doing(doing)
    }

    fn run(&self, statement: &str, params: impl Params, doing: &'static str) -> Result<(), StoreError> {
        self.connection.prepare_cached(statement).and_then(|mut s| s.execute(params)).doing(doing).map(drop)
    }

    fn load_queues(&mut self) -> rusqlite::Result<()> {
        each_row(&self.connection, sql::LOAD_QUEUES, [], |row| {
            if let Some(name) = QueueName::parse(row.get_ref(1)?.as_str()?) {
                let key = QueueKey(row.get(0)?);
                self.keys.insert(name.clone(), key);
                self.queues.insert(key, name);
            }
            Ok(CONTINUE)
        })
    }

    fn key(&self, queue: &QueueName) -> Result<QueueKey, StoreError> {
        self.keys.get(queue).copied().ok_or(StoreError::Unavailable)
    }

    /// Writes through a transaction of the writer, with a claim index that is not used.
    fn write(
        &self,
        write: impl FnOnce(&mut SqliteTransaction<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut claim_index = ClaimIndex::default();
        let mut tx = SqliteTransaction::new(&self.connection, &mut claim_index, Timestamp::default());
        write(&mut tx)?;
        tx.finish()
    }

    fn add_task(&self, tx: &mut SqliteTransaction<'_>, copied: &TransferredTask) -> Result<(), StoreError> {
        let task = &copied.task;
        let queue = self.key(&task.queue)?;
        let Some(key) = tx.insert_task(queue, task, &copied.identity)? else {
            return Err(StoreError::Broken("a task was copied twice"));
        };
        tx.save_change(queue, key, &task.head(), &history(task))?;
        for run_id in &copied.past_runs {
            self.run(sql::INSERT_PAST_RUN, params![key.0, run_id.as_str()], "copying past runs")?;
        }
        let dependencies = task.definition.scheduling.dependencies.as_slice();
        if copied.noted.len() != dependencies.len() {
            return Err(StoreError::Broken("a task was copied without what is noted of its dependencies"));
        }
        let noted: Vec<_> = dependencies.iter().copied().zip(copied.noted.iter().copied()).collect();
        tx.note_dependencies(queue, key, &Dependencies::default(), &noted)?;
        match &copied.output {
            Some(output) => tx.add_output(key, output),
            None => Ok(()),
        }
    }

    /// What is noted of each of these dependencies of a task.
    fn noted(
        &self,
        queue: QueueKey,
        key: TaskKey,
        dependencies: &Dependencies,
    ) -> rusqlite::Result<Vec<DependencyState>> {
        let mut statement = self.connection.prepare_cached(sql::FIND_DEPENDENCY)?;
        let mut noted = |id: &TaskId| statement.query_row(params![queue.0, id.as_str(), key.0], rows::dependency_state);
        dependencies.as_slice().iter().map(&mut noted).collect()
    }

    /// A dependency that has changed is told to those that wait for it, should the source have left that to do.
    fn note_changed_dependencies(&self) -> Result<(), StoreError> {
        let mut changed = Vec::new();
        each_row(&self.connection, sql::LIST_NOTED_STATUSES, [], |row| {
            let (queue, id, noted, status) = rows::noted_status(row)?;
            if status.is_some_and(|status| DependencyState::of(status) != noted) {
                changed.push((queue, id));
            }
            Ok(CONTINUE)
        })
        .doing("copying dependencies")?;
        changed.dedup();
        self.write(|tx| changed.into_iter().try_for_each(|(queue, id)| tx.note_unsettled(queue, id)))
    }

    fn past_runs(&self, key: TaskKey) -> rusqlite::Result<Vec<RunId>> {
        let mut statement = self.connection.prepare_cached(sql::LIST_PAST_RUNS)?;
        statement.query_map([key.0], rows::run_id)?.collect()
    }
}

/// The state of a task as one change since its creation.
fn history(task: &Task) -> Change {
    let outcome = &task.outcome;
    Change {
        lifecycle: task.lifecycle.clone(),
        result: Some(outcome.result.clone()).filter(|result| !result.is_empty_object()),
        last_error: ErrorChange::to(outcome.last_error.as_ref()),
        last_run: LastRunChange::to(outcome.last_run.as_ref()),
        progress: ProgressChange::to(outcome.progress.as_ref()),
    }
}

#[async_trait(?Send)]
impl Source for SqliteTransfer {
    async fn queues(&mut self) -> Result<Vec<(QueueKey, QueueName)>, StoreError> {
        Ok(self.queues.iter().map(|(key, name)| (*key, name.clone())).collect())
    }

    async fn tasks(&mut self, after: Option<i64>) -> Result<Chunk, StoreError> {
        let (mut chunk, mut bytes) = (Chunk::default(), 0);
        let read = |row: &Row<'_>| {
            let queue_key = rows::queue_key(row)?;
            let Some(queue) = self.queues.get(&queue_key) else { return Ok(CONTINUE) };
            let key = rows::key(row)?;
            let task = rows::task(row, queue)?;
            let noted = self.noted(queue_key, key, &task.definition.scheduling.dependencies)?;
            let output = transferred_output(&self.connection, key)?;
            bytes += rows::bytes(row)? + output.as_ref().map_or(0, TransferredOutput::byte_count);
            let copied = TransferredTask::new(task, rows::identity(row)?, self.past_runs(key)?, output);
            chunk.tasks.push(copied.with_noted(noted));
            chunk.last_key = Some(key.0);
            let full = chunk.tasks.len() >= CHUNK_TASKS || bytes >= CHUNK_BYTES;
            Ok(if full { ControlFlow::Break(()) } else { CONTINUE })
        };
        let first = after.unwrap_or(i64::MIN);
        each_row(&self.connection, &sql::TRANSFER_TASKS, [first], read).doing("reading tasks")?;
        Ok(chunk)
    }

    async fn settings(&mut self, queue: &QueueName) -> Result<Option<QueueSettings>, StoreError> {
        let (key, mut settings) = (self.key(queue)?, None);
        each_row(&self.connection, sql::LOAD_SETTINGS, [key.0], |row| {
            settings = Some(rows::settings(row)?);
            Ok(CONTINUE)
        })
        .doing("reading settings")?;
        Ok(settings)
    }

    async fn unsettled(&mut self, queue: &QueueName) -> Result<Vec<TaskId>, StoreError> {
        let (key, mut unsettled) = (self.key(queue)?, Vec::new());
        each_row(&self.connection, sql::LIST_UNSETTLED, [key.0], |row| {
            unsettled.push(rows::dependency(row)?);
            Ok(CONTINUE)
        })
        .doing("reading dependencies")?;
        Ok(unsettled)
    }

    async fn observations(&mut self, queue: &QueueName) -> Result<Vec<Observation>, StoreError> {
        let (key, mut observations) = (self.key(queue)?, Vec::new());
        let (expired_too, first) = (i64::MIN, "");
        each_row(&self.connection, &sql::LIST_OBSERVATIONS, params![key.0, expired_too, first], |row| {
            observations.push(rows::observation(row, queue)?);
            Ok(CONTINUE)
        })
        .doing("reading observations")?;
        Ok(observations)
    }

    async fn deleted_runs(&mut self, after: Option<DeletedRun>) -> Result<Vec<DeletedRun>, StoreError> {
        let last = after.as_ref().map(|(kept_until, run_id)| (kept_until.as_micros(), run_id.as_str()));
        let (kept_until, run_id) = last.unwrap_or((i64::MIN, ""));
        let params = params![kept_until, run_id, CHUNK_RUNS];
        let mut runs = Vec::new();
        each_row(&self.connection, &sql::TRANSFER_DELETED_RUNS, params, |row| {
            runs.push(rows::deleted_run(row)?);
            Ok(CONTINUE)
        })
        .doing("reading run ids of deleted tasks")?;
        Ok(runs)
    }

    async fn last_scan_at(&mut self) -> Result<Option<Timestamp>, StoreError> {
        let mut last = None;
        each_row(&self.connection, sql::LOAD_SCAN, [], |row| {
            last = Some(Timestamp::from_micros(row.get(0)?));
            Ok(CONTINUE)
        })
        .doing("reading the last scan")?;
        Ok(last)
    }

    async fn totals(&mut self) -> Result<Totals, StoreError> {
        let [runs, observations] = self.one(sql::COUNT_DERIVED, "counting", rows::derived)?;
        let queues = self.queues.len() as u64;
        let mut totals = Totals { queues, runs, observations, ..Totals::default() };
        each_row(&self.connection, &sql::LIST_HEADS, [], |row| {
            let task = rows::claim_index(row)?;
            if self.queues.contains_key(&QueueKey(task.queue_key)) {
                let is_running = task.status == Status::Running;
                totals.running += u64::from(is_running);
                totals.runs += u64::from(is_running) + u64::from(task.finished_run_id.is_some());
                if task.status == Status::Pending {
                    totals.pending_entries += routes_of(task.routes).count() as u64;
                }
            }
            Ok(CONTINUE)
        })
        .doing("counting")?;
        each_row(&self.connection, sql::LIST_WHOLE_TALLY, [], |row| {
            let (key, status, tasks) = rows::whole_tally(row)?;
            if let Some(queue) = self.queues.get(&key) {
                totals.add_status(queue, status, tasks);
            }
            Ok(CONTINUE)
        })
        .doing("counting tasks")?;
        Ok(totals)
    }
}

#[async_trait(?Send)]
impl Target for SqliteTransfer {
    async fn is_empty(&mut self) -> Result<bool, StoreError> {
        self.one(sql::CHECK_EMPTY, "checking that the target is empty", |row| row.get(0))
    }

    async fn add_queues(&mut self, queues: &[(QueueKey, QueueName)]) -> Result<(), StoreError> {
        for (key, name) in queues {
            self.run(sql::TRANSFER_QUEUE, params![key.0, name.as_str()], "copying queues")?;
        }
        self.load_queues().doing("copying queues")
    }

    async fn add_tasks(&mut self, tasks: &[TransferredTask]) -> Result<(), StoreError> {
        self.write(|tx| tasks.iter().try_for_each(|task| self.add_task(tx, task)))
    }

    async fn add_settings(&mut self, name: &QueueName, settings: &QueueSettings) -> Result<(), StoreError> {
        let key = self.key(name)?;
        self.write(|tx| tx.save_queue_settings(Queue { key, name }, settings))
    }

    async fn add_unsettled(&mut self, queue: &QueueName, ids: &[TaskId]) -> Result<(), StoreError> {
        let key = self.key(queue)?;
        self.write(|tx| ids.iter().try_for_each(|id| tx.note_unsettled(key, *id)))
    }

    async fn add_observations(&mut self, observations: &[Observation]) -> Result<(), StoreError> {
        self.write(|tx| {
            let mut saved = observations.iter().map(|observation| {
                tx.save_observation(self.key(&observation.queue)?, observation.id, Some(observation))
            });
            saved.try_for_each(|saved| saved)
        })
    }

    async fn clear_deleted_runs(&mut self) -> Result<(), StoreError> {
        self.run(sql::CLEAR_DELETED_RUNS, [], "deleting run ids")?;
        // The first start reads all tasks.
        history::clear(&self.connection).doing("deleting run ids")
    }

    async fn add_deleted_runs(&mut self, runs: &[DeletedRun]) -> Result<(), StoreError> {
        self.write(|tx| runs.iter().try_for_each(|run| tx.add_deleted_run(*run)))
    }

    async fn finish(&mut self, last_scan_at: Option<Timestamp>) -> Result<(), StoreError> {
        self.note_changed_dependencies()?;
        match last_scan_at {
            Some(at) => self.run(sql::SAVE_SCAN, [at.as_micros()], "copying the last scan"),
            None => Ok(()),
        }
    }

    async fn commit(self: Box<Self>) -> Result<(), StoreError> {
        if !self.ownership.is_intact() {
            tracing::error!("a file of the database was moved or removed during the transfer");
            return Err(StoreError::Unavailable);
        }
        self.connection.execute_batch("COMMIT").doing("committing")?;
        checkpoint::empty_log(&self.connection, &self.ownership);
        Ok(())
    }
}

//! A file as source or target of a transfer (`store::transfer`). The process owns the file as a server does, and everything
//! happens in one transaction, which is rolled back unless it is committed. Rows are written by the same functions as those
//! of a server (`transaction.rs`).
//!
//! SQLite runs on the calling thread: the command does nothing else meanwhile.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

use async_trait::async_trait;
use rusqlite::{Connection, Row, params};
use taskqueue_core::definition::routes_of;
use taskqueue_core::{Dependencies, DependencyState, Observation, QueueName, QueueSettings, Status, TaskId, Timestamp};
use taskqueue_store::transfer::{
    CHUNK_BYTES, CHUNK_RUNS, CHUNK_TASKS, Chunk, DeletedRun, Source, Target, Totals, TransferError, TransferredOutput,
    TransferredTask,
};
use taskqueue_store::{Queue, QueueKey, StoreError, StoreResult, Transaction};

use crate::claim_index::ClaimIndex;
use crate::open::OpenError;
use crate::output::{OutputWriter, transferred_output};
use crate::ownership::Ownership;
use crate::queries::{CONTINUE, Doing, all_rows, each_row, execute, first_row};
use crate::transaction::SqliteTransaction;
use crate::{checkpoint, history, migrate, open, rows, statements as sql};

/// Page cache of a transfer: holds the pages to which the indexes of a million new tasks are appended.
const CACHE_KIB: i64 = 65_536;

/// A file from or to which a transfer copies. The connection is closed before the file is released.
pub struct SqliteTransfer {
    connection: Connection,
    ownership: Ownership,
    queues: BTreeMap<QueueKey, QueueName>,
}

impl SqliteTransfer {
    /// The file to copy from, which must exist.
    pub fn source(path: &Path) -> Result<Self, TransferError> {
        if !path.exists() {
            return Err(TransferError::Refused(format!("there is no file {}; check the path", path.display())));
        }
        Self::open(path, "BEGIN").map_err(|error| TransferError::Refused(error.to_string()))
    }

    /// The file to copy to, which is created if it does not exist.
    pub fn target(path: &Path) -> Result<Self, TransferError> {
        Self::open(path, "BEGIN IMMEDIATE").map_err(|error| TransferError::Refused(error.to_string()))
    }

    fn open(path: &Path, begin: &str) -> Result<Self, OpenError> {
        let mut ownership = Ownership::take(path)?;
        let path = &ownership.path().to_owned();
        let failed = |error: rusqlite::Error| OpenError::of_sqlite(path, &error);
        migrate::recognise(&open::unrecognised(path).map_err(failed)?, path)?;
        let mut connection = open::writer(path).map_err(failed)?;
        migrate::migrate(&mut connection, path)?;
        connection.pragma_update(None, "cache_size", -CACHE_KIB).map_err(failed)?;
        connection.execute_batch(begin).map_err(failed)?;
        ownership.watch_log()?;
        let queues = load_queues(&connection).map_err(failed)?;
        Ok(Self { connection, ownership, queues })
    }

    /// Writes through a transaction of the writer, with a claim index that is not used.
    fn write(&self, write: impl FnOnce(&mut SqliteTransaction<'_>) -> StoreResult<()>) -> StoreResult<()> {
        let mut claim_index = ClaimIndex::default();
        let mut tx = SqliteTransaction::new(&self.connection, &mut claim_index, Timestamp::default());
        write(&mut tx)?;
        tx.finish()
    }

    fn add_task(&self, tx: &mut SqliteTransaction<'_>, copied: &TransferredTask) -> StoreResult<()> {
        let (queue, task) = (copied.queue, &copied.task);
        let Some(key) = tx.insert_task(queue, task, &copied.identity)? else {
            return Err(StoreError::Broken("a task was copied twice"));
        };
        tx.save_change(queue, key, &task.head(), &copied.history())?;
        for run_id in &copied.past_runs {
            execute(&self.connection, &sql::INSERT_PAST_RUN, params![key.0, run_id.as_str()])
                .doing("copying past runs")?;
        }
        tx.replace_dependencies(queue, key, &Dependencies::default(), &copied.dependencies()?)?;
        match &copied.output {
            Some(output) => OutputWriter { file: &tx.file, key }.add(output),
            None => Ok(()),
        }
    }

    /// A dependency that has changed is told to those that wait for it, should the source have left that to do.
    fn note_changed_dependencies(&self) -> StoreResult<()> {
        let mut changed = Vec::new();
        each_row(&self.connection, &sql::LIST_NOTED_STATUSES, [], |row| {
            let (queue, id, noted, status) = rows::noted_status(row)?;
            if status.is_some_and(|status| DependencyState::of(status) != noted) {
                changed.push((queue, id));
            }
            Ok(CONTINUE)
        })
        .doing("copying dependencies")?;
        changed.dedup();
        self.write(|tx| changed.into_iter().try_for_each(|(queue, id)| tx.leave_unsettled(queue, id)))
    }
}

fn load_queues(connection: &Connection) -> rusqlite::Result<BTreeMap<QueueKey, QueueName>> {
    Ok(all_rows(connection, &sql::LOAD_QUEUES, [], rows::queue)?.into_iter().flatten().collect())
}

#[async_trait(?Send)]
impl Source for SqliteTransfer {
    async fn queues(&mut self) -> StoreResult<Vec<(QueueKey, QueueName)>> {
        Ok(self.queues.iter().map(|(key, name)| (*key, name.clone())).collect())
    }

    async fn tasks(&mut self, after: Option<i64>) -> StoreResult<Chunk> {
        let (mut chunk, mut bytes) = (Chunk::default(), 0);
        let read = |row: &Row<'_>| {
            let queue_key = rows::queue_key(row)?;
            let Some(queue) = self.queues.get(&queue_key) else { return Ok(CONTINUE) };
            let key = rows::key(row)?;
            let task = rows::task(row, queue)?;
            let mut find = self.connection.prepare_cached(&sql::FIND_DEPENDENCY)?;
            let noted = |id: &TaskId| find.query_row(params![queue_key.0, id.as_str(), key.0], rows::dependency_state);
            let dependencies = task.definition.scheduling.dependencies.as_slice();
            let noted = dependencies.iter().map(noted).collect::<rusqlite::Result<_>>()?;
            let past_runs = all_rows(&self.connection, &sql::LIST_PAST_RUNS, [key.0], rows::run_id)?;
            let output = transferred_output(&self.connection, key)?;
            bytes += rows::bytes(row)? + output.as_ref().map_or(0, TransferredOutput::byte_count);
            let copied = TransferredTask::new(queue_key, task, rows::identity(row)?, past_runs);
            chunk.tasks.push(TransferredTask { output, noted, ..copied });
            chunk.last_key = Some(key.0);
            let full = chunk.tasks.len() >= CHUNK_TASKS || bytes >= CHUNK_BYTES;
            Ok(if full { ControlFlow::Break(()) } else { CONTINUE })
        };
        let first = after.unwrap_or(i64::MIN);
        each_row(&self.connection, &sql::TRANSFER_TASKS, [first], read).doing("reading tasks")?;
        Ok(chunk)
    }

    async fn settings(&mut self, queue: QueueKey) -> StoreResult<Option<QueueSettings>> {
        first_row(&self.connection, &sql::LOAD_SETTINGS, [queue.0], rows::settings).doing("reading settings")
    }

    async fn unsettled(&mut self, queue: QueueKey) -> StoreResult<Vec<TaskId>> {
        all_rows(&self.connection, &sql::LIST_UNSETTLED, [queue.0], rows::dependency).doing("reading dependencies")
    }

    async fn observations(&mut self, queue: Queue<'_>) -> StoreResult<Vec<Observation>> {
        let (expired_too, first) = (i64::MIN, "");
        let read = |row: &Row<'_>| rows::observation(row, queue.name);
        all_rows(&self.connection, &sql::LIST_OBSERVATIONS, params![queue.key.0, expired_too, first], read)
            .doing("reading observations")
    }

    async fn deleted_runs(&mut self, after: Option<DeletedRun>) -> StoreResult<Vec<DeletedRun>> {
        let last = after.as_ref().map(|(kept_until, run_id)| (kept_until.as_micros(), run_id.as_str()));
        let (kept_until, run_id) = last.unwrap_or((i64::MIN, ""));
        let params = params![kept_until, run_id, CHUNK_RUNS];
        all_rows(&self.connection, &sql::TRANSFER_DELETED_RUNS, params, rows::deleted_run)
            .doing("reading run ids of deleted tasks")
    }

    async fn last_scan_at(&mut self) -> StoreResult<Option<Timestamp>> {
        first_row(&self.connection, &sql::LOAD_SCAN, [], rows::scan_time).doing("reading the last scan")
    }

    async fn totals(&mut self) -> StoreResult<Totals> {
        let [runs, observations] =
            self.connection.query_row(&sql::COUNT_DERIVED, [], rows::derived).doing("counting")?;
        let queues = self.queues.len() as u64;
        let mut totals = Totals { queues, runs, observations, ..Totals::default() };
        each_row(&self.connection, &sql::LIST_HEADS, [], |row| {
            let task = rows::claim_index(row)?;
            if self.queues.contains_key(&QueueKey(task.queue_key)) {
                let is_running = task.status == Status::Running;
                totals.running += u64::from(is_running);
                totals.runs += u64::from(is_running) + u64::from(task.finished_run_id.is_some());
                if task.status == Status::Pending {
                    totals.pending_entries += routes_of(task.head.routes).count() as u64;
                }
            }
            Ok(CONTINUE)
        })
        .doing("counting")?;
        let tally = all_rows(&self.connection, &sql::LIST_WHOLE_TALLY, [], rows::whole_tally);
        for (key, status, tasks) in tally.doing("counting tasks")? {
            if let Some(queue) = self.queues.get(&key) {
                totals.add_status(queue, status, tasks);
            }
        }
        Ok(totals)
    }
}

#[async_trait(?Send)]
impl Target for SqliteTransfer {
    async fn is_empty(&mut self) -> StoreResult<bool> {
        self.connection.query_row(&sql::CHECK_EMPTY, [], |row| row.get(0)).doing("checking that the target is empty")
    }

    async fn add_queues(&mut self, queues: &[(QueueKey, QueueName)]) -> StoreResult<()> {
        for (key, name) in queues {
            execute(&self.connection, &sql::TRANSFER_QUEUE, params![key.0, name.as_str()]).doing("copying queues")?;
        }
        self.queues = load_queues(&self.connection).doing("copying queues")?;
        Ok(())
    }

    async fn add_tasks(&mut self, tasks: &[TransferredTask]) -> StoreResult<()> {
        self.write(|tx| tasks.iter().try_for_each(|task| self.add_task(tx, task)))
    }

    async fn add_settings(&mut self, queue: Queue<'_>, settings: &QueueSettings) -> StoreResult<()> {
        self.write(|tx| tx.save_settings(queue, settings))
    }

    async fn add_unsettled(&mut self, queue: QueueKey, ids: &[TaskId]) -> StoreResult<()> {
        self.write(|tx| ids.iter().try_for_each(|id| tx.leave_unsettled(queue, *id)))
    }

    async fn add_observations(&mut self, queue: QueueKey, observations: &[Observation]) -> StoreResult<()> {
        self.write(|tx| observations.iter().try_for_each(|one| tx.save_observation(queue, one.id, Some(one))))
    }

    async fn clear_deleted_runs(&mut self) -> StoreResult<()> {
        execute(&self.connection, &sql::CLEAR_DELETED_RUNS, []).doing("deleting run ids")?;
        // The first start reads all tasks.
        history::clear(&self.connection).doing("deleting run ids")
    }

    async fn add_deleted_runs(&mut self, runs: &[DeletedRun]) -> StoreResult<()> {
        self.write(|tx| runs.iter().try_for_each(|run| tx.add_deleted_run(*run)))
    }

    async fn finish(&mut self, last_scan_at: Option<Timestamp>) -> StoreResult<()> {
        self.note_changed_dependencies()?;
        if let Some(at) = last_scan_at {
            execute(&self.connection, &sql::SAVE_SCAN, [at.as_micros()]).doing("copying the last scan")?;
        }
        Ok(())
    }

    async fn commit(self: Box<Self>) -> StoreResult<()> {
        if !self.ownership.is_intact() {
            tracing::error!("a file of the database was moved or removed during the transfer");
            return Err(StoreError::Unavailable);
        }
        self.connection.execute_batch("COMMIT").doing("committing")?;
        checkpoint::empty_log(&self.connection, &self.ownership);
        Ok(())
    }
}

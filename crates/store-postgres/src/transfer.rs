//! A schema as source or target of a transfer (`store::transfer`). Everything happens in one transaction on one connection,
//! which locks the clock: meanwhile no server can scan the leases, and a server that starts waits. Rows are written by the
//! same code as a batch of a server (`changes.rs`), so that the derived tables are right.

mod begin;

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::join_all;
use taskqueue_core::ids::{QueueName, TaskId};
use taskqueue_core::lifecycle::{ErrorChange, LastRunChange, ProgressChange};
use taskqueue_core::observation::Observation;
use taskqueue_core::scheduling::Dependencies;
use taskqueue_core::settings::QueueSettings;
use taskqueue_core::time::Timestamp;
use taskqueue_store::StoreError;
use taskqueue_store::transaction::{QueueKey, TaskKey};
use taskqueue_store::transfer::{
    CHUNK_BYTES, CHUNK_RUNS, Chunk, DeletedRun, Source, Target, Totals, TransferredOutput, TransferredTask,
};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row};

use crate::changes::Changes;
use crate::failure::failed;
use crate::output::{OutputEntry, StoredOutput};
use crate::rows::DependencyRow;
use crate::session::{Session, Sql};
use crate::transaction::BLOCK;
use crate::transaction_rows::{Body, ChangedObservation, Entry, TransactionRows};
use crate::{rows, settings, statements as sql};

const NOT_NOTED: StoreError = StoreError::Broken("nothing is noted of a dependency");

/// Any shard of the tally.
const SHARD: i16 = 0;

/// No task has this key: numbers begin far above it.
const NO_TASK: i64 = 0;

/// The planner has no statistics of tables that were empty a minute ago.
const ANALYZE: &str = "ANALYZE taskqueue.tasks, taskqueue.definitions, taskqueue.outcomes, taskqueue.ready, \
    taskqueue.running, taskqueue.unsuccessful, taskqueue.runs, taskqueue.tally, taskqueue.observations, taskqueue.queues, \
    taskqueue.outputs, taskqueue.output_pieces, taskqueue.delayed, taskqueue.dependencies";

/// Whose time has come is for the servers to say, whose clock may be another one: until then every task with a time is delayed.
const NO_TIME_HAS_COME: Timestamp = Timestamp::from_micros(i64::MIN);

pub struct PostgresTransfer {
    session: Session,
    analyze: String,
    queues: BTreeMap<QueueKey, QueueName>,
    keys: HashMap<QueueName, QueueKey>,
    numbers: Range<i64>,
    offset_micros: i64,
    /// The largest number that was copied.
    last_number: i64,
}

impl PostgresTransfer {
    async fn query(
        &self,
        sql: &'static Sql,
        params: &[&(dyn ToSql + Sync)],
        doing: &'static str,
    ) -> Result<Vec<Row>, StoreError> {
        self.session.query(sql, params).await.map_err(|error| failed(doing, &error))
    }

    async fn one(
        &self,
        sql: &'static Sql,
        params: &[&(dyn ToSql + Sync)],
        doing: &'static str,
    ) -> Result<Row, StoreError> {
        self.query(sql, params, doing).await?.pop().ok_or(StoreError::Unavailable)
    }

    async fn load_queues(&mut self) -> Result<(), StoreError> {
        for row in self.query(&sql::LOAD_QUEUES, &[], "reading queues").await? {
            let (key, name) = rows::named_queue(&row)?;
            self.keys.insert(name.clone(), key);
            self.queues.insert(key, name);
        }
        Ok(())
    }

    fn queue_keys(&self) -> Vec<i64> {
        self.queues.keys().map(|key| key.0).collect()
    }

    fn key(&self, queue: &QueueName) -> Result<QueueKey, StoreError> {
        self.keys.get(queue).copied().ok_or(StoreError::Unavailable)
    }

    /// The output of these tasks.
    async fn outputs(&self, keys: Vec<i64>) -> Result<HashMap<TaskKey, TransferredOutput>, StoreError> {
        let found = self.query(&sql::LOAD_OUTPUTS_BY_KEY, &[&keys], "reading output").await?;
        if found.is_empty() {
            return Ok(HashMap::new());
        }
        let pieces = self.query(&sql::LOAD_OUTPUT_PIECES, &[&keys], "reading output").await?;
        let mut outputs = HashMap::with_capacity(found.len());
        for row in &found {
            let (key, Some(StoredOutput { kept, .. })) = (rows::output_key(row)?, rows::stored_output(row)?) else {
                continue;
            };
            let first = pieces.partition_point(|piece| rows::output_key(piece).is_ok_and(|other| other < key));
            let own =
                pieces[first..].iter().take_while(|piece| rows::output_key(piece).is_ok_and(|other| other == key));
            let bytes = kept.parts.iter().map(|part| Ok(rows::bytes_of_part(own.clone(), *part)?));
            let bytes = bytes.collect::<Result<Vec<_>, StoreError>>()?;
            outputs.insert(key, TransferredOutput { kept, bytes });
        }
        Ok(outputs)
    }

    /// What is noted of the dependencies of these tasks.
    async fn noted(&self, tasks: &[Row]) -> Result<HashMap<TaskKey, Vec<DependencyRow>>, StoreError> {
        let (mut queues, mut ids, mut keys) = (Vec::new(), Vec::new(), Vec::new());
        for row in tasks {
            let (queue, key, head) = (rows::queue_key(row)?, rows::key(row)?, rows::head(row)?);
            for id in head.scheduling.dependencies.as_slice() {
                queues.push(queue.0);
                ids.push(id.to_string());
                keys.push(key.0);
            }
        }
        let mut noted: HashMap<TaskKey, Vec<DependencyRow>> = HashMap::new();
        if !keys.is_empty() {
            let params: [&(dyn ToSql + Sync); 3] = [&queues, &ids, &keys];
            for row in self.query(&sql::TRANSFER_DEPENDENCIES, &params, "reading dependencies").await? {
                let row = rows::dependency(&row)?;
                noted.entry(row.task).or_default().push(row);
            }
        }
        Ok(noted)
    }

    /// A new unique number.
    async fn number(&mut self) -> Result<i64, StoreError> {
        if self.numbers.is_empty() {
            let row = self.one(&sql::TAKE_NUMBERS, &[], "taking numbers").await?;
            let first = row.try_get(0).map_err(|error| failed("taking numbers", &error))?;
            self.numbers = first..first + BLOCK;
        }
        self.numbers.next().ok_or(StoreError::Unavailable)
    }

    /// Writes the changed rows, all statements in one round trip.
    async fn send(&self, rows: &TransactionRows, doing: &'static str) -> Result<(), StoreError> {
        let changes = Changes::of(rows, SHARD, NO_TIME_HAS_COME);
        let writes = changes.writes();
        let asked = writes.iter().map(|(sql, columns)| self.session.execute(sql, columns));
        // The first failure is the cause of all others.
        let sent: Result<Vec<u64>, Error> = join_all(asked).await.into_iter().collect();
        sent.map(drop).map_err(|error| failed(doing, &error))
    }
}

/// The row of a new task.
fn entry(queue: QueueKey, TransferredTask { task, identity, .. }: &TransferredTask) -> Entry {
    let result = Some(task.outcome.result.clone()).filter(|result| !result.is_empty_object());
    let body = Body { definition: task.definition.clone(), outcome: task.outcome.clone() };
    Entry {
        body: Some(body),
        identity: Some(*identity),
        result,
        error: ErrorChange::to(task.outcome.last_error.as_ref()),
        last_run: LastRunChange::to(task.outcome.last_run.as_ref()),
        progress: ProgressChange::to(task.outcome.progress.as_ref()),
        ..Entry::new(queue, task.head())
    }
}

#[async_trait(?Send)]
impl Source for PostgresTransfer {
    async fn queues(&mut self) -> Result<Vec<(QueueKey, QueueName)>, StoreError> {
        Ok(self.queues.iter().map(|(key, name)| (*key, name.clone())).collect())
    }

    async fn tasks(&mut self, after: Option<i64>) -> Result<Chunk, StoreError> {
        let (first, bytes) = (after.unwrap_or(i64::MIN), CHUNK_BYTES as i64);
        let params: [&(dyn ToSql + Sync); 3] = [&first, &self.queue_keys(), &bytes];
        let mut chunk = Chunk::default();
        let found = self.query(&sql::TRANSFER_TASKS, &params, "reading tasks").await?;
        let keys: Vec<i64> = found.iter().map(|row| Ok(rows::key(row)?.0)).collect::<Result<_, StoreError>>()?;
        let noted = self.noted(&found).await?;
        let mut outputs = self.outputs(keys).await?;
        for row in found {
            let queue = self.queues.get(&rows::queue_key(&row)?).ok_or(StoreError::Unavailable)?;
            let task = rows::task(&row, queue)?;
            let key = rows::key(&row)?;
            let (runs, output) = (rows::runs(&row)?, outputs.remove(&key));
            let own = noted.get(&key).map_or(&[][..], Vec::as_slice);
            let state = |id: &TaskId| own.iter().find(|row| row.dependency == *id).map(|row| row.state);
            let states = task.definition.scheduling.dependencies.as_slice().iter().map(state);
            let states = states.collect::<Option<Vec<_>>>().ok_or(NOT_NOTED)?;
            chunk.tasks.push(TransferredTask::new(task, rows::identity(&row)?, runs, output).with_noted(states));
            chunk.last_key = Some(key.0);
        }
        Ok(chunk)
    }

    async fn observations(&mut self, queue: &QueueName) -> Result<Vec<Observation>, StoreError> {
        let (key, expired_too, first, all) = (self.key(queue)?.0, i64::MIN, "", i64::MAX);
        let params: [&(dyn ToSql + Sync); 4] = [&key, &expired_too, &first, &all];
        let found = self.query(&sql::LIST_OBSERVATIONS, &params, "reading observations").await?;
        found.iter().map(|row| Ok(rows::observation(row, queue)?)).collect()
    }

    async fn settings(&mut self, queue: &QueueName) -> Result<Option<QueueSettings>, StoreError> {
        let row = self.one(&sql::LOAD_SETTINGS, &[&vec![self.key(queue)?.0]], "reading settings").await?;
        Ok(rows::settings(&row)?.map(Arc::unwrap_or_clone))
    }

    async fn unsettled(&mut self, queue: &QueueName) -> Result<Vec<TaskId>, StoreError> {
        let found = self.query(&sql::TRANSFER_UNSETTLED, &[&self.key(queue)?.0], "reading dependencies").await?;
        found.iter().map(|row| Ok(rows::get(row, "dependency")?)).collect()
    }

    async fn deleted_runs(&mut self, after: Option<DeletedRun>) -> Result<Vec<DeletedRun>, StoreError> {
        let last = after.as_ref().map(|(kept_until, run_id)| (kept_until.as_micros(), run_id.as_str()));
        let (kept_until, run_id) = last.unwrap_or((i64::MIN, ""));
        let most = i64::from(CHUNK_RUNS);
        let params: [&(dyn ToSql + Sync); 3] = [&kept_until, &run_id, &most];
        let found = self.query(&sql::TRANSFER_DELETED_RUNS, &params, "reading run ids of deleted tasks").await?;
        found.iter().map(|row| Ok((rows::get(row, "kept_until")?, rows::get(row, "run_id")?))).collect()
    }

    async fn last_scan_at(&mut self) -> Result<Option<Timestamp>, StoreError> {
        Ok(rows::clock(&self.one(&sql::LOAD_CLOCK, &[], "reading the last scan").await?)?.last_scan_at)
    }

    async fn totals(&mut self) -> Result<Totals, StoreError> {
        let row = self.one(&sql::COUNT_DERIVED, &[&self.queue_keys()], "counting").await?;
        let mut totals = Totals {
            queues: self.queues.len() as u64,
            running: rows::get(&row, "running")?,
            pending_entries: rows::get(&row, "pending")?,
            runs: rows::get(&row, "runs")?,
            observations: rows::get(&row, "observations")?,
            ..Totals::default()
        };
        for row in self.query(&sql::LIST_WHOLE_TALLY, &[], "counting tasks").await? {
            let (key, status, tasks) = rows::whole_tally(&row)?;
            totals.add_status(self.queues.get(&key).ok_or(StoreError::Unavailable)?, status, tasks);
        }
        Ok(totals)
    }
}

#[async_trait(?Send)]
impl Target for PostgresTransfer {
    async fn is_empty(&mut self) -> Result<bool, StoreError> {
        Ok(rows::get(&self.one(&sql::CHECK_EMPTY, &[], "checking that the target is empty").await?, 0)?)
    }

    async fn add_queues(&mut self, queues: &[(QueueKey, QueueName)]) -> Result<(), StoreError> {
        let mut rows = TransactionRows::default();
        rows.new_queues.extend(queues.iter().map(|(key, name)| (name.clone(), *key)));
        self.last_number = queues.iter().map(|(key, _)| key.0).fold(self.last_number, i64::max);
        self.send(&rows, "copying queues").await?;
        self.load_queues().await
    }

    async fn add_tasks(&mut self, tasks: &[TransferredTask]) -> Result<(), StoreError> {
        let mut rows = TransactionRows::default();
        for copied in tasks {
            let key = TaskKey(self.number().await?);
            rows.tasks.insert(key, entry(self.key(&copied.task.queue)?, copied));
            rows.outputs.extend(copied.output.as_ref().map(|output| (key, OutputEntry::copied(output))));
            let ids = copied.task.definition.scheduling.dependencies.as_slice().iter();
            let noted: Vec<_> = ids.copied().zip(copied.noted.iter().copied()).collect();
            let queue = self.key(&copied.task.queue)?;
            rows.dependencies.replace(queue, key, &Dependencies::default(), &noted);
            // The source may have left some of them to be looked at again.
            let unmet = noted.iter().filter(|(_, state)| !state.is_met());
            rows.dependencies.unsettled.extend(unmet.map(|(id, _)| (queue, *id, true)));
            rows.new_runs.extend(copied.runs().map(|run_id| (run_id, key)));
            self.last_number = self.last_number.max(copied.task.lifecycle.pending_seq);
        }
        self.send(&rows, "copying tasks").await
    }

    async fn add_unsettled(&mut self, queue: &QueueName, ids: &[TaskId]) -> Result<(), StoreError> {
        let (mut rows, queue) = (TransactionRows::default(), self.key(queue)?);
        rows.dependencies.unsettled.extend(ids.iter().map(|id| (queue, *id, false)));
        self.send(&rows, "copying dependencies").await
    }

    async fn add_observations(&mut self, observations: &[Observation]) -> Result<(), StoreError> {
        let mut rows = TransactionRows::default();
        for observation in observations {
            let key = (self.key(&observation.queue)?, observation.id);
            let changed = ChangedObservation { observation: observation.clone(), reported: true };
            rows.changed_observations.insert(key, changed);
        }
        self.send(&rows, "copying observations").await
    }

    async fn add_settings(&mut self, queue: &QueueName, settings: &QueueSettings) -> Result<(), StoreError> {
        let saved = settings::save(&self.session, self.key(queue)?, &QueueSettings::default(), settings).await;
        saved.map_err(|error| failed("copying settings", &error))
    }

    async fn clear_deleted_runs(&mut self) -> Result<(), StoreError> {
        self.query(&sql::CLEAR_DELETED_RUNS, &[], "deleting run ids").await.map(drop)
    }

    async fn add_deleted_runs(&mut self, runs: &[DeletedRun]) -> Result<(), StoreError> {
        let ids: Vec<&str> = runs.iter().map(|(_, run_id)| run_id.as_str()).collect();
        let kept_until: Vec<Option<i64>> = runs.iter().map(|(kept_until, _)| Some(kept_until.as_micros())).collect();
        let added = self.session.execute(&sql::INSERT_RUNS, &[&ids, &vec![NO_TASK; ids.len()], &kept_until]).await;
        added.map(drop).map_err(|error| failed("copying run ids of deleted tasks", &error))
    }

    async fn finish(&mut self, last_scan_at: Option<Timestamp>) -> Result<(), StoreError> {
        let last_scan_at = last_scan_at.map(Timestamp::as_micros);
        let params: [&(dyn ToSql + Sync); 3] = [&last_scan_at, &self.offset_micros, &None::<i64>];
        let saved = self.session.execute(&sql::SAVE_SCAN, &params).await;
        saved.map_err(|error| failed("copying the last scan", &error))?;
        self.query(&sql::RAISE_NUMBERS, &[&self.last_number], "raising numbers").await?;
        self.session.execute_text(&self.analyze).await.map_err(|error| failed("analysing the copy", &error))
    }

    async fn commit(self: Box<Self>) -> Result<(), StoreError> {
        self.session.execute_text("COMMIT").await.map_err(|error| failed("committing", &error))
    }
}

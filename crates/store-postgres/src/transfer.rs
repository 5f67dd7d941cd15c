//! A schema as source or target of a transfer (`store::transfer`). Everything happens in one transaction on one connection,
//! which locks the clock: meanwhile no server can scan the leases, and a server that starts waits. Rows are written by the
//! same code as a batch of a server (`changes.rs`), so that the derived tables are right. It begins only if no server uses the schema.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::join_all;
use taskqueue_core::lease::is_longer_than_outage;
use taskqueue_core::limits::OUTAGE_SECONDS;
use taskqueue_core::{Dependencies, Observation, QueueName, QueueSettings, TaskId, Timestamp};
use taskqueue_store::transfer::{
    CHUNK_BYTES, CHUNK_RUNS, Chunk, DeletedRun, Source, Target, Totals, TransferError, TransferredOutput,
    TransferredTask,
};
use taskqueue_store::{Queue, QueueKey, StoreError, StoreResult, TaskKey};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error, Row};

use crate::address::Address;
use crate::changes::Changes;
use crate::clock::ClockRow;
use crate::failure::{Cause, cause, describe, failed};
use crate::open::{Connector, OpenError};
use crate::output::{OutputEntry, StoredOutput};
use crate::rows::DependencyRow;
use crate::session::{Params, Schema, Session, Sql};
use crate::transaction::BLOCK;
use crate::transaction_rows::{Body, ChangedObservation, Entry, TransactionRows};
use crate::{migrate, open, rows, settings, statements as sql};

const NOT_NOTED: StoreError = StoreError::Broken("nothing is noted of a dependency");

/// Any shard of the tally.
const SHARD: i16 = 0;

/// No task has this key: numbers begin far above it.
const NO_TASK: i64 = 0;

/// One snapshot for everything, without a time limit; a server that scans is waited for only briefly.
const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ; SET LOCAL statement_timeout = 0; \
    SET LOCAL idle_in_transaction_session_timeout = 0; SET LOCAL lock_timeout = '4s'; SET LOCAL jit = off";

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
    numbers: Range<i64>,
    offset_micros: i64,
    /// The largest number that was copied.
    last_number: i64,
}

fn refused(error: &OpenError) -> TransferError {
    TransferError::Refused(error.to_string())
}

impl PostgresTransfer {
    /// The schema to copy from, which must exist.
    pub async fn source(address: Address, schema: &str) -> Result<Self, TransferError> {
        let connector = Connector::new(address.for_command(), Schema::new(schema)).map_err(|error| refused(&error))?;
        let mut client = connector.open().await.map_err(|error| refused(&error))?;
        if !schema_exists(&client, &connector).await? {
            let hosts = connector.hosts();
            return Err(TransferError::Refused(format!(
                "there is no schema {schema:?} of ours at {hosts}; check its name"
            )));
        }
        Self::begin(&connector, &mut client).await
    }

    /// The schema to copy to, which is created if it does not exist.
    pub async fn target(address: Address, schema: &str) -> Result<Self, TransferError> {
        let connector = Connector::new(address.for_command(), Schema::new(schema)).map_err(|error| refused(&error))?;
        let mut client = connector.open().await.map_err(|error| refused(&error))?;
        let weaknesses = open::weaknesses(&client).await;
        for weakness in weaknesses.map_err(|error| failed("reading settings", &error))? {
            tracing::warn!("THE TARGET MAY LOSE ACKNOWLEDGED WRITES: {weakness}");
        }
        Self::begin(&connector, &mut client).await
    }

    async fn begin(connector: &Connector, client: &mut Client) -> Result<Self, TransferError> {
        let (schema, hosts) = (connector.schema(), connector.hosts());
        migrate::migrate(client, schema, &hosts).await.map_err(|error| refused(&error))?;
        let session = connector.session().await.map_err(|error| error.to_store_error("connecting"))?;
        session.begin(BEGIN).await.map_err(|error| failed("beginning", &error))?;
        let (offset_micros, first) = lock_clock(&session, schema, &hosts).await?;
        let (analyze, numbers) = (schema.apply(ANALYZE), first..first + BLOCK);
        let mut transfer = Self { session, analyze, queues: BTreeMap::new(), numbers, offset_micros, last_number: 0 };
        transfer.load_queues().await?;
        Ok(transfer)
    }

    async fn query(&self, sql: &'static Sql, params: Params<'_>, doing: &'static str) -> StoreResult<Vec<Row>> {
        self.session.query(sql, params).await.map_err(|error| failed(doing, &error))
    }

    async fn one(&self, sql: &'static Sql, params: Params<'_>, doing: &'static str) -> StoreResult<Row> {
        self.query(sql, params, doing).await?.pop().ok_or(StoreError::Unavailable)
    }

    async fn load_queues(&mut self) -> StoreResult<()> {
        let queues = self.query(&sql::LOAD_QUEUES, &[], "reading queues").await?;
        self.queues = queues.iter().map(rows::named_queue).collect::<Result<_, _>>()?;
        Ok(())
    }

    fn queue_keys(&self) -> Vec<i64> {
        self.queues.keys().map(|key| key.0).collect()
    }

    /// The output of these tasks.
    async fn outputs(&self, keys: Vec<i64>) -> StoreResult<HashMap<TaskKey, TransferredOutput>> {
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
            let bytes = bytes.collect::<StoreResult<Vec<_>>>()?;
            outputs.insert(key, TransferredOutput { kept, bytes });
        }
        Ok(outputs)
    }

    /// What is noted of the dependencies of these tasks.
    async fn noted(&self, tasks: &[Row]) -> StoreResult<HashMap<TaskKey, Vec<DependencyRow>>> {
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
            let found =
                self.query(&sql::TRANSFER_DEPENDENCIES, &[&queues, &ids, &keys], "reading dependencies").await?;
            for row in found {
                let row = rows::dependency(&row)?;
                noted.entry(row.task).or_default().push(row);
            }
        }
        Ok(noted)
    }

    /// A new unique number.
    async fn number(&mut self) -> StoreResult<i64> {
        if self.numbers.is_empty() {
            let row = self.one(&sql::TAKE_NUMBERS, &[], "taking numbers").await?;
            let first = row.try_get(0).map_err(|error| failed("taking numbers", &error))?;
            self.numbers = first..first + BLOCK;
        }
        self.numbers.next().ok_or(StoreError::Unavailable)
    }

    /// Writes the changed rows, all statements in one round trip.
    async fn send(&self, rows: &TransactionRows, doing: &'static str) -> StoreResult<()> {
        let changes = Changes::of(rows, SHARD, NO_TIME_HAS_COME);
        let writes = changes.writes();
        let asked = writes.iter().map(|(sql, columns)| self.session.execute(sql, columns));
        // The first failure is the cause of all others.
        let sent: Result<Vec<u64>, Error> = join_all(asked).await.into_iter().collect();
        sent.map(drop).map_err(|error| failed(doing, &error))
    }
}

async fn schema_exists(client: &Client, connector: &Connector) -> Result<bool, TransferError> {
    let asked = client.query_typed(&sql::HAS_SCHEMA.text, &[(&connector.schema().name(), Type::TEXT)]).await;
    let found = asked.map_err(|error| TransferError::Refused(describe(&error)))?;
    Ok(found.first().map(|row| rows::get(row, 0)).transpose().map_err(StoreError::from)?.unwrap_or(false))
}

/// Locks the clock, unless a server has recently scanned the leases and is therefore running. Returns the offset of the
/// clock, and the first number of a block.
async fn lock_clock(session: &Session, schema: &Schema, hosts: &str) -> Result<(i64, i64), TransferError> {
    let in_use = || {
        let name = schema.name();
        TransferError::Refused(format!(
            "a server used schema {name:?} at {hosts} less than {OUTAGE_SECONDS} s ago; stop every server on it, wait \
             {OUTAGE_SECONDS} seconds and try again"
        ))
    };
    let row = match session.first(&sql::LOCK_CLOCK, &[]).await {
        Ok(row) => row.ok_or(StoreError::Unavailable)?,
        // A scan is running, or has run while we waited for the lock.
        Err(error) if matches!(cause(&error), Cause::Busy | Cause::Conflict) => return Err(in_use()),
        Err(error) => return Err(failed("checking for running servers", &error).into()),
    };
    let ClockRow { micros, offset_micros, last_scan_at, .. } = rows::clock(&row).map_err(StoreError::from)?;
    let first = rows::get(&row, "first_number").map_err(StoreError::from)?;
    let now = Timestamp::from_micros(micros.saturating_add(offset_micros));
    // A last scan far in the future is as little a sign of a running server as one long ago: the clock was set back.
    if last_scan_at.is_some_and(|last| !is_longer_than_outage(last, now) && !is_longer_than_outage(now, last)) {
        return Err(in_use());
    }
    Ok((offset_micros, first))
}

/// The row of a new task.
fn entry(copied: &TransferredTask) -> Entry {
    let mut entry = Entry::new(copied.queue, copied.task.head());
    entry.apply_change(&copied.history());
    entry.identity = Some(copied.identity);
    entry.body = Some(Body { definition: copied.task.definition.clone(), outcome: copied.task.outcome.clone() });
    entry
}

#[async_trait(?Send)]
impl Source for PostgresTransfer {
    async fn queues(&mut self) -> StoreResult<Vec<(QueueKey, QueueName)>> {
        Ok(self.queues.iter().map(|(key, name)| (*key, name.clone())).collect())
    }

    async fn tasks(&mut self, after: Option<i64>) -> StoreResult<Chunk> {
        let (first, bytes) = (after.unwrap_or(i64::MIN), CHUNK_BYTES as i64);
        let mut chunk = Chunk::default();
        let found = self.query(&sql::TRANSFER_TASKS, &[&first, &self.queue_keys(), &bytes], "reading tasks").await?;
        let keys: Vec<i64> = found.iter().map(|row| Ok(rows::key(row)?.0)).collect::<StoreResult<_>>()?;
        let noted = self.noted(&found).await?;
        let mut outputs = self.outputs(keys).await?;
        for row in found {
            let (queue, key) = (rows::queue_key(&row)?, rows::key(&row)?);
            let task = rows::task(&row, self.queues.get(&queue).ok_or(StoreError::Unavailable)?)?;
            let own = noted.get(&key).map_or(&[][..], Vec::as_slice);
            let state = |id: &TaskId| own.iter().find(|row| row.dependency == *id).map(|row| row.state);
            let states = task.definition.scheduling.dependencies.as_slice().iter().map(state);
            let noted = states.collect::<Option<Vec<_>>>().ok_or(NOT_NOTED)?;
            let copied = TransferredTask::new(queue, task, rows::identity(&row)?, rows::runs(&row)?);
            chunk.tasks.push(TransferredTask { output: outputs.remove(&key), noted, ..copied });
            chunk.last_key = Some(key.0);
        }
        Ok(chunk)
    }

    async fn observations(&mut self, queue: Queue<'_>) -> StoreResult<Vec<Observation>> {
        let (expired_too, first, all) = (i64::MIN, "", i64::MAX);
        let params: Params<'_> = &[&queue.key.0, &expired_too, &first, &all];
        let found = self.query(&sql::LIST_OBSERVATIONS, params, "reading observations").await?;
        found.iter().map(|row| Ok(rows::observation(row, queue.name)?)).collect()
    }

    async fn settings(&mut self, queue: QueueKey) -> StoreResult<Option<QueueSettings>> {
        let row = self.one(&sql::LOAD_SETTINGS, &[&vec![queue.0]], "reading settings").await?;
        Ok(rows::settings(&row)?.map(Arc::unwrap_or_clone))
    }

    async fn unsettled(&mut self, queue: QueueKey) -> StoreResult<Vec<TaskId>> {
        let found = self.query(&sql::TRANSFER_UNSETTLED, &[&queue.0], "reading dependencies").await?;
        found.iter().map(|row| Ok(rows::get(row, "dependency")?)).collect()
    }

    async fn deleted_runs(&mut self, after: Option<DeletedRun>) -> StoreResult<Vec<DeletedRun>> {
        let last = after.as_ref().map(|(kept_until, run_id)| (kept_until.as_micros(), run_id.as_str()));
        let (kept_until, run_id) = last.unwrap_or((i64::MIN, ""));
        let most = i64::from(CHUNK_RUNS);
        let doing = "reading run ids of deleted tasks";
        let found = self.query(&sql::TRANSFER_DELETED_RUNS, &[&kept_until, &run_id, &most], doing).await?;
        found.iter().map(|row| Ok((rows::get(row, "kept_until")?, rows::get(row, "run_id")?))).collect()
    }

    async fn last_scan_at(&mut self) -> StoreResult<Option<Timestamp>> {
        Ok(rows::clock(&self.one(&sql::LOAD_CLOCK, &[], "reading the last scan").await?)?.last_scan_at)
    }

    async fn totals(&mut self) -> StoreResult<Totals> {
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
    async fn is_empty(&mut self) -> StoreResult<bool> {
        Ok(rows::get(&self.one(&sql::CHECK_EMPTY, &[], "checking that the target is empty").await?, 0)?)
    }

    async fn add_queues(&mut self, queues: &[(QueueKey, QueueName)]) -> StoreResult<()> {
        let mut rows = TransactionRows::default();
        rows.new_queues.extend(queues.iter().map(|(key, name)| (name.clone(), *key)));
        self.last_number = queues.iter().map(|(key, _)| key.0).fold(self.last_number, i64::max);
        self.send(&rows, "copying queues").await?;
        self.load_queues().await
    }

    async fn add_tasks(&mut self, tasks: &[TransferredTask]) -> StoreResult<()> {
        let mut rows = TransactionRows::default();
        for copied in tasks {
            let (queue, key, noted) = (copied.queue, TaskKey(self.number().await?), copied.dependencies()?);
            rows.tasks.insert(key, entry(copied));
            rows.outputs.extend(copied.output.as_ref().map(|output| (key, OutputEntry::copied(output))));
            rows.dependencies.replace(queue, key, &Dependencies::default(), &noted);
            // The source may have left some of them to be looked at again.
            let unmet = noted.iter().filter(|(_, state)| !state.is_met());
            rows.dependencies.unsettled.extend(unmet.map(|(id, _)| (queue, *id, true)));
            rows.new_runs.extend(copied.runs().map(|run_id| (run_id, key)));
            self.last_number = self.last_number.max(copied.task.lifecycle.pending_seq);
        }
        self.send(&rows, "copying tasks").await
    }

    async fn add_unsettled(&mut self, queue: QueueKey, ids: &[TaskId]) -> StoreResult<()> {
        let mut rows = TransactionRows::default();
        rows.dependencies.unsettled.extend(ids.iter().map(|id| (queue, *id, false)));
        self.send(&rows, "copying dependencies").await
    }

    async fn add_observations(&mut self, queue: QueueKey, observations: &[Observation]) -> StoreResult<()> {
        let mut rows = TransactionRows::default();
        for observation in observations {
            let changed = ChangedObservation { observation: observation.clone(), reported: true };
            rows.changed_observations.insert((queue, observation.id), changed);
        }
        self.send(&rows, "copying observations").await
    }

    async fn add_settings(&mut self, queue: Queue<'_>, settings: &QueueSettings) -> StoreResult<()> {
        let saved = settings::save(&self.session, queue.key, &QueueSettings::default(), settings).await;
        saved.map_err(|error| failed("copying settings", &error))
    }

    async fn clear_deleted_runs(&mut self) -> StoreResult<()> {
        self.query(&sql::CLEAR_DELETED_RUNS, &[], "deleting run ids").await.map(drop)
    }

    async fn add_deleted_runs(&mut self, runs: &[DeletedRun]) -> StoreResult<()> {
        let ids: Vec<&str> = runs.iter().map(|(_, run_id)| run_id.as_str()).collect();
        let kept_until: Vec<Option<i64>> = runs.iter().map(|(kept_until, _)| Some(kept_until.as_micros())).collect();
        let added = self.session.execute(&sql::INSERT_RUNS, &[&ids, &vec![NO_TASK; ids.len()], &kept_until]).await;
        added.map(drop).map_err(|error| failed("copying run ids of deleted tasks", &error))
    }

    async fn finish(&mut self, last_scan_at: Option<Timestamp>) -> StoreResult<()> {
        let last_scan_at = last_scan_at.map(Timestamp::as_micros);
        let params: Params<'_> = &[&last_scan_at, &self.offset_micros, &None::<i64>];
        let saved = self.session.execute(&sql::SAVE_SCAN, params).await;
        saved.map_err(|error| failed("copying the last scan", &error))?;
        self.query(&sql::RAISE_NUMBERS, &[&self.last_number], "raising numbers").await?;
        self.session.execute_text(&self.analyze).await.map_err(|error| failed("analysing the copy", &error))
    }

    async fn commit(self: Box<Self>) -> StoreResult<()> {
        self.session.execute_text("COMMIT").await.map_err(|error| failed("committing", &error))
    }
}

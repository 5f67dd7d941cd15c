//! The scale-out backend: any number of stateless servers on one PostgreSQL. A few threads write in batches
//! (`writer.rs`), a pool of connections reads (`readers.rs`). Rules live in `core`, the steps of a command in `store`.

mod address;
mod bulk;
mod changes;
mod check;
mod clock;
mod dependency_rows;
mod derived_tables;
mod dialect;
mod ended;
mod explain;
mod failure;
mod holding;
mod long_reader;
mod migrate;
mod notify;
mod open;
mod output;
mod prefetch;
mod purge;
mod readers;
mod reads;
mod rows;
mod session;
mod settings;
mod statements;
mod stats;
mod tls;
mod transaction;
mod transaction_rows;
mod transfer;
mod wakeups;
mod writer;
mod writers;

#[cfg(test)]
mod database_tests;
#[cfg(test)]
mod dialect_tests;
#[cfg(test)]
mod readers_tests;
#[cfg(test)]
mod reads_tests;
#[cfg(test)]
mod statement_tests;

use std::collections::hash_map::RandomState;
use std::convert::Infallible;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use taskqueue_core::explain::Explanation;
use taskqueue_core::limits::{DELETED_RUN_SECONDS, LEASE_SECONDS, OUTAGE_CREDIT_SECONDS, OUTAGE_SECONDS};
use taskqueue_core::stats::{ActivitySeries, PendingDetail, QueueStats, SeriesSelection};
use taskqueue_core::{QueueName, QueueSettings, RouteSelection, TaskId};
use taskqueue_store::bulk::update_tasks;
use taskqueue_store::bulk_action::act_on_tasks;
use taskqueue_store::clock::correction::{EARLIEST, MAX_STORED_AHEAD_SECONDS};
use taskqueue_store::figures::{ProcessFigures, StoreFigures};
use taskqueue_store::reading::{TaskRead, WorkerRead};
use taskqueue_store::related::{Related, RelatedTasks};
use taskqueue_store::write_queue::{QueuedWrite, WriteQueue};
use taskqueue_store::writers::close_on_thread;
use taskqueue_store::{
    ActOnTasks, Acted, BulkUpdate, Clock, InstallationSecret, Output, QueueKey, Store, StoreError, StoreParts,
    StoreResult, Updated, WriteRequest,
};
use tokio::task::JoinSet;
use tokio_postgres::Error;

pub use crate::address::{Address, AddressError};
pub use crate::check::check;
use crate::long_reader::Snapshot;
use crate::open::Connector;
pub use crate::open::OpenError;
use crate::readers::{Lane, Readers};
use crate::session::{Params, Schema, Session};
use crate::stats::{DatabaseSize, StatsReader};
pub use crate::transfer::PostgresTransfer;
use crate::writer::SharedState;
use crate::writers::Writers;

/// What can be chosen about a store.
#[derive(Clone)]
pub struct Options {
    /// The schema that holds the tables.
    pub schema: String,
    /// What every running lease is good for after an outage; 0 turns the credit off.
    pub outage_credit_seconds: i64,
    /// A clock instead of the database's, for tests.
    pub clock: Option<Arc<dyn Clock>>,
    pub concurrency: Concurrency,
}

/// How much is done at a time, each on a connection of its own, which holds what it receives and sends.
#[derive(Clone, Copy, Debug)]
pub struct Concurrency {
    /// Writers of ordinary commands: while one waits for its commit, the next batch is on its way. Heavy commands, long ones and
    /// upkeep have one more each.
    pub writers: u64,
    /// Reads of bounded cost, at least 3. More than 6 would only wait at the database.
    pub reads: usize,
    /// Reads that may visit every task, each with a thread. One takes about 1 MiB, and some MiB more while it receives large tasks.
    pub long_reads: usize,
}

impl Concurrency {
    /// Where the server has less than 512 MiB.
    pub const WITH_LITTLE_MEMORY: Self = Self { writers: 1, reads: 4, long_reads: 4 };
}

impl Default for Concurrency {
    fn default() -> Self {
        Self { writers: 2, reads: 6, long_reads: 12 }
    }
}

impl Default for Options {
    fn default() -> Self {
        let (schema, concurrency) = ("taskqueue".to_owned(), Concurrency::default());
        Self { schema, outage_credit_seconds: OUTAGE_CREDIT_SECONDS, clock: None, concurrency }
    }
}

/// The store in one schema of a PostgreSQL database.
pub struct PostgresStore {
    writers: Arc<Writers>,
    readers: Arc<Readers>,
    parts: StoreParts,
    size: Arc<DatabaseSize>,
    /// They end with the store.
    _background_tasks: JoinSet<Infallible>,
    clock: Option<Arc<dyn Clock>>,
    /// Whether the database can tell what was written since a snapshot.
    plans: bool,
}

impl PostgresStore {
    /// Connects to a database, creates or migrates its schema, and starts the threads.
    pub async fn open(address: Address, options: Options) -> Result<Self, OpenError> {
        let Options { schema, outage_credit_seconds, clock, concurrency } = options;
        let connector = Arc::new(Connector::new(address, Schema::new(&schema))?);
        let mut client = connector.open().await?;
        migrate::migrate(&mut client, connector.schema(), &connector.hosts()).await?;
        let failed = |error: &dyn std::fmt::Display| OpenError::Failed(connector.hosts(), error.to_string());
        let weaknesses = open::weaknesses(&client).await.map_err(|error| failed(&failure::describe(&error)))?;
        for weakness in &weaknesses {
            tracing::warn!("THE DATABASE MAY LOSE ACKNOWLEDGED WRITES: {weakness}");
        }
        let session = connector.session().await.map_err(|error| failed(&error))?;
        let now = clock.as_ref().map(|clock| clock.now().as_micros());
        set_time(&session, now).await.map_err(|error| failed(&failure::describe(&error)))?;
        let secret = installation_secret(&session).await.map_err(|why| failed(&why))?;
        let plans = bulk::can_plan(&session).await;
        let shared = SharedState {
            connector: Arc::clone(&connector),
            wakeups: Arc::default(),
            activity: Arc::default(),
            figures: Arc::default(),
            dead: Arc::default(),
            clock,
            last_scan: Arc::default(),
            next_search: Arc::default(),
            credit_seconds: outage_credit_seconds,
        };
        let SharedState { wakeups, activity, dead, clock, .. } = shared.clone();
        // Not on an async thread: where one writer cannot start, the runtimes of the others could not be dropped there.
        let writers = tokio::task::spawn_blocking(move || Writers::start(&shared, concurrency.writers)).await;
        let writers = writers.map_err(|error| failed(&error))?;
        let writers = Arc::new(writers.map_err(|error| failed(&error))?);
        let readers = Arc::new(Readers::new(connector.clone(), concurrency));
        let mut background_tasks = JoinSet::new();
        background_tasks.spawn(wakeups::poll(Arc::clone(&wakeups), Arc::clone(&readers), clock.clone()));
        let waiters = Arc::clone(&wakeups.waiters);
        background_tasks.spawn(notify::run(wakeups, Arc::clone(&connector)));
        background_tasks.spawn(purge::run_vacuum(dead, connector));
        let parts = StoreParts::new("PostgreSQL", activity, waiters, Some(secret));
        Ok(Self { writers, readers, parts, size: Arc::default(), _background_tasks: background_tasks, clock, plans })
    }

    fn now(&self) -> Option<taskqueue_core::time::Timestamp> {
        self.clock.as_ref().map(|clock| clock.now())
    }

    fn stats<'s>(&'s self, session: &'s Session) -> StatsReader<'s> {
        StatsReader { session, log: &self.parts.activity, clock: self.now() }
    }
}

/// Makes the time of the service one that the database's clock allows, and notes since when activity is counted. `now` is a time
/// instead of the database's, for tests.
async fn set_time(session: &Session, now: Option<i64>) -> Result<(), Error> {
    let (outage_micros, ahead_micros) = (OUTAGE_SECONDS * 1_000_000, MAX_STORED_AHEAD_SECONDS * 1_000_000);
    let (lease_micros, kept_micros) = (LEASE_SECONDS * 1_000_000, DELETED_RUN_SECONDS * 1_000_000);
    let bounds: Params<'_> = &[&outage_micros, &ahead_micros, &EARLIEST.as_micros(), &lease_micros, &kept_micros];
    if session.execute(&statements::BRING_TIME_BACK, bounds).await? > 0 {
        tracing::warn!(
            "the time of the service was more than a day ahead of the database's clock; the clock is used, and running \
             leases are reset to {LEASE_SECONDS} seconds from now"
        );
    }
    session.execute(&statements::RAISE_CLOCK, &[&outage_micros, &ahead_micros]).await?;
    session.execute(&statements::SAVE_ACTIVITY_SINCE, &[&now]).await.map(drop)
}

/// The secret of the installation. Of several servers that make one at once, the first one counts.
async fn installation_secret(session: &Session) -> Result<InstallationSecret, String> {
    let new = InstallationSecret::random().map_err(|error| error.to_string())?;
    let saved = session.execute(&statements::SAVE_INSTALLATION_SECRET, &[&new.as_bytes()]).await;
    saved.map_err(|error| failure::describe(&error))?;
    let row = session.first(&statements::LOAD_INSTALLATION_SECRET, &[]).await;
    let row = row.map_err(|error| failure::describe(&error))?;
    let kept = row.and_then(|row| InstallationSecret::from_bytes(row.try_get("secret").ok()?));
    kept.ok_or_else(|| "the secret of the installation cannot be read".to_owned())
}

/// Each such state of the standard library has a new random seed.
fn random_u64() -> u64 {
    RandomState::new().build_hasher().finish()
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        self.readers.close();
        // Without waiting for the threads: this may be an async one.
        self.writers.close_queues();
    }
}

#[async_trait]
impl Store for PostgresStore {
    fn submit(&self, request: WriteRequest) -> StoreResult<()> {
        let write = QueuedWrite::new(request);
        self.writers.queue(&write).submit(write)
    }

    async fn update_tasks(&self, bulk: Arc<BulkUpdate>) -> StoreResult<Updated> {
        if self.plans { update_tasks(self, &bulk).await } else { self.writers.long.write_bulk(bulk, None).await }
    }

    async fn act_on_tasks(&self, act: Arc<ActOnTasks>) -> StoreResult<Acted> {
        act_on_tasks(self, &self.parts.actions, act).await
    }

    async fn list_queue_keys(&self) -> StoreResult<Vec<(QueueKey, QueueName)>> {
        let read = |session: Arc<Session>| async move { reads::list_queue_keys(&session).await };
        self.readers.read(Lane::Short, "listing queues", read).await
    }

    async fn explain(&self, queue: &QueueName, id: TaskId) -> StoreResult<Explanation> {
        let now = self.now();
        let read = |session: Arc<Session>| async move { explain::explain(&session, queue, id, now).await };
        self.readers.read(Lane::Page, "explaining a task", read).await
    }

    async fn related_tasks(&self, queue: &QueueName, related: Related) -> StoreResult<RelatedTasks> {
        let related = &related;
        let read = |session: Arc<Session>| async move { explain::related_tasks(&session, queue, related).await };
        self.readers.read(Lane::Page, "reading related tasks", read).await
    }

    async fn queue_settings(&self, queue: &QueueName) -> StoreResult<QueueSettings> {
        let read = |session: Arc<Session>| async move { settings::queue_settings(&session, queue).await };
        self.readers.read(Lane::Short, "reading settings", read).await
    }

    async fn read_output(&self, queue: &QueueName, id: TaskId, offset: u64, most_bytes: usize) -> StoreResult<Output> {
        let read = |session: Arc<Session>| async move { output::read(&session, queue, id, offset, most_bytes).await };
        self.readers.read(Lane::Short, "reading output", read).await
    }

    async fn read_tasks(&self, queue: &QueueName, read: TaskRead) -> StoreResult<()> {
        let doing = read.doing();
        let lane = match &read {
            TaskRead::Task(..) => Some(Lane::Short),
            TaskRead::Page(query, _) => reads::is_bounded(&self.readers, queue, query).await?.then_some(Lane::Page),
            TaskRead::Groups(query, _) => query.selection.is_by_status_only().then_some(Lane::Short),
        };
        let Some(lane) = lane else {
            let queue = queue.clone();
            let long = async move |snapshot: &Snapshot<'_>| reads::read_tasks(snapshot, &queue, &read).await;
            return self.readers.read_long(doing, long).await;
        };
        let read = &read;
        let bounded =
            |session: Arc<Session>| async move { reads::read_tasks(&Snapshot::bounded(&session), queue, read).await };
        self.readers.read(lane, doing, bounded).await
    }

    async fn read_workers(&self, queue: &QueueName, read: WorkerRead) -> StoreResult<()> {
        let (doing, now) = ("reading observations", self.now());
        if !read.is_bounded() {
            let queue = queue.clone();
            let long = async move |snapshot: &Snapshot<'_>| reads::read_workers(snapshot, &queue, &read, now).await;
            return self.readers.read_long(doing, long).await;
        }
        let read = &read;
        let bounded = |session: Arc<Session>| async move {
            reads::read_workers(&Snapshot::bounded(&session), queue, read, now).await
        };
        self.readers.read(Lane::Page, doing, bounded).await
    }

    async fn queue_stats(&self, queue: &QueueName, routes: &RouteSelection) -> StoreResult<QueueStats> {
        let read = |session: Arc<Session>| async move { self.stats(&session).queue_stats(queue, routes).await };
        self.readers.read(Lane::Page, "reading stats", read).await
    }

    async fn activity_series(&self, queue: &QueueName, selection: SeriesSelection) -> StoreResult<ActivitySeries> {
        let read = |session: Arc<Session>| async move { self.stats(&session).activity_series(queue, selection).await };
        self.readers.read(Lane::Page, "reading activity", read).await
    }

    async fn figures(
        &self,
        queues: &[QueueKey],
        routes: &RouteSelection,
        pending: PendingDetail,
    ) -> StoreResult<StoreFigures> {
        let read = |session: Arc<Session>| async move { self.stats(&session).figures(queues, routes, pending).await };
        let figures = self.readers.read(Lane::Page, "reading figures", read).await?;
        Ok(StoreFigures { database_bytes: self.size.known(&self.readers), ..figures })
    }

    fn process_figures(&self) -> ProcessFigures {
        let queues =
            [&self.writers.ordinary, &self.writers.heavy, &self.writers.long].map(WriteQueue::length_and_capacity);
        let (readers_in_use, readers) = self.readers.in_use_and_all();
        ProcessFigures {
            writer: self.writers.figures.read(),
            queued_writes: queues.iter().map(|(length, _)| length).sum(),
            queue_capacity: queues.iter().map(|(_, capacity)| capacity).sum(),
            readers,
            readers_in_use,
            long_reads: self.readers.long_reads_under_way(),
        }
    }

    fn parts(&self) -> &StoreParts {
        &self.parts
    }

    async fn check(&self) -> StoreResult<Vec<String>> {
        let now = Instant::now();
        if self.writers.health.iter().all(|writer| writer.is_stuck(now)) {
            return Err(StoreError::Unavailable);
        }
        let read = |session: Arc<Session>| async move { reads::check(&session).await };
        self.readers.read(Lane::Check, "checking the database", read).await
    }

    async fn close(&self) {
        self.readers.close();
        let writers = Arc::clone(&self.writers);
        let close = move || {
            writers.close_queues();
            writers.threads.join();
        };
        close_on_thread(close).await;
    }
}

//! The embedded backend: one SQLite file, owned by this process. One thread writes (`writer.rs`), a few read
//! (`readers.rs`); what claims need is kept in memory (`claim_index.rs`) and published between batches, so that every thread
//! can answer a claim that finds nothing (`published_index.rs`). Rules live in `core`, the steps of a command in `store`.

mod backup;
mod bloom_filter;
mod bulk;
mod check;
mod checkpoint;
mod claim_index;
mod ended;
mod explain;
mod history;
mod migrate;
pub mod new_file;
mod oldest_pending;
mod open;
mod output;
mod outside_reader;
mod ownership;
mod pending_order;
mod published_index;
mod queries;
mod readers;
mod reads;
mod rows;
mod sparse_reads;
mod statements;
mod stats;
mod transaction;
mod transfer;
mod used_runs;
mod waiting_tasks;
mod writer;

#[cfg(test)]
mod history_tests;
#[cfg(test)]
mod queue_tests;
#[cfg(test)]
mod read_tests;
#[cfg(test)]
mod store_tests;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use async_trait::async_trait;
// SQLite is built to call it (.cargo/config.toml).
use mimalloc as _;
use rusqlite::Connection;
use taskqueue_core::explain::Explanation;
use taskqueue_core::limits::OUTAGE_CREDIT_SECONDS;
use taskqueue_core::stats::{ActivitySeries, PendingDetail, QueueStats, SeriesSelection};
use taskqueue_core::{QueueName, QueueSettings, RouteSelection, TaskId};
use taskqueue_store::bulk::update_tasks;
use taskqueue_store::bulk_action::act_on_tasks;
use taskqueue_store::command::Lookup;
use taskqueue_store::figures::{ProcessFigures, StoreFigures};
use taskqueue_store::reading::{TaskRead, WorkerRead};
use taskqueue_store::related::{Related, RelatedTasks};
use taskqueue_store::write_queue::{QueuedWrite, WriteQueue};
use taskqueue_store::writers::{WriterThreads, close_on_thread};
use taskqueue_store::{
    ActOnTasks, Acted, BulkUpdate, Clock, InstallationSecret, Output, QueueKey, Store, StoreError, StoreParts,
    StoreResult, Updated, WriteRequest,
};

pub use crate::backup::{BackedUp, BackupError, BackupOptions, BackupProgress, BackupWatch, backup, restore};
use crate::bulk::ChangeTracker;
pub use crate::check::check;
use crate::checkpoint::Checkpointer;
use crate::claim_index::ClaimIndex;
use crate::claim_index::room::Room;
pub use crate::history::HistoryOptions;
pub use crate::open::OpenError;
use crate::ownership::Ownership;
use crate::readers::{Lane, Readers};
// For tests that look into the file.
use crate::queries::Snapshot;
#[doc(hidden)]
pub use crate::rows::{Extended, PackedHead};
use crate::statements as sql;
pub use crate::transfer::SqliteTransfer;
use crate::used_runs::segment::IndexBuilder;
use crate::writer::{SharedState, Writer};

/// The options of a store.
#[derive(Clone, Debug)]
pub struct Options {
    /// The time for which every running lease is good after an outage; 0 turns the credit off.
    pub outage_credit_seconds: i64,
    /// The memory that pending tasks may take. A queue that takes three quarters of it is refused more, as busy.
    pub pending_bytes: usize,
    /// Reads at a time that may take long, each with a thread and a connection. One costs about 1 MiB (its page cache of
    /// 512 KiB, the schema, statements, the used part of a stack), and while it looks at a large task up to 2 MiB more.
    pub long_reads: usize,
    /// The way in which ended tasks and runs leave the writer's memory.
    pub history: HistoryOptions,
}

impl Default for Options {
    fn default() -> Self {
        let history = HistoryOptions::default();
        Self { outage_credit_seconds: OUTAGE_CREDIT_SECONDS, pending_bytes: usize::MAX, long_reads: 64, history }
    }
}

/// The store in one SQLite file.
pub struct SqliteStore {
    threads: Arc<Threads>,
    parts: StoreParts,
    shared: SharedState,
}

/// The threads that read and write, with the queue of the writer.
struct Threads {
    readers: Readers,
    queue: WriteQueue<Arc<ChangeTracker>>,
    writer: WriterThreads,
}

impl Threads {
    fn start(readers: Readers, writer: Writer) -> std::io::Result<Self> {
        let (queue, requests) = WriteQueue::new();
        let threads = Self { readers, queue, writer: WriterThreads::default() };
        threads.writer.spawn("writer", move || writer.run(requests))?;
        Ok(threads)
    }

    /// Takes no more reads and commands, ends long reads and waits for the commands under way. The writer closes the file
    /// last, so that no log is left when it ends.
    fn close(&self) {
        self.readers.close();
        self.queue.close();
        self.writer.join();
    }
}

impl SqliteStore {
    /// Opens the file at `path`, creating or migrating it, and starts the threads.
    pub fn open(path: &Path, clock: Arc<dyn Clock>, options: &Options) -> Result<Self, OpenError> {
        let mut ownership = Ownership::take(path)?;
        let path = &ownership.path().to_owned();
        let failed = |error: rusqlite::Error| OpenError::of_sqlite(path, &error);
        migrate::recognise(&open::unrecognised(path).map_err(failed)?, path)?;
        let mut connection = open::writer(path).map_err(failed)?;
        migrate::migrate(&mut connection, path)?;
        history::catch_up(&connection).map_err(failed)?;
        let unusable = |error: std::io::Error| OpenError::unusable(path, &error);
        let builder = IndexBuilder::start(open::long_reader(path).map_err(failed)?).map_err(unusable)?;
        let mut claim_index =
            ClaimIndex::new(options.history, Some(builder.requests.clone()), Room::within(options.pending_bytes));
        claim_index::load::load_at_start(&mut claim_index, &mut connection, &*clock).map_err(failed)?;
        let secret = installation_secret(&connection, path)?;
        ownership.watch_log()?;
        ownership.warn();
        let ownership = Arc::new(ownership);
        let readers = Readers::start(&ownership, options.long_reads).map_err(failed)?;
        let checkpointer = Checkpointer::start(open::checkpointer(path).map_err(failed)?, Arc::clone(&ownership));
        let checkpointer = checkpointer.map_err(unusable)?;
        checkpointer.watch(&mut connection).map_err(failed)?;
        let credit_seconds = options.outage_credit_seconds;
        let threads = (checkpointer, builder);
        let writer = Writer::new(connection, claim_index, ownership, clock, credit_seconds, threads);
        let shared = writer.shared.clone();
        let SharedState { activity, waiters, .. } = shared.clone();
        let threads = Arc::new(Threads::start(readers, writer).map_err(unusable)?);
        let parts = StoreParts::new("SQLite", activity, waiters, Some(secret));
        Ok(Self { threads, parts, shared })
    }
}

/// The secret of the installation, which is made if there is none. Nobody else has the file open for writing.
fn installation_secret(connection: &Connection, path: &Path) -> Result<InstallationSecret, OpenError> {
    let failed = |error: rusqlite::Error| OpenError::of_sqlite(path, &error);
    let new = InstallationSecret::random().map_err(|error| OpenError::unusable(path, &error))?;
    connection.execute(&sql::SAVE_INSTALLATION_SECRET, [new.as_bytes()]).map_err(failed)?;
    let read = |row: &rusqlite::Row<'_>| row.get::<_, Vec<u8>>("secret");
    let kept = connection.query_row(&sql::LOAD_INSTALLATION_SECRET, [], read).map_err(failed)?;
    let damaged = || OpenError::Damaged(path.into(), "the secret of the installation has another length".to_owned());
    InstallationSecret::from_bytes(&kept).ok_or_else(damaged)
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.threads.close();
    }
}

#[async_trait]
impl Store for SqliteStore {
    fn submit(&self, request: WriteRequest) -> StoreResult<()> {
        self.threads.queue.submit(QueuedWrite::new(request))
    }

    async fn update_tasks(&self, bulk: Arc<BulkUpdate>) -> StoreResult<Updated> {
        update_tasks(self, &bulk).await
    }

    async fn act_on_tasks(&self, act: Arc<ActOnTasks>) -> StoreResult<Acted> {
        act_on_tasks(self, &self.parts.actions, act).await
    }

    fn finds_nothing(&self, lookup: Lookup<'_>) -> bool {
        let nothing = match lookup {
            Lookup::Task(sought) => self.shared.published_index.finds_nothing(sought),
            Lookup::Upkeep => self.shared.published_index.has_no_upkeep(),
        };
        nothing && self.threads.queue.is_open()
    }

    async fn list_queue_keys(&self) -> StoreResult<Vec<(QueueKey, QueueName)>> {
        self.threads.readers.read(Lane::Short, "listing queues", reads::list_queue_keys).await
    }

    async fn explain(&self, queue: &QueueName, id: TaskId) -> StoreResult<Explanation> {
        explain::explain_task(&self.threads.readers, &self.shared.published_index, queue, id).await
    }

    async fn related_tasks(&self, queue: &QueueName, related: Related) -> StoreResult<RelatedTasks> {
        let queue = queue.clone();
        let read = move |file: &Snapshot<'_>| explain::related_tasks(file, &queue, &related);
        self.threads.readers.read(Lane::Short, "reading related tasks", read).await
    }

    async fn queue_settings(&self, queue: &QueueName) -> StoreResult<QueueSettings> {
        let queue = queue.clone();
        let read = move |file: &Snapshot<'_>| reads::queue_settings(file, &queue);
        self.threads.readers.read(Lane::Short, "reading settings", read).await
    }

    async fn read_output(&self, queue: &QueueName, id: TaskId, offset: u64, most_bytes: usize) -> StoreResult<Output> {
        let queue = queue.clone();
        let read = move |file: &Snapshot<'_>| output::get_output(file, &queue, id, offset, most_bytes);
        self.threads.readers.read(Lane::Page, "reading output", read).await
    }

    async fn read_tasks(&self, queue: &QueueName, read: TaskRead) -> StoreResult<()> {
        let lane = match &read {
            TaskRead::Task(..) => Lane::Short,
            TaskRead::Page(query, _) if query.is_plain() => Lane::Page,
            TaskRead::Groups(query, _) if query.selection.is_by_status_only() => Lane::Short,
            TaskRead::Page(..) | TaskRead::Groups(..) => Lane::Long,
        };
        let work = || {
            let (queue, index, read) = (queue.clone(), Arc::clone(&self.shared.published_index), read.clone());
            move |file: &Snapshot<'_>| reads::read_tasks(file, &index, &queue, read)
        };
        self.threads.readers.read_or_long(lane, read.doing(), work).await
    }

    async fn read_workers(&self, queue: &QueueName, read: WorkerRead) -> StoreResult<()> {
        let (queue, now) = (queue.clone(), self.shared.clock.now());
        let lane = if read.is_bounded() { Lane::Page } else { Lane::Long };
        let work = move |file: &Snapshot<'_>| reads::read_workers(file, &queue, &read, now);
        self.threads.readers.read(lane, "reading observations", work).await
    }

    async fn queue_stats(&self, queue: &QueueName, routes: &RouteSelection) -> StoreResult<QueueStats> {
        self.stats_of(queue, routes).await
    }

    async fn activity_series(&self, queue: &QueueName, selection: SeriesSelection) -> StoreResult<ActivitySeries> {
        self.activity_of(queue, selection).await
    }

    async fn figures(
        &self,
        queues: &[QueueKey],
        routes: &RouteSelection,
        pending: PendingDetail,
    ) -> StoreResult<StoreFigures> {
        self.figures_of(queues, routes, pending).await
    }

    fn process_figures(&self) -> ProcessFigures {
        let Threads { readers, queue, .. } = &*self.threads;
        let (queued_writes, queue_capacity) = queue.length_and_capacity();
        let (readers_in_use, all_readers) = readers.in_use_and_all();
        let (writer, long_reads) = (self.shared.figures.read(), readers.long_reads_under_way());
        ProcessFigures { writer, queued_writes, queue_capacity, readers: all_readers, readers_in_use, long_reads }
    }

    fn parts(&self) -> &StoreParts {
        &self.parts
    }

    async fn check(&self) -> StoreResult<Vec<String>> {
        let has_failed = self.shared.failed.load(Ordering::Relaxed) || self.shared.ownership.copying_failed();
        if has_failed || !self.shared.ownership.is_intact() {
            return Err(StoreError::Unavailable);
        }
        if self.shared.health.is_stuck(Instant::now()) {
            return Err(StoreError::Busy);
        }
        self.threads.readers.read(Lane::Short, "checking the database", reads::check).await.map(|()| Vec::new())
    }

    async fn close(&self) {
        let threads = Arc::clone(&self.threads);
        close_on_thread(move || threads.close()).await;
    }
}

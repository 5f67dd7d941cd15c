//! The embedded backend: one SQLite file, owned by this process. One thread writes (`writer.rs`), a few read
//! (`readers.rs`); what claims need is kept in memory (`claim_index.rs`) and published between batches, so that every thread
//! can answer a claim that finds nothing (`published_index.rs`). Rules live in `core`, the steps of a command in `store`.

mod backup;
mod bloom_filter;
mod bulk;
mod bulk_action;
mod catch_up;
mod check;
mod checkpoint;
mod claim_index;
mod each_row;
mod ended;
mod explain;
mod failure;
mod future_deadlines;
mod history;
mod living_tasks;
mod long_reader;
mod lost_files;
mod migrate;
mod mounts;
pub mod new_file;
mod open;
mod output;
mod outside_reader;
mod ownership;
mod pending_order;
mod plain_pages;
mod prepared;
mod published_index;
mod purge;
mod readers;
mod reads;
mod related;
mod restore;
mod rows;
mod settings;
mod snapshot;
mod sparse_reads;
mod statements;
mod stats;
mod transaction;
mod transfer;
mod used_runs;
mod waiting_tasks;
mod writer;

#[cfg(test)]
mod activity_tests;
#[cfg(test)]
mod archive_tests;
#[cfg(test)]
mod copy_failure_tests;
#[cfg(test)]
mod ended_tests;
#[cfg(test)]
mod explain_tests;
#[cfg(test)]
mod history_tests;
#[cfg(test)]
mod opened_tests;
#[cfg(test)]
mod output_tests;
#[cfg(test)]
mod settings_tests;
#[cfg(test)]
mod sparse_reads_tests;
#[cfg(test)]
mod statement_tests;
#[cfg(test)]
mod store_tests;
#[cfg(test)]
mod waiting_tests;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use async_trait::async_trait;
// SQLite is built to call it (.cargo/config.toml).
use mimalloc as _;
use rusqlite::Connection;
use taskqueue_core::explain::Explanation;
use taskqueue_core::ids::{QueueName, TaskId};
use taskqueue_core::limits::OUTAGE_CREDIT_SECONDS;
use taskqueue_core::settings::QueueSettings;
use taskqueue_core::stats::{ActivitySeries, PendingDetail, QueueStats, RouteSelection, SeriesSelection};
use taskqueue_store::bulk::BulkUpdates;
use taskqueue_store::bulk_action::BulkActions;
use taskqueue_store::clock::Clock;
use taskqueue_store::command::{ActOnTasks, Acted, BulkUpdate, Lookup, Output, Updated};
use taskqueue_store::figures::{ProcessFigures, StoreFigures};
use taskqueue_store::reading::{TaskRead, WorkerRead};
use taskqueue_store::related::{Related, RelatedTasks};
use taskqueue_store::transaction::QueueKey;
use taskqueue_store::write_queue::{QueuedWrite, WriteQueue};
use taskqueue_store::write_request::WriteRequest;
use taskqueue_store::writer_figures::WriterFigures;
use taskqueue_store::writer_health::WriterHealth;
use taskqueue_store::writer_threads::{WriterThreads, close_on_thread};
use taskqueue_store::{InstallationSecret, Store, StoreError, StoreParts};

pub use crate::backup::{BackedUp, BackupError, BackupOptions, BackupProgress, BackupWatch, backup};
use crate::bulk::{ChangeTracker, ChangeTrackers, Steps};
pub use crate::check::check;
use crate::checkpoint::Checkpointer;
use crate::claim_index::{ClaimIndex, Room};
pub use crate::history::HistoryOptions;
pub use crate::open::OpenError;
use crate::ownership::Ownership;
use crate::published_index::PublishedIndex;
use crate::readers::{Lane, Readers};
pub use crate::restore::restore;
// For tests that look into the file.
#[doc(hidden)]
pub use crate::rows::{Extended, PackedHead};
use crate::snapshot::Snapshot;
use crate::statements as sql;
use crate::stats::Stats;
pub use crate::transfer::SqliteTransfer;
use crate::used_runs::IndexBuilder;
use crate::writer::Writer;

/// What can be chosen about a store.
#[derive(Clone, Debug)]
pub struct Options {
    /// What every running lease is good for after an outage; 0 turns the credit off.
    pub outage_credit_seconds: i64,
    /// What pending tasks may take in memory. A queue that takes three quarters of it is refused more, as busy.
    pub pending_bytes: usize,
    /// Reads at a time that may take long, each with a thread and a connection. One costs about 1 MiB (its page cache of
    /// 512 KiB, the schema, statements, the used part of a stack), and while it looks at a large task up to 2 MiB more.
    pub long_reads: usize,
    /// When and how ended tasks and runs leave the writer's memory.
    pub history: HistoryOptions,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            outage_credit_seconds: OUTAGE_CREDIT_SECONDS,
            pending_bytes: usize::MAX,
            long_reads: 64,
            history: HistoryOptions::default(),
        }
    }
}

/// The store in one SQLite file.
pub struct SqliteStore {
    clock: Arc<dyn Clock>,
    ownership: Arc<Ownership>,
    threads: Arc<Threads>,
    published_index: Arc<PublishedIndex>,
    parts: StoreParts,
    stats: Arc<Stats>,
    /// Whether the writer takes no writes because the storage failed.
    failed: Arc<AtomicBool>,
    bulk: BulkUpdates,
    bulk_actions: BulkActions,
    trackers: Arc<ChangeTrackers>,
    writer_health: Arc<WriterHealth>,
    writer_figures: Arc<WriterFigures>,
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
        catch_up::catch_up(&connection).map_err(failed)?;
        let unusable = |error: std::io::Error| OpenError::unusable(path, &error);
        let builder = IndexBuilder::start(open::long_reader(path).map_err(failed)?).map_err(unusable)?;
        let mut claim_index =
            ClaimIndex::new(options.history, Some(builder.requests()), Room::within(options.pending_bytes));
        load(&mut claim_index, &mut connection, &*clock).map_err(failed)?;
        let secret = installation_secret(&connection, path)?;
        ownership.watch_log()?;
        ownership.warn();
        let ownership = Arc::new(ownership);
        let readers = Readers::start(&ownership, options.long_reads).map_err(failed)?;
        let checkpointer = Checkpointer::start(open::checkpointer(path).map_err(failed)?, Arc::clone(&ownership));
        let checkpointer = checkpointer.map_err(unusable)?;
        checkpointer.watch(&mut connection).map_err(failed)?;
        let failed = Arc::new(AtomicBool::new(false));
        let writer = Writer::new(
            connection,
            claim_index,
            Arc::clone(&ownership),
            Arc::clone(&clock),
            options,
            (checkpointer, builder),
            Arc::clone(&failed),
        );
        let (published_index, waiters) = (writer.published_index(), writer.waiters());
        let (trackers, writer_health, activity) = (writer.trackers(), writer.health(), writer.activity());
        let stats = Stats::new(Arc::clone(&activity), Arc::clone(&published_index), Arc::clone(&ownership));
        let writer_figures = writer.figures();
        let threads = Arc::new(Threads::start(readers, writer).map_err(unusable)?);
        let (bulk, bulk_actions) = (BulkUpdates::default(), BulkActions::default());
        Ok(Self {
            clock,
            ownership,
            threads,
            published_index,
            parts: StoreParts { kind: "SQLite", activity, waiters, secret: Some(secret) },
            stats,
            failed,
            bulk,
            bulk_actions,
            trackers,
            writer_health,
            writer_figures,
        })
    }
}

/// Reads what the file holds and sets the clock by it. If the clock goes back all the same, because the times in the file
/// cannot be right, then the deadlines in those times are set again.
fn load(claim_index: &mut ClaimIndex, connection: &mut Connection, clock: &dyn Clock) -> rusqlite::Result<()> {
    claim_index.reload(connection)?;
    let latest_at = claim_index.latest_at;
    clock.start_after(latest_at);
    let now = clock.now();
    if now < latest_at {
        tracing::warn!(
            %latest_at,
            "the latest time in the database is more than a day ahead of this machine's clock; the clock is used, and \
             running leases are reset to 300 seconds from now"
        );
        future_deadlines::shorten(connection, claim_index.running_tasks(), now)?;
        claim_index.reload(connection)?;
    }
    claim_index.no_scan_after(now);
    connection.execute(sql::SAVE_ACTIVITY_SINCE, [now.as_micros()])?;
    if claim_index.history.is_due() {
        let transaction = connection.transaction()?;
        claim_index.history.flush(&transaction, now)?;
        transaction.commit()?;
    }
    tracing::debug!(rows = claim_index.rows_read, "loaded the pending and running tasks");
    Ok(())
}

/// The secret of the installation, which is made if there is none. Nobody else has the file open for writing.
fn installation_secret(connection: &Connection, path: &Path) -> Result<InstallationSecret, OpenError> {
    let failed = |error: rusqlite::Error| OpenError::of_sqlite(path, &error);
    let new = InstallationSecret::random().map_err(|error| OpenError::unusable(path, &error))?;
    connection.execute(sql::SAVE_INSTALLATION_SECRET, [new.as_bytes()]).map_err(failed)?;
    let read = |row: &rusqlite::Row<'_>| row.get::<_, Vec<u8>>("secret");
    let kept = connection.query_row(sql::LOAD_INSTALLATION_SECRET, [], read).map_err(failed)?;
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
    fn submit(&self, request: WriteRequest) -> Result<(), StoreError> {
        self.threads.queue.submit(QueuedWrite::new(request))
    }

    async fn update_tasks(&self, bulk: Arc<BulkUpdate>) -> Result<Updated, StoreError> {
        let Threads { readers, queue, .. } = &*self.threads;
        self.bulk.run(&Steps { readers, queue, trackers: &self.trackers }, &bulk).await
    }

    async fn act_on_tasks(&self, act: Arc<ActOnTasks>) -> Result<Acted, StoreError> {
        self.bulk_actions.run(self, act).await
    }

    fn finds_nothing(&self, lookup: Lookup<'_>) -> bool {
        let nothing = match lookup {
            Lookup::Task(sought) => self.published_index.finds_nothing(sought),
            Lookup::Upkeep => self.published_index.has_no_upkeep(),
        };
        nothing && self.threads.queue.is_open()
    }

    async fn list_queue_keys(&self) -> Result<Vec<(QueueKey, QueueName)>, StoreError> {
        self.threads.readers.read(Lane::Short, "listing queues", reads::list_queue_keys).await
    }

    async fn explain(&self, queue: &QueueName, id: TaskId) -> Result<Explanation, StoreError> {
        explain::explain_task(&self.threads.readers, &self.published_index, queue, id).await
    }

    async fn related_tasks(&self, queue: &QueueName, related: Related) -> Result<RelatedTasks, StoreError> {
        let queue = queue.clone();
        let read = move |file: &Snapshot<'_>| related::related_tasks(file, &queue, &related);
        self.threads.readers.read(Lane::Short, "reading related tasks", read).await
    }

    async fn queue_settings(&self, queue: &QueueName) -> Result<QueueSettings, StoreError> {
        let queue = queue.clone();
        let read = move |file: &Snapshot<'_>| settings::queue_settings(file, &queue);
        self.threads.readers.read(Lane::Short, "reading settings", read).await
    }

    async fn read_output(
        &self,
        queue: &QueueName,
        id: TaskId,
        offset: u64,
        most_bytes: usize,
    ) -> Result<Output, StoreError> {
        let queue = queue.clone();
        let read = move |file: &Snapshot<'_>| output::get_output(file, &queue, id, offset, most_bytes);
        self.threads.readers.read(Lane::Short, "reading output", read).await
    }

    async fn read_tasks(&self, queue: &QueueName, read: TaskRead) -> Result<(), StoreError> {
        let lane = match &read {
            TaskRead::Task(..) => Lane::Short,
            TaskRead::Page(query, _) if query.is_plain() => Lane::Page,
            TaskRead::Groups(query, _) if query.selection.is_by_status_only() => Lane::Short,
            TaskRead::Page(..) | TaskRead::Groups(..) => Lane::Long,
        };
        let work = || {
            let (queue, index, read) = (queue.clone(), Arc::clone(&self.published_index), read.clone());
            move |file: &Snapshot<'_>| reads::read_tasks(file, &index, &queue, read)
        };
        self.threads.readers.read_or_long(lane, read.doing(), work).await
    }

    async fn read_workers(&self, queue: &QueueName, read: WorkerRead) -> Result<(), StoreError> {
        let (queue, now) = (queue.clone(), self.clock.now());
        let lane = if read.is_bounded() { Lane::Page } else { Lane::Long };
        let work = move |file: &Snapshot<'_>| reads::read_workers(file, &queue, &read, now);
        self.threads.readers.read(lane, "reading observations", work).await
    }

    async fn queue_stats(&self, queue: &QueueName, routes: &RouteSelection) -> Result<QueueStats, StoreError> {
        Arc::clone(&self.stats).queue_stats(&self.threads.readers, queue, routes, self.clock.now()).await
    }

    async fn activity_series(
        &self,
        queue: &QueueName,
        selection: SeriesSelection,
    ) -> Result<ActivitySeries, StoreError> {
        let (stats, readers) = (Arc::clone(&self.stats), &self.threads.readers);
        stats.activity_series(readers, queue, selection, self.clock.now()).await
    }

    async fn figures(
        &self,
        queues: &[QueueKey],
        routes: &RouteSelection,
        pending: PendingDetail,
    ) -> Result<StoreFigures, StoreError> {
        Arc::clone(&self.stats).figures(&self.threads.readers, queues, routes, pending, self.clock.now()).await
    }

    fn process_figures(&self) -> ProcessFigures {
        let Threads { readers, queue, .. } = &*self.threads;
        let (queued_writes, queue_capacity) = queue.length_and_capacity();
        let (readers_in_use, all_readers) = readers.in_use_and_all();
        ProcessFigures {
            writer: self.writer_figures.read(),
            queued_writes,
            queue_capacity,
            readers: all_readers,
            readers_in_use,
            long_reads: readers.long_reads_under_way(),
        }
    }

    fn parts(&self) -> &StoreParts {
        &self.parts
    }

    async fn check(&self) -> Result<Vec<String>, StoreError> {
        let has_failed = self.failed.load(Ordering::Relaxed) || self.ownership.copying_failed();
        if has_failed || !self.ownership.is_intact() {
            return Err(StoreError::Unavailable);
        }
        if self.writer_health.is_stuck(Instant::now()) {
            return Err(StoreError::Busy);
        }
        self.threads.readers.read(Lane::Short, "checking the database", reads::check).await.map(|()| Vec::new())
    }

    async fn close(&self) {
        let threads = Arc::clone(&self.threads);
        close_on_thread(move || threads.close()).await;
    }
}

//! The writer: one thread owns the write connection and is the only one to change the claim index. It takes the first queued
//! command and everything queued behind it, runs them in one transaction, commits once, then releases every answer. There
//! is no timer: the next batch forms while the last one is being synced.

mod memory_limit;
mod recovery;

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use taskqueue_core::Timestamp;
use taskqueue_store::activity::ActivityLog;
use taskqueue_store::batch::{ClaimOrder, execute_batch, fail_all, one_by_one, sort};
use taskqueue_store::claimable::{AfterCommit, Claimable};
use taskqueue_store::execute::OutageCredit;
use taskqueue_store::waiting::Waiters;
use taskqueue_store::write_queue::{QueuedWrite, WriteBacklog};
use taskqueue_store::writers::{WriterFigures, WriterHealth};
use taskqueue_store::{Clock, StoreError, StoreResult, WriteRequest};

use crate::bulk::{ChangeTracker, ChangeTrackers};
use crate::checkpoint::{self, Checkpointer};
use crate::claim_index::ClaimIndex;
use crate::oldest_pending::OldestPending;
use crate::ownership::{DatabaseFile, Ownership};
use crate::published_index::PublishedIndex;
use crate::queries::{Doing, execute, failed_commit};
use crate::transaction::SqliteTransaction;
use crate::used_runs::segment::IndexBuilder;

/// Tasks of a deleted queue that are removed in one transaction while nothing else waits: a millisecond or two.
const PURGE: u32 = 100;
/// Batches after which so many are removed while others wait: a few hundredths of the writer's time.
const BATCHES_PER_PURGE: usize = 10;
/// Delayed tasks that become claimable at the beginning of a batch at most: about a millisecond. The next ones follow with the
/// next batch, with a claim that finds nothing else, or with the upkeep of every second.
const RELEASED_PER_BATCH: usize = 1_000;
/// The longest time for which a bulk update leaves the writer to others, however long the last one took.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Commands of one batch that may be broken before the rest is refused. After each the claim index is loaded again, which takes
/// up to a second for a million pending tasks.
const MAX_BROKEN: u32 = 4;

pub(crate) type Write = QueuedWrite<Arc<ChangeTracker>>;
pub(crate) type Backlog = WriteBacklog<Arc<ChangeTracker>>;

/// The state that the writer shares with the store.
#[derive(Clone)]
pub(crate) struct SharedState {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) published_index: Arc<PublishedIndex>,
    pub(crate) oldest_pending: Arc<OldestPending>,
    pub(crate) waiters: Arc<Waiters>,
    pub(crate) activity: Arc<ActivityLog>,
    pub(crate) figures: Arc<WriterFigures>,
    /// True while the writer takes no writes because the storage failed.
    pub(crate) failed: Arc<AtomicBool>,
    pub(crate) trackers: Arc<ChangeTrackers>,
    pub(crate) health: Arc<WriterHealth>,
    /// Dropped last: every connection is closed before the file is given up.
    pub(crate) ownership: Arc<Ownership>,
}

/// The thread's state.
pub(crate) struct Writer {
    /// The threads are dropped first: the writer's connection is the one that may remove the log when it is closed last.
    _index_builder: IndexBuilder,
    checkpointer: Checkpointer,
    connection: Connection,
    /// The index that was withdrawn; empty while it is published.
    claim_index: Box<ClaimIndex>,
    /// The empty one that is in its place while it is published.
    empty_index: Option<Box<ClaimIndex>>,
    credit_seconds: i64,
    /// The time at which it was last logged that a queue was refused tasks because of the memory limit.
    full_logged_at: Option<Instant>,
    /// The time at which the storage failed or was last tried again. No write is taken until a reopen has been verified.
    failed_at: Option<Instant>,
    /// The time at which the leases were last scanned, as far as it was committed. A scan that failed does not end an outage: no
    /// heartbeat could be taken.
    scanned_at: Option<Timestamp>,
    purging: bool,
    /// Long commands, which wait until one more batch of other commands was executed.
    long_writes: VecDeque<Write>,
    /// While others wait, the next bulk update does not begin before: the writer is theirs for as long as the last one took.
    next_bulk_at: Instant,
    /// True if others were served since the last bulk update.
    has_served: bool,
    /// The commands that the last transaction was too full for.
    left: Vec<Write>,
    /// The file that was found missing, and whether all that was acknowledged is in the database file since.
    lost: Option<(DatabaseFile, bool)>,
    pub(crate) shared: SharedState,
}

impl Writer {
    /// A writer over an opened and migrated file, whose index becomes the published one.
    pub(crate) fn new(
        connection: Connection,
        claim_index: ClaimIndex,
        ownership: Arc<Ownership>,
        clock: Arc<dyn Clock>,
        credit_seconds: i64,
        (checkpointer, index_builder): (Checkpointer, IndexBuilder),
    ) -> Self {
        let (scanned_at, figures) = (claim_index.last_scan_at, Arc::clone(&checkpointer.figures));
        let published_index = Arc::new(PublishedIndex::new(claim_index, Arc::clone(&clock), credit_seconds));
        let shared = SharedState {
            clock,
            published_index,
            oldest_pending: Arc::default(),
            waiters: Arc::default(),
            activity: Arc::default(),
            figures,
            failed: Arc::default(),
            trackers: Arc::default(),
            health: Arc::default(),
            ownership,
        };
        Self {
            _index_builder: index_builder,
            checkpointer,
            connection,
            claim_index: Box::default(),
            empty_index: None,
            credit_seconds,
            full_logged_at: None,
            failed_at: None,
            scanned_at,
            purging: true,
            long_writes: VecDeque::new(),
            next_bulk_at: Instant::now(),
            has_served: false,
            left: Vec::new(),
            lost: None,
            shared,
        }
    }

    /// Runs until the queue is closed and empty, then moves the whole log into the file.
    pub(crate) fn run(mut self, mut queue: Backlog) {
        let mut batches: usize = 0;
        while let Some(batch) = self.next_batch(&mut queue) {
            self.with_claim_index(|writer| writer.execute(batch));
            batches += 1;
            // A writer that is never idle purges, too.
            if self.purging && self.failed_at.is_none() && batches.is_multiple_of(BATCHES_PER_PURGE) {
                self.with_claim_index(Self::purge);
            }
        }
        // Writes what is only in memory, so that the next start has little to read.
        self.with_claim_index(|writer| {
            if writer.ready() && writer.claim_index.history.close() {
                // If it fails, that was logged, and the next start reads a few rows more.
                let _ = writer.in_transaction(|_| Ok(()));
            }
        });
        let paused = self.checkpointer.pause();
        checkpoint::empty_log(&self.connection, &self.shared.ownership);
        drop(paused);
    }

    /// The next commands, none if only a long one waits; nothing when no more can come. An idle writer purges deleted queues
    /// in between.
    fn next_batch(&mut self, queue: &mut Backlog) -> Option<Vec<Write>> {
        loop {
            queue.put_back(std::mem::take(&mut self.left));
            let next = queue.try_next();
            let is_open = next.is_some();
            let batch = self.set_long_aside(next.unwrap_or_default());
            if !batch.is_empty() || !self.long_writes.is_empty() {
                // Not longer than others would notice, should they come meanwhile.
                if batch.is_empty() && self.has_served && Instant::now() < self.next_bulk_at {
                    std::thread::sleep(Duration::from_millis(1));
                }
                return Some(batch);
            }
            if !is_open {
                return None;
            }
            if self.purging && self.failed_at.is_none() {
                self.with_claim_index(Self::purge);
            } else if !queue.blocking_wait() {
                return None;
            }
        }
    }

    fn set_long_aside(&mut self, mut batch: Vec<Write>) -> Vec<Write> {
        self.long_writes.extend(batch.extract_if(.., |write| write.request.is_long()));
        batch
    }

    /// Works with the claim index withdrawn: others see nothing of what is not committed yet. While the storage fails, the
    /// index may differ from the file and is not published. Should the work panic, it is never published again.
    fn with_claim_index(&mut self, work: impl FnOnce(&mut Self)) {
        if let Some(claim_index) = self.shared.published_index.withdraw() {
            self.empty_index = Some(std::mem::replace(&mut self.claim_index, claim_index));
        }
        work(self);
        if self.failed_at.is_none() {
            let empty_index = self.empty_index.take().unwrap_or_default();
            self.shared.published_index.publish(std::mem::replace(&mut self.claim_index, empty_index));
        }
    }

    /// Executes a batch; claims come last and find what the others created. A long command gets a transaction of its own, and
    /// only one of them comes between two batches: however many there are, no other command waits for more than one.
    fn execute(&mut self, batch: Vec<Write>) {
        let long_write = self.next_long();
        if !self.ready() {
            return fail_all(batch.into_iter().chain(long_write).collect(), &StoreError::Unavailable);
        }
        self.has_served |= !batch.is_empty();
        self.execute_ordinary(batch);
        match long_write {
            Some(write) if write.is_late() => write.fail(StoreError::Busy),
            Some(write) => {
                let (is_bulk_update, begun) = (write.is_bulk_update(), Instant::now());
                let batch = self.refuse_without_room(vec![write]);
                self.execute_together(batch);
                if is_bulk_update {
                    self.next_bulk_at = Instant::now() + begun.elapsed().min(LONGEST_PAUSE);
                    self.has_served = false;
                }
            }
            None => {}
        }
    }

    /// The next long command whose turn it is. While others are served, bulk updates have half of the time.
    fn next_long(&mut self) -> Option<Write> {
        let bulk_is_due = !self.has_served || Instant::now() >= self.next_bulk_at;
        let next = self.long_writes.iter().position(|write| bulk_is_due || !write.is_bulk_update())?;
        self.long_writes.remove(next)
    }

    fn execute_ordinary(&mut self, batch: Vec<Write>) {
        // Claims that found no published index, because the last batch was under way.
        if batch.iter().all(|write| self.finds_nothing(&write.request))
            && !self.shared.published_index.had_outage(&self.claim_index)
        {
            return batch.into_iter().for_each(answer_nothing);
        }
        let mut batch = self.refuse_without_room(batch);
        sort(&mut batch, ClaimOrder::Last);
        self.execute_together(batch);
    }

    fn finds_nothing(&self, request: &WriteRequest) -> bool {
        let now = || self.shared.clock.now();
        match request {
            WriteRequest::Claim(claim) => self.claim_index.finds_nothing((&claim.command).into(), now),
            WriteRequest::ClaimTasks(claim) => self.claim_index.finds_nothing((&claim.command).into(), now),
            _ => false,
        }
    }

    /// One transaction for all, or for as many as it has room for; if it fails, one for each command.
    fn execute_together(&mut self, mut batch: Vec<Write>) {
        if batch.is_empty() {
            return;
        }
        match self.transact(&mut batch) {
            Ok(executed) => {
                let mut left = batch.split_off(executed);
                left.iter_mut().for_each(Write::leave);
                self.left.extend(left);
                batch.into_iter().for_each(Write::release);
            }
            Err(StoreError::Unavailable | StoreError::Broken(_)) if batch.len() > 1 => {
                let mut broken = 0;
                one_by_one(batch, |write| self.execute_one(write, &mut broken));
            }
            Err(error) => fail_all(batch, &error),
        }
    }

    /// Gives the error for the rest of the batch, if the storage failed or too many commands were broken.
    fn execute_one(&mut self, write: Write, broken: &mut u32) -> Option<StoreError> {
        let mut batch = vec![write];
        match self.transact(&mut batch) {
            Ok(_) => {
                batch.into_iter().for_each(Write::release);
                None
            }
            Err(error) => {
                let is_broken = matches!(error, StoreError::Broken(_));
                fail_all(batch, &error);
                *broken += u32::from(is_broken);
                (!is_broken || *broken > MAX_BROKEN).then_some(StoreError::Unavailable)
            }
        }
    }

    /// Executes a batch in one transaction, or as much of its beginning as fits; gives how many commands that were. An error
    /// means that nothing of it was kept, except for [`StoreError::OutcomeUnknown`].
    fn transact(&mut self, batch: &mut Vec<Write>) -> StoreResult<usize> {
        // Checked when the batch came and after each commit since: only a failure in between needs another check.
        if self.failed_at.is_some() && !self.ready() {
            return Err(StoreError::Unavailable);
        }
        let (credit_seconds, health) = (self.credit_seconds, Arc::clone(&self.shared.health));
        let _transaction = health.begin(Instant::now(), batch.iter().any(|write| write.request.is_long()));
        // A waiter that registers from now on finds no published index, or the one after this batch (`published_index.rs`).
        let mut after_commit = AfterCommit::new(self.shared.waiters.has_claims());
        let executed = self.in_transaction(|tx| {
            // Beginning may have taken seconds: a command that was withdrawn or answered as busy is never executed.
            batch.retain_mut(|write| write.request.reply().begin());
            tx.release_due(RELEASED_PER_BATCH);
            let credit = OutageCredit { seconds: credit_seconds, last_scan_at: tx.claim_index.last_scan_at };
            let executed = execute_batch(tx, batch, credit, &mut after_commit)?;
            if tx.has_released {
                after_commit.claimable.poll_all = true;
            }
            Ok(executed)
        })?;
        self.shared.figures.executed(executed);
        after_commit.count(&self.shared.activity);
        self.wake(&after_commit.claimable);
        self.purging |= batch.iter().any(|write| write.request.starts_purge());
        Ok(executed)
    }

    /// Wakes the waiters for what was committed.
    fn wake(&self, claimable: &Claimable) {
        self.shared.waiters.wake(claimable);
        if claimable.poll_all {
            self.wake_by_index();
        }
    }

    /// Wakes the waiters for everything that is pending, and the watchers of runs that are not active.
    fn wake_by_index(&self) {
        for (queue, route, _) in self.shared.waiters.waiting_routes() {
            match self.claim_index.queue(&queue) {
                Some(key) => {
                    self.shared.waiters.wake_for_route(&queue, &route, self.claim_index.claimable(key, &route))
                }
                None => self.shared.waiters.queue_deleted(&queue),
            }
        }
        self.shared.waiters.wake_unless(|run_id| self.claim_index.active_run(run_id).is_some());
    }

    fn purge(&mut self) {
        let purged = self.in_transaction(|tx| tx.purge(PURGE));
        self.purging = purged.unwrap_or_else(|error| {
            tracing::error!(%error, "tasks of a deleted queue could not be removed; the next lease scan tries again");
            false
        });
    }

    /// Begins, works, commits. Whatever goes wrong before the commit, a panic included, leaves the file as it was, and the index
    /// is loaded again. Whether a commit that failed was kept may be unknown.
    fn in_transaction<T>(&mut self, work: impl FnOnce(&mut SqliteTransaction<'_>) -> StoreResult<T>) -> StoreResult<T> {
        if !self.keeps_log() {
            return Err(StoreError::Unavailable);
        }
        execute(&self.connection, "BEGIN IMMEDIATE", []).doing("beginning a transaction")?;
        let (now, sleeps) = (self.shared.clock.now(), self.shared.clock.times_found_ahead());
        if self.shared.published_index.sleeps_credited() != sleeps {
            self.claim_index.count_as_outage();
        }
        let mut tx = SqliteTransaction::new(&self.connection, &mut self.claim_index, now);
        let worked = catch_unwind(AssertUnwindSafe(|| {
            let value = work(&mut tx)?;
            tx.finish()?;
            Ok((value, std::mem::take(&mut tx.changed_tasks)))
        }));
        drop(tx);
        let done = worked.unwrap_or(Err(StoreError::Unavailable)).and_then(|value| {
            let begun_at = Instant::now();
            self.shared.published_index.commit_begins();
            execute(&self.connection, "COMMIT", []).map_err(|error| failed_commit(&error))?;
            self.shared.figures.committed(begun_at.elapsed());
            Ok(value)
        });
        // If a file was removed during the transaction, it is not known yet whether the commit can be saved (`recovery.rs`).
        let done = if done.is_ok() && !self.holds_files() { Err(StoreError::OutcomeUnknown) } else { done };
        match &done {
            Ok((_, changed_tasks)) => {
                self.shared.trackers.record(changed_tasks);
                self.scanned_at = self.claim_index.last_scan_at;
                self.shared.published_index.credit_sleeps(sleeps);
                self.checkpointer.committed(&self.connection);
            }
            Err(StoreError::Busy | StoreError::Broken(_)) => self.undo(),
            Err(_) => self.recover(),
        }
        done.map(|(value, _)| value)
    }
}

/// Answers claims without a transaction.
fn answer_nothing(mut write: Write) {
    match &mut write.request {
        WriteRequest::Claim(claim) => drop(claim.execute(|_| Ok(None))),
        WriteRequest::ClaimTasks(claim) => drop(claim.execute(|command| Ok(command.nothing()))),
        _ => {}
    }
    write.release();
}

#[cfg(test)]
#[path = "writer_tests.rs"]
mod tests;

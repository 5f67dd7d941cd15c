//! A writer: one thread with a connection of its own. It takes the first queued command and everything queued behind it,
//! runs them in one transaction, commits once, then releases every answer. There are a few of them in each server, and
//! any number of servers; what keeps them apart is in docs/decisions/0009.

mod postponed;
mod recovery;

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use taskqueue_core::lease;
use taskqueue_store::activity::ActivityLog;
use taskqueue_store::batch::{ClaimOrder, execute_batch, fail_all, one_by_one, sort};
use taskqueue_store::claimable::AfterCommit;
use taskqueue_store::execute::{OutageCredit, credit_after_outage};
use taskqueue_store::submission::BEGIN_LIMIT;
use taskqueue_store::write_queue::{QueuedWrite, WriteBacklog};
use taskqueue_store::writers::{WriterFigures, WriterHealth};
use taskqueue_store::{StoreError, Transaction, WriteRequest};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Mutex;

use crate::bulk::SnapshotId;
use crate::clock::{Clock, ClockRow, LastScan};
use crate::ended::NextSearch;
use crate::failure::{Cause, cause, failed, log_unless_conflict};
use crate::open::Connector;
use crate::prefetch::{self, BatchKeys, Begun, Expected};
use crate::purge::DeadEntries;
use crate::random_u64;
use crate::readers::ReadError;
use crate::session::Session;
use crate::transaction::{BLOCK, PostgresTransaction};
use crate::wakeups::Wakeups;
use crate::writer::postponed::{Postponed, Turn};

/// How often a batch that was overtaken by another server is begun again before its commands are tried one by one.
const TRIES: u32 = 5;
/// How long before its limit a command whose task others hold is tried for the last time.
const LAST_TRY: Duration = Duration::from_millis(200);
/// Tasks of a deleted queue that are removed in one transaction: a few milliseconds.
const PURGE: i64 = 500;
/// A writer that is never idle purges after so many batches.
const BATCHES_PER_PURGE: usize = 10;
/// The longest pause before a command whose task others hold is tried again.
const RETRY_PAUSE: Duration = Duration::from_millis(64);
/// How often the tally is tidied up.
const MERGE_PAUSE: Duration = Duration::from_secs(600);

pub(crate) type Write = QueuedWrite<SnapshotId>;

/// The queue that writers share.
pub(crate) type SharedQueue = Arc<Mutex<WriteBacklog<SnapshotId>>>;

/// What the writers of a store have in common.
#[derive(Clone)]
pub(crate) struct SharedState {
    pub(crate) connector: Arc<Connector>,
    pub(crate) wakeups: Arc<Wakeups>,
    pub(crate) activity: Arc<ActivityLog>,
    pub(crate) figures: Arc<WriterFigures>,
    pub(crate) dead: Arc<DeadEntries>,
    /// A clock instead of the database's, for tests.
    pub(crate) clock: Option<Arc<dyn taskqueue_store::clock::Clock>>,
    pub(crate) last_scan: Arc<LastScan>,
    pub(crate) next_search: Arc<NextSearch>,
    pub(crate) credit_seconds: i64,
}

/// The thread's state.
pub(crate) struct Writer {
    shared: SharedState,
    /// This thread's alone: what comes on the connection goes to the writer without a detour over other threads.
    runtime: Runtime,
    /// This writer's own part of the tally.
    shard: i16,
    session: Option<Session>,
    /// Whether the database can tell what became of a transaction. Engines that only resemble PostgreSQL may not.
    settles: bool,
    connect_failed_at: Option<(Instant, StoreError)>,
    /// Commands whose task others hold.
    postponed: Postponed,
    purging: bool,
    merged_at: Instant,
    health: Arc<WriterHealth>,
    /// Whether `COMMIT` was sent for the transaction under way.
    committing: Cell<bool>,
    /// What the next transaction is expected to find.
    expected: Cell<Expected>,
}

/// Why a batch was not done.
enum BatchFailure {
    /// Nothing of it was kept; the same again may succeed.
    Again(Cause),
    /// A bug. Nothing of it was kept.
    Broken(&'static str),
    /// It is not known whether it was kept.
    Unknown,
    /// There is no connection.
    Unconnected(StoreError),
}

impl BatchFailure {
    /// Whether the storage failed, and not a command or another server that was first.
    fn is_of_storage(&self) -> bool {
        matches!(self, Self::Unknown | Self::Unconnected(_) | Self::Again(Cause::Lost | Cause::Failed))
    }
}

impl Writer {
    /// A writer without a connection.
    pub(crate) fn new(shared: SharedState, shard: i16) -> std::io::Result<Self> {
        Ok(Self {
            shared,
            runtime: Builder::new_current_thread().enable_all().build()?,
            shard,
            session: None,
            settles: false,
            connect_failed_at: None,
            postponed: Postponed::default(),
            purging: false,
            merged_at: Instant::now(),
            health: Arc::default(),
            committing: Cell::new(false),
            expected: Cell::default(),
        })
    }

    /// The same, that begins with what an earlier server left of deleted queues.
    pub(crate) fn purging(self) -> Self {
        Self { purging: true, ..self }
    }

    pub(crate) fn health(&self) -> Arc<WriterHealth> {
        Arc::clone(&self.health)
    }

    /// Runs until the queue is closed and empty.
    pub(crate) fn run(mut self, queue: &SharedQueue) {
        // The first command need not wait for it. If it fails, that is logged, and a command tries again.
        drop(self.connect());
        let mut batches: usize = 0;
        while let Some(batch) = self.next_batch(queue) {
            self.execute(batch);
            batches += 1;
            // A writer that is never idle purges, too.
            if self.purging && batches.is_multiple_of(BATCHES_PER_PURGE) {
                self.purge();
            }
        }
        let Self { runtime, session, .. } = self;
        drop(session);
        // Lets the connection be closed in order. Nothing else is waited for, such as a name that is being resolved.
        runtime.block_on(tokio::task::yield_now());
        runtime.shutdown_background();
    }

    /// The next commands, at least one; nothing when no more can come. An idle writer purges deleted queues in between.
    fn next_batch(&mut self, queue: &SharedQueue) -> Option<Vec<Write>> {
        loop {
            let (runtime, purging) = (&self.runtime, self.purging);
            let Turn { batch, is_closed, is_idle } = self.postponed.next_turn(|due| {
                let due = if purging { Some(Instant::now()) } else { due };
                runtime.block_on(receive(queue, due))
            });
            match batch.is_empty() {
                false => return Some(batch),
                true if is_closed && self.postponed.is_empty() => return None,
                true if is_idle && self.purging => self.purge(),
                // Only postponed commands are left: wait for the first of them.
                true if is_closed => self.runtime.block_on(tokio::time::sleep(RETRY_PAUSE)),
                true => {}
            }
        }
    }

    /// Executes a batch; claims come first, because what they take was picked when the transaction began. Long commands, scans
    /// and activity get a transaction of their own.
    fn execute(&mut self, mut batch: Vec<Write>) {
        // No claim waits for statistics: neither for their rows nor, if they cannot be saved, for another try.
        let saves_activity = |write: &Write| matches!(write.request, WriteRequest::SaveActivity(_));
        let alone: Vec<Write> = batch.extract_if(.., |write| runs_alone(write) || saves_activity(write)).collect();
        sort(&mut batch, ClaimOrder::First);
        self.execute_together(batch);
        for write in alone {
            self.execute_together(vec![write]);
        }
    }

    /// One transaction for all, or for as many as it has room for; if it fails, one for each command.
    fn execute_together(&mut self, mut batch: Vec<Write>) {
        let (mut tries, mut lost) = (0, false);
        while !batch.is_empty() {
            tries += 1;
            match self.attempt(&mut batch) {
                Ok(executed) => {
                    let left = batch.split_off(executed);
                    self.release(batch.into_iter());
                    return self.postponed.leave(left);
                }
                Err(BatchFailure::Unconnected(error)) => return fail_all(batch, &error),
                Err(BatchFailure::Unknown) => return fail_all(batch, &StoreError::OutcomeUnknown),
                // The first loss may be an old connection that a restart of the database has cut; the second one is not.
                Err(BatchFailure::Again(Cause::Lost)) if lost => return fail_all(batch, &StoreError::Unavailable),
                Err(BatchFailure::Again(Cause::Lost)) => lost = true,
                Err(BatchFailure::Again(Cause::Conflict | Cause::StatementLost)) if tries < TRIES => {}
                Err(_) if batch.len() > 1 => return one_by_one(batch, |write| self.execute_one(write)),
                Err(BatchFailure::Again(Cause::StatementLost)) => return fail_all(batch, &StoreError::Busy),
                Err(BatchFailure::Again(cause)) => return fail_all(batch, &to_store_error(cause)),
                Err(BatchFailure::Broken(what)) => return fail_all(batch, &StoreError::Broken(what)),
            }
        }
    }

    /// Gives the error for the rest of the batch, if the storage failed.
    fn execute_one(&mut self, write: Write) -> Option<StoreError> {
        let mut batch = vec![write];
        let failure = match self.attempt_repeatedly(&mut batch) {
            Ok(_) => {
                self.release(batch.into_iter());
                return None;
            }
            Err(failure) => failure,
        };
        let (error, for_the_rest) = match failure {
            BatchFailure::Again(Cause::Conflict) => (StoreError::Busy, None),
            BatchFailure::Broken(what) => (StoreError::Broken(what), None),
            BatchFailure::Again(cause) => (to_store_error(cause), Some(to_store_error(cause))),
            BatchFailure::Unknown => (StoreError::OutcomeUnknown, Some(StoreError::Unavailable)),
            BatchFailure::Unconnected(error) => (error.clone(), Some(error)),
        };
        fail_all(batch, &error);
        for_the_rest
    }

    /// Begins again what was overtaken, a few times.
    fn attempt_repeatedly(&mut self, batch: &mut Vec<Write>) -> Result<usize, BatchFailure> {
        for _ in 1..TRIES {
            match self.attempt(batch) {
                Err(BatchFailure::Again(Cause::Conflict | Cause::StatementLost)) => {}
                done => return done,
            }
        }
        self.attempt(batch)
    }

    /// Sends every answer to its caller, except that a command whose task others hold is postponed.
    fn release(&mut self, executed: impl Iterator<Item = Write>) {
        for mut write in executed {
            self.purging |= write.request.starts_purge();
            let now = Instant::now();
            // A bulk update whose plan is outdated is planned again first.
            let try_again = write.request.reply().is_busy() && !write.is_bulk_update();
            if try_again && now < write.queued_at + (BEGIN_LIMIT - LAST_TRY) {
                let pause = Duration::from_millis(1 << write.retries.min(6)).min(RETRY_PAUSE);
                // Two writers that hold what the other one needs must not try again at the same time for ever.
                let part = f64::from(random_u64() as u32) / f64::from(u32::MAX);
                let pause = pause / 2 + pause.mul_f64(part);
                write.retries += 1;
                write.request.reply().postpone();
                self.postponed.add(now + pause, write);
            } else {
                write.release();
            }
        }
    }

    /// Executes a batch in one transaction, or as much of its beginning as fits; gives how many commands that were.
    fn attempt(&mut self, batch: &mut Vec<Write>) -> Result<usize, BatchFailure> {
        let health = Arc::clone(&self.health);
        let _transaction = health.begin(Instant::now(), batch.iter().any(|write| write.request.is_long()));
        self.committing.set(false);
        let worked = catch_unwind(AssertUnwindSafe(|| self.transact(batch)));
        let done = worked.unwrap_or_else(|_| {
            let committing = self.committing.get();
            tracing::error!(committing, "a command ended by a panic");
            Err(if committing { BatchFailure::Unknown } else { BatchFailure::Again(Cause::Failed) })
        });
        if let Err(failure) = &done {
            if failure.is_of_storage() {
                self.shared.figures.failed();
            }
            self.roll_back(failure);
            self.free_queue(batch);
        }
        done
    }

    fn transact(&mut self, batch: &mut Vec<Write>) -> Result<usize, BatchFailure> {
        self.connect()?;
        let Some(session) = &self.session else { return Err(BatchFailure::Unconnected(StoreError::Unavailable)) };
        let mut begun = self.begin(session, batch)?;
        let scans = batch.iter().any(|write| write.request.is_scan());
        let mut clock = self.clock(begun.clock, scans);
        if !scans && clock.last_scan_at.is_some_and(|last| lease::is_longer_than_outage(last, clock.now)) {
            self.credit(session)?;
            // What an upkeep has released is committed.
            let released = begun.moved;
            // Only once, whatever the clock reads now.
            begun = self.begin(session, batch)?;
            begun.moved += released;
            clock = self.clock(begun.clock, scans);
        }
        let mut tx = self.transaction(session, begun, clock);
        // Connecting and beginning may have taken seconds: a command that was withdrawn or answered as busy is never executed.
        batch.retain_mut(|write| write.request.reply().begin());
        // Always: a waiter that registers while this is under way may look for a task before it is committed.
        let mut after_commit = AfterCommit::new(true);
        // For other commands than a scan the credit was granted above.
        let seconds = if scans { self.shared.credit_seconds } else { 0 };
        let credit = OutageCredit { seconds, last_scan_at: tx.clock.last_scan_at };
        let executed = execute_batch(&mut tx, batch, credit, &mut after_commit);
        let executed = executed.map_err(|error| failure_of(tx.failure, &error))?;
        // A method that cannot fail leaves its failure here (`next_pending_seq`).
        if let Some(cause) = tx.failure {
            return Err(BatchFailure::Again(cause));
        }
        // After a panic from here on it is not known whether the transaction was committed.
        self.committing.set(true);
        let begun_at = Instant::now();
        let ended = tx.commit();
        self.end(ended)?;
        self.shared.figures.committed(begun_at.elapsed());
        self.shared.figures.executed(executed);
        after_commit.count(&self.shared.activity);
        self.shared.wakeups.committed(&after_commit.claimable);
        Ok(executed)
    }

    fn begin(&self, session: &Session, batch: &[Write]) -> Result<Begun, BatchFailure> {
        let now = self.shared.clock.as_ref().map(|clock| clock.now());
        let begun = self.runtime.block_on(async {
            match batch {
                [write] if is_upkeep(write) => prefetch::begin_upkeep(session, now).await,
                [write] if runs_alone(write) => prefetch::begin_alone(session, write.request.queue()).await,
                _ => {
                    let keys = BatchKeys::by(batch.iter().map(|write| &write.request));
                    prefetch::begin(session, &keys, self.expected.get(), self.time()).await
                }
            }
        });
        let begun = begun.map_err(|error| failure("beginning a transaction", error))?;
        self.shared.dead.add(begun.moved);
        self.expected.set(begun.expected.unwrap_or(self.expected.get()));
        Ok(begun)
    }

    /// The time of a clock instead of the database's.
    fn time(&self) -> Option<i64> {
        self.shared.clock.as_ref().map(|clock| clock.now().as_micros())
    }

    /// The time of a transaction; a scan, of which there is one at a time, sets the pace.
    fn clock(&self, row: ClockRow, scans: bool) -> Clock {
        match &self.shared.clock {
            None if scans => Clock::of_scan(row, self.shared.last_scan.step_micros(Instant::now(), row.micros)),
            None => Clock::new(row),
            Some(clock) => Clock::new(ClockRow { micros: clock.now().as_micros(), offset_micros: 0, ..row }),
        }
    }

    fn transaction<'a>(&'a self, session: &'a Session, begun: Begun, clock: Clock) -> PostgresTransaction<'a> {
        let numbers = begun.numbers..begun.numbers + BLOCK;
        PostgresTransaction {
            session,
            runtime: &self.runtime,
            dead: &self.shared.dead,
            clock,
            numbers,
            rows: begun.rows,
            shard: self.shard,
            failure: None,
            wrote: begun.wrote,
            settles: self.settles,
            next_search: &self.shared.next_search,
            released: begun.moved,
            is_idle: begun.is_idle,
        }
    }

    /// After an outage, before anything else: every running lease is lengthened by the credit. In a transaction of its own,
    /// which waits only for another server that does the same.
    fn credit(&self, session: &Session) -> Result<(), BatchFailure> {
        let left = self.runtime.block_on(session.execute_text("ROLLBACK"));
        left.map_err(|error| failure("leaving a transaction", error))?;
        let begun = self.runtime.block_on(prefetch::begin_alone(session, None));
        let begun = begun.map_err(|error| failure("beginning a scan", error))?;
        let clock = self.clock(begun.clock, true);
        let mut tx = self.transaction(session, begun, clock);
        // Without a credit the scan is saved all the same: it may have found that the database's clock was set.
        let credited = match self.shared.credit_seconds {
            0 => tx.save_scan().map(|()| 0),
            seconds => {
                let last_scan_at = tx.clock.last_scan_at;
                credit_after_outage(&mut tx, OutageCredit { seconds, last_scan_at })
            }
        };
        let credited = credited.map_err(|error| failure_of(tx.failure, &error))?;
        tracing::info!(runs = credited, "leases were lengthened after an outage");
        self.end(tx.commit())
    }

    /// Removes some tasks of a deleted queue, and the lines of the tally that count nothing.
    fn purge(&mut self) {
        let purged = self.connect().ok().and_then(|()| {
            let session = self.session.as_ref()?;
            let merge = self.merged_at.elapsed() >= MERGE_PAUSE;
            let purged = self.runtime.block_on(crate::purge::purge(session, PURGE, merge.then_some(self.shard)));
            if merge {
                self.merged_at = Instant::now();
            }
            Some(purged)
        });
        if !matches!(purged, Some(Ok(_))) {
            self.session = None;
        }
        self.purging = purged.is_some_and(|purged| {
            purged.unwrap_or_else(|error| {
                failed("purging a deleted queue", &error);
                cause(&error) == Cause::StatementLost
            })
        });
    }
}

/// Whether a command gets a transaction of its own, with what it needs for itself.
fn runs_alone(write: &Write) -> bool {
    write.request.is_long() || write.request.is_scan() || is_upkeep(write)
}

fn is_upkeep(write: &Write) -> bool {
    matches!(write.request, WriteRequest::Upkeep(_))
}

/// Waits for the commands of a transaction: none when no more can come; nothing when the time was over first.
async fn receive(queue: &SharedQueue, until: Option<Instant>) -> Option<Vec<Write>> {
    let received = async { queue.lock().await.next().await };
    match until {
        None => Some(received.await),
        Some(until) => tokio::time::timeout_at(until.into(), received).await.ok(),
    }
}

fn failure(doing: &'static str, error: impl Into<ReadError>) -> BatchFailure {
    match error.into() {
        ReadError::Failed(error) => BatchFailure::Again(log_unless_conflict(doing, &error)),
        error => failure_of(None, &error.into_store_error(doing)),
    }
}

/// Why the execution of a batch ended with `error`; `cause` is the failed statement, if there is one.
fn failure_of(cause: Option<Cause>, error: &StoreError) -> BatchFailure {
    match (cause, error) {
        (Some(cause), _) => BatchFailure::Again(cause),
        (None, StoreError::Broken(what)) => BatchFailure::Broken(what),
        (None, StoreError::Busy) => BatchFailure::Again(Cause::Busy),
        (None, _) => BatchFailure::Again(Cause::Failed),
    }
}

fn to_store_error(cause: Cause) -> StoreError {
    match cause {
        Cause::Conflict | Cause::Busy => StoreError::Busy,
        Cause::StatementLost | Cause::Lost | Cause::Failed => StoreError::Unavailable,
    }
}

#[cfg(test)]
#[path = "writer_tests.rs"]
mod tests;

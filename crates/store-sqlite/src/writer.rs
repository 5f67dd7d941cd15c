//! The writer: one thread owns the write connection and is the only one to change the claim index. It takes the first queued
//! command and everything queued behind it, runs them in one transaction, commits once, then releases every answer. There
//! is no timer: the next batch forms while the last one is being synced.

mod memory_limit;
mod recovery;

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use rusqlite::Connection;
use taskqueue_core::time::Timestamp;
use taskqueue_store::StoreError;
use taskqueue_store::bulk::{self, planned};
use taskqueue_store::claimable::Claimable;
use taskqueue_store::clock::Clock;
use taskqueue_store::command::{Answer, Command, Scanned};
use taskqueue_store::execute::{credit_after_outage, execute};
use taskqueue_store::submission::Outcome;
use taskqueue_store::waiting::Waiters;
use taskqueue_store::writer_health::WriterHealth;
use tokio::sync::mpsc::Receiver;
use tokio::sync::mpsc::error::TryRecvError;

use crate::Options;
use crate::bulk::{PlannedWrite, Watches};
use crate::checkpoint::Checkpointer;
use crate::claim_index::ClaimIndex;
use crate::failure::{Doing, failed_commit};
use crate::ownership::{Lost, Ownership};
use crate::published_index::PublishedIndex;
use crate::request::Request;
use crate::transaction::SqliteTransaction;

/// Commands in one transaction at most. A longer one would let its first caller wait for no gain: the sync is shared
/// by so many already that its part of each command is below a microsecond.
const BATCH: usize = 256;
/// Bytes of tasks in the answers of one transaction, one task aside: eight of the largest. What is behind them in the batch
/// gets the next transaction, so that a batch of claims does not hold hundreds of megabytes until its commit.
const BATCH_ANSWER_BYTES: usize = 16 * 1_048_576;
/// Tasks of a deleted queue that are removed in one transaction while nothing else waits: a millisecond or two.
const PURGE: u32 = 100;

/// The thread's state.
pub(crate) struct Writer {
    connection: Connection,
    published_index: Arc<PublishedIndex>,
    /// The index that was withdrawn; empty while it is published.
    claim_index: ClaimIndex,
    clock: Arc<dyn Clock>,
    credit_seconds: i64,
    /// What the pending order may take in memory.
    pending_bytes: usize,
    /// When the log was last told that a queue was refused tasks because of it.
    told_full_at: Option<Instant>,
    checkpointer: Checkpointer,
    waiters: Arc<Waiters>,
    /// When the storage failed or was last tried again. No write is taken until a reopen has been verified.
    failed_at: Option<Instant>,
    /// The same, for the health check.
    failed: Arc<AtomicBool>,
    /// When the leases were last scanned, as far as it was committed. A scan that failed was no sign of life: nobody
    /// could be heard.
    scanned_at: Option<Timestamp>,
    purging: bool,
    /// Commands that run alone and wait until the others have been served once more.
    alone: VecDeque<Request>,
    watches: Arc<Watches>,
    working: Arc<WriterHealth>,
    /// The file that was found missing, and whether all that was acknowledged is in the database file since.
    lost: Option<(Lost, bool)>,
    /// The last one to go: every connection is closed before the file is given up.
    ownership: Arc<Ownership>,
}

impl Writer {
    /// A writer over an opened and migrated file.
    pub(crate) fn new(
        connection: Connection,
        claim_index: ClaimIndex,
        ownership: Arc<Ownership>,
        clock: Arc<dyn Clock>,
        options: &Options,
        checkpointer: Checkpointer,
        failed: Arc<AtomicBool>,
    ) -> Self {
        let scanned_at = claim_index.last_scan_at;
        let (failed_at, purging) = (None, true);
        let (credit_seconds, pending_bytes) = (options.outage_credit_seconds, options.pending_bytes);
        let published_index = PublishedIndex::new(claim_index, Arc::clone(&clock), credit_seconds);
        Self {
            connection,
            published_index: Arc::new(published_index),
            claim_index: ClaimIndex::default(),
            clock,
            credit_seconds,
            pending_bytes,
            told_full_at: None,
            checkpointer,
            waiters: Arc::default(),
            failed_at,
            failed,
            scanned_at,
            purging,
            alone: VecDeque::new(),
            watches: Arc::default(),
            working: Arc::default(),
            lost: None,
            ownership,
        }
    }

    /// Where this writer notes what it changes.
    pub(crate) fn watches(&self) -> Arc<Watches> {
        Arc::clone(&self.watches)
    }

    /// Tells since when this writer is at one transaction.
    pub(crate) fn working(&self) -> Arc<WriterHealth> {
        Arc::clone(&self.working)
    }

    /// Those whom this writer wakes.
    pub(crate) fn waiters(&self) -> Arc<Waiters> {
        Arc::clone(&self.waiters)
    }

    pub(crate) fn published_index(&self) -> Arc<PublishedIndex> {
        Arc::clone(&self.published_index)
    }

    /// Runs until every sender is gone, then moves the whole log into the file.
    pub(crate) fn run(mut self, mut requests: Receiver<Request>) {
        while let Some(batch) = self.next_batch(&mut requests) {
            self.with_claim_index(|writer| writer.serve(batch));
        }
        let moved = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        if let Err(error) = moved {
            tracing::warn!(%error, "the log could not be moved into the database; the next start does it");
        }
    }

    /// The next commands, none if only one that runs alone waits; nothing when no more can come. An idle writer purges deleted
    /// queues meanwhile.
    fn next_batch(&mut self, requests: &mut Receiver<Request>) -> Option<Vec<Request>> {
        let mut batch = Vec::new();
        loop {
            match requests.try_recv() {
                Ok(request) if turn(&request.command) == Turn::Alone => self.alone.push_back(request),
                Ok(request) => batch.push(request),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) if !self.alone.is_empty() => return Some(batch),
                Err(TryRecvError::Empty) if !batch.is_empty() => return Some(batch),
                Err(TryRecvError::Empty) if self.purging && self.failed_at.is_none() => {
                    self.with_claim_index(Self::purge)
                }
                Err(TryRecvError::Empty) => match requests.blocking_recv()? {
                    request if turn(&request.command) == Turn::Alone => self.alone.push_back(request),
                    request => batch.push(request),
                },
                Err(TryRecvError::Disconnected) if batch.is_empty() => return None,
                Err(TryRecvError::Disconnected) => return Some(batch),
            }
            if batch.len() >= BATCH {
                return Some(batch);
            }
        }
    }

    /// Works with the index withdrawn: other threads see nothing that is not committed. While the storage is out of order the
    /// index is not what the file holds, and is not published. After a panic it is never published again.
    fn with_claim_index(&mut self, work: impl FnOnce(&mut Self)) {
        if let Some(claim_index) = self.published_index.withdraw() {
            self.claim_index = claim_index;
        }
        work(self);
        if self.failed_at.is_none() {
            self.published_index.publish(std::mem::take(&mut self.claim_index));
        }
    }

    /// Runs a batch. All its commands are concurrent, nobody has been answered yet, so any order will do: claims come
    /// last and find what the others created. Long commands get a transaction of their own, and only one of them comes
    /// between two batches: however many there are, nobody else waits for more than one.
    fn serve(&mut self, batch: Vec<Request>) {
        let alone = self.alone.pop_front();
        if !self.ready() {
            return batch.into_iter().chain(alone).for_each(|request| request.release(Err(StoreError::Unavailable)));
        }
        self.serve_ordinary(batch);
        match alone {
            Some(request) if request.is_late() || self.is_outdated(&request) => request.release(Err(StoreError::Busy)),
            Some(request) => {
                let with_room = self.with_room(vec![request]);
                self.serve_together(with_room);
            }
            None => {}
        }
    }

    /// Whether a planned bulk update cannot be written: too much has changed since its snapshot. Nothing changes any more
    /// until it is written, because nobody else writes.
    fn is_outdated(&self, request: &Request) -> bool {
        let (Command::UpdateTasks(bulk), Some(PlannedWrite { plan, .. })) = (&request.command, &request.plan) else {
            return false;
        };
        let mut planned = planned(plan);
        // A queue that is not there any more is refused like every other.
        let replaced = self.claim_index.queue(&bulk.queue).is_some_and(|key| key != planned.plan.queue());
        if replaced {
            planned.snapshot.lose();
        }
        planned.is_outdated = !planned.snapshot.is_few();
        planned.is_outdated
    }

    fn serve_ordinary(&mut self, batch: Vec<Request>) {
        // Claims that found no published index, because the last batch was still running.
        if self.published_index.all_find_nothing(&self.claim_index, batch.iter().map(|request| &request.command)) {
            return batch.into_iter().for_each(|request| request.release(Ok(Answer::Claimed(None))));
        }
        let mut batch = self.with_room(batch);
        batch.sort_by_key(|request| turn(&request.command));
        self.serve_together(batch);
    }

    /// One transaction for all; if it fails, one for each, so that only a command that causes a failure suffers from it.
    fn serve_together(&mut self, mut batch: Vec<Request>) {
        while !batch.is_empty() {
            match self.transact(&mut batch) {
                Ok(answers) => {
                    let done = batch.drain(..answers.len());
                    done.zip(answers).for_each(|(request, answer)| request.release(answer));
                }
                Err(StoreError::Unavailable) if batch.len() > 1 => return self.serve_one_by_one(batch),
                Err(error) => return batch.into_iter().for_each(|request| request.release(Err(error.clone()))),
            }
        }
    }

    /// A second failure shows that the storage is to blame and not a command; then the rest is not tried.
    fn serve_one_by_one(&mut self, batch: Vec<Request>) {
        let mut failures = 0;
        for request in batch {
            let mut alone = vec![request];
            let answers = match failures {
                0 | 1 => self.transact(&mut alone),
                _ => Err(StoreError::Unavailable),
            };
            failures += u32::from(answers.is_err());
            let answer = answers.and_then(|mut answers| answers.pop().unwrap_or(Err(StoreError::Unavailable)));
            alone.into_iter().for_each(|request| request.release(answer.clone()));
        }
    }

    /// Runs a batch in one transaction, or as much of its beginning as fits; there is an answer for each that was run. An
    /// error means that nothing of it was kept, unless it says that nobody knows.
    fn transact(&mut self, batch: &mut Vec<Request>) -> Result<Vec<Outcome>, StoreError> {
        // Looked at when the batch came and after each commit since: only a failure in between asks for another look.
        if self.failed_at.is_some() && !self.ready() {
            return Err(StoreError::Unavailable);
        }
        let (credit_seconds, working) = (self.credit_seconds, Arc::clone(&self.working));
        let _working = working.begin(Instant::now());
        // A waiter that registers from now on finds no published index, or the one after this batch (`published_index.rs`).
        let mut claimable = Claimable::new(!self.waiters.is_empty());
        let answers = self.in_transaction(|tx| {
            // Beginning may have taken seconds: who has gone or was told that the storage is busy can rely on it.
            batch.retain(|request| request.handed.begin());
            execute_all(tx, batch, credit_seconds, &mut claimable)
        })?;
        self.wake(&claimable);
        // A purge that failed is taken up again with the next scan.
        let purges = |request: &Request| matches!(request.command, Command::DeleteQueue { .. } | Command::Scan);
        self.purging |= batch.iter().any(purges);
        Ok(answers)
    }

    /// Wakes those who wait for what was committed.
    fn wake(&self, claimable: &Claimable) {
        self.waiters.wake(claimable);
        if claimable.must_poll_all_routes() {
            self.look_for_waiters();
        }
    }

    /// Compares what is pending with what is waited for.
    fn look_for_waiters(&self) {
        for (queue, route, _) in self.waiters.waiting_routes() {
            match self.claim_index.queue(&queue) {
                Some(key) => self.waiters.wake_for_route(&queue, &route, self.claim_index.pending(key, route.as_str())),
                None => self.waiters.queue_deleted(&queue),
            }
        }
    }

    fn purge(&mut self) {
        self.purging = self.in_transaction(|tx| tx.purge(PURGE)).unwrap_or(false);
    }

    /// Begins, works, commits. Whatever goes wrong before the commit, a panic included, leaves the file as it was, and the index
    /// is read anew. What became of a commit that failed may be unknown.
    fn in_transaction<T>(
        &mut self,
        work: impl FnOnce(&mut SqliteTransaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        run_prepared(&self.connection, "BEGIN IMMEDIATE").doing("beginning a transaction")?;
        let (now, sleeps) = (self.clock.now(), self.clock.times_found_ahead());
        if self.published_index.sleeps_credited() != sleeps {
            self.claim_index.count_as_outage();
        }
        let mut tx = SqliteTransaction::new(&self.connection, &mut self.claim_index, now);
        tx.pending_bytes = self.pending_bytes;
        let worked = catch_unwind(AssertUnwindSafe(|| {
            let value = work(&mut tx)?;
            tx.finish()?;
            Ok((value, std::mem::take(&mut tx.touched)))
        }));
        let done = worked.unwrap_or(Err(StoreError::Unavailable)).and_then(|value| {
            run_prepared(&self.connection, "COMMIT").map_err(|error| failed_commit(&error))?;
            Ok(value)
        });
        // What lies in a file that was removed meanwhile is lost with it, unless it can be rescued: nobody knows yet.
        let done = if done.is_ok() && !self.holds_files() { Err(StoreError::OutcomeUnknown) } else { done };
        match &done {
            Ok((_, touched)) => {
                self.watches.note(touched);
                self.scanned_at = self.claim_index.last_scan_at;
                self.published_index.credit_sleeps(sleeps);
                self.checkpointer.committed(&self.connection);
            }
            Err(StoreError::Busy) => self.undo(),
            Err(_) => self.recover(),
        }
        done.map(|(value, _)| value)
    }
}

/// Runs commands one after the other, until their answers are large; a refusal is an answer, a failure of the storage ends
/// it all.
fn execute_all(
    tx: &mut SqliteTransaction<'_>,
    batch: &[Request],
    credit_seconds: i64,
    claimable: &mut Claimable,
) -> Result<Vec<Outcome>, StoreError> {
    let credited_runs = credit_after_outage(tx, credit_seconds)?;
    let (mut answers, mut bytes) = (Vec::with_capacity(batch.len()), 0);
    for request in batch {
        if bytes > BATCH_ANSWER_BYTES {
            break;
        }
        match execute_one(tx, request, credit_seconds, claimable) {
            Err(error @ (StoreError::Busy | StoreError::Unavailable | StoreError::OutcomeUnknown)) => {
                return Err(error);
            }
            // The credit was granted before the scan could do it; the scan tells it all the same.
            Ok(Answer::Scanned(scanned)) => answers.push(Ok(Answer::Scanned(Scanned { credited_runs, ..scanned }))),
            answer => {
                bytes += answer.as_ref().map_or(0, Answer::bytes);
                answers.push(answer);
            }
        }
    }
    Ok(answers)
}

fn execute_one(
    tx: &mut SqliteTransaction<'_>,
    Request { command, plan, .. }: &Request,
    credit_seconds: i64,
    claimable: &mut Claimable,
) -> Outcome {
    match (command, plan) {
        (Command::UpdateTasks(bulk), Some(PlannedWrite { plan, limit })) => {
            let mut planned = planned(plan);
            let since = planned.snapshot.take().ok_or(StoreError::Busy)?;
            bulk::write(tx, bulk, &mut planned.plan, &since, limit, claimable)
        }
        _ => execute(tx, command, credit_seconds, claimable),
    }
}

/// Runs a statement that stays prepared.
fn run_prepared(connection: &Connection, statement: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(statement)?.execute([]).map(drop)
}

/// In which order the commands of one batch run.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    Early,
    Claim,
    Alone,
}

fn turn(command: &Command) -> Turn {
    match command {
        Command::Claim { .. } => Turn::Claim,
        Command::UpdateTasks { .. } | Command::DeleteQueue { .. } => Turn::Alone,
        _ => Turn::Early,
    }
}

#[cfg(test)]
#[path = "writer_tests.rs"]
mod tests;

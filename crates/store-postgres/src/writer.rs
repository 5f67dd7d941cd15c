//! A writer: one thread with a connection of its own. It takes the first queued command and everything queued behind it,
//! runs them in one transaction, commits once, then releases every answer. There are a few of them in each server, and
//! any number of servers; what keeps them apart is in docs/decisions/0009.

mod recovery;

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use taskqueue_core::lease;
use taskqueue_store::StoreError;
use taskqueue_store::bulk::{self, planned};
use taskqueue_store::claimable::Claimable;
use taskqueue_store::command::Command;
use taskqueue_store::execute::{credit_after_outage, execute};
use taskqueue_store::submission::Outcome;
use taskqueue_store::transaction::Transaction;
use taskqueue_store::writer_health::WriterHealth;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Mutex;
use tokio::sync::mpsc::Receiver;

use crate::bulk::{PlannedWrite, changed_since};
use crate::clock::{Clock, ClockRow, LastScan};
use crate::failure::{Cause, failed, log_unless_conflict};
use crate::open::Connector;
use crate::prefetch::{self, Begun, Named};
use crate::request::Request;
use crate::session::Session;
use crate::transaction::{BLOCK, PostgresTransaction};
use crate::vacuum::DeadEntries;
use crate::wakeups::Wakeups;

/// Commands in one transaction at most.
const BATCH: usize = 256;
/// How often a batch that was overtaken by another server is begun anew before its commands are tried one by one.
const TRIES: u32 = 5;
/// Tasks of a deleted queue that are removed in one transaction: a few milliseconds.
const PURGE: i64 = 500;
/// The longest pause before such a command is tried again.
const RETRY_PAUSE: Duration = Duration::from_millis(64);
/// How often the tally is tidied up.
const MERGE_PAUSE: Duration = Duration::from_secs(600);

/// Where writers take their commands from.
pub(crate) type Requests = Arc<Mutex<Receiver<Request>>>;

/// The thread's state.
pub(crate) struct Writer {
    connector: Arc<Connector>,
    /// This thread's alone: what comes on the connection goes to the writer without a detour over other threads.
    runtime: Runtime,
    wakeups: Arc<Wakeups>,
    dead: Arc<DeadEntries>,
    /// A clock instead of the database's, for tests.
    clock: Option<Arc<dyn taskqueue_store::clock::Clock>>,
    last_scan: Arc<LastScan>,
    credit_seconds: i64,
    /// This writer's own part of the tally.
    shard: i16,
    session: Option<Session>,
    /// Whether the database can tell what became of a transaction. Engines that only resemble PostgreSQL may not.
    settles: bool,
    connect_failed_at: Option<(Instant, StoreError)>,
    /// Commands whose task others hold, to be tried again.
    put_back: Vec<Request>,
    purging: bool,
    merged_at: Instant,
    working: Arc<WriterHealth>,
    /// Whether the transaction under way has been told to commit.
    committing: Cell<bool>,
}

/// What became of a batch that could not be done.
enum Undone {
    /// Nothing of it was kept; the same again may succeed.
    Again(Cause),
    /// Nobody knows what became of it.
    Unknown,
    /// There is no connection.
    Unconnected(StoreError),
}

impl Writer {
    /// A writer that connects when it is needed.
    pub(crate) fn new(
        connector: Arc<Connector>,
        wakeups: Arc<Wakeups>,
        dead: Arc<DeadEntries>,
        clock: Option<Arc<dyn taskqueue_store::clock::Clock>>,
        last_scan: Arc<LastScan>,
        credit_seconds: i64,
        shard: i16,
    ) -> std::io::Result<Self> {
        Ok(Self {
            connector,
            runtime: Builder::new_current_thread().enable_all().build()?,
            wakeups,
            dead,
            clock,
            last_scan,
            credit_seconds,
            shard,
            session: None,
            settles: false,
            connect_failed_at: None,
            put_back: Vec::new(),
            purging: true,
            merged_at: Instant::now(),
            working: Arc::default(),
            committing: Cell::new(false),
        })
    }

    /// Tells since when this writer is at one transaction.
    pub(crate) fn working(&self) -> Arc<WriterHealth> {
        Arc::clone(&self.working)
    }

    /// Runs until no more commands can come.
    pub(crate) fn run(mut self, requests: &Requests) {
        while let Some(batch) = self.next_batch(requests) {
            self.serve(batch);
        }
        let Self { runtime, session, .. } = self;
        drop(session);
        // The connection gets a turn to take its leave. Nothing else is waited for, such as a name that is being resolved.
        runtime.block_on(tokio::task::yield_now());
        runtime.shutdown_background();
    }

    /// The next commands, at least one; nothing when no more can come. An idle writer purges deleted queues meanwhile.
    fn next_batch(&mut self, requests: &Requests) -> Option<Vec<Request>> {
        loop {
            let due = self.put_back.iter().map(|request| request.due).min();
            let due = if self.purging { Some(Instant::now()) } else { due };
            let mut batch = Vec::new();
            let received = self.runtime.block_on(receive(requests, &mut batch, due));
            self.take_due(&mut batch);
            match received {
                _ if !batch.is_empty() => return Some(batch),
                Some(0) if self.put_back.is_empty() => return None,
                None if self.purging => self.purge(),
                // Only commands that were put back are left: wait for the first of them.
                Some(_) => self.runtime.block_on(tokio::time::sleep(RETRY_PAUSE)),
                None => {}
            }
        }
    }

    fn take_due(&mut self, batch: &mut Vec<Request>) {
        let now = Instant::now();
        batch.extend(self.put_back.extract_if(.., |request| request.due <= now));
    }

    /// Runs a batch. All its commands are concurrent, nobody has been answered yet, so any order will do: claims come
    /// first, because what they take was picked when the transaction began; long commands get one of their own.
    fn serve(&mut self, mut batch: Vec<Request>) {
        batch.sort_by_key(|request| turn(&request.command));
        let first_alone = batch.partition_point(|request| turn(&request.command) < Turn::Alone);
        let alone = batch.split_off(first_alone);
        self.serve_together(batch);
        for request in alone {
            self.serve_together(vec![request]);
        }
    }

    /// One transaction for all; if it fails, one for each, so that only a command that causes a failure suffers from it.
    fn serve_together(&mut self, mut batch: Vec<Request>) {
        let mut lost = false;
        for _ in 0..TRIES {
            if batch.is_empty() {
                return;
            }
            match self.attempt(&mut batch) {
                Ok(answers) => return self.release(batch, answers),
                Err(Undone::Unconnected(error)) => return release_all(batch, &error),
                Err(Undone::Unknown) => return release_all(batch, &StoreError::OutcomeUnknown),
                // The first loss may be an old connection that a restart of the database has cut; the second one is not.
                Err(Undone::Again(Cause::Lost)) if lost => return release_all(batch, &StoreError::Unavailable),
                Err(Undone::Again(Cause::Lost)) => lost = true,
                Err(Undone::Again(Cause::Conflict | Cause::StatementLost)) => {}
                Err(Undone::Again(cause)) if batch.len() == 1 => return release_all(batch, &told(cause)),
                Err(Undone::Again(_)) => return self.serve_one_by_one(batch),
            }
        }
        match batch.len() {
            1 => release_all(batch, &StoreError::Busy),
            _ => self.serve_one_by_one(batch),
        }
    }

    /// A second failure shows that the storage is to blame and not a command; then the rest is not tried.
    fn serve_one_by_one(&mut self, batch: Vec<Request>) {
        let mut failures = Vec::new();
        for request in batch {
            let mut alone = vec![request];
            // What is answered with an error is not done.
            if failures.len() > 1 {
                release_all(alone, &failures[0]);
                continue;
            }
            match self.attempt_alone(&mut alone) {
                Ok(answers) => self.release(alone, answers),
                Err(Undone::Again(Cause::Conflict)) => release_all(alone, &StoreError::Busy),
                Err(undone) => {
                    // What is told to those who are not tried any more: nothing of theirs was done.
                    let (error, others) = match undone {
                        Undone::Again(cause) => (told(cause), told(cause)),
                        Undone::Unknown => (StoreError::OutcomeUnknown, StoreError::Unavailable),
                        Undone::Unconnected(error) => (error.clone(), error),
                    };
                    release_all(alone, &error);
                    failures.push(others);
                }
            }
        }
    }

    /// Begins anew what was overtaken, a few times.
    fn attempt_alone(&mut self, alone: &mut Vec<Request>) -> Result<Vec<Outcome>, Undone> {
        for _ in 1..TRIES {
            match self.attempt(alone) {
                Err(Undone::Again(Cause::Conflict | Cause::StatementLost)) => {}
                done => return done,
            }
        }
        self.attempt(alone)
    }

    /// Gives every answer to its caller, except that a command whose task others hold is put back for a while.
    fn release(&mut self, batch: Vec<Request>, answers: Vec<Outcome>) {
        // A purge that failed is taken up again with the next scan.
        let purges = |request: &Request| matches!(request.command, Command::DeleteQueue { .. } | Command::Scan);
        self.purging |= batch.iter().any(purges);
        for (mut request, answer) in batch.into_iter().zip(answers) {
            let now = Instant::now();
            // A bulk update whose plan is outdated is planned again first.
            if answer == Err(StoreError::Busy) && now < request.until && !request.is_bulk_update() {
                let pause = Duration::from_millis(1 << request.tries.min(6)).min(RETRY_PAUSE);
                request.tries += 1;
                request.due = now + pause;
                request.handed.wait_again();
                self.put_back.push(request);
            } else {
                request.release(answer);
            }
        }
    }

    /// Runs a batch in one transaction. An error means that nothing of it was kept, or that nobody knows.
    fn attempt(&mut self, batch: &mut Vec<Request>) -> Result<Vec<Outcome>, Undone> {
        let working = Arc::clone(&self.working);
        let _working = working.begin(Instant::now());
        self.committing.set(false);
        let worked = catch_unwind(AssertUnwindSafe(|| self.transact(batch)));
        let done = worked.unwrap_or_else(|_| {
            let committing = self.committing.get();
            tracing::error!(committing, "a command ended by a panic");
            Err(if committing { Undone::Unknown } else { Undone::Again(Cause::Failed) })
        });
        if let Err(undone) = &done {
            self.leave(undone);
            self.free_queue(batch);
        }
        done
    }

    fn transact(&mut self, batch: &mut Vec<Request>) -> Result<Vec<Outcome>, Undone> {
        self.connect()?;
        let Some(session) = &self.session else { return Err(Undone::Unconnected(StoreError::Unavailable)) };
        let mut begun = self.begin(session, batch)?;
        let scans = batch.iter().any(|request| matches!(request.command, Command::Scan));
        let mut clock = self.clock(begun.clock, scans);
        if !scans && clock.last_scan_at.is_some_and(|last| lease::was_out(last, clock.now)) {
            self.credit(session)?;
            // Once: the leases are good now, whatever the clock says.
            begun = self.begin(session, batch)?;
            clock = self.clock(begun.clock, scans);
        }
        let mut tx = self.transaction(session, begun, clock);
        // Connecting and beginning may have taken seconds: who has gone or was told that the storage is busy can rely on it.
        batch.retain(|request| request.handed.begin());
        let mut answers = Vec::with_capacity(batch.len());
        // Always: whoever comes to wait while this is under way may look before it is committed.
        let mut claimable = Claimable::new(true);
        for request in &*batch {
            answers.push(execute_one(&mut tx, request, self.credit_seconds, &mut claimable));
            if let Some(cause) = tx.failure {
                return Err(Undone::Again(cause));
            }
            // A bulk update that ran out of time has saved a part of its plan; one whose plan is outdated, nothing.
            let busy = request.is_bulk_update() && answers.last() == Some(&Err(StoreError::Busy));
            if busy && !request.is_outdated() {
                return Err(Undone::Again(Cause::Busy));
            }
        }
        // From here on a panic of ours says nothing about the transaction.
        self.committing.set(true);
        let ended = tx.commit();
        self.end(ended)?;
        self.wakeups.committed(&claimable);
        Ok(answers)
    }

    fn begin(&self, session: &Session, batch: &[Request]) -> Result<Begun, Undone> {
        let begun = self.runtime.block_on(async {
            match batch {
                [Request { command, .. }] if turn(command) == Turn::Alone => {
                    prefetch::begin_alone(session, command).await
                }
                _ => prefetch::begin(session, &Named::by(batch.iter().map(|request| &request.command))).await,
            }
        });
        begun.map_err(|error| undone("beginning a transaction", &error))?.map_err(|_| Undone::Again(Cause::Failed))
    }

    /// The time of a transaction; a scan, of which there is one at a time, sets the pace.
    fn clock(&self, told: ClockRow, scans: bool) -> Clock {
        match &self.clock {
            None if scans => Clock::of_scan(told, self.last_scan.step_micros(Instant::now(), told.micros)),
            None => Clock::new(told),
            Some(clock) => Clock::new(ClockRow { micros: clock.now().as_micros(), offset_micros: 0, ..told }),
        }
    }

    fn transaction<'a>(&'a self, session: &'a Session, begun: Begun, clock: Clock) -> PostgresTransaction<'a> {
        let numbers = begun.numbers..begun.numbers + BLOCK;
        PostgresTransaction {
            session,
            runtime: &self.runtime,
            dead: &self.dead,
            clock,
            numbers,
            workspace: begun.workspace,
            shard: self.shard,
            failure: None,
            wrote: begun.wrote,
            settles: self.settles,
        }
    }

    /// After an outage, before anything else: every running lease is made good for the credit. In a transaction of its
    /// own, which waits for nobody but another server that does the same.
    fn credit(&self, session: &Session) -> Result<(), Undone> {
        let left = self.runtime.block_on(session.execute_text("ROLLBACK"));
        left.map_err(|error| undone("leaving a transaction", &error))?;
        let begun = self.runtime.block_on(prefetch::begin_alone(session, &Command::Scan));
        let begun =
            begun.map_err(|error| undone("beginning a scan", &error))?.map_err(|_| Undone::Again(Cause::Failed))?;
        let clock = self.clock(begun.clock, true);
        let mut tx = self.transaction(session, begun, clock);
        // Without a credit the scan is saved all the same: it may have found that the database's clock was set.
        let credited = match self.credit_seconds {
            0 => tx.save_scan().map(|()| 0),
            seconds => credit_after_outage(&mut tx, seconds),
        };
        let credited = credited.map_err(|_| Undone::Again(tx.failure.unwrap_or(Cause::Failed)))?;
        tracing::info!(runs = credited, "nobody was heard for a while; leases were lengthened");
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
            purged.map_err(|error| failed("purging a deleted queue", &error)).ok()
        });
        if purged.is_none() {
            self.session = None;
        }
        self.purging = purged.unwrap_or(false);
    }
}

fn execute_one(
    tx: &mut PostgresTransaction<'_>,
    Request { command, plan, .. }: &Request,
    credit_seconds: i64,
    claimable: &mut Claimable,
) -> Outcome {
    let (Command::UpdateTasks(bulk), Some(PlannedWrite { plan, limit })) = (command, plan) else {
        return execute(tx, command, credit_seconds, claimable);
    };
    let mut planned = planned(plan);
    // An earlier attempt may have found it so, and have been undone.
    planned.is_outdated = false;
    // A queue that is not there any more is refused like every other.
    let replaced = tx.find_queue(&bulk.queue)?.is_some_and(|queue| queue != planned.plan.queue());
    let since = if replaced { None } else { changed_since(tx, &planned)? };
    match since {
        Some(since) => bulk::write(tx, bulk, &mut planned.plan, &since, limit, claimable),
        None => {
            planned.is_outdated = true;
            Err(StoreError::Busy)
        }
    }
}

/// Waits for commands: how many came, none when no more can come; nothing when the time was over first.
async fn receive(requests: &Requests, batch: &mut Vec<Request>, until: Option<Instant>) -> Option<usize> {
    let received = async { requests.lock().await.recv_many(batch, BATCH).await };
    match until {
        None => Some(received.await),
        Some(until) => tokio::time::timeout_at(until.into(), received).await.ok(),
    }
}

fn undone(doing: &'static str, error: &tokio_postgres::Error) -> Undone {
    Undone::Again(log_unless_conflict(doing, error))
}

/// What a caller is told about a transaction that was undone.
fn told(cause: Cause) -> StoreError {
    match cause {
        Cause::Conflict | Cause::Busy => StoreError::Busy,
        Cause::StatementLost | Cause::Lost | Cause::Failed => StoreError::Unavailable,
    }
}

fn release_all(batch: Vec<Request>, error: &StoreError) {
    batch.into_iter().for_each(|request| request.release(Err(error.clone())));
}

/// In which order the commands of one batch run.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    Claim,
    Other,
    Alone,
}

fn turn(command: &Command) -> Turn {
    match command {
        Command::Claim { .. } => Turn::Claim,
        Command::UpdateTasks { .. } | Command::DeleteQueue { .. } | Command::Scan => Turn::Alone,
        _ => Turn::Other,
    }
}

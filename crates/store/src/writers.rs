//! What the writers of a store have in common: their threads, how long each has been at one transaction, and what they did.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::histogram::{Histogram, HistogramValues};

// The threads of the writers of a store, and how a store is closed without blocking an async thread.

#[derive(Debug, Default)]
pub struct WriterThreads(Mutex<Vec<JoinHandle<()>>>);

impl WriterThreads {
    pub fn spawn(&self, name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let thread = Builder::new().name(name.into()).spawn(run)?;
        self.0.lock().push(thread);
        Ok(())
    }

    /// Waits for the end of all. Their queues must be closed. Only the first caller waits: another one, which gave up on the
    /// first, must not be blocked by a thread that hangs.
    pub fn join(&self) {
        let threads = std::mem::take(&mut *self.0.lock());
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("a writer ended by a panic");
            }
        }
    }
}

/// Runs the last work of a store on a thread of its own: a caller that has no time to wait for it can stop waiting.
pub async fn close_on_thread(close: impl FnOnce() + Send + 'static) {
    let (done, closed) = oneshot::channel();
    let closing = Builder::new().name("closing".into()).spawn(move || {
        close();
        let _ = done.send(());
    });
    match closing {
        Ok(_) => drop(closed.await),
        Err(error) => tracing::error!(%error, "the store could not be closed in order"),
    }
}

// How long a writer has been at one transaction, for the health check.

/// A writer that takes longer for one transaction counts as stuck: other commands were answered as busy 5 seconds ago.
const STUCK: Duration = Duration::from_secs(10);
/// The time after which a command that may take long counts as stuck: it ends after 20 seconds at the latest, and undoing it
/// takes as long again.
const LONG_STUCK: Duration = Duration::from_secs(45);

/// Until when the transaction under way may take, if there is one.
#[derive(Debug, Default)]
pub struct WriterHealth(Mutex<Option<Instant>>);

impl WriterHealth {
    /// A transaction begins at `now`, of a command that may take long or of others; it ends when the guard is dropped.
    #[must_use]
    pub fn begin(&self, now: Instant, is_long: bool) -> impl Drop + use<'_> {
        self.set(Some(now + if is_long { LONG_STUCK } else { STUCK }));
        Ended(self)
    }

    /// Returns whether the writer has been at one transaction for too long.
    pub fn is_stuck(&self, now: Instant) -> bool {
        let until = *self.0.lock();
        until.is_some_and(|until| now > until)
    }

    fn set(&self, until: Option<Instant>) {
        *self.0.lock() = until;
    }
}

struct Ended<'a>(&'a WriterHealth);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.set(None);
    }
}

// What the writers of a process did since it began, for metrics. Several threads add to it without waiting for each other.

/// Commands of a transaction; the most are in `write_queue.rs`.
const COMMAND_BOUNDS: [u64; 10] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 1_024];
/// From a commit that needs no disk to one that a health check calls stuck.
const MICROS_BOUNDS: [u64; 10] = [250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 100_000, 500_000, 2_500_000];
const MICROS_PER_SECOND: f64 = 1e6;

/// Counted by the writers, read by metrics.
#[derive(Debug)]
pub struct WriterFigures {
    commands: Histogram<10>,
    commits: Histogram<10>,
    syncs: Histogram<10>,
    failures: AtomicU64,
}

/// The figures at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WriterCounts {
    /// Commands of each transaction that was committed.
    pub commands: HistogramValues,
    /// Seconds that each commit took, with the sync of the log.
    pub commit_seconds: HistogramValues,
    /// Seconds that each sync of the database file took, outside of commits. Empty where the database does that itself.
    pub sync_seconds: HistogramValues,
    /// Transactions that failed because the storage did.
    pub failures: u64,
}

impl Default for WriterFigures {
    fn default() -> Self {
        let (commits, syncs) = (Histogram::new(&MICROS_BOUNDS), Histogram::new(&MICROS_BOUNDS));
        Self { commands: Histogram::new(&COMMAND_BOUNDS), commits, syncs, failures: AtomicU64::new(0) }
    }
}

impl WriterFigures {
    /// A transaction of so many commands was committed.
    pub fn executed(&self, commands: usize) {
        self.commands.add(commands as u64);
    }

    /// A commit took so long.
    pub fn committed(&self, took: Duration) {
        self.commits.add(micros(took));
    }

    /// A sync of the database file took so long.
    pub fn synced(&self, took: Duration) {
        self.syncs.add(micros(took));
    }

    /// A transaction failed because the storage did.
    pub fn failed(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }

    pub fn read(&self) -> WriterCounts {
        let (commands, failures) = (self.commands.read(1.0), self.failures.load(Ordering::Relaxed));
        let [commit_seconds, sync_seconds] = [&self.commits, &self.syncs].map(|took| took.read(MICROS_PER_SECOND));
        WriterCounts { commands, commit_seconds, sync_seconds, failures }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn only_the_first_caller_waits_for_a_thread_that_hangs() {
        let (threads, (release, released)) = (WriterThreads::default(), channel::<()>());
        threads.spawn("hanging", move || while released.recv().is_ok() {}).unwrap();
        std::thread::scope(|scope| {
            let first = scope.spawn(|| threads.join());
            while !threads.0.lock().is_empty() {
                std::thread::yield_now();
            }
            threads.join();
            assert!(!first.is_finished());
            drop(release);
        });
    }
}

#[cfg(test)]
mod health_tests {
    use super::*;

    #[test]
    fn a_writer_is_stuck_when_one_transaction_takes_longer_than_ten_seconds() {
        let (working, start) = (WriterHealth::default(), Instant::now());
        let after = |seconds| working.is_stuck(start + Duration::from_secs(seconds));
        assert!(!after(100), "nothing is under way");
        let transaction = working.begin(start, false);
        assert!(!after(10) && after(11));
        drop(transaction);
        assert!(!after(100));
        let _transaction = working.begin(start, true);
        assert!(!after(45) && after(46), "whoever else writes, for as long as it may");
    }
}

#[cfg(test)]
mod figures_tests {
    use super::*;

    #[test]
    fn commands_commits_syncs_and_failures_are_counted_apart() {
        let figures = WriterFigures::default();
        figures.executed(3);
        figures.committed(Duration::from_micros(700));
        figures.committed(Duration::from_secs(3));
        figures.synced(Duration::from_millis(20));
        figures.failed();
        let counts = figures.read();
        assert_eq!((counts.commands.count(), counts.commands.sum), (1, 3.0));
        assert_eq!((counts.commit_seconds.count(), counts.commit_seconds.sum), (2, 3.000_7));
        assert_eq!(counts.commit_seconds.buckets[2], (0.001, 1));
        assert_eq!((counts.sync_seconds.count(), counts.failures), (1, 1));
    }
}

//! What the writers of a process did since it began, for metrics. Several threads add to it without waiting for each other.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::histogram::{Histogram, HistogramValues};

/// Commands of a transaction; the most are in `write_backlog.rs`.
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
        Self {
            commands: Histogram::new(&COMMAND_BOUNDS),
            commits: Histogram::new(&MICROS_BOUNDS),
            syncs: Histogram::new(&MICROS_BOUNDS),
            failures: AtomicU64::new(0),
        }
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
        WriterCounts {
            commands: self.commands.read(1.0),
            commit_seconds: self.commits.read(MICROS_PER_SECOND),
            sync_seconds: self.syncs.read(MICROS_PER_SECOND),
            failures: self.failures.load(Ordering::Relaxed),
        }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
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

//! How long a writer has been at one transaction, for the health check.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

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

#[cfg(test)]
mod tests {
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

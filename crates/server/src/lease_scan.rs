//! When leases are scanned: at start, then at a fixed interval. What a scan does is decided in the store.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use taskqueue_core::limits::LEASE_SCAN_SECONDS;
use taskqueue_store::command::{Scan, Scanned};
use taskqueue_store::{Store, StoreError, StoreExt};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tracing::{debug, error, info, warn};

use crate::http_service::panic_text;

/// The longest pause between two scans.
const INTERVAL: Duration = Duration::from_secs(LEASE_SCAN_SECONDS.unsigned_abs());

pub(crate) async fn scan_once(store: &dyn Store) -> Result<(), StoreError> {
    log(store.write(Scan).await?);
    Ok(())
}

/// Scans for ever, also after a scan that panicked: that is a bug, but runs must go on to expire. Dropping this future
/// ends the scans.
pub(crate) async fn run(store: Arc<dyn Store>) -> Infallible {
    // Dropping the set aborts its tasks.
    let mut scans = JoinSet::new();
    loop {
        scans.spawn(scan_repeatedly(Arc::clone(&store)));
        // A panic is the only way in which the task ends.
        if let Some(Err(ended)) = scans.join_next().await
            && let Ok(panic) = ended.try_into_panic()
        {
            error!(panic = panic_text(&*panic), "the lease scan panicked; it is started again");
        }
    }
}

/// Scans at a fixed interval. A failing store is logged when it begins to fail and when it works again, not in between.
async fn scan_repeatedly(store: Arc<dyn Store>) -> Infallible {
    let mut ticks = interval_at(Instant::now() + INTERVAL, INTERVAL);
    // After a suspension one scan is enough.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut outage = Outage::default();
    loop {
        ticks.tick().await;
        match outage.note(scan_once(&*store).await) {
            Some(Change::Began(error)) => warn!(%error, "the lease scan failed; it is tried again"),
            Some(Change::Ended) => info!("the lease scan works again"),
            None => {}
        }
    }
}

fn log(scanned: Scanned) {
    let Scanned { expired_runs, credited_runs, expired_observations } = scanned;
    if credited_runs > 0 {
        info!(credited_runs, "the service was unavailable: running leases were extended by the outage credit");
    }
    if expired_runs > 0 {
        info!(expired_runs, "runs ended because their lease expired without a heartbeat");
    }
    if expired_observations > 0 {
        debug!(expired_observations, "expired worker observations were dropped");
    }
}

/// Whether the last scan failed.
#[derive(Default)]
struct Outage {
    failing: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Change {
    Began(StoreError),
    Ended,
}

impl Outage {
    /// Whether the result of a scan begins or ends an outage.
    fn note(&mut self, outcome: Result<(), StoreError>) -> Option<Change> {
        let was_failing = std::mem::replace(&mut self.failing, outcome.is_err());
        match outcome {
            Err(error) if !was_failing => Some(Change::Began(error)),
            Ok(()) if was_failing => Some(Change::Ended),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_told_once_at_its_beginning_and_once_at_its_end() {
        let mut outage = Outage::default();
        let outcomes = [Ok(()), Err(StoreError::Unavailable), Err(StoreError::Busy), Ok(()), Ok(())];
        let changes: Vec<_> = outcomes.into_iter().map(|outcome| outage.note(outcome)).collect();
        assert_eq!(changes, [None, Some(Change::Began(StoreError::Unavailable)), None, Some(Change::Ended), None]);
    }
}

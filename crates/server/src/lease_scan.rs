//! When leases are scanned: at start, then at a fixed interval. What a scan does is decided in the store.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use taskqueue_core::limits::LEASE_SCAN_SECONDS;
use taskqueue_store::command::{Scan, Scanned};
use taskqueue_store::{Store, StoreError, StoreExt};
use tracing::{debug, info};

use crate::repeated;

/// The longest pause between two scans.
const INTERVAL: Duration = Duration::from_secs(LEASE_SCAN_SECONDS.unsigned_abs());

/// Scans until no run is left whose lease is over.
pub(crate) async fn scan_once(store: &dyn Store) -> Result<(), StoreError> {
    loop {
        let scanned = store.write(Scan).await?;
        log(scanned);
        if !scanned.more {
            return Ok(());
        }
    }
}

/// Scans for ever: runs must go on to expire. Dropping this future ends the scans.
pub(crate) async fn run(store: Arc<dyn Store>) -> Infallible {
    let scan = move || {
        let store = Arc::clone(&store);
        async move { scan_once(&*store).await }
    };
    repeated::run("the lease scan", INTERVAL, scan).await
}

fn log(scanned: Scanned) {
    let Scanned { expired_runs, credited_runs, expired_observations, .. } = scanned;
    if credited_runs > 0 {
        info!(credited_runs, "the service was unavailable: running leases were extended by the outage credit");
    }
    if expired_runs > 0 {
        info!(
            expired_runs,
            "runs ended because their lease expired without a heartbeat, or because their time was over"
        );
    }
    if expired_observations > 0 {
        debug!(expired_observations, "expired worker observations were dropped");
    }
}

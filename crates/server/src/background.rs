//! Work that the server repeats by itself as long as it runs: the scan of leases, the upkeep, and the saving of counted activity. What
//! each of them does is decided in the store (docs/decisions/0059, 0063 and 0064); here is when, and what is logged when it fails.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use taskqueue_core::limits::LEASE_SCAN_SECONDS;
use taskqueue_store::activity::save_activity;
use taskqueue_store::command::{Scan, Scanned, Upkeep, UpkeepReport};
use taskqueue_store::{Store, StoreError, StoreExt};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep, timeout};
use tracing::{debug, error, info, warn};

use crate::http_service::panic_text;

/// Begins all of it. It ends when the set is dropped.
pub(crate) fn begin(store: &Arc<dyn Store>) -> JoinSet<Infallible> {
    let scan = |store: Arc<dyn Store>| async move { scan_leases_once(&*store).await };
    let upkeep = |store: Arc<dyn Store>| async move { work_off_upkeep(&*store).await };
    let save = |store: Arc<dyn Store>| async move { save_activity(&*store).await };
    let mut works = JoinSet::new();
    works.spawn(repeat_for_ever("the lease scan", SCAN_INTERVAL, Arc::clone(store), scan));
    works.spawn(repeat_for_ever("the upkeep", UPKEEP_INTERVAL, Arc::clone(store), upkeep));
    works.spawn(repeat_for_ever("saving activity", SAVE_INTERVAL, Arc::clone(store), save));
    works
}

/// Repeats the work for ever, for the first time after one interval, also after it panicked: that is a bug, but the others must
/// go on. `name` stands in the log, as in "the lease scan". Dropping this future ends the work.
async fn repeat_for_ever<W, F>(name: &'static str, interval: Duration, store: Arc<dyn Store>, work: W) -> Infallible
where
    W: Fn(Arc<dyn Store>) -> F + Copy + Send + 'static,
    F: Future<Output = Result<(), StoreError>> + Send + 'static,
{
    // Dropping the set aborts its tasks.
    let mut running = JoinSet::new();
    loop {
        let store = Arc::clone(&store);
        running.spawn(repeat_until_panic(name, interval, move || work(Arc::clone(&store))));
        // A panic is the only way in which the task ends.
        if let Some(Err(ended)) = running.join_next().await
            && let Ok(panic) = ended.try_into_panic()
        {
            error!(panic = panic_text(&*panic), "{name} panicked; it is started again");
        }
    }
}

/// A failing store is logged when it begins to fail and when it works again, not in between.
async fn repeat_until_panic<F: Future<Output = Result<(), StoreError>>>(
    name: &'static str,
    interval: Duration,
    work: impl Fn() -> F,
) -> Infallible {
    let mut ticks = interval_at(Instant::now() + interval, interval);
    // After a suspension once is enough.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut is_failing = false;
    loop {
        ticks.tick().await;
        let outcome = work().await;
        match outcome {
            _ if !has_changed(&mut is_failing, outcome.is_err()) => {}
            Err(error) => warn!(%error, "{name} failed; it is tried again"),
            Ok(()) => info!("{name} works again"),
        }
    }
}

/// Notes an outcome. Returns whether an outage begins or ends with it.
fn has_changed(is_failing: &mut bool, has_failed: bool) -> bool {
    std::mem::replace(is_failing, has_failed) != has_failed
}

/// The longest pause between two scans.
const SCAN_INTERVAL: Duration = Duration::from_secs(LEASE_SCAN_SECONDS.unsigned_abs());

/// Scans until no run is left whose lease is over.
pub(crate) async fn scan_leases_once(store: &dyn Store) -> Result<(), StoreError> {
    loop {
        let scanned = store.write(Scan).await?;
        log_scan(scanned);
        if !scanned.more {
            return Ok(());
        }
    }
}

fn log_scan(scanned: Scanned) {
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

/// The longest pause between two parts of it: a task whose time has come is found by waiting claims within a second.
const UPKEEP_INTERVAL: Duration = Duration::from_millis(250);
/// The shortest pause where there is more to do, so that others are served in between.
const SHORTEST_PAUSE: Duration = Duration::from_millis(5);
/// How often the time of a part is waited behind it: deletions take about a thirtieth of the time of the storage.
const PAUSE_FACTOR: u32 = 29;
/// How soon a part that may delete 250 tasks follows the one before, also where parts take long: 1,250 tasks a second can be deleted
/// on any storage that does so in half of its time. With pauses that grow with the parts the ended tasks of a steady flow would pile
/// up without end.
const PERIOD: Duration = Duration::from_millis(200);

/// Does all that is due, part by part.
async fn work_off_upkeep(store: &dyn Store) -> Result<(), StoreError> {
    loop {
        let begun = Instant::now();
        let upkept = store.write(Upkeep).await?;
        log_upkeep(upkept);
        if !upkept.more {
            return Ok(());
        }
        sleep(upkeep_pause(begun.elapsed(), upkept.is_urgent)).await;
    }
}

/// Returns how long others are served behind a part that took so long. Tasks that are to become claimable are waited for: a
/// hundred thousand of them take a hundred parts, and not longer than some seconds.
fn upkeep_pause(took: Duration, is_urgent: bool) -> Duration {
    if is_urgent {
        return SHORTEST_PAUSE;
    }
    // Others get half of the time at least.
    let longest = PERIOD.saturating_sub(took).max(took).min(UPKEEP_INTERVAL);
    took.saturating_mul(PAUSE_FACTOR).min(longest).max(SHORTEST_PAUSE)
}

fn log_upkeep(UpkeepReport { released, settled, deleted, .. }: UpkeepReport) {
    if released + settled + deleted > 0 {
        debug!(released, settled, deleted, "tasks became claimable, dependents were settled, ended tasks were deleted");
    }
}

/// The time whose activity a crash may lose.
const SAVE_INTERVAL: Duration = Duration::from_secs(5);
/// How long saving may take at a stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);

/// Saves what is left, when nothing is counted any more.
pub(crate) async fn save_last_activity(store: &dyn Store) {
    match timeout(STOP_TIMEOUT, save_activity(store)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => warn!(%error, "the activity of the last seconds could not be saved"),
        Err(_) => warn!("the activity of the last seconds could not be saved in time"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_told_once_at_its_beginning_and_once_at_its_end() {
        let mut is_failing = false;
        let changes = [false, true, true, false, false].map(|has_failed| has_changed(&mut is_failing, has_failed));
        assert_eq!(changes, [false, true, false, true, false]);
    }

    #[test]
    fn a_part_is_followed_by_a_pause_of_29_times_its_time_within_bounds() {
        let cases = [(0, 5), (100, 5), (1_000, 29), (5_000, 145), (200_000, 200), (400_000, 250), (60_000_000, 250)];
        for (took_micros, pause_millis) in cases {
            let took = Duration::from_micros(took_micros);
            assert_eq!(upkeep_pause(took, false), Duration::from_millis(pause_millis), "{took_micros} us");
            assert_eq!(upkeep_pause(took, true), SHORTEST_PAUSE, "what somebody waits for goes on at once");
        }
    }

    #[test]
    fn parts_that_take_long_follow_each_other_often_enough_for_a_thousand_tasks_a_second() {
        for took in (0..=100).map(Duration::from_millis) {
            let period = took + upkeep_pause(took, false);
            assert!(period <= Duration::from_millis(200), "{took:?}: {period:?}");
            assert!(upkeep_pause(took, false) >= took, "{took:?}: others get half of the time");
        }
    }
}

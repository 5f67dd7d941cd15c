//! When the upkeep is done: tasks whose time has come, dependents that are left, ended tasks that are kept no longer. What it does
//! is decided in the store (docs/decisions/0063 and 0064); where nothing is due it costs nothing.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use taskqueue_store::command::{Upkeep, Upkept};
use taskqueue_store::{Store, StoreError, StoreExt};
use tokio::time::{Instant, sleep};
use tracing::debug;

use crate::repeated;

/// The longest pause between two parts of it: a task whose time has come is found by waiting claims within a second.
const INTERVAL: Duration = Duration::from_millis(250);
/// The shortest pause where there is more to do, so that others are served in between.
const SHORTEST_PAUSE: Duration = Duration::from_millis(5);
/// How often the time of a part is waited behind it: deletions take about a thirtieth of the time of the storage.
const PAUSE_FACTOR: u32 = 29;
/// How soon a part that may delete 250 tasks follows the one before, also where parts take long: 1,250 tasks a second can be deleted
/// on any storage that does so in half of its time. With pauses that grow with the parts the ended tasks of a steady flow would pile
/// up without end.
const PERIOD: Duration = Duration::from_millis(200);

/// Does it for ever. Dropping this future ends that.
pub(crate) async fn run(store: Arc<dyn Store>) -> Infallible {
    let work = move || {
        let store = Arc::clone(&store);
        async move { work_off(&*store).await }
    };
    repeated::run("the upkeep", INTERVAL, work).await
}

/// Does all that is due, part by part.
async fn work_off(store: &dyn Store) -> Result<(), StoreError> {
    loop {
        let begun = Instant::now();
        let upkept = store.write(Upkeep).await?;
        log(upkept);
        if !upkept.more {
            return Ok(());
        }
        sleep(pause(begun.elapsed(), upkept.is_urgent)).await;
    }
}

/// How long others are served behind a part that took so long. Tasks that are to become claimable are waited for: a hundred thousand
/// of them take a hundred parts, and not longer than some seconds.
fn pause(took: Duration, is_urgent: bool) -> Duration {
    if is_urgent {
        return SHORTEST_PAUSE;
    }
    // Others get half of the time at least.
    let longest = PERIOD.saturating_sub(took).max(took).min(INTERVAL);
    took.saturating_mul(PAUSE_FACTOR).min(longest).max(SHORTEST_PAUSE)
}

fn log(Upkept { released, settled, deleted, .. }: Upkept) {
    if released + settled + deleted > 0 {
        debug!(released, settled, deleted, "tasks became claimable, dependents were settled, ended tasks were deleted");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_followed_by_a_pause_of_29_times_its_time_within_bounds() {
        let cases = [(0, 5), (100, 5), (1_000, 29), (5_000, 145), (200_000, 200), (400_000, 250), (60_000_000, 250)];
        for (took_micros, pause_millis) in cases {
            let took = Duration::from_micros(took_micros);
            assert_eq!(pause(took, false), Duration::from_millis(pause_millis), "{took_micros} us");
            assert_eq!(pause(took, true), SHORTEST_PAUSE, "what somebody waits for goes on at once");
        }
    }

    #[test]
    fn parts_that_take_long_follow_each_other_often_enough_for_a_thousand_tasks_a_second() {
        for took in (0..=100).map(Duration::from_millis) {
            let period = took + pause(took, false);
            assert!(period <= Duration::from_millis(200), "{took:?}: {period:?}");
            assert!(pause(took, false) >= took, "{took:?}: others get half of the time");
        }
    }
}

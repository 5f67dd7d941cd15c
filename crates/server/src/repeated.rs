//! Work that is repeated at a fixed interval as long as the server runs, and what is logged when it fails.

use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;

use taskqueue_store::StoreError;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tracing::{error, info, warn};

use crate::http_service::panic_text;

/// Repeats the work for ever, for the first time after one interval, also after it panicked: that is a bug, but the others must
/// go on. `name` stands in the log, as in "the lease scan". Dropping this future ends the work.
pub(crate) async fn run<W, F>(name: &'static str, interval: Duration, work: W) -> Infallible
where
    W: Fn() -> F + Clone + Send + 'static,
    F: Future<Output = Result<(), StoreError>> + Send + 'static,
{
    // Dropping the set aborts its tasks.
    let mut running = JoinSet::new();
    loop {
        running.spawn(repeat(name, interval, work.clone()));
        // A panic is the only way in which the task ends.
        if let Some(Err(ended)) = running.join_next().await
            && let Ok(panic) = ended.try_into_panic()
        {
            error!(panic = panic_text(&*panic), "{name} panicked; it is started again");
        }
    }
}

/// A failing store is logged when it begins to fail and when it works again, not in between.
async fn repeat<F: Future<Output = Result<(), StoreError>>>(
    name: &'static str,
    interval: Duration,
    work: impl Fn() -> F,
) -> Infallible {
    let mut ticks = interval_at(Instant::now() + interval, interval);
    // After a suspension once is enough.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut outage = Outage::default();
    loop {
        ticks.tick().await;
        match outage.note(work().await) {
            Some(Change::Began(error)) => warn!(%error, "{name} failed; it is tried again"),
            Some(Change::Ended) => info!("{name} works again"),
            None => {}
        }
    }
}

/// Whether the last time failed.
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
    /// Whether an outcome begins or ends an outage.
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

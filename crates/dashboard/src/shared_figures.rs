//! The figures of queues for all who look at them at the same time. They are read once for whoever has come before the read began,
//! and never by two at once: what is held is that of one viewer, however many there are. Nobody gets what is older than their visit.

use std::collections::HashMap;
use std::sync::Arc;

use taskqueue_core::stats::PendingDetail;
use taskqueue_core::words::number;
use taskqueue_core::{QueueFigures, QueueName, QueueSettings, RouteSelection, Status};
use taskqueue_store::figures::read_figures;
use taskqueue_store::transaction::QueueKey;
use taskqueue_store::{Store, StoreError};
use tokio::sync::Mutex;
use tokio::time::Instant;

/// Queues that are asked for at once: others have their turn in between.
pub(crate) const QUEUES_AT_ONCE: usize = 64;
/// Routes of a queue that are told, those that starve first.
pub(crate) const ROUTES_TOLD: usize = 8;
/// Routes of a queue among which its oldest pending task is looked for, those that starve first.
const ROUTES_LOOKED_AT: usize = 100;
/// Limits of routes that are told of a queue, the first ones.
const LIMITS_TOLD: usize = 4;
/// Queues whose figures are kept for others, with three kilobytes each at most.
const QUEUES_KEPT: usize = 2_048;

/// What was read last of each queue.
#[derive(Default)]
pub(crate) struct SharedFigures {
    /// With when their read began. Held while figures are read.
    known: Mutex<HashMap<QueueKey, (Instant, Arc<SharedQueue>)>>,
}

/// What pages show of a queue.
pub(crate) struct SharedQueue {
    /// With a few of its routes, and of its settings what concerns claims, with a few limits of routes.
    pub(crate) figures: QueueFigures,
    /// How many routes besides have a limit.
    pub(crate) more_limits: usize,
}

impl SharedQueue {
    fn of(mut figures: QueueFigures) -> Self {
        // What is delayed or blocked alarms nobody.
        figures.leave_out_calm();
        figures.keep(&starving(ROUTES_TOLD));
        let QueueSettings { paused, max_running, route_limits, .. } = std::mem::take(&mut figures.settings);
        let more_limits = route_limits.len().saturating_sub(LIMITS_TOLD);
        let route_limits = route_limits.into_iter().take(LIMITS_TOLD).collect();
        figures.settings = QueueSettings { paused, max_running, route_limits, ..QueueSettings::default() };
        Self { figures, more_limits }
    }
}

fn starving(most: usize) -> RouteSelection {
    RouteSelection::StarvingFirst { most, find: "".into() }
}

/// Returns how many tasks there are, of all states.
pub(crate) fn all_tasks(figures: &QueueFigures) -> u64 {
    Status::ALL.into_iter().map(|status| figures.tasks(status)).sum()
}

/// Returns how many tasks run, and how many may: `3`, `3/8`.
pub(crate) fn running_of(figures: &QueueFigures, settings: &QueueSettings) -> String {
    let running = number(figures.tasks(Status::Running));
    settings.max_running.map_or(running.clone(), |most| format!("{running}/{}", number(most)))
}

impl SharedFigures {
    /// Returns what is shown of queues as it was when somebody came, or later; nothing of those that are gone. Not for more than
    /// [`QUEUES_AT_ONCE`].
    pub(crate) async fn of(
        &self,
        store: &dyn Store,
        queues: &[(QueueKey, QueueName)],
        came: Instant,
    ) -> Result<Vec<Option<Arc<SharedQueue>>>, StoreError> {
        let mut known = self.known.lock().await;
        if known.len() + queues.len() > QUEUES_KEPT {
            known.clear();
        }
        let is_missing = |key: &QueueKey| known.get(key).is_none_or(|(begun, _)| *begun < came);
        let missing: Vec<QueueKey> = queues.iter().map(|(key, _)| *key).filter(is_missing).collect();
        let begun = Instant::now();
        read_figures(store, &missing, &starving(ROUTES_LOOKED_AT), PendingDetail::Number, |read| {
            for (key, figures) in read.queues {
                known.insert(key, (begun, Arc::new(SharedQueue::of(figures))));
            }
        })
        .await?;
        let found = |key| known.get(key).filter(|(begun, _)| *begun >= came).map(|(_, queue)| Arc::clone(queue));
        Ok(queues.iter().map(|(key, _)| found(key)).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use taskqueue_core::ids::Route;
    use taskqueue_core::settings::Retention;
    use taskqueue_core::time::Timestamp;
    use taskqueue_store::StoreExt;
    use taskqueue_store::command::{CreateQueue, DeleteQueue};
    use taskqueue_store::conformance::ManualClock;
    use taskqueue_store::conformance::model::ModelStore;
    use taskqueue_store::conformance::model::variant::ModelVariant;

    use super::*;

    /// Counts of how many queues figures were asked for.
    struct CountingStore(ModelStore, AtomicUsize);

    impl ModelVariant for CountingStore {
        fn model(&self) -> &ModelStore {
            &self.0
        }
        fn asked_for_figures(&self, queues: &[QueueKey], _: &RouteSelection) {
            self.1.fetch_add(queues.len(), Ordering::SeqCst);
        }
    }

    #[test]
    fn of_many_limits_the_first_ones_are_kept_and_the_others_counted() {
        let limits = |most: u64| (0..most).map(|n| (Route::parse(&format!("r{n:03}")).unwrap(), n)).collect();
        for (routes, told, more) in [(0, 0, 0), (3, 3, 0), (4, 4, 0), (256, 4, 252)] {
            let mut figures = QueueFigures::default();
            let settings = QueueSettings { paused: true, max_running: Some(7), ..QueueSettings::default() };
            let retention = Retention { failed_seconds: Some(1), ..Retention::default() };
            figures.settings = QueueSettings { route_limits: limits(routes), retention, ..settings.clone() };
            let shared = SharedQueue::of(figures);
            assert_eq!(shared.figures.settings, QueueSettings { route_limits: limits(told), ..settings });
            assert_eq!(shared.more_limits, more, "{routes}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_comes_while_figures_are_read_waits_for_the_next_read_and_shares_it() {
        let model = ModelStore::new(Arc::new(ManualClock::new(Timestamp::from_micros(1))));
        let (store, figures) = (CountingStore(model, AtomicUsize::new(0)), SharedFigures::default());
        let queue = QueueName::parse("q").unwrap();
        store.write(CreateQueue { queue: queue.clone(), retention: Retention::default() }).await.unwrap();
        let keys = store.list_queue_keys().await.unwrap();
        let asked = async |came| {
            let found = figures.of(&store, &keys, came).await.unwrap();
            (found[0].is_some(), store.1.load(Ordering::SeqCst))
        };
        let first = Instant::now();
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(asked(first).await, (true, 1));
        assert_eq!(asked(first).await, (true, 1), "another one who came before the read began");
        tokio::time::advance(Duration::from_secs(1)).await;
        let second = Instant::now();
        assert_eq!(asked(second).await, (true, 2), "nobody gets what is older than the visit");
        assert_eq!(asked(second).await, (true, 2));
        store.write(DeleteQueue { queue, cascade: false }).await.unwrap();
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(asked(Instant::now()).await, (false, 3), "a queue that is gone has none");
    }
}

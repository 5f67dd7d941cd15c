//! The figures of queues for all who look at them at the same time. They are read once for whoever has come before the read began,
//! and never by two at once: what is held is that of one viewer, however many there are. Nobody gets what is older than their visit.

use std::collections::HashMap;
use std::sync::Arc;

use taskqueue_core::settings::QueueSettings;
use taskqueue_core::stats::{PendingDetail, QueueFigures, RouteSelection};
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
/// Queues whose figures are kept for others, with two kilobytes each at most.
const QUEUES_KEPT: usize = 2_048;

/// What was read last of each queue.
#[derive(Default)]
pub(crate) struct SharedFigures {
    /// Held while figures are read.
    known: Mutex<HashMap<QueueKey, Known>>,
}

struct Known {
    /// When the read began.
    begun: Instant,
    figures: Arc<QueueFigures>,
}

impl SharedFigures {
    /// The figures of queues as they were when somebody came, or later; nothing of those that are gone. Not for more than
    /// [`QUEUES_AT_ONCE`].
    pub(crate) async fn of(
        &self,
        store: &dyn Store,
        queues: &[QueueKey],
        came: Instant,
    ) -> Result<Vec<Option<Arc<QueueFigures>>>, StoreError> {
        let starving = |most| RouteSelection::StarvingFirst { most, find: "".into() };
        let mut known = self.known.lock().await;
        if known.len() + queues.len() > QUEUES_KEPT {
            known.clear();
        }
        let is_missing = |key: &QueueKey| known.get(key).is_none_or(|known| known.begun < came);
        let missing: Vec<QueueKey> = queues.iter().copied().filter(is_missing).collect();
        let begun = Instant::now();
        read_figures(store, &missing, &starving(ROUTES_LOOKED_AT), PendingDetail::Number, |read| {
            for (key, mut figures) in read.queues {
                // What is delayed or blocked alarms nobody.
                figures.leave_out_calm();
                figures.keep(&starving(ROUTES_TOLD));
                // Limits may be as many as routes, and nobody asks for them here.
                let paused = figures.settings().paused;
                figures.set_settings(QueueSettings { paused, ..QueueSettings::default() });
                known.insert(key, Known { begun, figures: Arc::new(figures) });
            }
        })
        .await?;
        let found = |key| known.get(key).filter(|known| known.begun >= came).map(|known| Arc::clone(&known.figures));
        Ok(queues.iter().map(found).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use taskqueue_core::ids::QueueName;
    use taskqueue_core::settings::Retention;
    use taskqueue_core::time::Timestamp;
    use taskqueue_store::StoreExt;
    use taskqueue_store::clock::ManualClock;
    use taskqueue_store::command::{CreateQueue, DeleteQueue};
    use taskqueue_store::model::ModelStore;
    use taskqueue_store::model::variant::ModelVariant;

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

    #[tokio::test(start_paused = true)]
    async fn who_comes_while_figures_are_read_waits_for_the_next_read_and_shares_it() {
        let model = ModelStore::new(Arc::new(ManualClock::new(Timestamp::from_micros(1))));
        let (store, figures) = (CountingStore(model, AtomicUsize::new(0)), SharedFigures::default());
        let queue = QueueName::parse("q").unwrap();
        store.write(CreateQueue { queue: queue.clone(), retention: Retention::default() }).await.unwrap();
        let key = store.list_queue_keys().await.unwrap()[0].0;
        let asked = async |came| {
            let found = figures.of(&store, &[key], came).await.unwrap();
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

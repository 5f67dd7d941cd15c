//! All that is shown by one scrape, and where it is asked for. What has to be asked of the database has a time limit: monitoring
//! must tell what it can when the database is what is broken.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use taskqueue_core::ids::QueueName;
use taskqueue_core::stats::{PendingDetail, RouteSelection};
use taskqueue_core::time::Timestamp;
use taskqueue_store::figures::{ProcessFigures, StoreFigures, read_figures};
use taskqueue_store::transaction::QueueKey;
use taskqueue_store::{Store, StoreError, StoreExt};
use tokio::time::timeout;

use super::Metrics;
use super::event_counts::QueueCounts;
use super::labels::{LabelledFigures, Labelling, RouteNames, named_queues};
use super::process::Process;
use super::requests::EndpointValues;
use crate::accept::ConnectionCounts;
use crate::memory_budget::{BudgetUse, Budgets};
use crate::readiness::{Readiness, Ready};

/// How long the database may take. Prometheus waits 10 seconds for a scrape unless it is told otherwise.
const DATABASE_TIMEOUT: Duration = Duration::from_secs(5);

/// Queues after which new routes are looked for by name in those that follow.
const QUEUES_AT_ONCE: usize = 32;

/// The values of all metrics at one moment.
pub(crate) struct Snapshot {
    pub(crate) is_ready: bool,
    pub(crate) tls_expires_seconds: Option<f64>,
    pub(crate) endpoints: Vec<EndpointValues>,
    pub(crate) errors: Vec<(&'static str, u64)>,
    pub(crate) connections: Option<ConnectionCounts>,
    pub(crate) waiting: [usize; 3],
    pub(crate) waiting_limit: usize,
    /// None if the database did not give them.
    pub(crate) figures: Option<ShownFigures>,
    pub(crate) events: BTreeMap<String, QueueCounts>,
    pub(crate) storage: ProcessFigures,
    pub(crate) budgets: [BudgetUse; 4],
    pub(crate) memory_limit_bytes: Option<u64>,
    pub(crate) log_lines_lost: u64,
    pub(crate) process: Process,
}

/// What the database says.
pub(crate) struct ShownFigures {
    pub(crate) now: Timestamp,
    pub(crate) labelled: LabelledFigures,
    pub(crate) database_bytes: Option<u64>,
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Snapshot(..)")
    }
}

/// What has to be asked of the database.
pub(crate) struct Asked {
    figures: Option<AskedFigures>,
    is_ready: bool,
}

/// What the database says, and whose it is.
struct AskedFigures {
    /// All queues, in the order of their creation.
    queues: Vec<(QueueKey, QueueName)>,
    shown: ShownFigures,
    routes: RouteNames,
}

impl AskedFigures {
    /// Reads some queues at a time, and holds of each what it adds to the labels.
    async fn of(store: &dyn Store, names: RouteNames) -> Result<Self, StoreError> {
        let queues = store.list_queue_keys().await?;
        let storage = store.figures(&[], &RouteSelection::NONE, PendingDetail::Number).await?;
        let (now, database_bytes) = (storage.now, storage.database_bytes);
        let keys: Vec<QueueKey> = queues.iter().map(|(key, _)| *key).collect();
        let mut labelling = Labelling::new(&queues, names);
        for part in keys.chunks(QUEUES_AT_ONCE) {
            let routes = labelling.routes();
            let add = |read: StoreFigures| read.queues.iter().for_each(|(key, figures)| labelling.add(*key, figures));
            read_figures(store, part, &routes, PendingDetail::ByState, add).await?;
        }
        let (labelled, routes) = labelling.finish();
        Ok(Self { queues, shown: ShownFigures { now, labelled, database_bytes }, routes })
    }
}

impl Asked {
    pub(crate) async fn of(store: &dyn Store, readiness: &Readiness, metrics: &Metrics) -> Self {
        let names = metrics.known().routes.clone();
        let figures = timeout(DATABASE_TIMEOUT, AskedFigures::of(store, names));
        let (figures, ready) = tokio::join!(figures, readiness.check(store));
        if figures.is_err() {
            tracing::warn!("the database did not give its figures in time; the metrics are without them");
        }
        Self { figures: figures.ok().and_then(Result::ok), is_ready: ready == Ready::Yes }
    }
}

impl Snapshot {
    /// Reads files of the system, so not on an async thread.
    pub(crate) fn take(asked: Asked, metrics: &Metrics, store: &dyn Store, budgets: &Budgets) -> Self {
        let Asked { figures, is_ready } = asked;
        let (figures, events) = metrics.labelled(figures, store);
        Self {
            is_ready,
            tls_expires_seconds: metrics.sources.tls.as_ref().map(|tls| tls.expires_in_seconds(SystemTime::now())),
            endpoints: metrics.requests.endpoints(),
            errors: metrics.requests.errors(),
            connections: metrics.sources.connections.as_ref().map(|connections| connections.counts()),
            waiting: store.waiters().counts(),
            waiting_limit: metrics.sources.waiting_limit,
            figures,
            events,
            storage: store.process_figures(),
            budgets: budgets.in_use(),
            memory_limit_bytes: metrics.sources.memory_limit_bytes,
            log_lines_lost: metrics.sources.log_lines_lost.map_or(0, |lost| lost()),
            process: Process::read(),
        }
    }
}

impl Metrics {
    /// The figures and the events of the queues, by label.
    fn labelled(
        &self,
        figures: Option<AskedFigures>,
        store: &dyn Store,
    ) -> (Option<ShownFigures>, BTreeMap<String, QueueCounts>) {
        let mut known = self.known();
        let totals = store.activity().totals();
        let Some(AskedFigures { queues, shown, routes }) = figures else {
            return (None, known.events.update(&totals, None));
        };
        known.routes = routes;
        let events = known.events.update(&totals, Some(named_queues(&queues)));
        let keys: Vec<_> = queues.iter().map(|(key, _)| *key).collect();
        store.activity().forget_totals_except(&keys);
        (Some(shown), events)
    }
}

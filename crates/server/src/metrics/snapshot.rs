//! All that is shown by one scrape, and where it is asked for. What has to be asked of the database has a time limit: monitoring
//! must tell what it can when the database is what is broken.

use std::collections::BTreeMap;
use std::time::Duration;

use taskqueue_core::time::Timestamp;
use taskqueue_store::Store;
use taskqueue_store::figures::{ProcessFigures, StoreFigures};
use tokio::time::timeout;

use super::Metrics;
use super::event_counts::QueueCounts;
use super::labels::{LabelledFigures, named_queues};
use super::process::Process;
use super::requests::EndpointValues;
use crate::accept::ConnectionCounts;
use crate::memory_budget::{BudgetUse, Budgets};
use crate::readiness::{Readiness, Ready};

/// How long the database may take. Prometheus waits 10 seconds for a scrape unless it is told otherwise.
const DATABASE_TIMEOUT: Duration = Duration::from_secs(5);

/// The values of all metrics at one moment.
pub(crate) struct Snapshot {
    pub(crate) is_ready: bool,
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
    figures: Option<StoreFigures>,
    is_ready: bool,
}

impl Asked {
    pub(crate) async fn of(store: &dyn Store, readiness: &Readiness) -> Self {
        let (figures, ready) = tokio::join!(timeout(DATABASE_TIMEOUT, store.figures()), readiness.check(store));
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
        figures: Option<StoreFigures>,
        store: &dyn Store,
    ) -> (Option<ShownFigures>, BTreeMap<String, QueueCounts>) {
        let mut known = self.known();
        let totals = store.activity().totals();
        let Some(figures) = figures else { return (None, known.events.update(&totals, None)) };
        let events = known.events.update(&totals, Some(named_queues(&figures)));
        let keys: Vec<_> = figures.queues.iter().map(|queue| queue.key).collect();
        store.activity().forget_totals_except(&keys);
        let labelled = LabelledFigures::of(&figures, &mut known.routes);
        let StoreFigures { now, database_bytes, .. } = figures;
        (Some(ShownFigures { now, labelled, database_bytes }), events)
    }
}

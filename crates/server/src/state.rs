//! What every handler shares: the store, who may call, the budgets, whether the server is ready. Cheap to clone.

use std::sync::Arc;

use taskqueue_core::limits::TASK_OUTPUT_BYTES;
use taskqueue_core::settings::Retention;
use taskqueue_dashboard::Mode;
use taskqueue_store::{InstallationSecret, Store};

use crate::auth::Gate;
use crate::config::WAITING_CAP;
use crate::memory_budget::Budgets;
use crate::metrics::{MetricSources, Metrics};
use crate::pages::Pages;
use crate::readiness::Readiness;

/// The state behind the route table.
#[derive(Clone)]
pub struct AppState {
    inner: Arc<StateParts>,
}

#[derive(Clone)]
struct StateParts {
    store: Arc<dyn Store>,
    gate: Gate,
    budgets: Arc<Budgets>,
    limits: Limits,
    readiness: Arc<Readiness>,
    metrics: Arc<Metrics>,
    pages: Option<Arc<Pages>>,
}

/// How much a server does at once and keeps.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Requests that wait at once.
    pub waiting_cap: usize,
    /// The bytes of output that are kept of a task.
    pub task_output_bytes: usize,
    /// How long ended tasks are kept in new queues.
    pub default_retention: Retention,
}

impl Default for Limits {
    fn default() -> Self {
        let default_retention = Retention::default();
        Self { waiting_cap: WAITING_CAP, task_output_bytes: TASK_OUTPUT_BYTES, default_retention }
    }
}

impl AppState {
    /// Serves `store`; without a token to every caller. There is no dashboard.
    pub fn new(store: Arc<dyn Store>, gate: impl Into<Gate>) -> Self {
        Self::with_limits(store, gate, Arc::default(), Limits::default())
    }

    /// Serves `store` with other limits than the default ones.
    pub fn with_limits(store: Arc<dyn Store>, gate: impl Into<Gate>, budgets: Arc<Budgets>, limits: Limits) -> Self {
        let sources = MetricSources { waiting_limit: limits.waiting_cap, ..MetricSources::default() };
        Self::with_sources(store, gate, budgets, limits, sources)
    }

    /// Serves `store` with what metrics show of the process.
    pub(crate) fn with_sources(
        store: Arc<dyn Store>,
        gate: impl Into<Gate>,
        budgets: Arc<Budgets>,
        limits: Limits,
        sources: MetricSources,
    ) -> Self {
        let metrics = Arc::new(Metrics::new(sources));
        let (gate, readiness) = (gate.into(), Arc::default());
        Self { inner: Arc::new(StateParts { store, gate, budgets, limits, readiness, metrics, pages: None }) }
    }

    /// Returns this state with the pages of the dashboard, which this secret of the installation opens.
    #[must_use]
    pub fn with_dashboard(&self, secret: InstallationSecret, mode: Mode, is_tls: bool) -> Self {
        let pages = Pages::new(secret, mode, is_tls).map(Arc::new);
        Self { inner: Arc::new(StateParts { pages, ..(*self.inner).clone() }) }
    }

    /// Returns the state for a listener that serves nothing but metrics, to everybody who reaches it.
    pub(crate) fn without_token(&self) -> Self {
        Self { inner: Arc::new(StateParts { gate: Gate::default(), pages: None, ..(*self.inner).clone() }) }
    }

    /// Returns the dashboard, if there is one.
    pub(crate) fn pages(&self) -> Option<&Pages> {
        self.inner.pages.as_deref()
    }

    pub(crate) fn metrics(&self) -> &Arc<Metrics> {
        &self.inner.metrics
    }

    pub(crate) fn waiting_cap(&self) -> usize {
        self.inner.limits.waiting_cap
    }

    /// Returns the bytes of output that are kept of a task; with 0 there is no output.
    pub(crate) fn task_output_bytes(&self) -> usize {
        self.inner.limits.task_output_bytes
    }

    /// Returns how long ended tasks are kept in new queues.
    pub(crate) fn default_retention(&self) -> Retention {
        self.inner.limits.default_retention
    }

    pub(crate) fn budgets(&self) -> &Arc<Budgets> {
        &self.inner.budgets
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &*self.inner.store
    }

    pub(crate) fn shared_store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }

    /// Returns who may call under `/api/`.
    pub(crate) fn gate(&self) -> &Gate {
        &self.inner.gate
    }

    pub(crate) fn readiness(&self) -> &Readiness {
        &self.inner.readiness
    }
}

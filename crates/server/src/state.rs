//! What every handler shares: the store, who may call, the budgets, whether the server is ready. Cheap to clone.

use std::ops::Deref;
use std::sync::Arc;

use taskqueue_dashboard::Mode;
use taskqueue_store::{InstallationSecret, Store};
use tokio::time::Instant;

use crate::auth::Gate;
use crate::config::Limits;
use crate::memory_budget::Budgets;
use crate::metrics::{MetricSources, Metrics};
use crate::pages::Pages;
use crate::readiness::Readiness;

/// The state behind the route table.
#[derive(Clone)]
pub struct AppState(Arc<StateParts>);

/// The parts of an [`AppState`].
#[derive(Clone)]
pub struct StateParts {
    pub(crate) store: Arc<dyn Store>,
    /// Who may call under `/api/`.
    pub(crate) gate: Gate,
    pub(crate) budgets: Arc<Budgets>,
    pub(crate) limits: Limits,
    pub(crate) readiness: Arc<Readiness>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) began: Instant,
    /// The dashboard, if there is one.
    pub(crate) pages: Option<Arc<Pages>>,
}

impl Deref for AppState {
    type Target = StateParts;

    fn deref(&self) -> &StateParts {
        &self.0
    }
}

impl AppState {
    /// Serves `store`; without a token to every caller. There is no dashboard.
    pub fn new(store: Arc<dyn Store>, gate: Gate, budgets: Arc<Budgets>, limits: Limits) -> Self {
        let sources = MetricSources { waiting_limit: limits.waiting_cap, ..MetricSources::default() };
        let (readiness, metrics, began) = (Arc::default(), Arc::new(Metrics::new(sources)), Instant::now());
        Self(Arc::new(StateParts { store, gate, budgets, limits, readiness, metrics, began, pages: None }))
    }

    /// Returns this state with what metrics show of the process.
    #[must_use]
    pub(crate) fn with_sources(&self, sources: MetricSources) -> Self {
        Self(Arc::new(StateParts { metrics: Arc::new(Metrics::new(sources)), ..(**self).clone() }))
    }

    /// Returns this state with the pages of the dashboard, which this secret of the installation opens.
    #[must_use]
    pub fn with_dashboard(&self, secret: InstallationSecret, mode: Mode, is_tls: bool) -> Self {
        let pages = Pages::new(secret, mode, is_tls).map(Arc::new);
        Self(Arc::new(StateParts { pages, ..(**self).clone() }))
    }

    /// Returns the state for a listener that serves nothing but metrics, to everybody who reaches it.
    pub(crate) fn without_token(&self) -> Self {
        Self(Arc::new(StateParts { gate: Gate::default(), pages: None, ..(**self).clone() }))
    }
}

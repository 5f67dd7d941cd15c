//! What every handler shares: the store, the token, the budgets. Cheap to clone.

use std::sync::Arc;

use taskqueue_core::limits::TASK_OUTPUT_BYTES;
use taskqueue_store::Store;

use crate::auth::Token;
use crate::config::WAITING_CAP;
use crate::memory_budget::Budgets;

/// The state behind the route table.
#[derive(Clone)]
pub struct AppState {
    inner: Arc<Inner>,
}

struct Inner {
    store: Arc<dyn Store>,
    token: Option<Token>,
    budgets: Arc<Budgets>,
    limits: Limits,
}

/// How much a server does at once and keeps.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Requests that wait at once.
    pub waiting_cap: usize,
    /// The bytes of output that are kept of a task.
    pub task_output_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { waiting_cap: WAITING_CAP, task_output_bytes: TASK_OUTPUT_BYTES }
    }
}

impl AppState {
    /// Serves `store`; without a token to every caller.
    pub fn new(store: Arc<dyn Store>, token: Option<Token>) -> Self {
        Self::with_limits(store, token, Arc::default(), Limits::default())
    }

    /// The same with other limits than the default ones.
    pub fn with_limits(store: Arc<dyn Store>, token: Option<Token>, budgets: Arc<Budgets>, limits: Limits) -> Self {
        Self { inner: Arc::new(Inner { store, token, budgets, limits }) }
    }

    pub(crate) fn waiting_cap(&self) -> usize {
        self.inner.limits.waiting_cap
    }

    /// The bytes of output that are kept of a task; with 0 there is no output.
    pub(crate) fn task_output_bytes(&self) -> usize {
        self.inner.limits.task_output_bytes
    }

    pub(crate) fn budgets(&self) -> &Budgets {
        &self.inner.budgets
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &*self.inner.store
    }

    /// The token that is needed under `/api/`.
    pub(crate) fn token(&self) -> Option<&Token> {
        self.inner.token.as_ref()
    }
}

//! What every handler shares: the store, the token, the budgets. Cheap to clone.

use std::sync::Arc;

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
    waiting_cap: usize,
}

impl AppState {
    /// Serves `store`; without a token to every caller.
    pub fn new(store: Arc<dyn Store>, token: Option<Token>) -> Self {
        Self::with_limits(store, token, Arc::default(), WAITING_CAP)
    }

    /// The same with other limits than the default ones.
    pub fn with_limits(store: Arc<dyn Store>, token: Option<Token>, budgets: Arc<Budgets>, waiting_cap: usize) -> Self {
        Self { inner: Arc::new(Inner { store, token, budgets, waiting_cap }) }
    }

    pub(crate) fn waiting_cap(&self) -> usize {
        self.inner.waiting_cap
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

//! What every handler shares: the store, the token, the budgets. Cheap to clone.

use std::sync::Arc;

use taskqueue_store::Store;

use crate::auth::Token;
use crate::config::WAITING_CAP;
use crate::memory_budget::Budgets;

/// The state behind the route table.
#[derive(Clone)]
pub struct AppState {
    shared: Arc<Shared>,
}

struct Shared {
    store: Arc<dyn Store>,
    token: Option<Token>,
    budgets: Arc<Budgets>,
    waiting_cap: usize,
}

impl AppState {
    /// Serves `store`, to everybody or to those who have the token.
    pub fn new(store: Arc<dyn Store>, token: Option<Token>) -> Self {
        Self::with_limits(store, token, Arc::default(), WAITING_CAP)
    }

    /// The same within other limits than the usual ones: the budgets, and how many claims may wait at once.
    pub fn with_limits(store: Arc<dyn Store>, token: Option<Token>, budgets: Arc<Budgets>, waiting_cap: usize) -> Self {
        Self { shared: Arc::new(Shared { store, token, budgets, waiting_cap }) }
    }

    /// How many claims may wait at once.
    pub(crate) fn waiting_cap(&self) -> usize {
        self.shared.waiting_cap
    }

    /// What requests and answers may hold in memory.
    pub(crate) fn budgets(&self) -> &Budgets {
        &self.shared.budgets
    }

    /// Where queues, tasks and observations live.
    pub(crate) fn store(&self) -> &dyn Store {
        &*self.shared.store
    }

    /// What callers must present under `/api/`.
    pub(crate) fn token(&self) -> Option<&Token> {
        self.shared.token.as_ref()
    }
}

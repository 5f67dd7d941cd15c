//! What every handler shares: the store, the token, the budgets. Cheap to clone.

use std::sync::Arc;

use taskqueue_store::Store;

use crate::auth::Token;
use crate::budget::Budgets;

/// The state behind the route table.
#[derive(Clone)]
pub struct AppState {
    shared: Arc<Shared>,
}

struct Shared {
    store: Arc<dyn Store>,
    token: Option<Token>,
    budgets: Budgets,
}

impl AppState {
    /// Serves `store`, to everybody or to those who have the token.
    pub fn new(store: Arc<dyn Store>, token: Option<Token>) -> Self {
        Self::with_budgets(store, token, Budgets::default())
    }

    /// The same within other budgets than the usual ones.
    pub fn with_budgets(store: Arc<dyn Store>, token: Option<Token>, budgets: Budgets) -> Self {
        Self { shared: Arc::new(Shared { store, token, budgets }) }
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

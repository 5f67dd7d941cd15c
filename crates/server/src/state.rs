//! What every handler shares: the store and the token. Cheap to clone.

use std::sync::Arc;

use taskqueue_store::Store;

use crate::auth::Token;

/// The state behind the route table.
#[derive(Clone)]
pub struct AppState {
    shared: Arc<Shared>,
}

struct Shared {
    store: Arc<dyn Store>,
    token: Option<Token>,
}

impl AppState {
    /// Serves `store`, to everybody or to those who have the token.
    pub fn new(store: Arc<dyn Store>, token: Option<Token>) -> Self {
        Self { shared: Arc::new(Shared { store, token }) }
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

//! What the dashboard learns of the server that it is mounted in.

use std::sync::Arc;

use taskqueue_api::capabilities::{FEATURES, OUTPUT};
use taskqueue_dashboard::{Host, HostFigures, SessionCookie};
use taskqueue_store::Store;
use tokio::time::Instant;

use crate::state::AppState;

/// A server, as its dashboard sees it.
pub(crate) struct DashboardHost {
    state: AppState,
    began: Instant,
}

impl DashboardHost {
    pub(crate) fn new(state: AppState) -> Self {
        Self { state, began: Instant::now() }
    }
}

impl Host for DashboardHost {
    fn store(&self) -> &Arc<dyn Store> {
        self.state.shared_store()
    }

    fn features(&self) -> Vec<&'static str> {
        FEATURES.into_iter().filter(|feature| *feature != OUTPUT || self.task_output_bytes() > 0).collect()
    }

    fn task_output_bytes(&self) -> usize {
        self.state.task_output_bytes()
    }

    fn is_tls(&self) -> bool {
        false
    }

    fn sign_in(&self, _token: &str) -> Option<SessionCookie> {
        None
    }

    fn figures(&self) -> HostFigures {
        HostFigures {
            version: env!("CARGO_PKG_VERSION"),
            uptime: self.began.elapsed(),
            waiting: self.store().waiters().counts(),
            waiting_limit: self.state.waiting_cap(),
            ..HostFigures::default()
        }
    }
}

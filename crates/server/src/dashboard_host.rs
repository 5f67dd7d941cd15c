//! What the dashboard learns of the server that it is mounted in.

use std::sync::Arc;

use async_trait::async_trait;
use taskqueue_api::capabilities::{FEATURES, OUTPUT};
use taskqueue_core::Retention;
use taskqueue_dashboard::{Host, HostFigures, SessionCookie, SignInRefusal};
use taskqueue_store::clock::wall_clock;
use taskqueue_store::submission::Held;
use taskqueue_store::{Store, StoreExt};

use crate::extract::filter_turn;
use crate::metrics::resident_bytes;
use crate::state::AppState;

#[async_trait]
impl Host for AppState {
    fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    fn features(&self) -> Vec<&'static str> {
        FEATURES.into_iter().filter(|feature| *feature != OUTPUT || self.task_output_bytes() > 0).collect()
    }

    fn task_output_bytes(&self) -> usize {
        self.limits.task_output_bytes
    }

    fn default_retention(&self) -> Retention {
        self.limits.default_retention
    }

    fn is_tls(&self) -> bool {
        self.pages.as_ref().is_some_and(|pages| pages.is_tls)
    }

    fn sign_in(&self, token: &str) -> Result<SessionCookie, SignInRefusal> {
        let pages = self.pages.as_ref().ok_or(SignInRefusal::Wrong)?;
        pages.begin(&self.gate, token, wall_clock())
    }

    async fn reserve(&self, bytes: usize) -> Option<Held> {
        let room = self.budgets.reserve_read(bytes).await.ok()?;
        Some(Box::new(room))
    }

    async fn filter_turn(&self, bytes: usize) -> Option<Held> {
        let turn = filter_turn(self, bytes).await?;
        Some(Box::new(turn))
    }

    fn figures(&self) -> HostFigures {
        let metrics = &self.metrics;
        let (requests, failures) = metrics.requests.totals();
        HostFigures {
            version: env!("CARGO_PKG_VERSION"),
            uptime: self.began.elapsed(),
            requests,
            failures,
            connections: metrics.open_connections(),
            waiting: self.store.waiters().counts(),
            waiting_limit: self.limits.waiting_cap,
            memory_bytes: resident_bytes(),
        }
    }
}

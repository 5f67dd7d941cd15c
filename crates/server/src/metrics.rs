//! What `GET /metrics` shows: all metrics are in `list.rs`. A scrape is computed at most once a second for each format, whoever
//! asks, and never by two at once. The handler is in `routes/discovery.rs`.

mod event_counts;
mod labels;
pub mod list;
mod requests;
mod snapshot;
mod text;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use taskqueue_store::Store;
use tokio::time::Instant;

pub(crate) use self::requests::{AnsweredRequest, PathTemplate, RequestCounts};
use self::snapshot::{DatabaseAnswers, Scrape, Snapshot};
pub(crate) use self::snapshot::{MetricSources, Metrics, resident_bytes};
use self::text::MetricsText;
pub(crate) use self::text::TextFormat;
use crate::error::ApiError;
use crate::memory_budget::Budgets;
use crate::readiness::Readiness;

/// How long a scrape is given to all who ask.
const FRESH: Duration = Duration::from_secs(1);

impl Metrics {
    /// Returns the text of all metrics, not older than a second. What it takes of the memory for answers is freed when the last client
    /// has got it and it is not given to others any more.
    pub(crate) async fn scrape(
        self: &Arc<Self>,
        store: &Arc<dyn Store>,
        readiness: &Readiness,
        budgets: &Arc<Budgets>,
        format: TextFormat,
    ) -> Result<Bytes, ApiError> {
        let mut last = self.last.lock().await;
        last.retain(|scrape| scrape.at.elapsed() < FRESH);
        if let Some(scrape) = last.iter().find(|scrape| scrape.format == format) {
            return Ok(scrape.text.clone());
        }
        let answers = DatabaseAnswers::of(&**store, readiness, self).await;
        let (metrics, store, shared_budgets) = (Arc::clone(self), Arc::clone(store), Arc::clone(budgets));
        let measure = move || MetricsText::of(Snapshot::take(answers, &metrics, &*store, &shared_budgets), format);
        // It panics only where there is a bug, which is logged.
        let text = tokio::task::spawn_blocking(measure).await.map_err(|_| ApiError::internal(""))?;
        let reservation = budgets.answers.reserve(text.bytes()).await?;
        let text = tokio::task::spawn_blocking(move || text.write()).await.map_err(|_| ApiError::internal(""))?;
        let text = reservation.attach_to(text);
        last.push(Scrape { format, at: Instant::now(), text: text.clone() });
        Ok(text)
    }
}

//! What `GET /metrics` shows: all metrics are in `list.rs`. A scrape is computed at most once a second for each format, whoever
//! asks, and never by two at once. The handler is in `routes/metrics.rs`.

mod event_counts;
mod format;
mod labels;
pub mod list;
pub(crate) mod process;
mod requests;
mod snapshot;
mod text;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync;
use tokio::time::Instant;

use self::event_counts::EventCounts;
pub(crate) use self::format::Format;
use self::labels::RouteNames;
pub(crate) use self::requests::{Answered, RequestCounts, Template};
use self::snapshot::{Asked, Snapshot};
use self::text::Text;
use crate::accept::ConnectionGauge;
use crate::error::ApiError;
use crate::state::AppState;
use crate::tls::Tls;

/// How long a scrape is given to all who ask.
const FRESH: Duration = Duration::from_secs(1);

/// What is counted for metrics, and what is remembered between two scrapes.
#[derive(Default)]
pub(crate) struct Metrics {
    pub(crate) requests: RequestCounts,
    sources: Sources,
    known: Mutex<Known>,
    /// At most one of each format. Held while one is computed.
    last: sync::Mutex<Vec<Scrape>>,
}

/// What belongs to the process and not to the state of the server.
#[derive(Default)]
pub(crate) struct Sources {
    pub(crate) connections: Option<ConnectionGauge>,
    pub(crate) waiting_limit: usize,
    pub(crate) memory_limit_bytes: Option<u64>,
    pub(crate) log_lines_lost: Option<fn() -> u64>,
    /// Whose certificate clients of the API are shown.
    pub(crate) tls: Option<Tls>,
}

#[derive(Default)]
struct Known {
    routes: RouteNames,
    events: EventCounts,
}

struct Scrape {
    format: Format,
    at: Instant,
    text: Bytes,
}

impl Metrics {
    pub(crate) fn new(sources: Sources) -> Self {
        Self { sources, ..Self::default() }
    }

    /// Connections that are open now, as far as that is known.
    pub(crate) fn open_connections(&self) -> usize {
        self.sources.connections.as_ref().map_or(0, |gauge| gauge.counts().open)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The text of all metrics, not older than a second. What it takes of the memory for answers is freed when the last client has got
/// it and it is not given to others any more.
pub(crate) async fn scrape(state: &AppState, format: Format) -> Result<Bytes, ApiError> {
    let mut last = state.metrics().last.lock().await;
    last.retain(|scrape| scrape.at.elapsed() < FRESH);
    if let Some(scrape) = last.iter().find(|scrape| scrape.format == format) {
        return Ok(scrape.text.clone());
    }
    let asked = Asked::of(state.store(), state.readiness(), state.metrics()).await;
    let own = state.clone();
    let measure = move || Text::of(Snapshot::take(asked, own.metrics(), own.store(), own.budgets()), format);
    // It panics only where there is a bug, which is logged.
    let text = tokio::task::spawn_blocking(measure).await.map_err(|_| ApiError::internal(""))?;
    let reservation = state.budgets().answers.reserve(text.bytes()).await?;
    let text = tokio::task::spawn_blocking(move || text.write()).await.map_err(|_| ApiError::internal(""))?;
    let text = reservation.attach_to(text);
    last.push(Scrape { format, at: Instant::now(), text: text.clone() });
    Ok(text)
}

//! `/metrics`: for monitoring systems. Needs the token as the API does; not a part of its version.

use axum::extract::State;
use axum::response::Response;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use taskqueue_api::paths;

use super::HandlerResult;
use crate::extract::Call;
use crate::metrics;
use crate::state::AppState;

/// What the server does and how its queues are, for Prometheus. It answers also when the database does not work; the figures of
/// the database are then missing, and `taskqueue_figures_up` is 0.
#[utoipa::path(
    get, path = paths::METRICS, tag = "discovery",
    responses(
        (status = 200, description = "All metrics, not older than a second, in the OpenMetrics text format.",
         body = String, content_type = "application/openmetrics-text"),
        (status = 503, description = "`database_busy`: too much data is under way."),
    ),
)]
pub(crate) async fn metrics(State(state): State<AppState>, _: Call) -> HandlerResult {
    let mut response = Response::new(metrics::scrape(&state).await?.into());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(metrics::CONTENT_TYPE));
    Ok(response)
}

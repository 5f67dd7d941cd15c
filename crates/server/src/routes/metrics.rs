//! `/metrics`: for monitoring systems. Needs the token as the API does; not a part of its version.

use axum::extract::State;
use axum::response::Response;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderValue, VARY};
use taskqueue_api::paths;

use super::HandlerResult;
use crate::extract::Call;
use crate::metrics::{self, Format};
use crate::state::AppState;

/// What the server does and how its queues are, for Prometheus. It answers also when the database does not work; the figures of
/// the database are then missing, and `taskqueue_figures_up` is 0.
#[utoipa::path(
    get, path = paths::METRICS, tag = "discovery",
    responses(
        (status = 200, description = "All metrics, not older than a second: in the OpenMetrics text format for those \
            who name it in `Accept`, otherwise in the text format 0.0.4 of Prometheus.",
         content((String = "text/plain"), (String = "application/openmetrics-text"))),
        (status = 503, description = "`database_busy`: too much data is under way."),
    ),
)]
pub(crate) async fn metrics(State(state): State<AppState>, call: Call) -> HandlerResult {
    let format = Format::asked_for(call.headers());
    let mut response = Response::new(metrics::scrape(&state, format).await?.into());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(format.content_type()));
    headers.insert(VARY, HeaderValue::from(ACCEPT));
    Ok(response)
}

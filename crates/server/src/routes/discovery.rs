//! `/health`, `/livez`, `/readyz` and `/openapi.json`, which are open to everybody and come without the version header; the capabilities,
//! which are part of the API; and `/metrics`, which needs the token as the API does but is no part of its version.

use axum::extract::State;
use axum::response::Response;
use hyper::StatusCode;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderValue, VARY};
use taskqueue_api::capabilities::{Capabilities, Healthy, OUTPUT, Probe, Unhealthy};
use taskqueue_api::error::ErrorEnvelope;
use taskqueue_api::paths;

use super::HandlerResult;
use crate::extract::Call;
use crate::metrics::TextFormat;
use crate::request_log::LogNote;
use crate::respond;
use crate::state::AppState;

/// Whether the server and its database work.
#[utoipa::path(
    get, path = paths::HEALTH, tag = "discovery",
    responses(
        (status = 200, description = "Both work.", body = Healthy),
        (status = 503, description = "The database does not work.", body = Unhealthy),
    ),
)]
pub(crate) async fn health(State(state): State<AppState>, _: Call) -> Response {
    match state.store.check().await {
        Ok(risks) => {
            let mut response = respond::json(StatusCode::OK, Healthy::JSON);
            if !risks.is_empty() {
                response.extensions_mut().insert(LogNote(risks.join("; ")));
            }
            response
        }
        Err(_) => respond::json(StatusCode::SERVICE_UNAVAILABLE, Unhealthy::JSON),
    }
}

/// What this server offers beyond the contract. A request that uses an extension is refused by a server without it.
#[utoipa::path(
    get, path = paths::CAPABILITIES, tag = "discovery",
    responses((status = 200, description = "The names of the extensions, sorted.", body = Capabilities)),
)]
pub(crate) async fn capabilities(State(state): State<AppState>, _: Call) -> HandlerResult {
    let turned_off: &[&str] = if state.limits.task_output_bytes == 0 { &[OUTPUT] } else { &[] };
    Ok(respond::written(|out| Capabilities::write(out, turned_off)))
}

/// Whether the process answers. If it does not, a restart may help.
#[utoipa::path(
    get, path = paths::LIVEZ, tag = "discovery", responses((status = 200, description = "It does.", body = Probe)),
)]
pub(crate) async fn livez(_: Call) -> HandlerResult {
    Ok(respond::json(StatusCode::OK, Probe::JSON))
}

/// Whether the server takes requests: its database works, and it is not stopping. If not, send them elsewhere or later.
#[utoipa::path(
    get, path = paths::READYZ, tag = "discovery",
    responses(
        (status = 200, description = "It does.", body = Probe),
        (status = 503, description = "`database_unavailable` or `server_stopping`", body = ErrorEnvelope),
    ),
)]
pub(crate) async fn readyz(State(state): State<AppState>, _: Call) -> HandlerResult {
    state.readiness.check(&*state.store).await?;
    Ok(respond::json(StatusCode::OK, Probe::JSON))
}

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
    let format = TextFormat::asked_for(&call.headers);
    let mut response =
        Response::new(state.metrics.scrape(&state.store, &state.readiness, &state.budgets, format).await?.into());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(format.content_type()));
    headers.insert(VARY, HeaderValue::from(ACCEPT));
    Ok(response)
}

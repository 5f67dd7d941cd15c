//! `/livez` and `/readyz`: what a service manager asks, without a token and without the version. `/health` is the contract's question.

use axum::extract::State;
use hyper::StatusCode;
use taskqueue_api::capabilities::Probe;
use taskqueue_api::error::ErrorEnvelope;
use taskqueue_api::paths;

use super::HandlerResult;
use crate::error::ApiError;
use crate::extract::Call;
use crate::readiness::Ready;
use crate::respond;
use crate::state::AppState;

/// Whether the process answers. If it does not, a restart may help.
#[utoipa::path(
    get, path = paths::LIVEZ, tag = "discovery",
    responses((status = 200, description = "It does.", body = Probe)),
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
    match state.readiness().check(state.store()).await {
        Ready::Yes => Ok(respond::json(StatusCode::OK, Probe::JSON)),
        Ready::StorageFails => Err(ApiError::not_ready()),
        Ready::Stopping => Err(ApiError::stopping()),
    }
}

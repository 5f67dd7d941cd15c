//! `/health` and `/openapi.json`: open to everybody, without the version header. The capabilities are part of the API.

use axum::extract::State;
use axum::response::Response;
use hyper::StatusCode;
use taskqueue_api::capabilities::{Capabilities, Healthy, OUTPUT, Unhealthy};
use taskqueue_api::paths;

use super::HandlerResult;
use crate::extract::Call;
use crate::request_log::Note;
use crate::state::AppState;
use crate::{openapi, respond};

/// Whether the server and its database work.
#[utoipa::path(
    get, path = paths::HEALTH, tag = "discovery",
    responses(
        (status = 200, description = "Both work.", body = Healthy),
        (status = 503, description = "The database does not work.", body = Unhealthy),
    ),
)]
pub(crate) async fn health(State(state): State<AppState>, _: Call) -> Response {
    match state.store().check().await {
        Ok(risks) => {
            let mut response = respond::json(StatusCode::OK, Healthy::JSON);
            if !risks.is_empty() {
                response.extensions_mut().insert(Note(risks.join("; ")));
            }
            response
        }
        Err(_) => respond::json(StatusCode::SERVICE_UNAVAILABLE, Unhealthy::JSON),
    }
}

/// This document.
#[utoipa::path(
    get, path = paths::OPENAPI, tag = "discovery",
    responses((status = 200, description = "The OpenAPI document.", body = Object, content_type = "application/json")),
)]
pub(crate) async fn openapi_document(_: Call) -> HandlerResult {
    Ok(respond::json(StatusCode::OK, openapi::document()))
}

/// What this server offers beyond the contract. A request that uses an extension is refused by a server without it.
#[utoipa::path(
    get, path = paths::CAPABILITIES, tag = "discovery",
    responses((status = 200, description = "The names of the extensions, sorted.", body = Capabilities)),
)]
pub(crate) async fn capabilities(State(state): State<AppState>, _: Call) -> HandlerResult {
    let turned_off: &[&str] = if state.task_output_bytes() == 0 { &[OUTPUT] } else { &[] };
    Ok(respond::written(|out| Capabilities::write(out, turned_off)))
}

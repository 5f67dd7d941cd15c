//! The settings of a queue, the extension `queue-settings`.

use axum::extract::State;
use axum::response::Response;
use taskqueue_api::error::ErrorEnvelope;
use taskqueue_api::parameters::QueuePath;
use taskqueue_api::paths;
use taskqueue_api::queue::{QueueSettingsSchema, SettingsPatchSchema};
use taskqueue_core::settings::{QueueSettings, SettingsPatch};
use taskqueue_store::StoreExt;
use taskqueue_store::command::ChangeSettings;

use super::HandlerResult;
use crate::extract::Call;
use crate::memory_budget::Reservation;
use crate::respond;
use crate::state::AppState;

/// How much of a queue is claimed, and how long ended tasks are kept.
#[utoipa::path(
    get, path = paths::SETTINGS, tag = "queues", params(QueuePath),
    responses(
        (status = 200, description = "All settings.", body = QueueSettingsSchema),
        (status = 404, description = "`queue_not_found`", body = ErrorEnvelope),
        (status = 422, description = "`invalid_request`: the name", body = ErrorEnvelope),
    ),
)]
pub(crate) async fn get_settings(State(state): State<AppState>, call: Call) -> HandlerResult {
    let queue = call.queue()?;
    let reservation = state.budgets().reserve_task().await?;
    let settings = state.store().queue_settings(&queue).await?;
    Ok(answer(&settings, reservation))
}

/// Changes settings of a queue by a JSON merge patch (RFC 7396): what it does not name stays, and null sets the default.
#[utoipa::path(
    patch, path = paths::SETTINGS, tag = "queues",
    params(QueuePath), request_body = SettingsPatchSchema,
    responses(
        (status = 200, description = "All settings as they are now.", body = QueueSettingsSchema),
        (status = 404, description = "`queue_not_found`", body = ErrorEnvelope),
        (status = 422, description = "`invalid_request` or `json_too_deep`", body = ErrorEnvelope),
    ),
)]
pub(crate) async fn change_settings(State(state): State<AppState>, call: Call) -> HandlerResult {
    let patch: SettingsPatch = call.body(&state).await?;
    let queue = call.queue()?;
    // What is done must be answered.
    let reservation = state.budgets().reserve_task().await?;
    let settings = state.store().write_holding(ChangeSettings { queue, patch }, call.into_held()).await?;
    Ok(answer(&settings, reservation))
}

/// The limits of all routes take some 40 KiB at most, which is less than a task may take.
fn answer(settings: &QueueSettings, reservation: Reservation) -> Response {
    respond::large(reservation, settings.to_json().into_bytes())
}

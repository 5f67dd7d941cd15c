//! What workers say of themselves: report and withdraw.

use axum::extract::State;
use taskqueue_api::error::ErrorEnvelope;
use taskqueue_api::parameters::WorkerPath;
use taskqueue_api::paths;
use taskqueue_api::worker::{TelemetryRequest, WorkerReport};
use taskqueue_store::command::{ReportTelemetry, ReportWorker, WithdrawWorker};

use super::{HandlerResult, empty_answer};
use crate::extract::Call;
use crate::state::AppState;

/// Records what a worker says of itself, for 300 seconds.
#[utoipa::path(
    put, path = paths::WORKER, tag = "workers",
    params(WorkerPath), request_body = WorkerReport,
    responses(
        (status = 204, description = "It was recorded."),
        (status = 404, description = "`queue_not_found`", body = ErrorEnvelope),
        (status = 409, description = "`worker_route_conflict`", body = ErrorEnvelope),
        (status = 422, description = "`invalid_request` or `json_too_deep`", body = ErrorEnvelope),
    ),
)]
pub(crate) async fn report_worker(State(state): State<AppState>, call: Call) -> HandlerResult {
    let report = call.body(&state).await?;
    let (queue, id) = call.worker()?;
    empty_answer(&state, call, ReportWorker { queue, id, report }).await
}

/// Records what a worker measures. The observation lives no longer by it.
#[utoipa::path(
    post, path = paths::TELEMETRY, tag = "workers",
    params(WorkerPath), request_body = TelemetryRequest,
    responses(
        (status = 204, description = "It was recorded."),
        (status = 404, description = "`queue_not_found` or `worker_not_found`", body = ErrorEnvelope),
        (status = 422, description = "`invalid_request` or `json_too_deep`", body = ErrorEnvelope),
    ),
)]
pub(crate) async fn report_telemetry(State(state): State<AppState>, call: Call) -> HandlerResult {
    let TelemetryRequest { telemetry } = call.body(&state).await?;
    let (queue, id) = call.worker()?;
    empty_answer(&state, call, ReportTelemetry { queue, id, telemetry }).await
}

/// Forgets a worker.
#[utoipa::path(
    delete, path = paths::WORKER, tag = "workers", params(WorkerPath),
    responses(
        (status = 204, description = "It is not there any more."),
        (status = 404, description = "`queue_not_found`", body = ErrorEnvelope),
        (status = 422, description = "`invalid_request`", body = ErrorEnvelope),
    ),
)]
pub(crate) async fn withdraw_worker(State(state): State<AppState>, call: Call) -> HandlerResult {
    let (queue, id) = call.worker()?;
    empty_answer(&state, call, WithdrawWorker { queue, id }).await
}

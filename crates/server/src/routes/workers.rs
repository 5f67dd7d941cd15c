//! What workers say of themselves: report and withdraw.

use axum::extract::State;
use taskqueue_api::schema::{ErrorEnvelope, WorkerPath, WorkerReport};
use taskqueue_store::command::Command;

use super::{Outcome, write_done};
use crate::extract::Call;
use crate::state::AppState;

/// Records what a worker says of itself, for 300 seconds.
#[utoipa::path(
    put, path = "/api/v2/queues/{queue}/workers/{id}", tag = "workers",
    params(WorkerPath), request_body = WorkerReport,
    responses(
        (status = 204, description = "It was recorded."),
        (status = 404, description = "`queue_not_found`", body = ErrorEnvelope),
        (status = 409, description = "`worker_route_conflict`", body = ErrorEnvelope),
        (status = 422, description = "`invalid_request` or `json_too_deep`", body = ErrorEnvelope),
    ),
)]
pub(crate) async fn report_worker(State(state): State<AppState>, call: Call) -> Outcome {
    let report = call.body(&state).await?;
    let (queue, id) = call.worker()?;
    write_done(&state, Command::ReportWorker { queue, id, report }).await
}

/// Forgets a worker.
#[utoipa::path(
    delete, path = "/api/v2/queues/{queue}/workers/{id}", tag = "workers", params(WorkerPath),
    responses(
        (status = 204, description = "It is not there any more."),
        (status = 404, description = "`queue_not_found`", body = ErrorEnvelope),
        (status = 422, description = "`invalid_request`", body = ErrorEnvelope),
    ),
)]
pub(crate) async fn withdraw_worker(State(state): State<AppState>, call: Call) -> Outcome {
    let (queue, id) = call.worker()?;
    write_done(&state, Command::WithdrawWorker { queue, id }).await
}

//! The worker protocol: claim, heartbeat, progress, complete, fail, unclaim.

use axum::extract::State;
use taskqueue_api::error::ErrorEnvelope;
use taskqueue_api::parameters::{ClaimPreference, HeartbeatPreference, QueuePath, TaskPath};
use taskqueue_api::paths;
use taskqueue_api::run::{
    Claim, ClaimRequest, CompleteRequest, FailRequest, HeartbeatRequest, Lease, ProgressRequest, UnclaimRequest,
};
use taskqueue_api::task::Task;
use taskqueue_core::lifecycle::RunReport;
use taskqueue_store::command::{self, Heartbeat, ReportProgress, ReportRun};

use super::{HandlerResult, empty_answer};
use crate::extract::Call;
use crate::state::AppState;
use crate::waiting::ClaimedTask;
use crate::{prefer, respond, waiting};

/// Takes the first pending task of a route. With `Prefer: wait=N` the server waits up to N seconds (at most 60) for one.
#[utoipa::path(
    post, path = paths::CLAIM, tag = "worker protocol",
    params(QueuePath, ClaimPreference), request_body = ClaimRequest,
    responses(
        (
            status = 200, description = "The task and its lease.", body = Claim,
            headers(("preference-applied" = String, description = "`wait=N`: the wait that was given, in seconds.")),
        ),
        (
            status = 204, description = "No pending task has this route.",
            headers(("preference-applied" = String, description = "`wait=N`: the wait that was given, in seconds.")),
        ),
        (status = 404, description = "`queue_not_found`", body = ErrorEnvelope),
        (status = 409, description = "`stale_run` or `run_id_conflict`", body = ErrorEnvelope),
        (status = 422, description = "`invalid_request` or `json_too_deep`", body = ErrorEnvelope),
    ),
)]
pub(crate) async fn claim_task(State(state): State<AppState>, call: Call) -> HandlerResult {
    let ClaimRequest { route, run_id, worker } = call.body(&state).await?;
    let queue = call.queue()?;
    let claim = command::Claim { queue, route, run_id, worker };
    let (claimed, applied) = waiting::claim(&state, claim, call.into_wait_preference()).await?;
    let mut response = match claimed {
        Some(ClaimedTask { claimed, reservation }) => {
            let mut body = Vec::with_capacity(Task::expected_bytes(&claimed.task) + 100);
            Claim::write(&mut body, &claimed.task, claimed.run_id, claimed.lease_expires_at);
            respond::large(reservation, body)
        }
        None => respond::no_content(),
    };
    response.headers_mut().extend(applied.map(prefer::applied));
    Ok(response)
}

/// Renews the lease of a run. With `Prefer: wait=N` the server then holds the answer up to N seconds (at most 60), and tells
/// at once when the run is over.
#[utoipa::path(
    post, path = paths::HEARTBEAT, tag = "worker protocol",
    params(TaskPath, HeartbeatPreference), request_body = HeartbeatRequest,
    responses(
        (
            status = 200, description = "The renewed lease.", body = Lease,
            headers(("preference-applied" = String, description = "`wait=N`: the wait that was given, in seconds.")),
        ),
        (status = 404, description = "`queue_not_found` or `task_not_found`", body = ErrorEnvelope),
        (status = 409, description = "`stale_run` or `run_finalized`", body = ErrorEnvelope),
        (
            status = 422, body = ErrorEnvelope,
            description = "`invalid_request`, `json_too_deep`, `invalid_task_id` or `task_data_too_large`",
        ),
    ),
)]
pub(crate) async fn heartbeat(State(state): State<AppState>, call: Call) -> HandlerResult {
    let HeartbeatRequest { run_id, progress } = call.body(&state).await?;
    let (queue, id) = call.task()?;
    let heartbeat = Heartbeat { queue, id, run_id, progress };
    let (preference, held) = call.into_wait_preference_and_held();
    let (lease_expires_at, applied) = waiting::heartbeat(&state, heartbeat, held, preference).await?;
    let mut response = respond::written(|out| Lease::write(out, lease_expires_at));
    response.headers_mut().extend(applied.map(prefer::applied));
    Ok(response)
}

/// Says how far a run is. This renews no lease.
#[utoipa::path(
    post, path = paths::PROGRESS, tag = "worker protocol",
    params(TaskPath), request_body = ProgressRequest,
    responses(
        (status = 204, description = "It was recorded."),
        (status = 404, description = "`queue_not_found` or `task_not_found`", body = ErrorEnvelope),
        (status = 409, description = "`stale_run` or `run_finalized`", body = ErrorEnvelope),
        (
            status = 422, body = ErrorEnvelope,
            description = "`invalid_request`, `json_too_deep`, `invalid_task_id` or `task_data_too_large`",
        ),
    ),
)]
pub(crate) async fn report_progress(State(state): State<AppState>, call: Call) -> HandlerResult {
    let ProgressRequest { run_id, progress } = call.body(&state).await?;
    let (queue, id) = call.task()?;
    empty_answer(&state, call, ReportProgress { queue, id, run_id, progress }).await
}

/// Ends a run with a result.
#[utoipa::path(
    post, path = paths::COMPLETE, tag = "worker protocol",
    params(TaskPath), request_body = CompleteRequest,
    responses(
        (status = 204, description = "The task has succeeded."),
        (status = 404, description = "`queue_not_found` or `task_not_found`", body = ErrorEnvelope),
        (status = 409, description = "`stale_run` or `run_finalized`", body = ErrorEnvelope),
        (
            status = 422, body = ErrorEnvelope,
            description = "`invalid_request`, `json_too_deep`, `invalid_task_id` or `task_data_too_large`",
        ),
    ),
)]
pub(crate) async fn complete_task(State(state): State<AppState>, call: Call) -> HandlerResult {
    let CompleteRequest { run_id, result } = call.body(&state).await?;
    let (queue, id) = call.task()?;
    empty_answer(&state, call, ReportRun { queue, id, run_id, report: RunReport::Complete { result } }).await
}

/// Ends a run with an error; the task is tried again while its budget lasts, unless `retry` is false.
#[utoipa::path(
    post, path = paths::FAIL, tag = "worker protocol",
    params(TaskPath), request_body = FailRequest,
    responses(
        (status = 204, description = "The failure was recorded."),
        (status = 404, description = "`queue_not_found` or `task_not_found`", body = ErrorEnvelope),
        (status = 409, description = "`stale_run` or `run_finalized`", body = ErrorEnvelope),
        (status = 422, description = "`invalid_request`, `invalid_task_id` or `json_too_deep`", body = ErrorEnvelope),
    ),
)]
pub(crate) async fn fail_task(State(state): State<AppState>, call: Call) -> HandlerResult {
    let FailRequest { run_id, error: failure, retry, retry_after_seconds: retry_after } = call.body(&state).await?;
    let (queue, id) = call.task()?;
    let report = RunReport::Fail { failure, retry, retry_after };
    empty_answer(&state, call, ReportRun { queue, id, run_id, report }).await
}

/// Gives a task back; the attempt is not charged.
#[utoipa::path(
    post, path = paths::UNCLAIM, tag = "worker protocol",
    params(TaskPath), request_body = UnclaimRequest,
    responses(
        (status = 204, description = "The task is pending again."),
        (status = 404, description = "`queue_not_found` or `task_not_found`", body = ErrorEnvelope),
        (status = 409, description = "`stale_run` or `run_finalized`", body = ErrorEnvelope),
        (status = 422, description = "`invalid_request`, `invalid_task_id` or `json_too_deep`", body = ErrorEnvelope),
    ),
)]
pub(crate) async fn unclaim_task(State(state): State<AppState>, call: Call) -> HandlerResult {
    let UnclaimRequest { run_id, delay_seconds: delay } = call.body(&state).await?;
    let (queue, id) = call.task()?;
    empty_answer(&state, call, ReportRun { queue, id, run_id, report: RunReport::Unclaim { delay } }).await
}

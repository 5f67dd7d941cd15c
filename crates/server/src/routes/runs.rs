//! What workers send: the worker protocol (claim, heartbeat, progress, complete, fail, unclaim), the output of runs, which is also read
//! here, and observations of the workers themselves.

use axum::extract::State;
use taskqueue_api::output::{Output, OutputRequest};
use taskqueue_api::parameters::{
    ClaimPreference, HeartbeatPreference, OutputPreference, OutputQuery, QueuePath, TaskPath, WorkerPath,
};
use taskqueue_api::paths;
use taskqueue_api::run::{
    Claim, ClaimRequest, CompleteRequest, FailRequest, HeartbeatRequest, Lease, ProgressRequest, UnclaimRequest,
};
use taskqueue_api::task::Task;
use taskqueue_api::worker::{TelemetryRequest, WorkerReport};
use taskqueue_core::lifecycle::RunReport;
use taskqueue_store::command::{
    self, AddOutput, Heartbeat, ReportProgress, ReportRun, ReportTelemetry, ReportWorker, WithdrawWorker,
};

use super::{HandlerResult, empty_answer};
use crate::extract::Call;
use crate::state::AppState;
use crate::waiting::{self, Reserved};
use crate::{prefer, respond};

/// Takes the first pending task of a route. With `Prefer: wait=N` the server waits up to N seconds (at most 60) for one.
#[utoipa::path(
    post, path = paths::CLAIM, tag = "worker protocol",
    params(QueuePath, ClaimPreference), request_body = ClaimRequest,
    responses(
        (status = 200, description = "The task and its lease.", body = Claim),
        (status = 204, description = "No pending task has this route."),
    ),
)]
pub(crate) async fn claim_task(State(state): State<AppState>, call: Call) -> HandlerResult {
    let ClaimRequest { route, run_id, worker } = call.body(&state).await?;
    let queue = call.queue()?;
    let claim = command::Claim { queue, route, run_id, worker };
    let (claimed, applied) = waiting::claim(&state, claim, call.into_wait_preference()).await?;
    let mut response = match claimed {
        Some(Reserved { found: claimed, reservation }) => {
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
    responses((status = 200, description = "The renewed lease.", body = Lease)),
)]
pub(crate) async fn heartbeat(State(state): State<AppState>, mut call: Call) -> HandlerResult {
    let HeartbeatRequest { run_id, progress } = call.body(&state).await?;
    let (queue, id) = call.task()?;
    let heartbeat = Heartbeat { queue, id, run_id, progress };
    let held = call.take_held();
    let (lease_expires_at, applied) = waiting::heartbeat(&state, heartbeat, held, call.into_wait_preference()).await?;
    let mut response = respond::written(|out| Lease { lease_expires_at }.write(out));
    response.headers_mut().extend(applied.map(prefer::applied));
    Ok(response)
}

/// Says how far a run is. This renews no lease.
#[utoipa::path(
    post, path = paths::PROGRESS, tag = "worker protocol", params(TaskPath), request_body = ProgressRequest,
    responses((status = 204, description = "It was recorded.")),
)]
pub(crate) async fn report_progress(State(state): State<AppState>, call: Call) -> HandlerResult {
    let ProgressRequest { run_id, progress } = call.body(&state).await?;
    let (queue, id) = call.task()?;
    empty_answer(&state, call, ReportProgress { queue, id, run_id, progress }).await
}

/// Ends a run with a result.
#[utoipa::path(
    post, path = paths::COMPLETE, tag = "worker protocol", params(TaskPath), request_body = CompleteRequest,
    responses((status = 204, description = "The task has succeeded.")),
)]
pub(crate) async fn complete_task(State(state): State<AppState>, call: Call) -> HandlerResult {
    let CompleteRequest { run_id, result } = call.body(&state).await?;
    let (queue, id) = call.task()?;
    empty_answer(&state, call, ReportRun { queue, id, run_id, report: RunReport::Complete { result } }).await
}

/// Ends a run with an error; the task is tried again while its budget lasts, unless `retry` is false.
#[utoipa::path(
    post, path = paths::FAIL, tag = "worker protocol", params(TaskPath), request_body = FailRequest,
    responses((status = 204, description = "The failure was recorded.")),
)]
pub(crate) async fn fail_task(State(state): State<AppState>, call: Call) -> HandlerResult {
    let FailRequest { run_id, error: failure, retry, retry_after_seconds: retry_after } = call.body(&state).await?;
    let (queue, id) = call.task()?;
    let report = RunReport::Fail { failure, retry, retry_after };
    empty_answer(&state, call, ReportRun { queue, id, run_id, report }).await
}

/// Gives a task back; the attempt is not charged.
#[utoipa::path(
    post, path = paths::UNCLAIM, tag = "worker protocol", params(TaskPath), request_body = UnclaimRequest,
    responses((status = 204, description = "The task is pending again.")),
)]
pub(crate) async fn unclaim_task(State(state): State<AppState>, call: Call) -> HandlerResult {
    let UnclaimRequest { run_id, delay_seconds: delay } = call.body(&state).await?;
    let (queue, id) = call.task()?;
    empty_answer(&state, call, ReportRun { queue, id, run_id, report: RunReport::Unclaim { delay } }).await
}

/// Keeps what a run prints. Sending the same again has no effect.
#[utoipa::path(
    post, path = paths::OUTPUT, tag = "output", params(TaskPath), request_body = OutputRequest,
    responses((status = 204, description = "It is kept, or has been pushed out by later output.")),
)]
pub(crate) async fn add_output(State(state): State<AppState>, call: Call) -> HandlerResult {
    let OutputRequest { run_id, offset, text } = call.body(&state).await?;
    let (queue, id) = call.task()?;
    let most_bytes = state.limits.task_output_bytes;
    empty_answer(&state, call, AddOutput { queue, id, run_id, offset, text, most_bytes }).await
}

/// What is kept of what the latest run of a task printed. With `Prefer: wait=N` the server waits up to N seconds (at most 60)
/// until there is something behind the offset or that run is over.
#[utoipa::path(
    get, path = paths::OUTPUT, tag = "output", params(TaskPath, OutputQuery, OutputPreference),
    responses((status = 200, description = "The output from the offset on, up to a gap or 1 MiB.", body = Output)),
)]
pub(crate) async fn read_output(State(state): State<AppState>, call: Call) -> HandlerResult {
    let offset = call.query().read_output()?;
    let task = call.task()?;
    let (Reserved { found: output, reservation }, applied) =
        waiting::output(&state, task, offset, call.into_wait_preference()).await?;
    let write = |out: &mut Vec<u8>| Output::write(out, output.attempt, output.start, &output.text, output.ended);
    let mut response = match reservation {
        Some(reservation) => {
            let mut body = Vec::with_capacity(output.text.len() + output.text.len() / 8 + 128);
            write(&mut body);
            respond::large(reservation, body)
        }
        None => respond::written(write),
    };
    response.headers_mut().extend(applied.map(prefer::applied));
    Ok(response)
}

/// Records what a worker says of itself, for 300 seconds.
#[utoipa::path(
    put, path = paths::WORKER, tag = "workers", params(WorkerPath), request_body = WorkerReport,
    responses((status = 204, description = "It was recorded.")),
)]
pub(crate) async fn report_worker(State(state): State<AppState>, call: Call) -> HandlerResult {
    let report = call.body(&state).await?;
    let (queue, id) = call.worker()?;
    empty_answer(&state, call, ReportWorker { queue, id, report }).await
}

/// Records what a worker measures. The observation lives no longer by it.
#[utoipa::path(
    post, path = paths::TELEMETRY, tag = "workers", params(WorkerPath), request_body = TelemetryRequest,
    responses((status = 204, description = "It was recorded.")),
)]
pub(crate) async fn report_telemetry(State(state): State<AppState>, call: Call) -> HandlerResult {
    let TelemetryRequest { telemetry } = call.body(&state).await?;
    let (queue, id) = call.worker()?;
    empty_answer(&state, call, ReportTelemetry { queue, id, telemetry }).await
}

/// Forgets a worker.
#[utoipa::path(
    delete, path = paths::WORKER, tag = "workers", params(WorkerPath),
    responses((status = 204, description = "It is not there any more.")),
)]
pub(crate) async fn withdraw_worker(State(state): State<AppState>, call: Call) -> HandlerResult {
    let (queue, id) = call.worker()?;
    empty_answer(&state, call, WithdrawWorker { queue, id }).await
}

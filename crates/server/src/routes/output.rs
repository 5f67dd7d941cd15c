//! What runs print: sending and reading it.

use axum::extract::State;
use taskqueue_api::error::ErrorEnvelope;
use taskqueue_api::output::{Output, OutputRequest};
use taskqueue_api::parameters::{OutputPreference, OutputQuery, TaskPath};
use taskqueue_api::paths;
use taskqueue_store::command::AddOutput;

use super::{HandlerResult, empty_answer};
use crate::extract::Call;
use crate::state::AppState;
use crate::waiting::ReadOutput;
use crate::{prefer, respond, waiting};

/// Keeps what a run prints. Sending the same again has no effect.
#[utoipa::path(
    post, path = paths::OUTPUT, tag = "output",
    params(TaskPath), request_body = OutputRequest,
    responses(
        (status = 204, description = "It is kept, or has been pushed out by later output."),
        (status = 404, description = "`queue_not_found` or `task_not_found`", body = ErrorEnvelope),
        (status = 409, description = "`stale_run`", body = ErrorEnvelope),
        (
            status = 422, description = "`invalid_request`, `json_too_deep` or `invalid_task_id`", body = ErrorEnvelope,
        ),
    ),
)]
pub(crate) async fn add_output(State(state): State<AppState>, call: Call) -> HandlerResult {
    let OutputRequest { run_id, offset, text } = call.body(&state).await?;
    let (queue, id) = call.task()?;
    let most_bytes = state.task_output_bytes();
    empty_answer(&state, call, AddOutput { queue, id, run_id, offset, text, most_bytes }).await
}

/// What is kept of what the latest run of a task printed. With `Prefer: wait=N` the server waits up to N seconds (at most 60)
/// until there is something behind the offset or that run is over.
#[utoipa::path(
    get, path = paths::OUTPUT, tag = "output",
    params(TaskPath, OutputQuery, OutputPreference),
    responses(
        (
            status = 200, description = "The output from the offset on, up to a gap or 1 MiB.", body = Output,
            headers(("preference-applied" = String, description = "`wait=N`: the wait that was given, in seconds.")),
        ),
        (status = 404, description = "`queue_not_found`, `task_not_found` or `output_not_found`", body = ErrorEnvelope),
        (status = 422, description = "`invalid_request` or `invalid_task_id`", body = ErrorEnvelope),
    ),
)]
pub(crate) async fn read_output(State(state): State<AppState>, call: Call) -> HandlerResult {
    let offset = call.query().read_output()?;
    let task = call.task()?;
    let (ReadOutput { output, reservation }, applied) =
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

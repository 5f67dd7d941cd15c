//! What runs print: sending and reading it.

use axum::extract::State;
use taskqueue_api::error::ErrorEnvelope;
use taskqueue_api::output::OutputRequest;
use taskqueue_api::parameters::TaskPath;
use taskqueue_api::paths;
use taskqueue_core::limits::TASK_OUTPUT_BYTES;
use taskqueue_store::command::AddOutput;

use super::{HandlerResult, empty_answer};
use crate::extract::Call;
use crate::state::AppState;

/// Keeps what a run prints. Sending the same again has no effect.
#[utoipa::path(
    post, path = paths::OUTPUT, tag = "output",
    params(TaskPath), request_body = OutputRequest,
    responses(
        (status = 204, description = "It is kept, or has been pushed out by later output."),
        (status = 404, description = "`queue_not_found` or `task_not_found`", body = ErrorEnvelope),
        (status = 409, description = "`stale_run`", body = ErrorEnvelope),
        (status = 422, description = "`invalid_request` or `invalid_task_id`", body = ErrorEnvelope),
    ),
)]
pub(crate) async fn add_output(State(state): State<AppState>, call: Call) -> HandlerResult {
    let OutputRequest { run_id, offset, text } = call.body(&state).await?;
    let (queue, id) = call.task()?;
    let output = AddOutput { queue, id, run_id, offset, text: (&*text).into(), most_bytes: TASK_OUTPUT_BYTES };
    empty_answer(&state, call, output).await
}

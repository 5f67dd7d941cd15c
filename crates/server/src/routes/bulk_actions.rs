//! Actions on all tasks that match a filter, the extension `bulk-actions`.

use std::sync::Arc;

use axum::extract::State;
use taskqueue_api::bulk_action::{Acted, BulkActionRequest};
use taskqueue_api::error::ErrorEnvelope;
use taskqueue_api::parameters::QueuePath;
use taskqueue_api::paths;
use taskqueue_core::bulk_action::BulkAction;
use taskqueue_core::filter::TaskFilter;
use taskqueue_store::command::{self, ActOnTasks};

use super::HandlerResult;
use crate::extract::{Call, read_filter};
use crate::respond;
use crate::state::AppState;

/// Takes out all pending and running tasks that match, some at a time.
#[utoipa::path(
    post, path = paths::BULK_CANCEL, tag = "tasks",
    params(QueuePath), request_body = BulkActionRequest,
    responses(
        (status = 200, description = "How many matched and how many changed.", body = Acted),
        (status = 404, description = "`queue_not_found`", body = ErrorEnvelope),
        (status = 409, description = "`expectation_failed`", body = ErrorEnvelope),
        (status = 422, body = ErrorEnvelope, description = "`invalid_filter`, `filter_too_large` or `invalid_request`"),
    ),
)]
pub(crate) async fn cancel_tasks(State(state): State<AppState>, call: Call) -> HandlerResult {
    act_on_tasks(&state, call, BulkAction::Cancel).await
}

/// Starts all failed and cancelled tasks over that match, some at a time.
#[utoipa::path(
    post, path = paths::BULK_REQUEUE, tag = "tasks",
    params(QueuePath), request_body = BulkActionRequest,
    responses(
        (status = 200, description = "How many matched and how many changed.", body = Acted),
        (status = 404, description = "`queue_not_found`", body = ErrorEnvelope),
        (status = 409, description = "`expectation_failed`", body = ErrorEnvelope),
        (status = 422, body = ErrorEnvelope, description = "`invalid_filter`, `filter_too_large` or `invalid_request`"),
    ),
)]
pub(crate) async fn requeue_tasks(State(state): State<AppState>, call: Call) -> HandlerResult {
    act_on_tasks(&state, call, BulkAction::Requeue).await
}

/// Deletes all tasks that match and are not running, some at a time.
#[utoipa::path(
    post, path = paths::BULK_DELETE, tag = "tasks",
    params(QueuePath), request_body = BulkActionRequest,
    responses(
        (status = 200, description = "How many matched and how many changed.", body = Acted),
        (status = 404, description = "`queue_not_found`", body = ErrorEnvelope),
        (status = 409, description = "`expectation_failed`", body = ErrorEnvelope),
        (status = 422, body = ErrorEnvelope, description = "`invalid_filter`, `filter_too_large` or `invalid_request`"),
    ),
)]
pub(crate) async fn delete_tasks(State(state): State<AppState>, call: Call) -> HandlerResult {
    act_on_tasks(&state, call, BulkAction::Delete).await
}

async fn act_on_tasks(state: &AppState, call: Call, action: BulkAction) -> HandlerResult {
    let BulkActionRequest { filter, expect, dry_run, include_archived } = call.body(state).await?;
    let queue = call.queue()?;
    let filter = read_filter(state, filter, TaskFilter::parse).await?;
    let act = ActOnTasks { queue, action, filter, expect, dry_run, include_archived };
    let command::Acted { matched, changed } = state.store().act_on_tasks(Arc::new(act)).await?;
    Ok(respond::written(|out| Acted { matched, changed }.write(out)))
}

//! Lists of tasks and of observations: one page at a time. A bad cursor is reported before a bad filter.

use axum::extract::State;
use taskqueue_api::schema::{ErrorEnvelope, ListTasksQuery, ListWorkersQuery, ObservationPage, QueuePath, TaskPage};
use taskqueue_api::write;
use taskqueue_core::cursor::{Binding, InvalidCursor, Position, Resource};
use taskqueue_core::filter::{FilterError, ObservationFilter};
use taskqueue_core::selection::{ObservationQuery, TaskQuery, observation_binding};

use super::Outcome;
use crate::error::ApiError;
use crate::extract::Call;
use crate::query::{ListTasks, ListWorkers};
use crate::respond;
use crate::state::AppState;

/// Lists tasks.
#[utoipa::path(
    get, path = "/api/v2/queues/{queue}/tasks", tag = "tasks", params(QueuePath, ListTasksQuery),
    responses(
        (status = 200, description = "One page.", body = TaskPage),
        (status = 404, description = "`queue_not_found`", body = ErrorEnvelope),
        (
            status = 422, body = ErrorEnvelope,
            description = "`invalid_request`, `invalid_cursor`, `invalid_filter` or `filter_too_large`",
        ),
    ),
)]
pub(crate) async fn list_tasks(State(state): State<AppState>, call: Call) -> Outcome {
    let ListTasks { selectors, order, limit, cursor } = call.query().list_tasks()?;
    let queue = call.queue()?;
    let selection = cursor_first(cursor.as_deref(), selectors.selection())?;
    let binding = selection.binding(Resource::TaskList, &queue, &order.shape());
    let after = position(&binding, cursor.as_deref())?;
    let page = state.store().list_tasks(&queue, TaskQuery { selection, order, limit, after }).await?;
    let next = page.next.map(|next| binding.encode(&next));
    Ok(respond::written(|out| {
        out.reserve(page.items.iter().map(write::task_bytes).sum());
        write::page(out, &page.items, next.as_deref(), write::task);
    }))
}

/// Lists worker observations.
#[utoipa::path(
    get, path = "/api/v2/queues/{queue}/workers", tag = "workers", params(QueuePath, ListWorkersQuery),
    responses(
        (status = 200, description = "One page, ordered by id.", body = ObservationPage),
        (status = 404, description = "`queue_not_found`", body = ErrorEnvelope),
        (
            status = 422, body = ErrorEnvelope,
            description = "`invalid_request`, `invalid_cursor`, `invalid_filter` or `filter_too_large`",
        ),
    ),
)]
pub(crate) async fn list_workers(State(state): State<AppState>, call: Call) -> Outcome {
    let ListWorkers { filter, limit, cursor } = call.query().list_workers()?;
    let queue = call.queue()?;
    let filter = filter.as_deref().map(ObservationFilter::parse).transpose();
    let filter = cursor_first(cursor.as_deref(), filter)?;
    let binding = observation_binding(filter.as_ref(), Resource::WorkerList, &queue, "");
    let after = position(&binding, cursor.as_deref())?;
    let page = state.store().list_workers(&queue, ObservationQuery { filter, limit, after }).await?;
    let next = page.next.map(|next| binding.encode(&next));
    Ok(respond::written(|out| write::page(out, &page.items, next.as_deref(), write::observation)))
}

/// A cursor is bound to the text of a filter that was valid when it was made. With a filter that is not, no cursor can
/// be right, and the cursor is what has to be reported.
fn cursor_first<T>(cursor: Option<&str>, parsed: Result<T, FilterError>) -> Result<T, ApiError> {
    parsed.map_err(|error| if cursor.is_some() { InvalidCursor.into() } else { error.into() })
}

fn position(binding: &Binding, cursor: Option<&str>) -> Result<Option<Position>, ApiError> {
    Ok(cursor.map(|text| binding.decode(text)).transpose()?)
}

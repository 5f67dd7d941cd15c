//! Counts of tasks and of observations, plain or grouped. The cursor of a grouped count is checked last of all, by the
//! store, after the queue was found.

use axum::extract::State;
use axum::response::Response;
use taskqueue_api::error::ErrorEnvelope;
use taskqueue_api::lists::{self, Count, CountAnswer};
use taskqueue_api::parameters::{CountTasksQuery, CountWorkersQuery, QueuePath};
use taskqueue_api::paths;
use taskqueue_core::cursor::{Binding, Resource};
use taskqueue_core::filter::ObservationFilter;
use taskqueue_core::grouping::{GroupPage, GroupQuery, TaskDimension, WorkerDimension};
use taskqueue_core::limits::NAME_CHARS;
use taskqueue_core::selection::observation_binding;
use taskqueue_store::StoreExt;

use super::HandlerResult;
use crate::extract::{Call, read_filter};
use crate::memory_budget::ReadRoom;
use crate::respond;
use crate::state::AppState;

/// The bytes of a group without its route: status, count and the names of the fields.
const GROUP_BYTES: usize = 128;

/// Counts tasks, by group if `group_by` is given.
#[utoipa::path(
    get, path = paths::TASK_COUNT, tag = "tasks", params(QueuePath, CountTasksQuery),
    responses(
        (status = 200, description = "A count, or one page of groups.", body = CountAnswer),
        (status = 404, description = "`queue_not_found`", body = ErrorEnvelope),
        (
            status = 422, body = ErrorEnvelope,
            description = "`invalid_request`, `invalid_cursor`, `invalid_filter` or `filter_too_large`",
        ),
    ),
)]
pub(crate) async fn count_tasks(State(state): State<AppState>, call: Call) -> HandlerResult {
    let (selectors, grouping) = call.query().count_tasks()?;
    let queue = call.queue()?;
    let selection = selectors.selection(&state).await?;
    let Some(grouping) = grouping else {
        let count = state.store().count_tasks(&queue, selection).await?;
        return Ok(respond::written(|out| Count::write(out, count)));
    };
    let binding = selection.binding(Resource::TaskGroups, &queue, &grouping.shape);
    let words: Vec<&str> = grouping.dimensions.iter().map(|dimension| TaskDimension::as_str(*dimension)).collect();
    let after = grouping.cursor.map(|cursor| binding.decode(&cursor));
    let query = GroupQuery { selection, dimensions: grouping.dimensions, limit: grouping.limit, after };
    let room = state.budgets().reserve_page(groups_bytes(query.limit)).await?;
    let page = state.store().group_tasks(&queue, query).await?;
    Ok(grouped(&binding, &words, &page, room))
}

/// Counts worker observations, by group if `group_by` is given.
#[utoipa::path(
    get, path = paths::WORKER_COUNT, tag = "workers", params(QueuePath, CountWorkersQuery),
    responses(
        (status = 200, description = "A count, or one page of groups.", body = CountAnswer),
        (status = 404, description = "`queue_not_found`", body = ErrorEnvelope),
        (
            status = 422, body = ErrorEnvelope,
            description = "`invalid_request`, `invalid_cursor`, `invalid_filter` or `filter_too_large`",
        ),
    ),
)]
pub(crate) async fn count_workers(State(state): State<AppState>, call: Call) -> HandlerResult {
    let (filter, grouping) = call.query().count_workers()?;
    let queue = call.queue()?;
    let filter = match filter {
        Some(text) => Some(read_filter(&state, text, ObservationFilter::parse).await?),
        None => None,
    };
    let Some(grouping) = grouping else {
        let count = state.store().count_workers(&queue, filter).await?;
        return Ok(respond::written(|out| Count::write(out, count)));
    };
    let binding = observation_binding(filter.as_ref(), Resource::WorkerGroups, &queue, &grouping.shape);
    let words: Vec<&str> = grouping.dimensions.iter().map(|dimension| WorkerDimension::as_str(*dimension)).collect();
    let after = grouping.cursor.map(|cursor| binding.decode(&cursor));
    let query = GroupQuery { selection: filter, dimensions: grouping.dimensions, limit: grouping.limit, after };
    let room = state.budgets().reserve_page(groups_bytes(query.limit)).await?;
    let page = state.store().group_workers(&queue, query).await?;
    Ok(grouped(&binding, &words, &page, room))
}

/// The largest size of a page with this many groups, in memory and as JSON together. The largest page takes less than the
/// largest task, so it is never made shorter.
fn groups_bytes(limit: u16) -> usize {
    usize::from(limit) * 2 * (GROUP_BYTES + NAME_CHARS)
}

fn grouped(binding: &Binding, dimensions: &[&str], page: &GroupPage, room: ReadRoom) -> Response {
    let next = page.next.as_ref().map(|next| binding.encode(next));
    let mut body = Vec::new();
    lists::GroupPage::write(&mut body, dimensions, page, next.as_deref());
    respond::read(room, body)
}

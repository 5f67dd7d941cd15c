//! Lists and counts of tasks and of observations. A list is read one page at a time, and reports a bad cursor before a bad filter.
//! Pages are the largest answers: when memory is scarce they are shorter than the limit asked for, and end with a cursor. A count is
//! plain or grouped; the store checks the cursor of a grouped one last of all, after the queue was found.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use taskqueue_api::lists::{self, Count, CountAnswer, write_page};
use taskqueue_api::parameters::{
    CountTasksQuery, CountWorkersQuery, ListTasksQuery, ListWorkersQuery, QueuePath, TaskSelectors,
};
use taskqueue_api::paths;
use taskqueue_api::task::TaskPage;
use taskqueue_api::worker::{ObservationPage, write_observation};
use taskqueue_core::cursor::{Binding, InvalidCursor, Position, Resource};
use taskqueue_core::filter::FilterError;
use taskqueue_core::grouping::{GroupPage, GroupQuery, TaskDimension, WorkerDimension};
use taskqueue_core::limits::{NAME_CHARS, PAGE_BYTES, REPORT_METADATA_BYTES, TELEMETRY_BYTES};
use taskqueue_core::selection::observation_binding;
use taskqueue_core::{Observation, ObservationFilter, ObservationQuery, TaskQuery};
use taskqueue_store::StoreExt;
use taskqueue_store::page::WrittenTasks;

use super::HandlerResult;
use crate::error::ApiError;
use crate::extract::{Call, ListTasks, ListWorkers, read_given_filter};
use crate::memory_budget::{AnswerRoom, TASK_BYTES};
use crate::respond;
use crate::state::AppState;

/// An observation without its metadata and telemetry, roughly: eight short fields.
const OBSERVATION_FRAME_BYTES: usize = 512;
/// The largest observation, in memory and as JSON together.
const OBSERVATION_BYTES: usize = 2 * (REPORT_METADATA_BYTES + TELEMETRY_BYTES + OBSERVATION_FRAME_BYTES);
/// The bytes around the items of a page, cursor included: a cursor may carry a name of 256 characters.
const FRAME_BYTES: usize = 4096;

/// Lists tasks.
#[utoipa::path(
    get, path = paths::TASKS, tag = "tasks", params(QueuePath, TaskSelectors, ListTasksQuery),
    responses((status = 200, description = "One page.", body = TaskPage)),
)]
pub(crate) async fn list_tasks(State(state): State<AppState>, call: Call) -> HandlerResult {
    let ListTasks { selectors, order, limit, cursor } = call.query().list_tasks()?;
    let queue = call.queue()?;
    let selection = cursor_first(cursor.as_deref(), selectors.selection(&state).await)?;
    let binding = selection.binding(Resource::TaskList, &queue, &order.shape());
    let after = position(&binding, cursor.as_deref())?;
    let room = state.budgets.reserve_page((usize::from(limit) * TASK_BYTES).min(PAGE_BYTES) + FRAME_BYTES).await?;
    let max_bytes = room.answer.bytes().saturating_sub(FRAME_BYTES);
    let query = TaskQuery { selection, order, limit, after, max_bytes };
    let WrittenTasks { mut bytes, next } = state.store.list_tasks(&queue, query, Arc::new(TaskPage::append)).await?;
    TaskPage::end(&mut bytes, next.map(|next| binding.encode(&next)).as_deref());
    Ok(respond::large(room.answer, bytes))
}

/// Lists worker observations.
#[utoipa::path(
    get, path = paths::WORKERS, tag = "workers", params(QueuePath, ListWorkersQuery),
    responses((status = 200, description = "One page, ordered by id.", body = ObservationPage)),
)]
pub(crate) async fn list_workers(State(state): State<AppState>, call: Call) -> HandlerResult {
    let ListWorkers { filter, limit, cursor } = call.query().list_workers()?;
    let queue = call.queue()?;
    let filter = read_given_filter(&state, filter, ObservationFilter::parse).await;
    let filter = cursor_first(cursor.as_deref(), filter)?;
    let binding = observation_binding(filter.as_ref(), Resource::WorkerList, &queue, "");
    let after = position(&binding, cursor.as_deref())?;
    let room = state.budgets.reserve_page(usize::from(limit) * OBSERVATION_BYTES + FRAME_BYTES).await?;
    // As many of the largest size as fit.
    let fitting = room.answer.bytes().saturating_sub(FRAME_BYTES) / OBSERVATION_BYTES;
    let limit = u16::try_from(fitting).unwrap_or(u16::MAX).max(1).min(limit);
    let page = state.store.list_workers(&queue, ObservationQuery { filter, limit, after }).await?;
    let next = page.next.map(|next| binding.encode(&next));
    let documents: usize = page.items.iter().map(document_bytes).sum();
    let mut body = Vec::with_capacity(FRAME_BYTES + page.items.len() * OBSERVATION_FRAME_BYTES + documents);
    write_page(&mut body, &page.items, next.as_deref(), write_observation);
    Ok(respond::large(room.answer, body))
}

/// Returns the bytes of the metadata and the telemetry of an observation.
fn document_bytes(observation: &Observation) -> usize {
    let telemetry = observation.telemetry.as_ref().map_or(0, |telemetry| telemetry.value.as_str().len());
    observation.report.metadata.as_str().len() + telemetry
}

/// Reports an invalid filter as an invalid cursor if there is a cursor: cursors are made for valid filters only, so the cursor
/// belongs to another filter.
fn cursor_first<T>(cursor: Option<&str>, parsed: Result<T, FilterError>) -> Result<T, ApiError> {
    parsed.map_err(|error| if cursor.is_some() { InvalidCursor.into() } else { error.into() })
}

fn position(binding: &Binding, cursor: Option<&str>) -> Result<Option<Position>, ApiError> {
    Ok(cursor.map(|text| binding.decode(text)).transpose()?)
}

/// The bytes of a group without its route: status, count and the names of the fields.
const GROUP_BYTES: usize = 128;

/// Counts tasks, by group if `group_by` is given.
#[utoipa::path(
    get, path = paths::TASK_COUNT, tag = "tasks", params(QueuePath, TaskSelectors, CountTasksQuery),
    responses((status = 200, description = "A count, or one page of groups.", body = CountAnswer)),
)]
pub(crate) async fn count_tasks(State(state): State<AppState>, call: Call) -> HandlerResult {
    let (selectors, grouping) = call.query().count_tasks()?;
    let queue = call.queue()?;
    let selection = selectors.selection(&state).await?;
    let Some(grouping) = grouping else {
        let count = state.store.count_tasks(&queue, selection).await?;
        return Ok(respond::written(|out| Count { count }.write(out)));
    };
    let binding = selection.binding(Resource::TaskGroups, &queue, &grouping.shape);
    let words: Vec<&str> = grouping.dimensions.iter().map(|dimension| TaskDimension::as_str(*dimension)).collect();
    let after = grouping.cursor.map(|cursor| binding.decode(&cursor));
    let query = GroupQuery { selection, dimensions: grouping.dimensions, limit: grouping.limit, after };
    let room = state.budgets.reserve_page(groups_bytes(query.limit)).await?;
    let page = state.store.group_tasks(&queue, query).await?;
    Ok(grouped(&binding, &words, &page, room))
}

/// Counts worker observations, by group if `group_by` is given.
#[utoipa::path(
    get, path = paths::WORKER_COUNT, tag = "workers", params(QueuePath, CountWorkersQuery),
    responses((status = 200, description = "A count, or one page of groups.", body = CountAnswer)),
)]
pub(crate) async fn count_workers(State(state): State<AppState>, call: Call) -> HandlerResult {
    let (filter, grouping) = call.query().count_workers()?;
    let queue = call.queue()?;
    let filter = read_given_filter(&state, filter, ObservationFilter::parse).await?;
    let Some(grouping) = grouping else {
        let count = state.store.count_workers(&queue, filter).await?;
        return Ok(respond::written(|out| Count { count }.write(out)));
    };
    let binding = observation_binding(filter.as_ref(), Resource::WorkerGroups, &queue, &grouping.shape);
    let words: Vec<&str> = grouping.dimensions.iter().map(|dimension| WorkerDimension::as_str(*dimension)).collect();
    let after = grouping.cursor.map(|cursor| binding.decode(&cursor));
    let query = GroupQuery { selection: filter, dimensions: grouping.dimensions, limit: grouping.limit, after };
    let room = state.budgets.reserve_page(groups_bytes(query.limit)).await?;
    let page = state.store.group_workers(&queue, query).await?;
    Ok(grouped(&binding, &words, &page, room))
}

/// Returns the largest size of a page with this many groups, in memory and as JSON together. The largest page takes less than the
/// largest task, so it is never made shorter.
fn groups_bytes(limit: u16) -> usize {
    usize::from(limit) * 2 * (GROUP_BYTES + NAME_CHARS)
}

fn grouped(binding: &Binding, dimensions: &[&str], page: &GroupPage, room: AnswerRoom) -> Response {
    let next = page.next.as_ref().map(|next| binding.encode(next));
    let mut body = Vec::new();
    lists::write_groups(&mut body, dimensions, page, next.as_deref());
    respond::large(room.answer, body)
}

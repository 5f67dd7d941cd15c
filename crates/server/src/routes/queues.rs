//! Queues: create, list, delete.

use axum::extract::State;
use hyper::StatusCode;
use taskqueue_api::error::ErrorEnvelope;
use taskqueue_api::parameters::{DeleteQueueQuery, QueuePath};
use taskqueue_api::paths;
use taskqueue_api::queue::Queue;
use taskqueue_store::StoreExt;
use taskqueue_store::command::{CreateQueue, DeleteQueue};

use super::{HandlerResult, empty_answer};
use crate::extract::Call;
use crate::respond;
use crate::state::AppState;

/// The bytes of a queue without its name: `{"name":""},` in the answer, a counted pointer in memory.
const QUEUE_BYTES: usize = 32;

/// Makes sure that a queue exists.
#[utoipa::path(
    put, path = paths::QUEUE, tag = "queues", params(QueuePath),
    responses(
        (status = 200, description = "It was there already.", body = Queue),
        (status = 201, description = "It was created.", body = Queue),
        (status = 422, description = "`invalid_request`: the name", body = ErrorEnvelope),
    ),
)]
pub(crate) async fn create_queue(State(state): State<AppState>, call: Call) -> HandlerResult {
    let queue = call.queue()?;
    let create = CreateQueue { queue: queue.clone(), retention: state.default_retention() };
    let created = state.store().write(create).await?;
    let mut response = respond::written(|out| Queue::write(out, &queue));
    if created {
        *response.status_mut() = StatusCode::CREATED;
    }
    Ok(response)
}

/// Lists all queues that the token may see.
#[utoipa::path(
    get, path = paths::QUEUES, tag = "queues",
    responses((status = 200, description = "These queues, sorted by name.", body = Vec<Queue>)),
)]
pub(crate) async fn list_queues(State(state): State<AppState>, call: Call) -> HandlerResult {
    let mut reservation = state.budgets().reserve_queue_list().await?;
    let mut queues = state.store().list_queues().await?;
    queues.retain(|queue| call.sees(queue));
    let bytes = queues.iter().map(|queue| QUEUE_BYTES + queue.as_str().len()).sum();
    // The names and their JSON.
    state.budgets().grow_queue_list(&mut reservation, 2 * bytes).await?;
    let mut body = Vec::with_capacity(bytes);
    Queue::write_all(&mut body, &queues);
    Ok(respond::large(reservation, body))
}

/// Deletes a queue.
///
/// A queue that has tasks needs `cascade`; a running task blocks the deletion in any case.
#[utoipa::path(
    delete, path = paths::QUEUE, tag = "queues", params(QueuePath, DeleteQueueQuery),
    responses(
        (status = 204, description = "It was deleted."),
        (status = 404, description = "`queue_not_found`", body = ErrorEnvelope),
        (status = 409, description = "`queue_not_empty` or `queue_has_running_tasks`", body = ErrorEnvelope),
        (status = 422, description = "`invalid_request`: the name or `cascade`", body = ErrorEnvelope),
    ),
)]
pub(crate) async fn delete_queue(State(state): State<AppState>, call: Call) -> HandlerResult {
    let cascade = call.query().delete_queue()?;
    let queue = call.queue()?;
    empty_answer(&state, call, DeleteQueue { queue, cascade }).await
}

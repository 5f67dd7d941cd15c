//! Queues: create, list, delete; their settings and their stats.

use axum::extract::State;
use hyper::StatusCode;
use taskqueue_api::error::ErrorEnvelope;
use taskqueue_api::parameters::{DeleteQueueQuery, QueuePath, StatsQuery};
use taskqueue_api::paths;
use taskqueue_api::queue::{Queue, QueueSettingsSchema, SettingsPatchSchema};
use taskqueue_api::stats::{Series, Stats, StatsAnswer};
use taskqueue_core::limits::STATS_ROUTES;
use taskqueue_core::{RouteSelection, SettingsPatch};
use taskqueue_store::StoreExt;
use taskqueue_store::command::{ChangeSettings, CreateQueue, DeleteQueue};

use super::{HandlerResult, empty_answer};
use crate::extract::Call;
use crate::memory_budget::STATS_BYTES;
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
    let create = CreateQueue { queue: queue.clone(), retention: state.limits.default_retention };
    let created = state.store.write(create).await?;
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
    let mut reservation = state.budgets.reserve_queue_list().await?;
    let mut queues = state.store.list_queues().await?;
    queues.retain(|queue| call.sees(queue));
    let bytes = queues.iter().map(|queue| QUEUE_BYTES + queue.as_str().len()).sum();
    // The names and their JSON.
    state.budgets.grow_queue_list(&mut reservation, 2 * bytes).await?;
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
        (status = 422, description = "`invalid_request`: the name or `cascade`", body = ErrorEnvelope),
    ),
)]
pub(crate) async fn delete_queue(State(state): State<AppState>, call: Call) -> HandlerResult {
    let cascade = call.query().delete_queue()?;
    let queue = call.queue()?;
    empty_answer(&state, call, DeleteQueue { queue, cascade }).await
}

/// How much of a queue is claimed, and how long ended tasks are kept.
#[utoipa::path(
    get, path = paths::SETTINGS, tag = "queues", params(QueuePath),
    responses(
        (status = 200, description = "All settings.", body = QueueSettingsSchema),
        (status = 422, description = "`invalid_request`: the name", body = ErrorEnvelope),
    ),
)]
pub(crate) async fn get_settings(State(state): State<AppState>, call: Call) -> HandlerResult {
    let queue = call.queue()?;
    // The limits of all routes take some 40 KiB at most, which is less than a task may take.
    let reservation = state.budgets.reserve_task().await?;
    let settings = state.store.queue_settings(&queue).await?;
    Ok(respond::large(reservation, settings.to_json().into_bytes()))
}

/// Changes settings of a queue by a JSON merge patch (RFC 7396): what it does not name stays, and null sets the default.
#[utoipa::path(
    patch, path = paths::SETTINGS, tag = "queues", params(QueuePath), request_body = SettingsPatchSchema,
    responses((status = 200, description = "All settings as they are now.", body = QueueSettingsSchema)),
)]
pub(crate) async fn change_settings(State(state): State<AppState>, call: Call) -> HandlerResult {
    let patch: SettingsPatch = call.body(&state).await?;
    let queue = call.queue()?;
    // What is done must be answered.
    let reservation = state.budgets.reserve_task().await?;
    let settings = state.store.write_holding(ChangeSettings { queue, patch: patch.into() }, call.into_held()).await?;
    Ok(respond::large(reservation, settings.to_json().into_bytes()))
}

/// What is going on in a queue: tasks, routes and workers now, and what happened in the last hour. With `series`, what happened
/// in each minute or hour.
#[utoipa::path(
    get, path = paths::STATS, tag = "queues", params(QueuePath, StatsQuery),
    responses((status = 200, description = "Stats, or a series.", body = StatsAnswer)),
)]
pub(crate) async fn queue_stats(State(state): State<AppState>, call: Call) -> HandlerResult {
    let series = call.query().stats()?;
    let queue = call.queue()?;
    let room = state.budgets.reserve_read(STATS_BYTES).await?;
    let (mut body, routes) = (Vec::new(), RouteSelection::first(STATS_ROUTES));
    match series {
        None => Stats::of(&state.store.queue_stats(&queue, &routes).await?).write(&mut body),
        Some(selection) => Series::of(&state.store.activity_series(&queue, selection).await?).write(&mut body),
    }
    Ok(respond::large(room.answer, body))
}

//! Single tasks, the bulk update, and actions on all tasks that match a filter (the extension `bulk-actions`).

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use hyper::StatusCode;
use hyper::header::{HeaderName, HeaderValue};
use taskqueue_api::bulk_action::{Acted, BulkActionRequest};
use taskqueue_api::error::ErrorEnvelope;
use taskqueue_api::explain::{ExplanationSchema, write_explanation};
use taskqueue_api::headers::WARNINGS;
use taskqueue_api::lists::Updated;
use taskqueue_api::parameters::{QueuePath, TaskPath};
use taskqueue_api::paths;
use taskqueue_api::task::{BulkUpdateRequest, CreateTaskRequest, Creation, TaskSchema, UpdateTaskRequest};
use taskqueue_core::explain::DEPENDENCY_CYCLE;
use taskqueue_core::lifecycle::TaskAction;
use taskqueue_core::{BulkAction, Status, TaskFilter, Update, task};
use taskqueue_store::StoreExt;
use taskqueue_store::command::{self, ActOnTask, ActOnTasks, CreateTask, CreatedTask, DeleteTask, NewTask, UpdateTask};
use taskqueue_store::dependency_cycle::{TIME_LIMIT, explain, find_cycle};

use super::{HandlerResult, empty_answer, task_answer};
use crate::extract::{Call, read_filter};
use crate::respond;
use crate::state::AppState;

/// The bytes of most explanations.
const EXPLANATION_BYTES: usize = 512;

/// Creates a task, or recognises the repetition of its creation.
#[utoipa::path(
    put, path = paths::TASK, tag = "tasks", params(TaskPath), request_body = CreateTaskRequest,
    responses(
        (status = 200, description = "The task exists with this definition; as it is now.", body = TaskSchema),
        (status = 201, description = "It was created.", body = TaskSchema),
        (
            status = 422, body = ErrorEnvelope,
            description = "`invalid_task`, `invalid_task_name`, `json_too_deep`, `invalid_request`, \
                           `invalid_task_id` or `task_data_too_large`",
        ),
    ),
)]
pub(crate) async fn create_task(State(state): State<AppState>, call: Call) -> HandlerResult {
    let Creation { definition, not_before } = call.body(&state).await?;
    let (queue, id) = call.task()?;
    let reservation = state.budgets.reserve_task().await?;
    let create = CreateTask { queue, id, new: Box::new(NewTask::new(definition, not_before)) };
    let CreatedTask { created, task } = state.store.write_holding(create, call.into_held()).await?;
    let answer = respond::task(if created { StatusCode::CREATED } else { StatusCode::OK }, &task, reservation);
    Ok(warned(&state, &task, answer).await)
}

/// Adds a warning to the answer if the task waits for itself.
async fn warned(state: &AppState, task: &task::Task, mut answer: Response) -> Response {
    let dependencies = task.definition.scheduling.dependencies.as_slice();
    let is_waiting = task.lifecycle.status == Status::Pending && !dependencies.is_empty();
    if is_waiting && find_cycle(&*state.store, &task.queue, task.id, dependencies, TIME_LIMIT).await.is_some() {
        let warning = HeaderValue::from_static(DEPENDENCY_CYCLE);
        answer.headers_mut().insert(HeaderName::from_static(WARNINGS), warning);
    }
    answer
}

/// Reads a task.
#[utoipa::path(
    get, path = paths::TASK, tag = "tasks", params(TaskPath),
    responses((status = 200, description = "The task.", body = TaskSchema)),
)]
pub(crate) async fn get_task(State(state): State<AppState>, call: Call) -> HandlerResult {
    let (queue, id) = call.task()?;
    let reservation = state.budgets.reserve_task().await?;
    let task = state.store.get_task(&queue, id).await?;
    Ok(respond::task(StatusCode::OK, &task, reservation))
}

/// Says why a task is not claimed, the reason that weighs most first.
#[utoipa::path(
    get, path = paths::EXPLAIN, tag = "tasks", params(TaskPath),
    responses((status = 200, description = "The reasons, all of one moment.", body = ExplanationSchema)),
)]
pub(crate) async fn explain_task(State(state): State<AppState>, call: Call) -> HandlerResult {
    let (queue, id) = call.task()?;
    // A task with many routes has a long explanation, and never a longer one than a task may be.
    let reservation = state.budgets.reserve_task().await?;
    let explanation = explain(&*state.store, &queue, id, TIME_LIMIT).await?;
    let mut body = Vec::with_capacity(EXPLANATION_BYTES);
    write_explanation(&mut body, &explanation);
    Ok(respond::large(reservation, body))
}

/// Replaces fields of a task that is not running, or changes members of its args and metadata.
#[utoipa::path(
    patch, path = paths::TASK, tag = "tasks", params(TaskPath), request_body = UpdateTaskRequest,
    responses(
        (status = 200, description = "The task.", body = TaskSchema),
        (
            status = 422, body = ErrorEnvelope,
            description = "`invalid_update`, `invalid_task_name`, `json_too_deep`, `invalid_request`, \
                           `invalid_task_id` or `task_data_too_large`",
        ),
    ),
)]
pub(crate) async fn update_task(State(state): State<AppState>, call: Call) -> HandlerResult {
    let update: Update = call.body(&state).await?;
    let (queue, id) = call.task()?;
    let reservation = state.budgets.reserve_task().await?;
    let changes_dependencies = update.dependencies.is_some();
    let update = UpdateTask { queue, id, update: Box::new(update) };
    let task = state.store.write_holding(update, call.into_held()).await?;
    let answer = respond::task(StatusCode::OK, &task, reservation);
    Ok(if changes_dependencies { warned(&state, &task, answer).await } else { answer })
}

/// Replaces fields of every task that matches and is not running, or of none.
#[utoipa::path(
    patch, path = paths::TASKS, tag = "tasks", params(QueuePath), request_body = BulkUpdateRequest,
    responses(
        (status = 200, description = "How many matched and how many changed.", body = Updated),
        (
            status = 422, body = ErrorEnvelope,
            description = "`invalid_update`, `invalid_filter`, `filter_too_large`, `invalid_task_name`, \
                           `json_too_deep`, `invalid_request`, `task_data_too_large` or `update_too_large`",
        ),
    ),
)]
pub(crate) async fn update_tasks(State(state): State<AppState>, call: Call) -> HandlerResult {
    let BulkUpdateRequest { filter, changes, include_archived } = call.body(&state).await?;
    let queue = call.queue()?;
    let filter = read_filter(&state, filter, TaskFilter::parse).await?;
    let bulk = command::BulkUpdate { queue, selection: Update::selection(filter, include_archived), update: changes };
    let command::Updated { matched, updated } = state.store.update_tasks(Arc::new(bulk)).await?;
    Ok(respond::written(|out| Updated { matched, updated }.write(out)))
}

/// Takes a pending or running task out.
#[utoipa::path(
    post, path = paths::CANCEL, tag = "tasks", params(TaskPath),
    responses((status = 200, description = "The cancelled task.", body = TaskSchema)),
)]
pub(crate) async fn cancel_task(State(state): State<AppState>, call: Call) -> HandlerResult {
    let (queue, id) = call.task()?;
    task_answer(&state, call, ActOnTask { queue, id, action: TaskAction::Cancel }).await
}

/// Starts a pending, failed or cancelled task over.
#[utoipa::path(
    post, path = paths::REQUEUE, tag = "tasks", params(TaskPath),
    responses((status = 200, description = "The pending task.", body = TaskSchema)),
)]
pub(crate) async fn requeue_task(State(state): State<AppState>, call: Call) -> HandlerResult {
    let (queue, id) = call.task()?;
    task_answer(&state, call, ActOnTask { queue, id, action: TaskAction::Requeue }).await
}

/// Deletes a task that is not running.
#[utoipa::path(
    delete, path = paths::TASK, tag = "tasks", params(TaskPath),
    responses((status = 204, description = "It is not there any more.")),
)]
pub(crate) async fn delete_task(State(state): State<AppState>, call: Call) -> HandlerResult {
    let (queue, id) = call.task()?;
    empty_answer(&state, call, DeleteTask { queue, id }).await
}

/// Takes out all pending and running tasks that match, some at a time.
#[utoipa::path(
    post, path = paths::BULK_CANCEL, tag = "tasks", params(QueuePath), request_body = BulkActionRequest,
    responses((status = 200, description = "How many matched and how many changed.", body = Acted)),
)]
pub(crate) async fn cancel_tasks(State(state): State<AppState>, call: Call) -> HandlerResult {
    act_on_tasks(&state, call, BulkAction::Cancel).await
}

/// Starts all failed and cancelled tasks over that match, some at a time.
#[utoipa::path(
    post, path = paths::BULK_REQUEUE, tag = "tasks", params(QueuePath), request_body = BulkActionRequest,
    responses((status = 200, description = "How many matched and how many changed.", body = Acted)),
)]
pub(crate) async fn requeue_tasks(State(state): State<AppState>, call: Call) -> HandlerResult {
    act_on_tasks(&state, call, BulkAction::Requeue).await
}

/// Deletes all tasks that match and are not running, some at a time.
#[utoipa::path(
    post, path = paths::BULK_DELETE, tag = "tasks", params(QueuePath), request_body = BulkActionRequest,
    responses((status = 200, description = "How many matched and how many changed.", body = Acted)),
)]
pub(crate) async fn delete_tasks(State(state): State<AppState>, call: Call) -> HandlerResult {
    act_on_tasks(&state, call, BulkAction::Delete).await
}

async fn act_on_tasks(state: &AppState, call: Call, action: BulkAction) -> HandlerResult {
    let BulkActionRequest { filter, expect, dry_run, include_archived } = call.body(state).await?;
    let queue = call.queue()?;
    let filter = read_filter(state, filter, TaskFilter::parse).await?;
    let act = ActOnTasks { queue, action, selection: action.selection(filter, include_archived), expect, dry_run };
    let command::Acted { matched, changed } = state.store.act_on_tasks(Arc::new(act)).await?;
    Ok(respond::written(|out| Acted { matched, changed }.write(out)))
}

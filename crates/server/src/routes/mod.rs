//! The handlers, one file per part of the contract. Each does the same: understand the request in the order of
//! docs/reference/http-api.md §4, ask the store, write the answer. No rule about tasks lives here. The answers to requests that no route
//! takes are here, too; their bodies are not read, because an unknown path is 404 with any body.

pub(crate) mod batches;
pub(crate) mod discovery;
pub(crate) mod lists;
pub(crate) mod queues;
pub(crate) mod runs;
pub(crate) mod tasks;

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use hyper::StatusCode;
use taskqueue_core::Task;
use taskqueue_store::StoreExt;
use taskqueue_store::command::Command;

use crate::error::ApiError;
use crate::extract::{Call, discard};
use crate::respond;
use crate::state::AppState;

pub(crate) type HandlerResult = Result<Response, ApiError>;

/// Executes a command that answers with a task. Memory for the answer is reserved first: what is done must be answered.
async fn task_answer(state: &AppState, call: Call, command: impl Command<Answer = Box<Task>>) -> HandlerResult {
    let reservation = state.budgets.reserve_task().await?;
    let task = state.store.write_holding(command, call.into_held()).await?;
    Ok(respond::task(StatusCode::OK, &task, reservation))
}

/// Executes a command that answers nothing.
async fn empty_answer(state: &AppState, call: Call, command: impl Command<Answer = ()>) -> HandlerResult {
    state.store.write_holding(command, call.into_held()).await?;
    Ok(respond::no_content())
}

/// Answers a request for a path that does not exist.
pub(crate) async fn unknown_path(request: Request) -> Response {
    let answer = ApiError::unknown_path(request.uri().path());
    discard(request.into_body());
    answer.into_response()
}

/// Answers a request for a page that exists, but not for its method. `pages.rs` completes the answer: only there `Allow` is known.
pub(crate) async fn other_method(request: Request) -> Response {
    discard(request.into_body());
    StatusCode::METHOD_NOT_ALLOWED.into_response()
}

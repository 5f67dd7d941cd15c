//! The handlers, one file per part of the contract. Each does the same: understand the request in the order of
//! docs/reference/http-api.md §4, ask the store, write the answer. No rule about tasks lives here.

pub(crate) mod batches;
pub(crate) mod bulk_actions;
pub(crate) mod counts;
pub(crate) mod discovery;
pub(crate) mod fallback;
pub(crate) mod lists;
pub(crate) mod metrics;
pub(crate) mod output;
pub(crate) mod probes;
pub(crate) mod queues;
pub(crate) mod runs;
pub(crate) mod settings;
pub(crate) mod stats;
pub(crate) mod tasks;
pub(crate) mod workers;

use axum::response::Response;
use hyper::StatusCode;
use taskqueue_core::task::Task;
use taskqueue_store::StoreExt;
use taskqueue_store::command::Command;

use crate::error::ApiError;
use crate::extract::Call;
use crate::respond;
use crate::state::AppState;

pub(crate) type HandlerResult = Result<Response, ApiError>;

/// Executes a command that answers with a task. Memory for the answer is reserved first: what is done must be answered.
async fn task_answer(state: &AppState, call: Call, command: impl Command<Answer = Box<Task>>) -> HandlerResult {
    let reservation = state.budgets().reserve_task().await?;
    let task = state.store().write_holding(command, call.into_held()).await?;
    Ok(respond::task(StatusCode::OK, &task, reservation))
}

/// Executes a command that answers nothing.
async fn empty_answer(state: &AppState, call: Call, command: impl Command<Answer = ()>) -> HandlerResult {
    state.store().write_holding(command, call.into_held()).await?;
    Ok(respond::no_content())
}

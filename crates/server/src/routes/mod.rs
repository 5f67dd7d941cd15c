//! The handlers, one file per part of the contract. Each does the same: understand the request in the order of section 5
//! of decisions.md, ask the store, write the answer. No rule about tasks lives here.

pub(crate) mod counts;
pub(crate) mod discovery;
pub(crate) mod fallback;
pub(crate) mod lists;
pub(crate) mod queues;
pub(crate) mod runs;
pub(crate) mod tasks;
pub(crate) mod workers;

use axum::response::Response;
use hyper::StatusCode;
use taskqueue_store::command::{Answer, Command};

use crate::error::ApiError;
use crate::respond;
use crate::state::AppState;

/// What a handler gives.
pub(crate) type Outcome = Result<Response, ApiError>;

/// Does a write that answers with a task. Room for the answer comes first: what is done must be told.
async fn write_task(state: &AppState, command: Command) -> Outcome {
    let share = state.budgets().reserve_task().await?;
    match state.store().write(command).await? {
        Answer::Task { created, task } => {
            Ok(respond::task(if created { StatusCode::CREATED } else { StatusCode::OK }, &task, share))
        }
        _ => Err(ApiError::unexpected_answer()),
    }
}

/// Does a write that has nothing to tell.
async fn write_done(state: &AppState, command: Command) -> Outcome {
    match state.store().write(command).await? {
        Answer::Done => Ok(respond::no_content()),
        _ => Err(ApiError::unexpected_answer()),
    }
}

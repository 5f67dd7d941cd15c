//! Builds answers: JSON, or no content. An answer that may be large holds the memory that was reserved for it until its last
//! byte is sent.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use taskqueue_api::headers::JSON;
use taskqueue_api::task::Task;
use taskqueue_core::task;

use crate::memory_budget::Reservation;

/// Returns an answer with a body that is already JSON.
pub(crate) fn json(status: StatusCode, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    response
}

/// Returns a small answer, whose body `write` appends.
pub(crate) fn written(write: impl FnOnce(&mut Vec<u8>)) -> Response {
    let mut body = Vec::with_capacity(128);
    write(&mut body);
    json(StatusCode::OK, body)
}

/// Returns an answer that may be large.
pub(crate) fn large(reservation: Reservation, body: Vec<u8>) -> Response {
    json(StatusCode::OK, reservation.attach_to(body))
}

/// Returns an answer with a task.
pub(crate) fn task(status: StatusCode, task: &task::Task, reservation: Reservation) -> Response {
    let mut body = Vec::with_capacity(Task::expected_bytes(task));
    Task::write(&mut body, &task.view());
    json(status, reservation.attach_to(body))
}

/// Returns an answer without content: 204.
pub(crate) fn no_content() -> Response {
    StatusCode::NO_CONTENT.into_response()
}

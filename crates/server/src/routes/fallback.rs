//! Answers to requests that no route takes. Their bodies are not read: an unknown path is 404 with any body.

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use hyper::StatusCode;

use crate::error::ApiError;
use crate::extract::discard;

/// No such path.
pub(crate) async fn unknown_path(request: Request) -> Response {
    let answer = ApiError::unknown_path(request.uri().path());
    discard(request.into_body());
    answer.into_response()
}

/// The path exists, but not for this method. `http_service.rs` completes the answer: only there `Allow` is known.
pub(crate) async fn other_method(request: Request) -> Response {
    discard(request.into_body());
    StatusCode::METHOD_NOT_ALLOWED.into_response()
}

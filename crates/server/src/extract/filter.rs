//! The filter of a request: a long one is read away from the threads that serve other requests, as large batches are.

use taskqueue_core::filter::{Filter, FilterError};

use super::batch::in_turn;
use crate::state::AppState;

/// Up to this many bytes are read where they are: some dozens of predicates, which is more than people write. Reading a filter also
/// plans how it is evaluated, so for each byte it takes many times as long as reading a body.
const INLINE_BYTES: usize = 1024;

/// Reads a filter, with `parse` of its kind.
pub(crate) async fn read_filter<P: Send + 'static>(
    state: &AppState,
    text: impl AsRef<str> + Send + 'static,
    parse: fn(&str) -> Result<Filter<P>, FilterError>,
) -> Result<Filter<P>, FilterError> {
    match text.as_ref().len() {
        0..=INLINE_BYTES => parse(text.as_ref()),
        _ => in_turn(state, move || parse(text.as_ref())).await,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::body::Body;
    use hyper::{Request, StatusCode};
    use taskqueue_core::time::Timestamp;
    use taskqueue_store::clock::ManualClock;
    use taskqueue_store::model::ModelStore;

    use super::*;
    use crate::http_service::{HttpService, service};

    fn request(method: &str, path: &str, body: &str) -> Request<Body> {
        let request = Request::builder().method(method).uri(path).header("host", "localhost");
        request.header("content-type", "application/json").body(Body::from(body.to_owned())).unwrap()
    }

    /// Lets everything else on this thread go on until it waits for something.
    async fn settle() {
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
    }

    async fn status(http: &HttpService, method: &str, path: &str, body: &str) -> StatusCode {
        http.call(request(method, path, body)).await.status()
    }

    /// Every endpoint that takes a filter, while others use all cores for large bodies and answers. Short ones wait for nobody.
    #[tokio::test]
    async fn a_long_filter_waits_for_its_turn_and_nobody_else_does() {
        let store = ModelStore::new(Arc::new(ManualClock::new(Timestamp::from_micros(1_000_000))));
        let state = AppState::new(Arc::new(store), None);
        let http = Arc::new(service(state.clone()));
        assert_eq!(status(&http, "PUT", "/api/v2/queues/q", "").await, StatusCode::CREATED);
        let turns = state.budgets().all_turns().await;
        let long = format!("id=='x'{}", "or%20id=='x'".repeat(600));
        let body = |filter: &str, rest: &str| format!(r#"{{"filter":"{}"{rest}}}"#, filter.replace("%20", " "));
        let with = |filter: &str| {
            let at = |path: &str| format!("/api/v2/queues/q/{path}?filter={filter}");
            [
                ("GET", at("tasks"), String::new()),
                ("GET", at("tasks/count"), String::new()),
                ("GET", at("workers"), String::new()),
                ("GET", at("workers/count"), String::new()),
                ("PATCH", "/api/v2/queues/q/tasks".to_owned(), body(filter, r#","changes":{"priority":1}"#)),
                ("POST", "/api/v2/queues/q/tasks/bulk/cancel".to_owned(), body(filter, "")),
            ]
        };
        let mut waiting = Vec::new();
        for (method, path, body) in with(&long) {
            let http = Arc::clone(&http);
            waiting.push((method, tokio::spawn(async move { status(&http, method, &path, &body).await })));
        }
        settle().await;
        assert_eq!(status(&http, "GET", "/health", "").await, StatusCode::OK);
        for (method, path, body) in with("id=='x'") {
            assert_eq!(status(&http, method, &path, &body).await, StatusCode::OK, "{method} {path}");
        }
        settle().await;
        for (number, (method, waits)) in waiting.iter().enumerate() {
            assert!(!waits.is_finished(), "request {number}, {method}, was read between those of others");
        }
        drop(turns);
        for (method, waited) in waiting {
            assert_eq!(waited.await.unwrap(), StatusCode::OK, "{method}");
        }
    }
}

//! The filter of a request: a long one is read away from the threads that serve other requests, as large batches are.

use taskqueue_core::filter::{Filter, FilterError};
use tokio::sync::OwnedSemaphorePermit;

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
    let bytes = text.as_ref().len();
    match filter_turn(state, bytes).await {
        None => parse(text.as_ref()),
        turn => in_turn(turn, move || parse(text.as_ref())).await,
    }
}

/// The turn in which a filter of so many bytes is read, on a thread that serves no requests; none if it is read where it is.
pub(crate) async fn filter_turn(state: &AppState, bytes: usize) -> Option<OwnedSemaphorePermit> {
    if bytes <= INLINE_BYTES { None } else { state.budgets().turn().await }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::body::{Body, to_bytes};
    use hyper::{Request, StatusCode};
    use taskqueue_core::time::Timestamp;
    use taskqueue_dashboard::Mode;
    use taskqueue_store::InstallationSecret;
    use taskqueue_store::clock::ManualClock;
    use taskqueue_store::model::ModelStore;

    use super::*;
    use crate::http_service::{HttpService, service};

    /// A request with a filter (method, target and body), and the status of its answer.
    type WithFilter = (&'static str, String, String, StatusCode);

    fn request(method: &str, path: &str, body: &str) -> Request<Body> {
        let is_page = path.starts_with("/ui/");
        let kind = if is_page { "application/x-www-form-urlencoded" } else { "application/json" };
        let request = Request::builder().method(method).uri(path).header("host", "localhost");
        request.header("content-type", kind).body(Body::from(body.to_owned())).unwrap()
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

    /// The secret that forms carry.
    async fn form_token(http: &HttpService) -> String {
        let page = http.call(request("GET", "/ui/", "")).await.into_body();
        let page = String::from_utf8(to_bytes(page, usize::MAX).await.unwrap().to_vec()).unwrap();
        let (_, rest) = page.split_once("name=\"form_token\" value=\"").unwrap();
        rest.split('"').next().unwrap().to_owned()
    }

    /// Every endpoint that takes a filter.
    fn endpoints(filter: &str) -> Vec<WithFilter> {
        let at = |path: &str| format!("/api/v2/queues/q/{path}?filter={filter}");
        let body = |rest: &str| format!(r#"{{"filter":"{}"{rest}}}"#, filter.replace("%20", " "));
        let all = [
            ("GET", at("tasks"), String::new()),
            ("GET", at("tasks/count"), String::new()),
            ("GET", at("workers"), String::new()),
            ("GET", at("workers/count"), String::new()),
            ("PATCH", "/api/v2/queues/q/tasks".to_owned(), body(r#","changes":{"priority":1}"#)),
            ("POST", "/api/v2/queues/q/tasks/bulk/cancel".to_owned(), body("")),
        ];
        all.into_iter().map(|(method, path, body)| (method, path, body, StatusCode::OK)).collect()
    }

    /// Every page and every form that takes a filter.
    fn pages(filter: &str, form_token: &str) -> Vec<WithFilter> {
        let at = |path: &str| format!("/ui/queues/q/{path}filter={filter}");
        let page = |path: &str| ("GET", at(path), String::new(), StatusCode::OK);
        let form = format!("form_token={form_token}&expect=0&value=1");
        let (few, many) = (form.clone(), form.replace("expect=0", "expect=201"));
        vec![
            page("tasks?"),
            page("tasks/check?"),
            page("tasks/download?format=jsonl&"),
            page("tasks/confirm?action=archive&all=1&"),
            page("workers?"),
            page("compare?"),
            page("compare/csv?"),
            ("GET", at("compare?and=priority==1&"), String::new(), StatusCode::SEE_OTHER),
            ("POST", at("tasks/confirm?action=cancel&all=1&"), form, StatusCode::SEE_OTHER),
            ("POST", at("tasks/confirm?action=priority&all=1&"), few, StatusCode::SEE_OTHER),
            // By then there are not as many, and it is asked again.
            ("POST", at("tasks/confirm?action=archive&all=1&"), many, StatusCode::CONFLICT),
        ]
    }

    /// Whatever takes a filter, while others use all cores for large bodies and answers. Short ones wait for nobody.
    #[tokio::test]
    async fn a_long_filter_waits_for_its_turn_and_nobody_else_does() {
        let store = ModelStore::new(Arc::new(ManualClock::new(Timestamp::from_micros(1_000_000))));
        let secret = InstallationSecret::from_bytes(&[1; 32]).unwrap();
        let state = AppState::new(Arc::new(store), None).with_dashboard(secret, Mode::Full, false);
        let http = Arc::new(service(state.clone()));
        assert_eq!(status(&http, "PUT", "/api/v2/queues/q", "").await, StatusCode::CREATED);
        let form_token = form_token(&http).await;
        let with = |filter: &str| [endpoints(filter), pages(filter, &form_token)].concat();
        let turns = state.budgets().all_turns().await;
        let long = format!("id=='x'{}", "or%20id=='x'".repeat(600));
        let mut waiting = Vec::new();
        for (method, path, body, expected) in with(&long) {
            let (http, what) = (Arc::clone(&http), format!("{method} {}", path.replace(&long, "...")));
            let sent = tokio::spawn(async move { status(&http, method, &path, &body).await });
            waiting.push((what, sent, expected));
        }
        settle().await;
        assert_eq!(status(&http, "GET", "/health", "").await, StatusCode::OK);
        for (method, path, body, expected) in with("id=='x'") {
            assert_eq!(status(&http, method, &path, &body).await, expected, "{method} {path}");
        }
        settle().await;
        for (what, sent, _) in &waiting {
            assert!(!sent.is_finished(), "{what} was read between those of others");
        }
        drop(turns);
        for (what, sent, expected) in waiting {
            assert_eq!(sent.await.unwrap(), expected, "{what}");
        }
    }
}

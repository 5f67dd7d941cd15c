//! The route table of the dashboard, and what holds for all of its answers.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, HttpBody};
use axum::extract::{Path, Request, State};
use axum::http::header::{HeaderName, HeaderValue};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http_body_util::BodyExt;

use crate::answer::{self, ASSETS_PREFIX};
use crate::host::{Host, Mode, Viewer};
use crate::layout;
use crate::pages::{compare, overview, routes, settings, sign_in, submit, system, task, tasks, workers};
use crate::problem::Problem;
use crate::state::{Dashboard, PAGE_BYTES};
use crate::visit::Visit;

/// On every answer: nothing is executed or loaded but our own files, no other page may frame ours, and no address leaks.
const HEADERS: [(&str, &str); 5] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; \
         base-uri 'none'; frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
];

/// Everything under `/ui/`; nothing if the dashboard is off.
pub fn router(host: Arc<dyn Host>, mode: Mode) -> Router {
    if mode == Mode::Off {
        return Router::new();
    }
    let dashboard = Arc::new(Dashboard::new(host, mode));
    table().layer(from_fn_with_state(dashboard.clone(), around)).with_state(dashboard)
}

fn table() -> Router<Arc<Dashboard>> {
    Router::new()
        .route("/ui/", get(overview::overview))
        .route("/ui/system", get(system::system))
        .route("/ui/queues", post(system::create_queue))
        .route("/ui/queues/{queue}/delete", get(system::confirm_delete_queue).post(system::delete_queue))
        .route("/ui/queues/{queue}/settings", get(settings::settings).post(settings::save))
        .route("/ui/queues/{queue}/pause", post(settings::pause))
        // Who looks, and how
        .route("/ui/sign-in", get(sign_in::form).post(sign_in::sign_in))
        .route("/ui/sign-out", post(sign_in::sign_out))
        .route("/ui/theme", post(sign_in::choose_theme))
        .route("/ui/go", get(layout::switch_queue))
        // Tasks of a queue
        .route("/ui/queues/{queue}/tasks", get(tasks::list))
        .route("/ui/queues/{queue}/tasks/check", get(tasks::completion::check))
        .route("/ui/queues/{queue}/tasks/fields", get(tasks::completion::fields))
        .route("/ui/queues/{queue}/tasks/download", get(tasks::download::download))
        .route("/ui/queues/{queue}/tasks/confirm", get(tasks::actions::confirm).post(tasks::actions::act))
        // A task
        .route("/ui/queues/{queue}/tasks/{task}", get(task::task))
        .route("/ui/queues/{queue}/tasks/{task}/output", get(task::output::follow))
        .route("/ui/queues/{queue}/tasks/{task}/output.txt", get(task::output::download))
        .route("/ui/queues/{queue}/tasks/{task}/json/{part}", get(task::download_json))
        .route("/ui/queues/{queue}/tasks/{task}/edit", get(task::edit::form).post(task::edit::save))
        .route("/ui/queues/{queue}/tasks/{task}/cancel", get(task::confirm_cancel).post(task::cancel))
        .route("/ui/queues/{queue}/tasks/{task}/requeue", post(task::requeue))
        .route("/ui/queues/{queue}/tasks/{task}/archive", post(task::archive))
        .route("/ui/queues/{queue}/tasks/{task}/unarchive", post(task::unarchive))
        .route("/ui/queues/{queue}/tasks/{task}/delete", get(task::confirm_delete).post(task::delete))
        // Workers and routes of a queue
        .route("/ui/queues/{queue}/workers", get(workers::workers))
        .route("/ui/queues/{queue}/routes", get(routes::routes))
        // Results side by side
        .route("/ui/queues/{queue}/compare", get(compare::compare))
        .route("/ui/queues/{queue}/compare/csv", get(compare::download))
        // New tasks
        .route("/ui/queues/{queue}/submit", get(submit::form).post(submit::submit))
        // Files
        .route(&format!("{ASSETS_PREFIX}{{set}}/{{name}}"), get(asset))
        .route("/ui/{*path}", get(unknown))
}

/// Waits for memory, and completes every answer.
async fn around(State(dashboard): State<Arc<Dashboard>>, request: Request, next: Next) -> Response {
    let mut response = within_memory(&dashboard, request, next).await.unwrap_or_else(|busy| busy.into_response());
    protect(&mut response);
    response
}

fn protect(response: &mut Response) {
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
}

/// A page that says why there is no other, for requests that the server refuses before it asks the dashboard.
pub fn problem_page(status: StatusCode, title: &'static str, advice: &'static str) -> Response {
    let mut response = Problem::new(status, title, advice).into_response();
    protect(&mut response);
    response
}

/// A page has memory while it is made; then its text has as much as it takes, until it is sent. Strangers get nothing that takes any.
async fn within_memory(dashboard: &Dashboard, request: Request, next: Next) -> Result<Response, Problem> {
    if request.extensions().get::<Viewer>().is_none() || request.uri().path().starts_with(ASSETS_PREFIX) {
        return Ok(next.run(request).await);
    }
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let held = dashboard.reserve(PAGE_BYTES).await?;
    let response = next.run(request).await;
    let held = match response.body().size_hint().exact() {
        // What an action did must be told, so its answer keeps what it has and waits for nothing.
        Some(bytes) if is_read => {
            // Not both at once: those who hold something must not wait for more.
            drop(held);
            dashboard.reserve(usize::try_from(bytes).unwrap_or(usize::MAX)).await?
        }
        _ => held,
    };
    // The body holds the memory which is reserved for it, until its last byte is taken.
    let hold = move |error| {
        let _held = &held;
        error
    };
    Ok(response.map(|body| Body::new(body.map_err(hold))))
}

async fn asset(Path((set, name)): Path<(String, String)>, headers: HeaderMap) -> Result<Response, Problem> {
    answer::asset(&set, &name, &headers).ok_or_else(|| Problem::not_found("file", "Reload the page."))
}

async fn unknown(_: Visit) -> Problem {
    Problem::not_found("page", "Check the address, or go to the overview.")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use async_trait::async_trait;
    use taskqueue_core::settings::Retention;
    use taskqueue_core::time::Timestamp;
    use taskqueue_store::conformance::ManualClock;
    use taskqueue_store::conformance::model::ModelStore;
    use taskqueue_store::submission::Held;
    use taskqueue_store::{Store, StoreExt};
    use tower::ServiceExt;

    use super::*;
    use crate::host::{HostFigures, SessionCookie, SignInRefusal};

    /// A server that has memory for one reservation.
    struct Small {
        store: Arc<dyn Store>,
        reserved: AtomicUsize,
    }

    #[async_trait]
    impl Host for Small {
        fn store(&self) -> &Arc<dyn Store> {
            &self.store
        }

        fn features(&self) -> Vec<&'static str> {
            Vec::new()
        }

        fn task_output_bytes(&self) -> usize {
            0
        }

        fn default_retention(&self) -> Retention {
            Retention::default()
        }

        fn is_tls(&self) -> bool {
            false
        }

        fn sign_in(&self, _: &str) -> Result<SessionCookie, SignInRefusal> {
            Err(SignInRefusal::Wrong)
        }

        async fn reserve(&self, _: usize) -> Option<Held> {
            (self.reserved.fetch_add(1, Ordering::Relaxed) == 0).then(|| Box::new(()) as Held)
        }

        async fn filter_turn(&self, _: usize) -> Option<Held> {
            None
        }

        fn figures(&self) -> HostFigures {
            HostFigures::default()
        }
    }

    #[tokio::test]
    async fn what_was_done_is_told_even_if_there_is_no_memory_left() {
        let store: Arc<dyn Store> = Arc::new(ModelStore::new(Arc::new(ManualClock::new(Timestamp::from_micros(1)))));
        let host = Arc::new(Small { store: Arc::clone(&store), reserved: AtomicUsize::new(0) });
        let request = Request::builder()
            .method(Method::POST)
            .uri("/ui/queues")
            .header("content-type", "application/x-www-form-urlencoded");
        let mut request = request.body(Body::from("form_token=secret&name=new")).unwrap();
        request.extensions_mut().insert(Viewer::new(None, "secret", false));
        let response = router(host, Mode::Full).oneshot(request).await.unwrap();
        assert_eq!(store.list_queues().await.map(|queues| queues.len()), Ok(1));
        assert_eq!(response.status(), StatusCode::SEE_OTHER, "not that nothing was changed");
    }
}

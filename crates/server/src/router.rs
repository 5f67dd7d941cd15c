//! The route table, in the contract's order. Each line registers handlers together with their schema, so the table and
//! `/openapi.json` always agree. Which scope of a token each of them needs is in `endpoint_scopes.rs`. The description of an operation stands above its handler in `routes`.

use std::sync::Arc;

use axum::Router;
use axum::middleware::map_request;
use axum::routing::{get, put};
use taskqueue_api::paths;
use taskqueue_dashboard::Mode;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::dashboard_host::DashboardHost;
use crate::extract::discard_the_rest;
use crate::pages::Pages;
use crate::routes::{self, batches, discovery, lists, queues, runs, tasks};
use crate::state::AppState;

/// Every route, and the document that describes them.
pub(crate) fn table() -> (Router<AppState>, OpenApi) {
    OpenApiRouter::new()
        // Discovery
        .routes(routes!(discovery::health))
        .routes(routes!(discovery::livez))
        .routes(routes!(discovery::readyz))
        .routes(routes!(discovery::openapi_document))
        .routes(routes!(discovery::metrics))
        .routes(routes!(discovery::capabilities))
        // Queues
        .routes(routes!(queues::create_queue, queues::delete_queue))
        .routes(routes!(queues::list_queues))
        .routes(routes!(queues::queue_stats))
        .routes(routes!(queues::get_settings, queues::change_settings))
        // Tasks
        .routes(routes!(tasks::create_task, tasks::get_task, tasks::update_task, tasks::delete_task))
        .routes(routes!(lists::list_tasks, tasks::update_tasks))
        .routes(routes!(lists::count_tasks))
        .routes(routes!(tasks::cancel_task))
        .routes(routes!(tasks::requeue_task))
        .routes(routes!(tasks::explain_task))
        .routes(routes!(tasks::cancel_tasks))
        .routes(routes!(tasks::requeue_tasks))
        .routes(routes!(tasks::delete_tasks))
        // Worker observations
        .routes(routes!(lists::list_workers))
        .routes(routes!(lists::count_workers))
        .routes(routes!(runs::report_worker, runs::withdraw_worker))
        .routes(routes!(runs::report_telemetry))
        // Worker protocol
        .routes(routes!(runs::claim_task))
        .routes(routes!(runs::heartbeat))
        .routes(routes!(runs::report_progress))
        .routes(routes!(runs::complete_task))
        .routes(routes!(runs::fail_task))
        .routes(routes!(runs::unclaim_task))
        // Output
        .routes(routes!(runs::read_output, runs::add_output))
        // Batches
        .routes(routes!(batches::create_tasks))
        .routes(routes!(batches::claim_tasks))
        .routes(routes!(batches::report_runs))
        .split_for_parts()
}

/// The route table with the fallbacks. For methods of which they are no endpoints, `count` and `claim` are task or worker ids,
/// although invalid ones.
pub(crate) fn router(state: AppState) -> Router {
    let task = || put(tasks::create_task).patch(tasks::update_task).delete(tasks::delete_task);
    let worker = put(runs::report_worker).delete(runs::withdraw_worker);
    let (router, _) = table();
    router
        .route(paths::TASK_COUNT, task())
        .route(paths::CLAIM, task().merge(get(tasks::get_task)))
        .route(paths::WORKER_COUNT, worker)
        .with_state(state.clone())
        .merge(pages(state))
        .fallback(routes::unknown_path)
        .method_not_allowed_fallback(routes::other_method)
}

/// The dashboard, if there is one. Its pages are not in the document: they are for people.
fn pages(state: AppState) -> Router {
    let mode = state.pages().map_or(Mode::Off, Pages::mode);
    // A form that is refused before it was read to its end: the browser shows the answer only if it could send all of it.
    taskqueue_dashboard::router(Arc::new(DashboardHost::new(state)), mode).layer(map_request(discard_the_rest))
}

/// The table of a listener that serves nothing but metrics.
pub(crate) fn metrics_router(state: AppState) -> Router {
    Router::new()
        .route(paths::METRICS, get(discovery::metrics))
        .fallback(routes::unknown_path)
        .method_not_allowed_fallback(routes::other_method)
        .with_state(state)
}

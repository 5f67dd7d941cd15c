//! The server as a function: serves a store at a listener until the shutdown, then stops in order. Before its store is open, a server is
//! alive and answers everything else with 503, so that whoever asks knows what to wait for.

use std::future::{Future, pending};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, Response};
use axum::response::IntoResponse;
use hyper::{Method, StatusCode};
use taskqueue_api::capabilities::{Probe, Unhealthy};
use taskqueue_api::paths;
use taskqueue_dashboard::Mode;
use taskqueue_store::{Store, StoreError, StoreExt};
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use crate::accept::Connections;
use crate::auth::Gate;
use crate::browser_check::Hosts;
use crate::config::{Config, METRICS_CONNECTIONS};
use crate::connection::Handler;
use crate::error::ApiError;
use crate::extract::discard;
use crate::http_service;
use crate::listener::Listener;
use crate::memory_budget::Budgets;
use crate::metrics::MetricSources;
use crate::request_log::RequestIds;
use crate::state::AppState;
use crate::{background, memory_plan, respond};

/// How long the store may take to close. With the time for requests under way and for saving activity it stays below the 10 s
/// of a stop. What is acknowledged is durable in any case.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(1500);

/// The listeners of a server.
pub struct Listeners {
    pub api: Listener,
    /// A listener for nothing but metrics, which needs no token.
    pub metrics: Option<Listener>,
}

/// Serves `store` at `listeners` until `shutdown` is done, and returns when the store is closed. With a delay of the stop, it lasts
/// until `at_once` is done at the latest.
///
/// `ready` is called once, when requests are about to be answered. Leases are scanned before that, so that no answer shows
/// a run that ended long ago; if the scan fails, or the database does not tell the secret of sessions, the server does not start.
pub async fn run(
    listeners: Listeners,
    store: Arc<dyn Store>,
    config: Config,
    ready: impl FnOnce(),
    shutdown: impl Future<Output = ()>,
    at_once: impl Future<Output = ()>,
) -> Result<(), StoreError> {
    let Listeners { api: listener, metrics: metrics_listener } = listeners;
    background::scan_leases_once(&*store).await?;
    let gate = Gate::new(config.token.clone(), config.tokens.clone());
    let budgets = Arc::new(Budgets::new(&config.memory));
    let connections = Arc::new(Connections::new(config.connection_cap, config.timeouts, Arc::clone(&budgets)));
    let metrics_connections = Connections::new(METRICS_CONNECTIONS, config.timeouts, Arc::clone(&budgets));
    let sources = MetricSources {
        connections: Arc::downgrade(&connections),
        waiting_limit: config.limits.waiting_cap,
        memory_limit_bytes: memory_plan::limit_of_this_process(),
        log_lines_lost: config.log_lines_lost,
        tls: listener.tls().cloned(),
    };
    let hosts = if listener.is_unix() { Hosts::Any } else { Hosts::LocalAnd(config.allowed_hosts) };
    let mut state = AppState::new(Arc::clone(&store), gate, budgets, config.limits).with_sources(sources);
    if config.dashboard != Mode::Off {
        let secret = store.parts().secret.ok_or(StoreError::Unavailable)?;
        state = state.with_dashboard(secret, config.dashboard, listener.tls().is_some());
    }
    let metrics_service =
        metrics_listener.as_ref().map(|listener| http_service::metrics_service(listener.hosts(), &state));
    let service = http_service::service(hosts, state.clone()).log_requests(config.log_requests);
    let works = background::begin(&store);

    let dashboard = listener.dashboard_url().filter(|_| config.dashboard != Mode::Off);
    info!(address = listener.base_url(), dashboard, connection_cap = config.connection_cap, "serving");
    if let Some(listener) = &metrics_listener {
        info!(address = listener.base_url(), "serving metrics");
    }
    ready();
    let serving_metrics = async {
        match (&metrics_listener, metrics_service) {
            (Some(listener), Some(service)) => {
                metrics_connections.accept(|| listener.accept(), listener.tls(), service).await
            }
            _ => std::future::pending().await,
        }
    };
    let told_to_stop = async {
        shutdown.await;
        state.readiness.stop();
        if !config.stop_delay.is_zero() {
            let seconds = config.stop_delay.as_secs();
            info!("stopping in {seconds} s: until then only /readyz says so (--stop-delay); a second signal ends that");
            tokio::select! {
                () = sleep(config.stop_delay) => {}
                () = at_once => {}
            }
        }
    };
    tokio::select! {
        never = connections.accept(|| listener.accept(), listener.tls(), service) => match never {},
        never = serving_metrics => match never {},
        () = told_to_stop => {}
    }

    info!("stopping: no new connections, requests under way are finished");
    drop((listener, metrics_listener));
    store.waiters().close();
    tokio::join!(connections.drain(), metrics_connections.drain());
    drop(works);
    background::save_last_activity(&*store).await;
    if timeout(CLOSE_TIMEOUT, store.close()).await.is_err() {
        warn!("the store did not close in time");
    }
    info!("stopped");
    Ok(())
}

/// Answers at the listeners until the storage is `opened`. The connections are closed then; who comes later waits for the server.
pub async fn answer_until<T>(listeners: &Listeners, config: &Config, opened: impl Future<Output = T>) -> T {
    let budgets = Arc::new(Budgets::new(&config.memory));
    let connections = Connections::new(config.connection_cap, config.timeouts, Arc::clone(&budgets));
    let metrics_connections = Connections::new(METRICS_CONNECTIONS, config.timeouts, budgets);
    let handler = HandlerBeforeStore(Arc::new(RequestIds::new()));
    let at_metrics = async {
        match &listeners.metrics {
            Some(listener) => metrics_connections.accept(|| listener.accept(), listener.tls(), handler.clone()).await,
            None => pending().await,
        }
    };
    let opened = tokio::select! {
        never = connections.accept(|| listeners.api.accept(), listeners.api.tls(), handler.clone()) => match never {},
        never = at_metrics => match never {},
        opened = opened => opened,
    };
    tokio::join!(connections.drain(), metrics_connections.drain());
    opened
}

#[derive(Clone)]
struct HandlerBeforeStore(Arc<RequestIds>);

impl Handler for HandlerBeforeStore {
    /// Nobody is asked for a token: the answers tell nothing that not everybody may know, so not the version.
    async fn handle(&self, request: Request<Body>) -> Response<Body> {
        let (head, body) = request.into_parts();
        discard(body);
        let (path, is_read) = (head.uri.path(), [Method::GET, Method::HEAD].contains(&head.method));
        let mut response = match path {
            paths::LIVEZ if is_read => respond::json(StatusCode::OK, Probe::JSON),
            paths::HEALTH if is_read => respond::json(StatusCode::SERVICE_UNAVAILABLE, Unhealthy::JSON),
            _ => ApiError::not_ready().into_response(),
        };
        response.headers_mut().extend(self.0.of(&head.headers).answer_header());
        response
    }
}

//! A server whose storage is not there yet: it is alive, and everything else is answered 503, so that whoever asks knows what to wait for.

use std::future::{Future, pending};
use std::sync::Arc;

use axum::body::Body;
use axum::response::IntoResponse;
use hyper::{Method, Request, Response, StatusCode};
use taskqueue_api::capabilities::{Probe, Unhealthy};
use taskqueue_api::paths;

use crate::accept::Connections;
use crate::config::{Config, METRICS_CONNECTIONS};
use crate::connection::Handler;
use crate::error::ApiError;
use crate::extract::discard;
use crate::memory_budget::Budgets;
use crate::request_id::RequestIds;
use crate::respond;
use crate::run::Listeners;

/// Answers at the listeners until the storage is `opened`. The connections are closed then; who comes later waits for the server.
pub async fn answer_until<T>(listeners: &Listeners, config: &Config, opened: impl Future<Output = T>) -> T {
    let budgets = Arc::new(Budgets::new(&config.memory));
    let connections = Connections::new(config, Arc::clone(&budgets));
    let metrics_config = Config { connection_cap: METRICS_CONNECTIONS, ..config.clone() };
    let metrics_connections = Connections::new(&metrics_config, budgets);
    let handler = BeforeStore(Arc::new(RequestIds::new()));
    let at_metrics = async {
        match &listeners.metrics {
            Some(listener) => metrics_connections.accept(listener, handler.clone()).await,
            None => pending().await,
        }
    };
    let opened = tokio::select! {
        never = connections.accept(&listeners.api, handler.clone()) => match never {},
        never = at_metrics => match never {},
        opened = opened => opened,
    };
    tokio::join!(connections.drain(), metrics_connections.drain());
    opened
}

#[derive(Clone)]
struct BeforeStore(Arc<RequestIds>);

impl Handler for BeforeStore {
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

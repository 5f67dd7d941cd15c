//! Tasks that wait for a time, for other tasks or for room in their queue, and tasks that are put away: what each request does
//! and shows, at the level of routes.

mod archive;
mod delays;
mod dependencies;
mod explain;
mod queue_settings;

use std::sync::Arc;

use hyper::StatusCode;
use serde_json::{Value, json};
use taskqueue_core::time::Timestamp;
use taskqueue_server::http_service::{HttpService, service};
use taskqueue_server::state::AppState;
use taskqueue_store::clock::ManualClock;
use taskqueue_store::model::ModelStore;

use crate::support::*;

/// A server with the queue `q`, whose clock begins one second after 1970.
struct Api {
    http: HttpService,
    clock: Arc<ManualClock>,
    store: Arc<ModelStore>,
}

fn task_path(n: usize) -> String {
    format!("/api/v2/queues/q/tasks/t_{n:012}")
}

fn run_body(n: usize, more: &str) -> String {
    format!(r#"{{"run_id":"r_{n:012}"{more}}}"#)
}

const ERROR: &str = r#","error":{"type":"E","message":"m"}"#;

impl Api {
    async fn new() -> Self {
        let clock = Arc::new(ManualClock::new(Timestamp::from_micros(1_000_000)));
        let store = Arc::new(ModelStore::new(clock.clone()));
        let http = service(AppState::new(store.clone(), None));
        expect(&http, StatusCode::CREATED, "PUT", "/api/v2/queues/q", "").await;
        Self { http, clock, store }
    }

    async fn call(&self, method: &str, path: &str, body: &str) -> Answered {
        call(&self.http, method, &format!("/api/v2/queues/q{path}"), body).await
    }

    /// Creates task `n`.
    async fn create(&self, n: usize, body: &str) -> Value {
        expect(&self.http, StatusCode::CREATED, "PUT", &task_path(n), body).await.json()
    }

    async fn get(&self, n: usize) -> Value {
        expect(&self.http, StatusCode::OK, "GET", &task_path(n), "").await.json()
    }

    async fn update(&self, n: usize, body: &str) -> Value {
        expect(&self.http, StatusCode::OK, "PATCH", &task_path(n), body).await.json()
    }

    /// Does something to task `n` that answers with a body or with none.
    async fn act(&self, n: usize, action: &str, body: &str) -> Answered {
        call(&self.http, "POST", &format!("{}/{action}", task_path(n)), body).await
    }

    /// Claims for the default route with run `n`; the id of the task, if there is one.
    async fn claim(&self, n: usize) -> Option<String> {
        let body = run_body(n, r#","route":"default""#);
        let answered = self.call("POST", "/tasks/claim", &body).await;
        (answered.status == 200).then(|| answered.json()["task"]["id"].as_str().unwrap().to_owned())
    }

    /// Claims task `n` with run `n` and ends it in this way.
    async fn run_to(&self, n: usize, action: &str, more: &str) {
        assert_eq!(self.claim(n).await, Some(format!("t_{n:012}")));
        assert_eq!(self.act(n, action, &run_body(n, more)).await.status, 204);
    }
}

#[tokio::test]
async fn a_task_that_uses_none_of_it_shows_none_of_it() {
    let api = Api::new().await;
    let defaults = concat!(
        r#"{"not_before":null,"retry_delay":null,"timeout_seconds":null,"dependencies":[],"#,
        r#""on_dependency_failure":"wait"}"#
    );
    let created = api.create(1, "{}").await;
    assert_eq!(created.as_object().unwrap().len(), 17);
    let again = expect(&api.http, StatusCode::OK, "PUT", &task_path(1), defaults).await;
    assert_eq!(again.json(), created, "an explicit default is part of no identity");
    let features = call(&api.http, "GET", "/api/v2/capabilities", "").await.json();
    for name in ["archive", "delay", "dependencies", "explain", "queue-settings", "timeout"] {
        assert!(features["features"].as_array().unwrap().contains(&json!(name)), "{name}");
    }
}

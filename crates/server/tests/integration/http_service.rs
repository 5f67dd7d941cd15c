//! What surrounds the route table: authentication, unknown paths and methods, the version header, failures.

mod metrics;
mod probes;
mod scopes;

use std::sync::Arc;

use axum::body::Body;
use hyper::{Request, StatusCode};
use taskqueue_server::http_service::service;
use taskqueue_server::state::AppState;
use taskqueue_store::StoreError;

use crate::support::*;

fn guarded(method: &str, path: &str, authorization: Option<&str>, body: impl Into<Body>) -> Request<Body> {
    let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
    if let Some(value) = authorization {
        request = request.header("authorization", value);
    }
    request.body(body.into()).unwrap()
}

#[tokio::test]
async fn under_api_the_token_is_asked_for_before_anything_else() {
    let http = guarded_server();
    let requests = [
        ("GET", "/api/v2/queues", ""),
        ("GET", "/api/", ""),
        ("GET", "/api/nowhere", ""),
        ("GET", "/%61pi/v2/queues", ""),
        ("PATCH", "/api/v2/queues", ""),
        ("PUT", "/api/v2/queues/!", ""),
        ("GET", "/api/v2/queues/q/tasks?limit=x", ""),
        ("PUT", "/api/v2/queues/q/tasks/t_abcdefghijkl", "{"),
    ];
    for (method, path, body) in requests {
        for authorization in [None, Some("Bearer wrong"), Some("Bearer"), Some("Basic s3cret")] {
            let answered = send(&http, guarded(method, path, authorization, body)).await;
            assert_eq!((answered.status, answered.code().as_str()), (401, "unauthorized"), "{method} {path}");
            assert_eq!(answered.header("www-authenticate"), Some("Bearer"));
            assert_eq!(answered.header(VERSION), None);
            assert_eq!(answered.details(), serde_json::json!({}));
        }
    }
    let huge = send(&http, guarded("PUT", "/api/v2/queues/q", None, vec![b'x'; 2 << 20])).await;
    assert_eq!(huge.status, 401);
    for path in ["/api/v2/queues", "/%61pi/v2/queues"] {
        assert_eq!(send(&http, guarded("GET", path, Some("bearer s3cret"), "")).await.status, 200);
    }
    for (path, status) in [("/health", 200), ("/openapi.json", 200), ("/docs", 404), ("/api", 404)] {
        assert_eq!(send(&http, guarded("GET", path, None, "")).await.status, status, "{path}");
    }
}

#[tokio::test]
async fn the_version_is_on_every_answer_under_api_to_authorised_callers_and_nowhere_else() {
    let http = server();
    let requests = [
        ("PUT", "/api/v2/queues/q", "", 201),
        ("GET", "/api/v2/queues", "", 200),
        ("HEAD", "/api/v2/queues", "", 200),
        ("POST", "/api/v2/queues/q/tasks/claim", r#"{"route":"r","run_id":"r_abcdefghijkl"}"#, 204),
        ("GET", "/api/nowhere", "", 404),
        ("GET", "/api/v2/queues/missing/tasks", "", 404),
        ("POST", "/api/v2/queues", "", 405),
        ("PUT", "/api/v2/queues/q/tasks/t_abcdefghijkl", "{", 422),
    ];
    for (method, path, body, status) in requests {
        let answered = call(&http, method, path, body).await;
        assert_eq!(answered.status, status, "{method} {path}");
        assert_eq!(answered.header(VERSION), Some(env!("CARGO_PKG_VERSION")), "{method} {path}");
    }
    for path in ["/health", "/openapi.json", "/", "/api", "/docs", "/redoc", "/apiary"] {
        assert_eq!(call(&http, "GET", path, "").await.header(VERSION), None, "{path}");
    }
}

#[tokio::test]
async fn unknown_paths_are_404_whatever_is_sent() {
    let http = server();
    let paths = [
        "/",
        "/docs",
        "/redoc",
        "/api",
        "/health/",
        "//health",
        "/api/v2/queues/",
        "/api/v2/queues/q/",
        "/api/v2/queues//tasks",
        "/api/v2/queues/q/tasks/",
        "/api/v2/queues/q/tasks/t_abcdefghijkl/",
        "/api/v2/queues/q/tasks/t_abcdefghijkl/nothing",
        "/api/v2/queues/a%2Fb",
        "/api/v2/queues/a%2fb/tasks",
        "/API/v2/queues",
        "/api/v1/queues",
    ];
    for path in paths {
        for method in ["GET", "PUT", "POST", "BREW"] {
            let answered = call(&http, method, path, &"x".repeat(2 << 20)).await;
            assert_eq!((answered.status, answered.code().as_str()), (404, "not_found"), "{path}");
            assert_eq!(answered.details()["path"], path);
        }
    }
}

#[tokio::test]
async fn other_methods_are_405_and_told_which_ones_are_taken() {
    let http = server();
    let cases = [
        ("POST", "/health", &["GET", "HEAD"][..]),
        ("POST", "/api/v2/queues", &["GET", "HEAD"]),
        ("GET", "/api/v2/queues/q", &["PUT", "DELETE"]),
        ("POST", "/api/v2/queues/q/tasks", &["GET", "HEAD", "PATCH"]),
        ("POST", "/api/v2/queues/q/tasks/t_x", &["GET", "HEAD", "PUT", "PATCH", "DELETE"]),
        ("POST", "/api/v2/queues/q/tasks/count", &["GET", "HEAD", "PUT", "PATCH", "DELETE"]),
        ("GET", "/api/v2/queues/q/workers/w_x", &["PUT", "DELETE"]),
        ("GET", "/api/v2/queues/q/tasks/t_x/cancel", &["POST"]),
        ("OPTIONS", "/api/v2/queues", &["GET", "HEAD"]),
        ("BREW", "/health", &["GET", "HEAD"]),
    ];
    for (method, path, allow) in cases {
        let answered = call(&http, method, path, &"x".repeat(2 << 20)).await;
        assert_eq!((answered.status, answered.code().as_str()), (405, "method_not_allowed"), "{method} {path}");
        let sorted = |mut methods: Vec<String>| {
            methods.sort();
            methods
        };
        let expected = sorted(allow.iter().map(|method| (*method).to_owned()).collect());
        let header = answered.header("allow").unwrap().split(',').map(str::to_owned).collect();
        assert_eq!(sorted(header), expected, "{method} {path}");
        let details: Vec<String> = serde_json::from_value(answered.details()["allow"].clone()).unwrap();
        assert_eq!(sorted(details), expected, "{method} {path}");
    }
}

#[tokio::test]
async fn count_and_claim_are_invalid_ids_where_they_are_not_endpoints() {
    let http = server();
    let cases = [
        ("PUT", "tasks/count", "{}", "invalid_task_id"),
        ("PATCH", "tasks/count", r#"{"priority":1}"#, "invalid_task_id"),
        ("DELETE", "tasks/count", "", "invalid_task_id"),
        ("PUT", "tasks/claim", "{}", "invalid_task_id"),
        ("PATCH", "tasks/claim", r#"{"priority":1}"#, "invalid_task_id"),
        ("DELETE", "tasks/claim", "", "invalid_task_id"),
        ("GET", "tasks/claim", "", "invalid_task_id"),
        ("PUT", "workers/count", r#"{"route":"r","status":"idle","task_id":null}"#, "invalid_request"),
        ("DELETE", "workers/count", "", "invalid_request"),
    ];
    for (method, path, body, code) in cases {
        let answered = call(&http, method, &format!("/api/v2/queues/q/{path}"), body).await;
        assert_eq!((answered.status, answered.code().as_str()), (422, code), "{method} {path}");
    }
    expect(&http, StatusCode::CREATED, "PUT", "/api/v2/queues/count", "").await;
    expect(&http, StatusCode::OK, "GET", "/api/v2/queues/count/tasks/%63ount", "").await;
}

#[tokio::test]
async fn a_storage_that_does_not_work_is_503_with_retry_after() {
    let requests = [
        ("GET", "/api/v2/queues", ""),
        ("PUT", "/api/v2/queues/q", ""),
        ("DELETE", "/api/v2/queues/q", ""),
        ("GET", "/api/v2/queues/q/tasks", ""),
        ("GET", "/api/v2/queues/q/tasks/count", ""),
        ("GET", "/api/v2/queues/q/tasks/count?group_by=status", ""),
        ("GET", "/api/v2/queues/q/workers", ""),
        ("GET", "/api/v2/queues/q/workers/count?group_by=status", ""),
        ("PUT", "/api/v2/queues/q/tasks/t_abcdefghijkl", "{}"),
        ("POST", "/api/v2/queues/q/tasks/bulk/cancel", r#"{"filter":"priority == 0"}"#),
    ];
    let failures = [
        (StoreError::Busy, "database_busy", "1"),
        (StoreError::Unavailable, "database_unavailable", "5"),
        (StoreError::OutcomeUnknown, "database_unavailable", "5"),
        (StoreError::PartlyDone, "database_unavailable", "5"),
    ];
    for (failure, code, retry_after) in failures {
        let http = service(AppState::new(Arc::new(FailingStore::new(Some(failure))), None));
        for (method, path, body) in requests {
            let answered = call(&http, method, path, body).await;
            assert_eq!((answered.status, answered.code().as_str()), (503, code), "{method} {path}");
            assert_eq!(answered.header("retry-after"), Some(retry_after));
            assert!(answered.header(VERSION).is_some());
        }
        let health = call(&http, "GET", "/health", "").await;
        assert_eq!(health.status, 503);
        assert_eq!(health.json(), serde_json::json!({"status": "error", "api_version": "2", "database": "error"}));
    }
}

/// docs/reference/errors.md §3.5: the message tells whether anything may have been done.
#[tokio::test]
async fn the_message_of_a_503_says_whether_the_outcome_is_known() {
    for (failure, part) in [
        (StoreError::Busy, "nothing was done"),
        (StoreError::Unavailable, "nothing was done"),
        (StoreError::OutcomeUnknown, "the outcome is not known; read before you repeat"),
        (StoreError::PartlyDone, "a part of this may be done, and the rest is not; repeat the request"),
    ] {
        let http = service(AppState::new(Arc::new(FailingStore::new(Some(failure))), None));
        let answered = call(&http, "PUT", "/api/v2/queues/q", "").await;
        let message = answered.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains(part), "{message}");
    }
}

#[tokio::test]
async fn a_broken_store_is_500_with_a_request_id_and_without_the_cause() {
    let edge = service(AppState::new(Arc::new(FailingStore::new(Some(StoreError::Broken("secret of the bug")))), None));
    for (method, path) in [("GET", "/api/v2/queues"), ("PUT", "/api/v2/queues/q")] {
        let answered = call(&edge, method, path, "").await;
        assert_eq!((answered.status, answered.code().as_str()), (500, "internal_error"), "{method} {path}");
        assert_eq!(answered.details()["request_id"].as_str().unwrap().len(), 16);
        assert!(!String::from_utf8_lossy(&answered.body).contains("secret"));
    }
}

#[tokio::test]
async fn a_panic_is_500_with_a_request_id_and_without_its_secret() {
    let http = service(AppState::new(Arc::new(FailingStore::new(None)), None));
    let first = call(&http, "GET", "/api/v2/queues", "").await;
    assert_eq!((first.status, first.code().as_str()), (500, "internal_error"));
    assert!(first.header(VERSION).is_some());
    assert!(!String::from_utf8_lossy(&first.body).contains("secret"));
    let second = call(&http, "GET", "/api/v2/queues", "").await;
    assert_ne!(first.details()["request_id"], second.details()["request_id"]);
    assert_eq!(second.details()["request_id"].as_str().unwrap().len(), 16);
}

#[tokio::test]
async fn health_is_what_the_contract_says() {
    let answered = call(&server(), "GET", "/health", "").await;
    assert_eq!(answered.status, 200);
    assert_eq!(answered.json(), serde_json::json!({"status": "ok", "api_version": "2", "database": "ok"}));
}

#[tokio::test]
async fn head_is_get_without_the_body_and_204_has_no_length() {
    let http = server();
    expect(&http, StatusCode::CREATED, "PUT", "/api/v2/queues/q", "").await;
    let get = call(&http, "GET", "/api/v2/queues", "").await;
    let head = call(&http, "HEAD", "/api/v2/queues", "").await;
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(head.header("content-length"), get.header("content-length"));
    let deleted = call(&http, "DELETE", "/api/v2/queues/q", "").await;
    assert_eq!((deleted.status, deleted.body.len(), deleted.header("content-length")), (204, 0, None));
}

//! What surrounds the route table: failures of the store, and what the contract leaves open about paths and methods. Authentication,
//! unknown paths, the version header and HEAD are in the contract tests of the command line.

mod metrics;
mod probes;
mod scopes;

use crate::support::*;

#[tokio::test]
async fn an_escaped_slash_is_part_of_no_path_and_words_of_paths_are_no_worker_ids() {
    let http = server();
    expect(&http, StatusCode::CREATED, "PUT", "/api/v2/queues/count", "").await;
    let cases = [
        ("PUT", "a%2Fb", "", 404, "not_found"),
        ("GET", "a%2fb/tasks", "", 404, "not_found"),
        ("PUT", "q/workers/count", r#"{"route":"r","status":"idle","task_id":null}"#, 422, "invalid_request"),
        ("DELETE", "q/workers/count", "", 422, "invalid_request"),
    ];
    for (method, path, body, status, code) in cases {
        let answered = call(&http, method, &format!("/api/v2/queues/{path}"), body).await;
        assert_eq!((answered.status, answered.code().as_str()), (status, code), "{method} {path}");
    }
    expect(&http, StatusCode::OK, "GET", "/api/v2/queues/count/tasks/%63ount", "").await;
}

/// The contract leaves open whether HEAD is named, and in which form the details name the methods.
#[tokio::test]
async fn the_details_of_a_405_are_the_methods_of_the_header() {
    let cases = [
        ("/health", &["GET", "HEAD"][..]),
        ("/api/v2/queues/q/tasks", &["GET", "HEAD", "PATCH"]),
        ("/api/v2/queues/q/tasks/count", &["DELETE", "GET", "HEAD", "PATCH", "PUT"]),
    ];
    for (path, expected) in cases {
        let answered = call(&server(), "POST", path, "").await;
        let details: Vec<String> = serde_json::from_value(answered.details()["allow"].clone()).unwrap();
        for mut methods in [answered.header("allow").unwrap().split(',').map(str::to_owned).collect(), details] {
            methods.sort();
            assert_eq!(methods, expected, "{path}");
        }
    }
}

/// A busy server holds its answer back, so that clients that repeat at once leave the processor to others. The message tells whether
/// anything may have been done (docs/reference/errors.md §3.5).
#[tokio::test(start_paused = true)]
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
        (StoreError::Busy, "database_busy", "1", "nothing was done"),
        (StoreError::Unavailable, "database_unavailable", "5", "nothing was done"),
        (StoreError::OutcomeUnknown, "database_unavailable", "5", "the outcome is not known; read before you repeat"),
        (
            StoreError::PartlyDone,
            "database_unavailable",
            "5",
            "a part of this may be done, and the rest is not; repeat",
        ),
    ];
    for (failure, code, retry_after, part) in failures {
        let http = service(state_over(Arc::new(FailingStore::new(Some(failure))), Gate::default()));
        for (method, path, body) in requests {
            let sent = tokio::time::Instant::now();
            let answered = call(&http, method, path, body).await;
            assert_eq!(sent.elapsed().as_millis() >= 100, code == "database_busy", "{method} {path}");
            assert_eq!((answered.status, answered.code().as_str()), (503, code), "{method} {path}");
            assert_eq!(answered.header("retry-after"), Some(retry_after));
            assert!(answered.header(VERSION).is_some());
            let message = answered.json()["error"]["message"].as_str().unwrap().to_owned();
            assert!(message.contains(part), "{message}");
        }
        let health = call(&http, "GET", "/health", "").await;
        assert_eq!(health.status, 503);
        assert_eq!(health.json(), serde_json::json!({"status": "error", "api_version": "2", "database": "error"}));
    }
}

#[tokio::test]
async fn a_bug_is_500_with_a_request_id_of_its_own_and_without_its_secret() {
    for failure in [Some(StoreError::Broken("secret of the bug")), None] {
        let http = service(state_over(Arc::new(FailingStore::new(failure)), Gate::default()));
        let mut ids = Vec::new();
        for (method, path) in [("GET", "/api/v2/queues"), ("PUT", "/api/v2/queues/q")] {
            let answered = call(&http, method, path, "").await;
            assert_eq!((answered.status, answered.code().as_str()), (500, "internal_error"), "{method} {path}");
            assert!(answered.header(VERSION).is_some());
            assert!(!String::from_utf8_lossy(&answered.body).contains("secret"));
            ids.push(answered.details()["request_id"].as_str().unwrap().to_owned());
        }
        assert!(ids[0] != ids[1] && ids.iter().all(|id| id.len() == 16), "{ids:?}");
    }
}

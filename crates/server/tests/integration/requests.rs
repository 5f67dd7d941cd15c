//! What the contract tests of the command line leave open about single requests: corners of the order of checks, and the details of
//! refusals of extensions.

use crate::support::*;

#[tokio::test]
async fn checks_come_in_the_order_of_the_contract() {
    let service = server();
    let too_large = "x".repeat(1_048_577);
    let missing = format!("missing/tasks/{TASK}");
    let cases = [
        ("GET", "!/tasks", too_large.as_str(), "request_too_large"),
        ("PUT", "missing/tasks/bad", "{}", "invalid_task_id"),
        ("PUT", &missing, "{\"x\":1}", "invalid_task"),
        ("PATCH", "!/tasks", r#"{"filter":"((","changes":{"priority":"1"}}"#, "invalid_update"),
        ("PATCH", "missing/tasks", r#"{"filter":" ","changes":{"priority":1}}"#, "invalid_filter"),
        ("GET", "missing/tasks?cursor=", "", "invalid_cursor"),
        ("GET", "missing/workers?filter=priority==1&cursor=x", "", "invalid_cursor"),
        ("GET", "missing/workers?filter=priority==1", "", "invalid_filter"),
        ("GET", "missing/workers/count?group_by=status&cursor=", "", "queue_not_found"),
        ("POST", &format!("{missing}/cancel"), "{", "queue_not_found"),
        ("GET", "%FF/tasks", "", "invalid_request"),
        ("GET", "a+b/tasks", "", "invalid_request"),
        ("GET", "q/tasks/%FF", "", "invalid_task_id"),
    ];
    for (method, path, body, code) in cases {
        let answered = call(&service, method, &format!("/api/v2/queues/{path}"), body).await;
        assert_eq!(answered.code(), code, "{method} {path}");
    }
}

#[tokio::test]
async fn refusals_of_extensions_say_what_is_wrong() {
    let http = server();
    let task = format!("/api/v2/queues/q/tasks/{TASK}");
    expect(&http, StatusCode::CREATED, "PUT", "/api/v2/queues/q", "").await;
    expect(&http, StatusCode::CREATED, "PUT", &task, r#"{"on_dependency_failure":"cancel"}"#).await;
    let kept = r#"{"priority":1,"on_dependency_failure":null}"#;
    let kept = expect(&http, StatusCode::OK, "PATCH", &task, kept).await.json();
    assert_eq!(kept["on_dependency_failure"], "cancel", "null is as if it were not there");
    let pending = call(&http, "PATCH", &task, r#"{"archived":true}"#).await;
    assert_eq!(pending.details(), json!({"task_id": TASK, "field": "archived", "status": "pending"}));
    let limits: Vec<String> = (0..257).map(|n| format!(r#""r{n}":1"#)).collect();
    for (range, status) in [(0..256, 200), (256..257, 422)] {
        let patch = format!(r#"{{"route_limits":{{{}}}}}"#, limits[range].join(","));
        let answered = call(&http, "PATCH", "/api/v2/queues/q/settings", &patch).await;
        assert_eq!(answered.status, status);
        if status == 422 {
            assert_eq!(answered.details()["errors"][0]["location"], json!(["body", "route_limits"]));
        }
    }
}

//! The order of checks and the rules about bodies, at the level of routes.

use axum::body::Body;
use hyper::{Request, StatusCode};

use crate::support::*;

const LIMIT: usize = 1_048_576;

#[tokio::test]
async fn a_task_goes_through_its_life() {
    let service = server();
    let task = format!("/api/v2/queues/q/tasks/{TASK}");
    let run = format!("{{\"run_id\":\"{RUN}\"}}");
    expect(&service, StatusCode::CREATED, "PUT", "/api/v2/queues/q", "").await;
    expect(&service, StatusCode::OK, "PUT", "/api/v2/queues/q", "").await;
    let created = expect(&service, StatusCode::CREATED, "PUT", &task, r#"{"args":{"b":1.0,"a":"é"}}"#).await;
    assert_eq!(created.json().as_object().unwrap().len(), 17);
    assert!(String::from_utf8_lossy(&created.body).contains(r#""args":{"a":"é","b":1.0}"#));
    let replayed = expect(&service, StatusCode::OK, "PUT", &task, r#"{"args":{"a":"é","b":1.0},"priority":0}"#).await;
    assert_eq!(replayed.body, created.body);
    let other = expect(&service, StatusCode::CONFLICT, "PUT", &task, "{}").await;
    assert_eq!((other.code(), &other.details()["task_id"]), ("task_id_conflict".into(), &TASK.into()));

    let claim = format!("{{\"route\":\"default\",\"run_id\":\"{RUN}\"}}");
    let claimed = expect(&service, StatusCode::OK, "POST", "/api/v2/queues/q/tasks/claim", &claim).await.json();
    let mut keys: Vec<&String> = claimed.as_object().unwrap().keys().collect();
    keys.sort();
    assert_eq!(keys, ["lease_expires_at", "run_id", "task"]);
    assert_eq!(claimed["task"].as_object().unwrap().len(), 17);
    let lease = expect(&service, StatusCode::OK, "POST", &format!("{task}/heartbeat"), &run).await.json();
    assert_eq!(lease["lease_expires_at"], claimed["lease_expires_at"]);
    assert_eq!(expect(&service, StatusCode::CONFLICT, "DELETE", &task, "").await.code(), "task_running");
    let done = format!("{{\"run_id\":\"{RUN}\",\"result\":{{\"x\":1}}}}");
    expect(&service, StatusCode::NO_CONTENT, "POST", &format!("{task}/complete"), &done).await;
    let finalized = expect(&service, StatusCode::CONFLICT, "POST", &format!("{task}/unclaim"), &run).await;
    assert_eq!((finalized.code(), &finalized.details()["action"]), ("run_finalized".into(), &"complete".into()));
    let stale = expect(&service, StatusCode::CONFLICT, "POST", "/api/v2/queues/q/tasks/claim", &claim).await;
    assert_eq!(stale.code(), "stale_run");
    let conflict = expect(&service, StatusCode::CONFLICT, "POST", &format!("{task}/requeue"), "").await;
    assert_eq!((conflict.code(), &conflict.details()["status"]), ("task_state_conflict".into(), &"succeeded".into()));
    let patched = expect(&service, StatusCode::OK, "PATCH", &task, r#"{"name":"n"}"#).await.json();
    assert_eq!((&patched["name"], &patched["result"]), (&"n".into(), &serde_json::json!({"x": 1})));
    let bulk = r#"{"filter":"name == \"n\"","changes":{"priority":7}}"#;
    let updated = expect(&service, StatusCode::OK, "PATCH", "/api/v2/queues/q/tasks", bulk).await;
    assert_eq!(updated.json(), serde_json::json!({"matched": 1, "updated": 1}));
    let not_empty = expect(&service, StatusCode::CONFLICT, "DELETE", "/api/v2/queues/q", "").await;
    assert_eq!((not_empty.code(), &not_empty.details()["tasks"]), ("queue_not_empty".into(), &1.into()));
    expect(&service, StatusCode::NO_CONTENT, "DELETE", &task, "").await;
    assert_eq!(expect(&service, StatusCode::NOT_FOUND, "GET", &task, "").await.code(), "task_not_found");
    expect(&service, StatusCode::NO_CONTENT, "DELETE", "/api/v2/queues/q?cascade=true", "").await;
    assert_eq!(expect(&service, StatusCode::NOT_FOUND, "GET", &task, "").await.code(), "queue_not_found");
}

#[tokio::test]
async fn checks_come_in_the_order_of_the_contract() {
    let service = server();
    let too_large = "x".repeat(LIMIT + 1);
    let id = format!("tasks/{TASK}");
    let cases = [
        ("PUT", "!/tasks/bad", too_large.as_str(), "request_too_large"),
        ("GET", "!/tasks", too_large.as_str(), "request_too_large"),
        ("PUT", "!/tasks/bad", "{", "invalid_request"),
        ("PUT", "!/tasks/bad", "{\"x\":1}", "invalid_task"),
        ("PUT", "!/tasks/bad", "{}", "invalid_request"),
        ("PUT", "missing/tasks/bad", "{}", "invalid_task_id"),
        ("PUT", &format!("missing/{id}"), "{\"x\":1}", "invalid_task"),
        ("PUT", &format!("missing/{id}"), "{}", "queue_not_found"),
        ("PATCH", "!/tasks", r#"{"filter":"((","changes":{"priority":"1"}}"#, "invalid_update"),
        ("PATCH", "missing/tasks", r#"{"filter":"((","changes":{"priority":1}}"#, "invalid_filter"),
        ("PATCH", "missing/tasks", r#"{"filter":" ","changes":{"priority":1}}"#, "invalid_filter"),
        ("PATCH", "missing/tasks", r#"{"filter":"priority==1","changes":{"priority":1}}"#, "queue_not_found"),
        ("GET", "!/tasks?limit=0&filter=((", "", "invalid_request"),
        ("GET", "missing/tasks?filter=((&cursor=x", "", "invalid_cursor"),
        ("GET", "missing/tasks?filter=((", "", "invalid_filter"),
        ("GET", "missing/tasks?cursor=", "", "invalid_cursor"),
        ("GET", "missing/workers?filter=priority==1&cursor=x", "", "invalid_cursor"),
        ("GET", "missing/workers?filter=priority==1", "", "invalid_filter"),
        ("GET", "missing/tasks/count?group_by=status&cursor=x&filter=((", "", "invalid_filter"),
        ("GET", "missing/tasks/count?group_by=status&cursor=x", "", "queue_not_found"),
        ("GET", "missing/workers/count?group_by=status&cursor=", "", "queue_not_found"),
        ("GET", "missing/tasks/bad", "", "invalid_task_id"),
        ("DELETE", "missing/workers/bad", "", "invalid_request"),
        ("DELETE", &format!("missing/workers/{WORKER}"), "", "queue_not_found"),
        ("POST", &format!("missing/{id}/cancel"), "{", "queue_not_found"),
        ("GET", "%FF/tasks", "", "invalid_request"),
        ("GET", "a+b/tasks", "", "invalid_request"),
        ("GET", "q/tasks/%FF", "", "invalid_task_id"),
    ];
    for (method, path, body, code) in cases {
        let answered = call(&service, method, &format!("/api/v2/queues/{path}"), body).await;
        assert_eq!(answered.code(), code, "{method} {path}");
    }
    expect(&service, StatusCode::CREATED, "PUT", "/api/v2/queues/q", "").await;
    let last = call(&service, "GET", "/api/v2/queues/q/tasks/count?group_by=status&cursor=x", "").await;
    assert_eq!(last.code(), "invalid_cursor");
}

#[tokio::test]
async fn the_limit_of_a_body_holds_on_every_endpoint() {
    let service = server();
    expect(&service, StatusCode::CREATED, "PUT", "/api/v2/queues/q", &"x".repeat(LIMIT)).await;
    let requests =
        [("PUT", "/api/v2/queues/q"), ("GET", "/health"), ("GET", "/openapi.json"), ("DELETE", "/api/v2/queues/q")];
    for (method, path) in requests {
        let answered = call(&service, method, path, &"x".repeat(LIMIT + 1)).await;
        assert_eq!((answered.status, answered.code().as_str()), (413, "request_too_large"), "{method} {path}");
        assert_eq!(answered.details()["max_bytes"], LIMIT);
    }
}

#[tokio::test]
async fn a_body_must_say_that_it_is_json() {
    let service = server();
    let put = |path: String, media_type: Option<&str>, body: &str| {
        let mut request = Request::builder().method("PUT").uri(path).header("host", "localhost");
        if let Some(media_type) = media_type {
            request = request.header("content-type", media_type);
        }
        request.body(Body::from(body.to_owned())).unwrap()
    };
    let task = format!("/api/v2/queues/q/tasks/{TASK}");
    let worker = format!("/api/v2/queues/q/workers/{WORKER}");
    for media_type in [None, Some("text/plain"), Some("application/octet-stream")] {
        for body in ["{}", "{"] {
            let answered = send(&service, put(task.clone(), media_type, body)).await;
            assert_eq!(answered.code(), "invalid_task", "{media_type:?}");
            assert_eq!(answered.json()["error"]["message"], "send Content-Type: application/json");
            assert_eq!(send(&service, put(worker.clone(), media_type, body)).await.code(), "invalid_request");
        }
    }
    let vendor = send(&service, put(task.clone(), Some("application/x+json; charset=utf-8"), "{}")).await;
    assert_eq!(vendor.code(), "queue_not_found");
    let empty = send(&service, put(task, Some("text/plain"), "")).await;
    assert_eq!(empty.code(), "invalid_task");
}

#[tokio::test]
async fn pages_follow_each_other_and_a_cursor_fits_its_selection_only() {
    let service = server();
    expect(&service, StatusCode::CREATED, "PUT", "/api/v2/queues/q", "").await;
    for n in 0..5 {
        let path = format!("/api/v2/queues/q/tasks/t_{n:012}");
        expect(&service, StatusCode::CREATED, "PUT", &path, r#"{"routes":["a","b"]}"#).await;
    }
    let list = "/api/v2/queues/q/tasks?order_by=id&descending=false&filter=priority%3D%3D0&limit=";
    let first = expect(&service, StatusCode::OK, "GET", &format!("{list}3"), "").await.json();
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = expect(&service, StatusCode::OK, "GET", &format!("{list}1000&cursor={cursor}"), "").await.json();
    assert_eq!(second["next_cursor"], serde_json::Value::Null);
    let ids = |page: &serde_json::Value| -> Vec<String> {
        page["items"].as_array().unwrap().iter().map(|task| task["id"].as_str().unwrap().to_owned()).collect()
    };
    let all: Vec<String> = [ids(&first), ids(&second)].concat();
    assert_eq!(all, (0..5).map(|n| format!("t_{n:012}")).collect::<Vec<_>>());
    for other in ["tasks?order_by=id&descending=false&limit=3", "workers?filter=id=='x'", "tasks?order_by=id"] {
        let answered = call(&service, "GET", &format!("/api/v2/queues/q/{other}&cursor={cursor}"), "").await;
        assert_eq!(answered.code(), "invalid_cursor", "{other}");
    }
    let groups = "/api/v2/queues/q/tasks/count?group_by=routes,status&limit=1";
    let first = expect(&service, StatusCode::OK, "GET", groups, "").await.json();
    assert_eq!(first["items"], serde_json::json!([{"key": {"routes": "a", "status": "pending"}, "count": 5}]));
    assert_eq!((&first["count"], &first["group_by"]), (&5.into(), &serde_json::json!(["routes", "status"])));
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = expect(&service, StatusCode::OK, "GET", &format!("{groups}&cursor={cursor}"), "").await.json();
    assert_eq!((&second["items"][0]["key"]["routes"], &second["next_cursor"]), (&"b".into(), &serde_json::Value::Null));
    let swapped = "/api/v2/queues/q/tasks/count?group_by=status,routes";
    let mismatch = call(&service, "GET", &format!("{swapped}&cursor={cursor}"), "").await;
    assert_eq!(mismatch.code(), "invalid_cursor");
}

#[tokio::test]
async fn workers_report_are_listed_counted_and_withdrawn() {
    let service = server();
    let worker = format!("/api/v2/queues/q/workers/{WORKER}");
    let report = |route: &str| format!("{{\"route\":\"{route}\",\"status\":\"busy\",\"task_id\":\"{TASK}\"}}");
    let missing = expect(&service, StatusCode::NOT_FOUND, "PUT", &worker, &report("gpu")).await;
    assert_eq!(missing.code(), "queue_not_found");
    expect(&service, StatusCode::CREATED, "PUT", "/api/v2/queues/q", "").await;
    expect(&service, StatusCode::NO_CONTENT, "PUT", &worker, &report("gpu")).await;
    let moved = expect(&service, StatusCode::CONFLICT, "PUT", &worker, &report("cpu")).await;
    assert_eq!((moved.code(), &moved.details()["worker_id"]), ("worker_route_conflict".into(), &WORKER.into()));
    let list =
        expect(&service, StatusCode::OK, "GET", "/api/v2/queues/q/workers?filter=status=='busy'", "").await.json();
    assert_eq!(list["items"][0]["task_id"], TASK);
    assert_eq!(list["items"][0].as_object().unwrap().len(), 7);
    let count = expect(&service, StatusCode::OK, "GET", "/api/v2/queues/q/workers/count", "").await.json();
    assert_eq!(count, serde_json::json!({"count": 1}));
    let groups =
        expect(&service, StatusCode::OK, "GET", "/api/v2/queues/q/workers/count?group_by=route", "").await.json();
    assert_eq!(groups["items"], serde_json::json!([{"key": {"route": "gpu"}, "count": 1}]));
    expect(&service, StatusCode::NO_CONTENT, "DELETE", &worker, "").await;
    expect(&service, StatusCode::NO_CONTENT, "DELETE", &worker, "").await;
}

#[tokio::test]
async fn stats_say_what_is_going_on_and_what_happened() {
    let service = server();
    let (stats, task) = ("/api/v2/queues/q/stats", format!("/api/v2/queues/q/tasks/{TASK}"));
    assert_eq!(expect(&service, StatusCode::NOT_FOUND, "GET", stats, "").await.code(), "queue_not_found");
    expect(&service, StatusCode::CREATED, "PUT", "/api/v2/queues/q", "").await;
    expect(&service, StatusCode::CREATED, "PUT", &task, r#"{"routes":["gpu"]}"#).await;
    let shown = expect(&service, StatusCode::OK, "GET", stats, "").await.json();
    let route = serde_json::json!({
        "route": "gpu", "pending": 1, "running": 0, "oldest_pending_seconds": 0.0, "workers_idle": 0, "workers_busy": 0
    });
    assert_eq!(shown["routes"], serde_json::json!([route]));
    assert_eq!((&shown["tasks"]["pending"], &shown["activity"]["last_minute"]["created"]), (&1.into(), &1.into()));
    assert_eq!(
        (&shown["wait_seconds"], &shown["since"]),
        (&serde_json::Value::Null, &"1970-01-01T00:00:01.000000Z".into())
    );

    let series = expect(&service, StatusCode::OK, "GET", &format!("{stats}?series=hour"), "").await.json();
    assert_eq!((&series["series"], &series["items"][0]["created"]), (&"hour".into(), &1.into()));
    assert_eq!(series["items"][0]["start"], "1970-01-01T00:00:00.000000Z");
    let later = format!("{stats}?series=minute&from=1970-01-01T00:01:00Z");
    assert_eq!(expect(&service, StatusCode::OK, "GET", &later, "").await.json()["items"], serde_json::json!([]));
    let wrong =
        expect(&service, StatusCode::UNPROCESSABLE_ENTITY, "GET", "/api/v2/queues/none/stats?series=day", "").await;
    assert_eq!(wrong.code(), "invalid_request", "before the queue is looked for");
    expect(&service, StatusCode::METHOD_NOT_ALLOWED, "POST", stats, "{}").await;
}

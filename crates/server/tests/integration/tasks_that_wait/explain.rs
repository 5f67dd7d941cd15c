//! `explain`.

use super::*;

async fn explain(api: &Api, n: usize) -> Value {
    api.call("GET", &format!("/tasks/t_{n:012}/explain"), "").await.json()
}

/// Whether the task is claimable, and the codes of the reasons.
fn codes(explanation: &Value) -> (bool, Vec<&str>) {
    let reasons = explanation["reasons"].as_array().unwrap().iter();
    let codes = reasons.map(|reason| {
        assert!(!reason["message"].as_str().unwrap().is_empty(), "{reason}");
        reason["code"].as_str().unwrap()
    });
    (explanation["claimable"].as_bool().unwrap(), codes.collect())
}

#[tokio::test]
async fn a_task_says_why_it_is_not_claimed() {
    let api = Api::new().await;
    api.create(1, "{}").await;
    api.create(2, "{}").await;
    let second = explain(&api, 2).await;
    assert_eq!(codes(&second), (true, vec!["no_worker", "waiting_turn"]));
    assert_eq!((&second["reasons"][0]["routes"], &second["reasons"][1]["ahead"]), (&json!(["default"]), &json!(1)));
    let idle = r#"{"route":"default","status":"idle","task_id":null}"#;
    assert_eq!(api.call("PUT", "/workers/w_000000000001", idle).await.status, 204);
    assert_eq!(explain(&api, 1).await, json!({"claimable": true, "reasons": []}));
    api.create(3, r#"{"dependencies":["t_000000000001","t_000000000009"],"not_before":"1970-01-01T00:00:11Z"}"#).await;
    let third = explain(&api, 3).await;
    assert_eq!(codes(&third), (false, vec!["dependencies", "not_before", "waiting_turn"]));
    let unmet = json!([{"id": "t_000000000001", "status": "pending"}, {"id": "t_000000000009", "status": "missing"}]);
    assert_eq!(third["reasons"][0]["unmet"], unmet);
    assert_eq!(third["reasons"][1]["until"], "1970-01-01T00:00:11.000000Z");
    api.claim(1).await.unwrap();
    let running = explain(&api, 1).await;
    assert_eq!((codes(&running), &running["reasons"][0]["status"]), ((false, vec!["not_pending"]), &json!("running")));
    api.call("PATCH", "/settings", r#"{"paused":true,"max_running":1,"route_limits":{"default":1}}"#).await;
    let limited = explain(&api, 2).await;
    assert_eq!(codes(&limited), (false, vec!["queue_paused", "queue_at_limit", "route_at_limit"]));
    assert_eq!(
        (&limited["reasons"][1]["max_running"], &limited["reasons"][2]["routes"]),
        (&json!(1), &json!(["default"]))
    );
}

#[tokio::test]
async fn what_is_not_there_is_not_explained() {
    let api = Api::new().await;
    assert_eq!(api.call("GET", "/tasks/t_000000000001/explain", "").await.code(), "task_not_found");
    assert_eq!(api.call("GET", "/tasks/t_1/explain", "").await.code(), "invalid_task_id");
    let elsewhere = call(&api.http, "GET", "/api/v2/queues/none/tasks/t_000000000001/explain", "").await;
    assert_eq!(elsewhere.code(), "queue_not_found");
    assert_eq!(api.call("POST", "/tasks/t_000000000001/explain", "").await.status, 405);
}

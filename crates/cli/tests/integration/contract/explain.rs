//! Why a task is not claimed (extension `explain`): `GET .../tasks/{id}/explain`.

use serde_json::{Value, json};

use super::support::*;

#[track_caller]
fn explain(server: &Server, n: usize) -> Value {
    let explained = server.get(&of_task(n, "/explain")).expect(200).json();
    let names: Vec<&String> = explained.as_object().unwrap().keys().collect();
    assert_eq!(names, ["claimable", "reasons"]);
    for reason in explained["reasons"].as_array().unwrap() {
        assert!(!reason["message"].as_str().unwrap().is_empty(), "{explained}");
    }
    explained
}

#[test]
fn every_reason_is_there_the_one_that_weighs_most_first() {
    let server = Server::with_task();
    server.create(2, json!({}));
    server.create(3, json!({"dependencies": [task_id(2), task_id(9)], "not_before": "2099-01-02T03:04:05.000006Z"}));
    assert_eq!(server.claimed(1), 1);
    let closed = json!({"paused": true, "max_running": 1, "route_limits": {"default": 0}});
    server.patch(&in_queue("/settings"), closed).expect(200);
    let explained = explain(&server, 3);
    assert_eq!(explained["claimable"], false);
    let without_message = |reason: &Value| {
        let mut reason = reason.clone();
        reason.as_object_mut().unwrap().remove("message").unwrap();
        reason
    };
    let reasons: Vec<Value> = explained["reasons"].as_array().unwrap().iter().map(without_message).collect();
    let unmet = json!([{"id": task_id(2), "status": "pending"}, {"id": task_id(9), "status": "missing"}]);
    let expected = [
        json!({"code": "queue_paused"}),
        json!({"code": "queue_at_limit", "max_running": 1}),
        json!({"code": "route_at_limit", "routes": ["default"]}),
        json!({"code": "dependencies", "unmet": unmet}),
        json!({"code": "not_before", "until": "2099-01-02T03:04:05.000006Z"}),
        json!({"code": "no_worker", "routes": ["default"]}),
        json!({"code": "waiting_turn", "ahead": 1}),
    ];
    assert_eq!(reasons, expected);
}

#[test]
fn what_is_not_there_is_told_as_everywhere() {
    let server = Server::with_queue();
    server.get(&of_task(1, "/explain")).assert_error(404, "task_not_found");
    server.get(&of_task(1, "/explain").replace("/q/", "/none/")).assert_error(404, "queue_not_found");
    server.get(&in_queue("/tasks/t_x/explain")).assert_error(422, "invalid_task_id");
    server.post(&of_task(1, "/explain"), json!({})).assert_error(405, "method_not_allowed");
}

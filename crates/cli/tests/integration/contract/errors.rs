//! The table of codes with their details, and which error wins when a body has several
//! (docs/reference/errors.md §2 and §3). The unauthorised are in `contract_http`, the order of different checks in
//! `order_of_checks`.

use serde_json::json;

use super::support::*;

#[test]
fn missing_tasks_and_paths_are_named() {
    let server = Server::with_queue();
    let task = server.get(&of_task(1, ""));
    task.assert_details(404, "task_not_found", &json!({"queue": "q", "task_id": task_id(1)}));
    server.get("/api/v2/nope").assert_details(404, "not_found", &json!({"path": "/api/v2/nope"}));
}

#[test]
fn a_missing_task_of_an_existing_queue_is_task_not_found_everywhere() {
    let server = Server::with_queue();
    server.get(&of_task(1, "")).assert_error(404, "task_not_found");
    server.patch(&of_task(1, ""), json!({"priority": 1})).assert_error(404, "task_not_found");
    for action in ["cancel", "requeue", "heartbeat", "complete", "fail", "unclaim"] {
        server.act(1, action, 1).assert_error(404, "task_not_found");
    }
}

#[test]
fn conflicts_of_tasks_carry_their_details() {
    let server = Server::with_task();
    let conflict = server.put(&of_task(1, ""), json!({"priority": 1}));
    conflict.assert_details(409, "task_id_conflict", &json!({"queue": "q", "task_id": task_id(1)}));
    server.create_in_state(2, "running");
    let running = json!({"task_id": task_id(2)});
    server.patch(&of_task(2, ""), json!({"priority": 1})).assert_details(409, "task_running", &running);
    server.delete(&of_task(2, "")).assert_details(409, "task_running", &running);
    let state = json!({"task_id": task_id(2), "status": "running"});
    server.requeue(2).assert_details(409, "task_state_conflict", &state);
    server.create_in_state(3, "succeeded");
    let state = json!({"task_id": task_id(3), "status": "succeeded"});
    server.cancel(3).assert_details(409, "task_state_conflict", &state);
    server.claimed(1);
    server.act(1, "fail", 1).expect(204);
    let details = json!({"task_id": task_id(1), "field": "max_attempts", "attempt": 1});
    server.patch(&of_task(1, ""), json!({"max_attempts": 1})).assert_details(409, "update_conflict", &details);
}

#[test]
fn conflicts_of_runs_carry_their_details() {
    let server = Server::with_task();
    let stale = server.act(1, "complete", 7);
    stale.assert_details(409, "stale_run", &json!({"run_id": run_id(7)}));
    server.claim(1);
    server.claim_for("q", "other", 1).assert_details(409, "run_id_conflict", &json!({"run_id": run_id(1)}));
    server.act(1, "unclaim", 1).expect(204);
    server.act(1, "complete", 1).assert_details(409, "run_finalized", &json!({"action": "unclaim"}));
    server.claim_for("q", "default", 1).assert_details(409, "stale_run", &json!({"run_id": run_id(1)}));
}

#[test]
fn conflicts_of_queues_and_workers_carry_their_details() {
    let server = Server::with_queue();
    server.put(&of_worker(1), idle()).expect(204);
    let moved = server.put(&of_worker(1), json!({"route": "other", "status": "idle", "task_id": null}));
    moved.assert_details(409, "worker_route_conflict", &json!({"worker_id": worker_id(1)}));
    server.create(1, json!({}));
    server.create(2, json!({}));
    server.delete(&in_queue("")).assert_details(409, "queue_not_empty", &json!({"queue": "q", "tasks": 2}));
    server.claim(1);
    let details = json!({"queue": "q", "running": 1});
    for query in ["", "?cascade=false", "?cascade=true"] {
        server.delete(&in_queue(query)).assert_details(409, "queue_has_running_tasks", &details);
    }
}

#[test]
fn limits_are_named() {
    let server = Server::with_queue();
    let large = Request::new("PUT", &of_task(1, "")).header("Content-Length", "1048577");
    server.send(&large).assert_details(413, "request_too_large", &json!({"max_bytes": MIB}));
    let data = format!("{{\"args\":{{\"a\":\"{}\"}}}}", "x".repeat(MIB - 30));
    server.put(&of_task(1, ""), data).assert_details(422, "task_data_too_large", &json!({"max_bytes": MIB}));
    let filter = format!("priority == 0{}", " ".repeat(8192));
    server.filter(&filter).assert_details(422, "filter_too_large", &json!({"max_bytes": 8192}));
    assert_eq!(server.get(&in_queue("/tasks?cursor=x")).assert_error(422, "invalid_cursor"), json!({}));
    let name = server.put(&of_task(1, ""), json!({"name": "a\nb"}));
    assert_eq!(name.assert_error(422, "invalid_task_name"), json!({}));
    let bulk = json!({"filter": filter, "changes": {"priority": 1}});
    server.patch(&in_queue("/tasks"), bulk).assert_error(422, "filter_too_large");
    let filter = encode(&format!("status == 'idle'{}", " ".repeat(8192)));
    server.get(&in_queue(&format!("/workers?filter={filter}"))).assert_error(422, "filter_too_large");
    let half = "x".repeat(600_000);
    server.create(2, json!({"args": {"a": half}}));
    server.patch(&of_task(2, ""), json!({"metadata": {"a": half}})).assert_error(422, "task_data_too_large");
    server.claim(1);
    let complete = json!({"run_id": run_id(1), "result": {"a": half}});
    server.post(&of_task(2, "/complete"), complete).assert_error(422, "task_data_too_large");
    server.act(2, "complete", 1).expect(204);
}

#[test]
fn invalid_bodies_say_where() {
    let server = Server::with_task();
    let task = of_task(2, "");
    server.put(&task, json!({"routes": [1]})).assert_location("invalid_task", &json!(["body", "routes", 0]));
    server.put(&task, json!({"routes": ["a", "b b"]})).assert_location("invalid_task", &json!(["body", "routes", 1]));
    let several = server.put(&task, json!({"priority": "x", "routes": []}));
    several.assert_location("invalid_task", &json!(["body", "priority"]));
    several.assert_location("invalid_task", &json!(["body", "routes"]));
    server.put(&task, json!({"unknown": 1})).assert_location("invalid_task", &json!(["body", "unknown"]));
    let update = server.patch(&of_task(1, ""), json!({"max_attempts": 0}));
    update.assert_location("invalid_update", &json!(["body", "max_attempts"]));
    let claim = server.post(&in_queue("/tasks/claim"), json!({"run_id": run_id(1)}));
    claim.assert_location("invalid_request", &json!(["body", "route"]));
    let fail = server.post(&of_task(1, "/fail"), json!({"run_id": run_id(1), "error": {"type": "E"}}));
    fail.assert_location("invalid_request", &json!(["body", "error", "message"]));
}

#[test]
fn invalid_query_parameters_say_where() {
    let server = Server::with_queue();
    for (parameter, value) in [("limit", "0"), ("status", "done"), ("order_by", "queue"), ("descending", "maybe")] {
        let response = server.get(&in_queue(&format!("/tasks?{parameter}={value}")));
        response.assert_location("invalid_request", &json!(["query", parameter]));
    }
    let response = server.delete(&in_queue("?cascade=maybe"));
    response.assert_location("invalid_request", &json!(["query", "cascade"]));
}

#[test]
fn invalid_names_in_paths_say_what_is_wrong() {
    let server = Server::with_queue();
    let responses = [
        server.put("/api/v2/queues/.bad", ()),
        server.get("/api/v2/queues/.bad/tasks"),
        server.put(&in_queue("/workers/bad"), idle()),
        server.delete(&in_queue("/workers/bad")),
    ];
    for response in responses {
        let details = response.assert_error(422, "invalid_request");
        assert!(details["errors"].is_array() || details["field"].is_string(), "{response:?}");
    }
}

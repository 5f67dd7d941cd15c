//! Which refusal comes first when a request deserves several (docs/reference/http-api.md §4).
//! Several errors of one body are in `errors`.

use serde_json::json;

use super::support::*;

/// A stored size above the limit in a body below it.
fn oversized_args() -> String {
    format!("{{\"a\":\"{}\"}}", "x".repeat(MIB - 60))
}

/// Every task and worker endpoint of a queue with a valid request: method, rest of the path, body.
fn endpoints() -> Vec<(&'static str, String, String)> {
    let task = format!("/tasks/{}", task_id(1));
    let worker = format!("/workers/{}", worker_id(1));
    let bulk = json!({"filter": "priority == 0", "changes": {"priority": 1}});
    let claim = json!({"route": "default", "run_id": run_id(1)});
    let mut endpoints = vec![
        ("PUT", task.clone(), "{}".to_owned()),
        ("PATCH", task.clone(), json!({"priority": 1}).to_string()),
        ("PATCH", "/tasks".to_owned(), bulk.to_string()),
        ("DELETE", task.clone(), String::new()),
        ("POST", "/tasks/claim".to_owned(), claim.to_string()),
        ("PUT", worker.clone(), idle().to_string()),
        ("DELETE", worker.clone(), String::new()),
        ("POST", format!("{worker}/telemetry"), json!({"telemetry": {}}).to_string()),
        ("POST", format!("{task}/output"), json!({"run_id": run_id(1), "offset": 0, "text": "a"}).to_string()),
        ("POST", format!("{task}/progress"), json!({"run_id": run_id(1), "progress": {}}).to_string()),
        ("PATCH", "/settings".to_owned(), "{}".to_owned()),
        ("DELETE", String::new(), String::new()),
        ("DELETE", "?cascade=true".to_owned(), String::new()),
    ];
    let reads = "/tasks /tasks/count /tasks/count?group_by=status /tasks/@ /tasks/@/output /tasks/@/explain /workers
        /workers/count /workers/count?group_by=route /stats /settings";
    let reads = reads.split_whitespace().map(|path| ("GET", path.replace('@', &task_id(1)), String::new()));
    endpoints.extend(reads);
    for action in ["cancel", "requeue", "heartbeat", "complete", "fail", "unclaim"] {
        endpoints.push(("POST", format!("{task}/{action}"), action_body(action, 1).to_string()));
    }
    endpoints
}

#[test]
fn every_endpoint_of_a_missing_queue_is_queue_not_found_and_of_an_invalid_one_an_invalid_request() {
    let server = Server::start();
    for (method, rest, body) in endpoints() {
        let of = |queue: &str| server.call(method, &format!("/api/v2/queues/{queue}{rest}"), body.as_str());
        of("nope").assert_details(404, "queue_not_found", &json!({"queue": "nope"}));
        of(".bad").assert_error(422, "invalid_request");
    }
    assert_eq!(server.get("/api/v2/queues").json(), json!([]));
}

#[test]
fn authentication_comes_before_everything_else() {
    let server = Server::with_token("secret");
    let anonymous = |method: &str, path: &str| Request::new(method, path).header("Authorization", "Bearer wrong");
    let requests = [
        anonymous("GET", "/api/v2/nope"),
        anonymous("GET", "/api/nope"),
        anonymous("GET", "/api/"),
        anonymous("GET", "/api/v2/capabilities"),
        anonymous("POST", "/api/v2/queues"),
        anonymous("FOO", "/api/v2/queues"),
        anonymous("GET", "/api/v2/queues/.bad/tasks?limit=0"),
        anonymous("PUT", "/api/v2/queues/q").header("Content-Length", "1048577"),
        anonymous("PUT", &of_task(1, "")).json("{malformed"),
        anonymous("PUT", &of_task(1, "")).json(json!({"priority": "x"})),
        anonymous("GET", &of_task(1, "")),
    ];
    for request in requests {
        server.send(&request).assert_error(401, "unauthorized");
    }
}

#[test]
fn routing_comes_before_the_size_of_the_body() {
    let server = Server::with_queue();
    let large = |method: &str, path: &str| server.send(&Request::new(method, path).header("Content-Length", "1048577"));
    large("PUT", "/api/v2/nope").assert_error(404, "not_found");
    large("PUT", "/nope").assert_error(404, "not_found");
    large("POST", "/api/v2/queues").assert_error(405, "method_not_allowed");
    large("POST", &of_task(1, "")).assert_error(405, "method_not_allowed");
}

#[test]
fn the_size_of_the_body_comes_before_everything_in_the_request() {
    let server = Server::with_queue();
    let paths = [
        "/api/v2/queues/.bad".to_owned(),
        "/api/v2/queues/nope/tasks/bad".to_owned(),
        of_task(1, "?limit=0"),
        in_queue("/workers/bad"),
    ];
    for path in paths {
        let request = Request::new("PUT", &path).header("Content-Length", "1048577");
        server.send(&request.header("Content-Type", "text/plain")).assert_error(413, "request_too_large");
    }
}

#[test]
fn the_body_comes_before_identifiers_and_these_before_existence() {
    let server = Server::with_queue();
    let invalid = json!({"priority": "x"});
    for path in ["/api/v2/queues/.bad/tasks/bad", "/api/v2/queues/nope/tasks/bad", &in_queue("/tasks/bad")] {
        server.put(path, "{").assert_error(422, "invalid_request");
        server.patch(path, "{").assert_error(422, "invalid_request");
        server.put(path, &invalid).assert_error(422, "invalid_task");
        server.patch(path, &invalid).assert_error(422, "invalid_update");
    }
    let bulk = json!({"filter": 1, "changes": {"priority": 1}});
    server.patch("/api/v2/queues/.bad/tasks", bulk).assert_error(422, "invalid_filter");
    server.put("/api/v2/queues/.bad/tasks/bad", json!({})).assert_error(422, "invalid_request");
    server.get("/api/v2/queues/.bad/tasks/bad").assert_error(422, "invalid_request");
    server.get("/api/v2/queues/nope/tasks/bad").assert_error(422, "invalid_task_id");
    server.delete("/api/v2/queues/nope/workers/bad").assert_error(422, "invalid_request");
    let claim = json!({"route": "no route", "run_id": run_id(1)});
    server.post("/api/v2/queues/nope/tasks/claim", claim).assert_error(422, "invalid_request");
    let complete = json!({"run_id": run_id(1)});
    server.post(&in_queue("/tasks/bad/complete"), complete).assert_error(422, "invalid_request");
}

#[test]
fn query_parameters_come_before_identifiers_cursors_and_filters() {
    let server = Server::with_queue();
    for query in ["limit=0&cursor=x&filter=(", "status=done&cursor=x", "descending=2&filter=(", "order_by=x&cursor="] {
        server.get(&in_queue(&format!("/tasks?{query}"))).assert_error(422, "invalid_request");
        server.get(&format!("/api/v2/queues/nope/tasks?{query}")).assert_error(422, "invalid_request");
    }
    server.get("/api/v2/queues/.bad/tasks?cursor=x&filter=(").assert_error(422, "invalid_request");
    server.get("/api/v2/queues/.bad/workers?cursor=x&filter=(").assert_error(422, "invalid_request");
}

#[test]
fn of_a_list_the_cursor_comes_before_the_filter_and_both_before_the_queue() {
    let server = Server::with_queue();
    for resource in ["tasks", "workers"] {
        for queue in ["q", "nope"] {
            let path = format!("/api/v2/queues/{queue}/{resource}");
            server.get(&format!("{path}?cursor=x&filter=(")).assert_error(422, "invalid_cursor");
            server.get(&format!("{path}?cursor=x")).assert_error(422, "invalid_cursor");
            server.get(&format!("{path}?filter=(")).assert_error(422, "invalid_filter");
        }
    }
}

#[test]
fn of_grouped_counts_the_cursor_comes_last() {
    let server = Server::with_queue();
    for resource in ["tasks", "workers"] {
        let count = |queue: &str, query: &str| server.get(&format!("/api/v2/queues/{queue}/{resource}/count?{query}"));
        count("nope", "group_by=status&group_by=status&filter=(&cursor=x").assert_error(422, "invalid_request");
        count("nope", "group_by=name&filter=(&cursor=x").assert_error(422, "invalid_request");
        count("nope", "limit=5&filter=(").assert_error(422, "invalid_request");
        count(".bad", "group_by=status&filter=(&cursor=x").assert_error(422, "invalid_request");
        count("nope", "group_by=status&filter=(&cursor=x").assert_error(422, "invalid_filter");
        count("q", "group_by=status&filter=(&cursor=x").assert_error(422, "invalid_filter");
        count("nope", "group_by=status&cursor=x").assert_error(404, "queue_not_found");
        count("q", "group_by=status&cursor=x").assert_error(422, "invalid_cursor");
    }
}

#[test]
fn filters_of_bulk_updates_come_after_the_queue_name_and_before_its_existence() {
    let server = Server::start();
    let bulk = json!({"filter": "(", "changes": {"priority": 1}});
    server.patch("/api/v2/queues/.bad/tasks", &bulk).assert_error(422, "invalid_request");
    server.patch("/api/v2/queues/nope/tasks", &bulk).assert_error(422, "invalid_filter");
}

#[test]
fn state_conflicts_come_before_the_size_of_the_data() {
    let server = Server::with_queue();
    let args = oversized_args();
    server.create(1, json!({}));
    server.put(&of_task(1, ""), format!("{{\"args\":{args}}}")).assert_error(409, "task_id_conflict");
    server.create_in_state(2, "running");
    server.patch(&of_task(2, ""), format!("{{\"args\":{args}}}")).assert_error(409, "task_running");
    let complete = |run: usize| {
        let body = format!("{{\"run_id\":\"{}\",\"result\":{args}}}", run_id(run));
        server.post(&of_task(2, "/complete"), body)
    };
    complete(77).assert_error(409, "stale_run");
    server.claimed(1);
    server.act(1, "fail", 1).expect(204);
    let update = format!("{{\"args\":{args},\"max_attempts\":1}}");
    server.patch(&of_task(1, ""), update).assert_error(409, "update_conflict");
}

#[test]
fn existence_comes_before_the_size_of_the_data() {
    let server = Server::with_queue();
    let args = oversized_args();
    let missing = format!("/api/v2/queues/nope/tasks/{}", task_id(1));
    server.put(&missing, format!("{{\"args\":{args}}}")).assert_error(404, "queue_not_found");
    server.patch(&of_task(1, ""), format!("{{\"args\":{args}}}")).assert_error(404, "task_not_found");
    server.put(&of_task(1, ""), format!("{{\"args\":{args}}}")).assert_error(422, "task_data_too_large");
}

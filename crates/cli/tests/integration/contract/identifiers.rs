//! Queue names, routes and the three kinds of identifiers at every endpoint (docs/reference/http-api.md §1.2).

use serde_json::json;

use super::support::*;

/// Texts that are no identifier with this prefix; `core` lists all kinds of them.
fn invalid_ids(prefix: &str) -> Vec<String> {
    let valid = format!("{prefix}AZaz09_-0000");
    let other = if prefix == "t_" { "r_" } else { "t_" };
    vec![valid[..13].to_owned(), format!("{valid}\n"), format!("{}\0", &valid[..13]), valid.replacen(prefix, other, 1)]
}

/// Texts that are neither a queue name nor a route; `core` lists all kinds of them.
fn invalid_names() -> Vec<String> {
    let texts = [".a", " a", "a\n", "aä", "a\0", "a:b", "a%b"];
    texts.iter().map(|&text| text.to_owned()).chain(["a".repeat(129)]).collect()
}

#[test]
fn queue_names_have_1_to_128_allowed_characters_and_begin_alphanumeric() {
    let server = Server::start();
    let longest = "a".repeat(128);
    for name in ["a", "Z", "9", "0.a_b-c", "a..b", "a-", "A--_.", &longest] {
        server.create_queue(name);
    }
    for name in invalid_names() {
        let path = format!("/api/v2/queues/{}", encode(&name));
        server.put(&path, ()).assert_error(422, "invalid_request");
        server.delete(&path).assert_error(422, "invalid_request");
        server.get(&format!("{path}/tasks")).assert_error(422, "invalid_request");
    }
    server.put("/api/v2/queues/a+b", ()).assert_error(422, "invalid_request");
    server.put("/api/v2/queues/%FF", ()).assert_error(422, "invalid_request");
    server.put("/api/v2/queues/a%C3", ()).assert_error(422, "invalid_request");
}

#[test]
fn words_of_paths_are_ordinary_queue_names() {
    let server = Server::start();
    for name in ["tasks", "workers", "count", "claim", "queues", "default", "api", "v2"] {
        server.create_queue(name);
        server.create_in(name, 1, json!({}));
        let count = server.get(&format!("/api/v2/queues/{name}/tasks/count")).expect(200).json();
        assert_eq!(count, json!({"count": 1}), "{name}");
    }
}

#[test]
fn queue_names_and_task_ids_are_case_sensitive() {
    let server = Server::with_queue();
    server.put(&in_queue("/tasks/t_aaaaaaaaaaaa"), json!({})).expect(201);
    server.get(&in_queue("/tasks/t_AAAAAAAAAAAA")).assert_error(404, "task_not_found");
    server.put(&in_queue("/tasks/t_AAAAAAAAAAAA"), json!({"priority": 1})).expect(201);
    server.get("/api/v2/queues/Q/tasks").assert_error(404, "queue_not_found");
    server.create_queue("Q");
    let page = server.get("/api/v2/queues/Q/tasks").expect(200).json();
    assert_eq!(page, json!({"items": [], "next_cursor": null}));
}

#[test]
fn path_components_are_percent_decoded_first() {
    let server = Server::start();
    let queue = server.put("/api/v2/queues/%61bc", ()).expect(201).json();
    assert_eq!(queue, json!({"name": "abc"}));
    server.put("/api/v2/queues/abc", ()).expect(200);
    let task = server.put("/api/v2/queues/%61%62%63/tasks/%74%5f000000000001", json!({})).expect(201).json();
    assert_eq!((task["queue"].as_str(), task["id"].as_str()), (Some("abc"), Some("t_000000000001")));
    server.put("/api/v2/queues/abc/workers/w%5F000000000001", idle()).expect(204);
    server.put("/api/v2/queues/%2561bc", ()).assert_error(422, "invalid_request");
}

#[test]
fn invalid_task_ids_in_paths_are_refused_by_every_endpoint() {
    let server = Server::with_queue();
    for id in invalid_ids("t_") {
        let path = in_queue(&format!("/tasks/{}", encode(&id)));
        server.get(&path).assert_details(422, "invalid_task_id", &json!({"task_id": id}));
        server.put(&path, json!({})).assert_error(422, "invalid_task_id");
        server.patch(&path, json!({"priority": 1})).assert_error(422, "invalid_task_id");
        server.delete(&path).assert_error(422, "invalid_task_id");
        for action in ["cancel", "requeue", "heartbeat", "complete", "fail", "unclaim"] {
            let response = server.post(&format!("{path}/{action}"), action_body(action, 1));
            response.assert_error(422, "invalid_task_id");
        }
    }
    server.get(&in_queue("/tasks/t_00000000000%FF")).assert_error(422, "invalid_task_id");
    server.put(&in_queue("/tasks/t_00000000000+"), json!({})).assert_error(422, "invalid_task_id");
}

#[test]
fn count_and_claim_are_invalid_task_ids_where_they_are_no_endpoints() {
    let server = Server::with_queue();
    for word in ["count", "claim"] {
        let path = in_queue(&format!("/tasks/{word}"));
        server.put(&path, json!({})).assert_error(422, "invalid_task_id");
        server.patch(&path, json!({"priority": 1})).assert_error(422, "invalid_task_id");
        server.delete(&path).assert_error(422, "invalid_task_id");
        server.post(&format!("{path}/cancel"), ()).assert_error(422, "invalid_task_id");
    }
    server.get(&in_queue("/tasks/claim")).assert_error(422, "invalid_task_id");
    assert_eq!(server.get(&in_queue("/tasks/count")).expect(200).json(), json!({"count": 0}));
    server.post(&in_queue("/tasks/claim"), json!({"route": "default", "run_id": run_id(1)})).expect(204);
}

#[test]
fn worker_ids_are_w_and_12_characters() {
    let server = Server::with_queue();
    for id in ["w_AZaz09_-0000", "w____________-"] {
        server.put(&in_queue(&format!("/workers/{id}")), idle()).expect(204);
    }
    for id in invalid_ids("w_") {
        let path = in_queue(&format!("/workers/{}", encode(&id)));
        server.put(&path, idle()).assert_error(422, "invalid_request");
        server.delete(&path).assert_error(422, "invalid_request");
    }
    server.delete(&in_queue("/workers/w_00000000000%FF")).assert_error(422, "invalid_request");
}

#[test]
fn invalid_run_ids_are_refused_by_the_whole_worker_protocol() {
    let server = Server::with_queue();
    server.create(1, json!({}));
    for id in invalid_ids("r_") {
        let claim = server.post(&in_queue("/tasks/claim"), json!({"route": "default", "run_id": id}));
        claim.assert_error(422, "invalid_request");
        for action in ["heartbeat", "complete", "fail", "unclaim"] {
            let mut body = action_body(action, 1);
            body["run_id"] = json!(id);
            server.post(&of_task(1, &format!("/{action}")), body).assert_error(422, "invalid_request");
        }
    }
    let claim = server.post(&in_queue("/tasks/claim"), json!({"route": "default", "run_id": "r_AZaz09_-0000"}));
    assert_eq!(claim.expect(200).json()["run_id"], "r_AZaz09_-0000");
}

#[test]
fn routes_follow_the_rule_of_queue_names_with_the_code_of_the_endpoint() {
    let server = Server::with_queue();
    server.create(1, json!({}));
    let longest = "r".repeat(128);
    server.create(2, json!({"routes": ["0.a_b-c", "Z", longest]}));
    for route in invalid_names().into_iter().chain([String::new()]) {
        let routes = json!({"routes": ["ok", route]});
        server.put(&of_task(3, ""), &routes).assert_error(422, "invalid_task");
        server.patch(&of_task(1, ""), &routes).assert_error(422, "invalid_update");
        let bulk = json!({"filter": "priority == 0", "changes": routes});
        server.patch(&in_queue("/tasks"), bulk).assert_error(422, "invalid_update");
        server.claim_for("q", &route, 1).assert_error(422, "invalid_request");
        let report = json!({"route": route, "status": "idle", "task_id": null});
        server.put(&of_worker(1), report).assert_error(422, "invalid_request");
    }
    assert_eq!(server.task(1)["routes"], json!(["default"]));
}

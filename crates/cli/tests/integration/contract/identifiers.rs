//! Queue names and task ids at every endpoint (docs/reference/http-api.md §1.2). Which texts are names and identifiers is proven in
//! `core`, where bodies have them in `api`, and that paths are decoded first in `server`.

use serde_json::json;

use super::support::*;

/// Texts that are no identifier with this prefix; `core` lists all kinds of them.
fn invalid_ids(prefix: &str) -> Vec<String> {
    let valid = format!("{prefix}AZaz09_-0000");
    let other = if prefix == "t_" { "r_" } else { "t_" };
    vec![valid[..13].to_owned(), format!("{valid}\n"), format!("{}\0", &valid[..13]), valid.replacen(prefix, other, 1)]
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

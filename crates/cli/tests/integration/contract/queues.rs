//! Queues: creating, listing and deleting them, and that they are separate from each other
//! (docs/reference/http-api.md §5). Names are in `identifiers`.

use serde_json::{Value, json};

use super::support::*;

fn queues(server: &Server) -> Value {
    server.get("/api/v2/queues").expect(200).json()
}

#[test]
fn a_queue_is_created_once_and_answers_alike_afterwards() {
    let server = Server::start();
    let path = "/api/v2/queues/q";
    let created = server.put(path, ()).expect(201);
    let present = server.put(path, ()).expect(200);
    assert_eq!((created.text(), present.text()), (r#"{"name":"q"}"#.to_owned(), r#"{"name":"q"}"#.to_owned()));
    assert_eq!(queues(&server), json!([{"name": "q"}]));
}

#[test]
fn the_list_of_queues_is_complete() {
    let server = Server::start();
    in_parallel(8, |thread| (thread..1104).step_by(8).for_each(|n| server.create_queue(&format!("queue-{n}"))));
    assert_eq!(queues(&server).as_array().unwrap().len(), 1104);
}

#[test]
fn an_empty_queue_is_deleted_once() {
    let server = Server::with_queue();
    server.delete(&in_queue("")).expect(204);
    assert_eq!(queues(&server), json!([]));
    server.delete(&in_queue("")).assert_error(404, "queue_not_found");
    server.delete(&in_queue("?cascade=true")).assert_error(404, "queue_not_found");
}

#[test]
fn a_queue_with_a_task_in_any_state_needs_cascade() {
    for state in STATES {
        let server = Server::with_queue();
        server.create_in_state(1, state);
        let code = if state == "running" { "queue_has_running_tasks" } else { "queue_not_empty" };
        server.delete(&in_queue("")).assert_error(409, code);
        server.delete(&in_queue("?cascade=false")).assert_error(409, code);
        assert_eq!(server.task(1)["status"], state);
        if state == "running" {
            server.delete(&in_queue("?cascade=true")).assert_error(409, code);
            assert_eq!(server.task(1)["status"], state);
        } else {
            server.delete(&in_queue("?cascade=true")).expect(204);
            assert_eq!(queues(&server), json!([]), "{state}");
        }
    }
}

#[test]
fn a_deleted_queue_never_comes_back_by_itself() {
    let server = Server::with_queue();
    server.create(1, json!({}));
    server.put(&of_worker(1), idle()).expect(204);
    server.delete(&in_queue("?cascade=true")).expect(204);
    server.put(&of_worker(1), idle()).assert_error(404, "queue_not_found");
    server.put(&of_task(1, ""), json!({})).assert_error(404, "queue_not_found");
    server.claim_for("q", "default", 1).assert_error(404, "queue_not_found");
    assert_eq!(queues(&server), json!([]));
}

#[test]
fn operations_on_one_queue_leave_another_untouched() {
    let server = Server::with_queue();
    server.create_queue("other");
    for queue in ["q", "other"] {
        server.create_in(queue, 1, json!({"name": "same"}));
        server.create_in(queue, 2, json!({"name": "same"}));
        let path = format!("/api/v2/queues/{queue}/workers/{}", worker_id(1));
        server.put(&path, idle()).expect(204);
    }
    let look = || [server.get("/api/v2/queues/other/tasks").text(), server.get("/api/v2/queues/other/workers").text()];
    let before = look();
    server.patch(&of_task(1, ""), json!({"priority": 3})).expect(200);
    let bulk = json!({"filter": "name == \"same\"", "changes": {"metadata": {"x": 1}}});
    server.patch(&in_queue("/tasks"), bulk).expect(200);
    server.claim(1);
    server.act(1, "complete", 1).expect(204);
    server.cancel(2).expect(200);
    server.requeue(2).expect(200);
    server.delete(&of_task(2, "")).expect(204);
    server.delete(&of_worker(1)).expect(204);
    server.put(&of_worker(1), json!({"route": "else", "status": "busy", "task_id": null})).expect(204);
    server.delete(&in_queue("?cascade=true")).expect(204);
    assert_eq!(look(), before);
}

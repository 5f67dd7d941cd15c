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

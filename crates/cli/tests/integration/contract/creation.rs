//! Creating tasks: replays, and what does not count towards the size of stored data (docs/reference/http-api.md §6.2 to §6.4). The
//! identity of a definition and the limit itself are proven in `core` and by the conformance suite of the stores.

use serde_json::json;

use super::support::*;

/// The canonical form of a task with all defaults; its length is the smallest stored size.
const SMALLEST: &str =
    r#"{"args":{},"max_attempts":3,"metadata":{},"name":null,"priority":0,"result":{},"routes":["default"]}"#;

/// An object of so many canonical bytes in all.
fn object_of(bytes: usize) -> String {
    format!("{{\"a\":\"{}\"}}", "x".repeat(bytes - r#"{"a":""}"#.len()))
}

/// The canonical size that an object may have when everything else is a default.
const ROOM: usize = MIB - (SMALLEST.len() - 2);

#[test]
fn an_identical_creation_is_a_replay_and_another_one_a_conflict() {
    let server = Server::with_queue();
    let definition = json!({"name": "n", "args": {"a": 1}, "priority": 2});
    let task = server.create(1, &definition);
    assert_eq!(server.put(&of_task(1, ""), &definition).expect(200).json(), task);
    server.put(&of_task(1, ""), json!({})).assert_error(409, "task_id_conflict");
    assert_eq!(server.task(1), task);
}

#[test]
fn last_errors_do_not_count() {
    let server = Server::with_queue();
    server.put(&of_task(1, ""), format!("{{\"args\":{}}}", object_of(ROOM))).expect(201);
    server.claim(1);
    let message = "x".repeat(900_000);
    let body = json!({"run_id": run_id(1), "error": {"type": "E", "message": message, "traceback": null}});
    server.post(&of_task(1, "/fail"), body).expect(204);
    assert_eq!(server.task(1)["last_error"]["message"], message);
    server.patch(&of_task(1, ""), json!({"priority": 1})).expect(200);
}

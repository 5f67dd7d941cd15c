//! Cancel, requeue, update and delete in every state (docs/reference/task-life.md §2.1 and §8): what they answer. What they change
//! and leave alone is proven by the conformance suite of the stores.

use serde_json::json;

use super::support::*;

#[test]
fn each_action_is_allowed_in_its_states_only() {
    // What each action answers in the five states, in the order of `STATES`.
    let table = [
        ("cancel", [200, 200, 409, 409, 200]),
        ("requeue", [200, 409, 409, 200, 200]),
        ("PATCH", [200, 409, 200, 200, 200]),
        ("DELETE", [204, 409, 204, 204, 204]),
    ];
    let server = Server::with_queue();
    for (row, (action, statuses)) in table.into_iter().enumerate() {
        for (column, state) in STATES.into_iter().enumerate() {
            let n = row * 10 + column;
            let before = server.create_in_state(n, state);
            let response = match action {
                "PATCH" => server.patch(&of_task(n, ""), json!({"name": "new"})),
                "DELETE" => server.delete(&of_task(n, "")),
                _ => server.act(n, action, 0),
            };
            assert_eq!(response.status, statuses[column], "{action} of {state}");
            match response.status {
                200 => assert_eq!(response.json(), server.task(n), "{action} of {state}"),
                204 => {
                    server.get(&of_task(n, "")).assert_error(404, "task_not_found");
                    server.delete(&of_task(n, "")).expect(204);
                }
                _ => {
                    let code = if action == action.to_uppercase() { "task_running" } else { "task_state_conflict" };
                    response.assert_error(409, code);
                    assert_eq!(server.task(n), before, "{action} of {state}");
                }
            }
        }
    }
}

//! The update of one task (docs/reference/http-api.md §6.6). Sizes are in `creation`, states in `lifecycle`.

use serde_json::{Value, json};

use super::support::*;

fn update(server: &Server, n: usize, changes: &Value) -> Value {
    let task = server.patch(&of_task(n, ""), changes).expect(200).json();
    assert_task(&task);
    assert_eq!(server.task(n), task);
    task
}

#[test]
fn each_field_is_changed_alone() {
    let server = Server::with_queue();
    let definition = json!({"name": "old", "args": {"a": 1, "b": 2}, "metadata": {"m": 1}, "routes": ["a", "b"]});
    let mut expected = server.create(1, &definition);
    let changes = [
        ("name", json!("new")),
        ("name", json!(null)),
        ("name", json!("")),
        ("args", json!({"c": 3})),
        ("args", json!({})),
        ("metadata", json!({"n": [1, 2]})),
        ("priority", json!(-3)),
        ("max_attempts", json!(1)),
        ("routes", json!(["c"])),
        ("result", json!({"r": {"s": 1}})),
        ("result", json!({})),
    ];
    for (field, value) in changes {
        let before = micros(&expected["updated_at"]);
        let task = update(&server, 1, &json!({field: value}));
        expected[field] = value;
        expected["updated_at"] = task["updated_at"].clone();
        assert_eq!(task, expected, "{field}");
        assert!(micros(&task["updated_at"]) > before, "{field}");
    }
}

//! Archived tasks (extension `archive`): who sees them, and what puts tasks there and brings them back.

use serde_json::json;

use super::support::*;

fn set(server: &Server, n: usize, archived: bool) -> Response {
    server.patch(&of_task(n, ""), json!({"archived": archived}))
}

#[test]
fn only_ended_tasks_can_be_archived() {
    let server = Server::with_queue();
    for (n, state) in STATES.into_iter().enumerate() {
        let before = server.create_in_state(n, state);
        assert_eq!(before.get("archived"), None);
        let answer = set(&server, n, true);
        match state {
            "pending" => answer.assert_details(409, "update_conflict", &json!({"field": "archived"})),
            "running" => drop(answer.assert_error(409, "task_running")),
            _ => {
                let text = answer.expect(200).text();
                assert!(text.ends_with(r#","archived":true}"#), "{text}");
                assert_eq!(set(&server, n, true).expect(200).text(), text, "again changes nothing");
                let back = set(&server, n, false).expect(200).json();
                let mut expected = before.clone();
                expected["updated_at"] = back["updated_at"].clone();
                assert_eq!(back, expected);
            }
        }
    }
    // What is not archived may be told so in any state.
    let pending = server.task(0);
    assert_eq!(set(&server, 0, false).expect(200).json(), pending);
}

#[test]
fn lists_counts_and_stats_leave_archived_tasks_out_unless_they_are_wanted() {
    let server = Server::with_queue();
    server.create_in_states(0);
    for n in 2..5 {
        assert_eq!(set(&server, n, true).expect(200).json()["archived"], true);
    }
    let count = |query: &str| server.count(query)["count"].clone();
    assert_eq!((server.ids(BY_ID), count("")), (vec![0, 1], json!(2)));
    assert_eq!(server.ids(&format!("{BY_ID}&include_archived=true")), [0, 1, 2, 3, 4]);
    assert_eq!((count("include_archived=true"), count("group_by=status&include_archived=true")), (json!(5), json!(5)));
    let stats = server.get(&in_queue("/stats")).expect(200).json();
    let total: i64 = stats["tasks"].as_object().unwrap().values().map(|count| count.as_i64().unwrap()).sum();
    assert_eq!(total, 2, "{stats}");
    let repeated = server.put(&of_task(3, ""), json!({"routes": ["only-3"], "max_attempts": 1})).expect(200).json();
    assert_eq!(repeated["archived"], true, "a repeated creation finds it as it is");
    let named = server.patch(&of_task(3, ""), json!({"name": "kept"})).expect(200).json();
    assert_eq!((&named["archived"], &named["name"]), (&json!(true), &json!("kept")));
    assert_eq!(server.requeue(3).expect(200).json().get("archived"), None, "a requeue brings it back");
}

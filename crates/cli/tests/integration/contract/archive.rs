//! Archived tasks (extension `archive`): who sees them, and what puts tasks there and brings them back.

use serde_json::{Value, json};

use super::support::*;

const ARCHIVED: &str = "include_archived=true";

fn set(server: &Server, n: usize, archived: bool) -> Response {
    server.patch(&of_task(n, ""), json!({"archived": archived}))
}

fn count(server: &Server, query: &str) -> Value {
    server.get(&in_queue(&format!("/tasks/count?{query}"))).expect(200).json()["count"].clone()
}

/// Tasks 0 to 4 in the five states, of which those that have ended, 2 to 4, are archived.
fn archived_tasks() -> SharedServer {
    let server = Server::with_queue();
    for (n, state) in STATES.into_iter().enumerate() {
        server.create_in_state(n, state);
    }
    for n in 2..5 {
        assert_eq!(set(&server, n, true).expect(200).json()["archived"], true);
    }
    server
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
fn lists_and_counts_leave_archived_tasks_out_unless_they_are_wanted() {
    let server = archived_tasks();
    assert_eq!(server.ids(BY_ID), [0, 1]);
    assert_eq!(server.ids(&format!("{BY_ID}&{ARCHIVED}")), [0, 1, 2, 3, 4]);
    assert_eq!(server.ids(&format!("{BY_ID}&include_archived=false")), [0, 1]);
    assert_eq!((count(&server, ""), count(&server, ARCHIVED)), (json!(2), json!(5)));
    assert_eq!(count(&server, &format!("group_by=status&{ARCHIVED}")), 5);
    for wrong in ["maybe", "2", ""] {
        server.get(&in_queue(&format!("/tasks?include_archived={wrong}"))).assert_error(422, "invalid_request");
        server.get(&in_queue(&format!("/tasks/count?include_archived={wrong}"))).assert_error(422, "invalid_request");
    }
}

#[test]
fn cursors_bind_whether_archived_tasks_are_wanted() {
    let server = archived_tasks();
    let first = server.list(&format!("order_by=id&descending=false&limit=1&{ARCHIVED}"));
    let cursor = encode(first["next_cursor"].as_str().unwrap());
    let next = |query: &str| {
        server.get(&in_queue(&format!("/tasks?order_by=id&descending=false&limit=1&cursor={cursor}{query}")))
    };
    next("").assert_error(422, "invalid_cursor");
    next("&include_archived=false").assert_error(422, "invalid_cursor");
    assert_eq!(numbers(&next("&include_archived=true").expect(200).json()), [1]);
    let without = server.list("order_by=id&descending=false&limit=1&include_archived=false");
    let cursor = encode(without["next_cursor"].as_str().unwrap());
    let next = |query: &str| {
        server.get(&in_queue(&format!("/tasks?order_by=id&descending=false&limit=1&cursor={cursor}{query}")))
    };
    next("&include_archived=true").assert_error(422, "invalid_cursor");
    assert_eq!(numbers(&next("").expect(200).json()), [1], "absent and false are the same");
    let groups = server.get(&in_queue("/tasks/count?group_by=status&limit=1&include_archived=true")).expect(200).json();
    let cursor = encode(groups["next_cursor"].as_str().unwrap());
    let path = in_queue(&format!("/tasks/count?group_by=status&limit=1&cursor={cursor}"));
    server.get(&path).assert_error(422, "invalid_cursor");
    server.get(&format!("{path}&include_archived=true")).expect(200);
}

#[test]
fn bulk_updates_and_bulk_actions_leave_archived_tasks_alone_unless_they_are_wanted() {
    let server = archived_tasks();
    let ended = "status in ['failed', 'succeeded', 'cancelled']";
    for (include, matched) in [(json!(null), 0), (json!(false), 0), (json!(true), 3)] {
        let update = json!({"filter": ended, "changes": {"priority": 5}, "include_archived": include});
        let answer = server.patch(&in_queue("/tasks"), update).expect(200).json();
        assert_eq!(answer, json!({"matched": matched, "updated": matched}), "{include}");
        for action in ["requeue", "delete"] {
            let act = json!({"filter": ended, "include_archived": include, "dry_run": true});
            let answer = server.post(&in_queue(&format!("/tasks/bulk/{action}")), act).expect(200).json();
            let acted = if action == "requeue" && matched > 0 { 2 } else { matched };
            assert_eq!(answer, json!({"matched": acted, "changed": 0}), "{action} {include}");
        }
    }
    // One task that cannot be archived refuses the whole of an update, as of the contract.
    let all = json!({"filter": "status != 'running'", "changes": {"archived": true}});
    server.patch(&in_queue("/tasks"), all).assert_details(409, "update_conflict", &json!({"field": "archived"}));
}

#[test]
fn a_requeue_brings_a_task_back_and_other_updates_do_not() {
    let server = archived_tasks();
    let named = server.patch(&of_task(3, ""), json!({"name": "kept"})).expect(200).json();
    assert_eq!((&named["archived"], &named["name"]), (&json!(true), &json!("kept")));
    server.requeue(2).assert_error(409, "task_state_conflict");
    let back = server.requeue(3).expect(200).json();
    assert_eq!((&back["status"], back.get("archived")), (&json!("pending"), None));
    assert_eq!(server.ids(BY_ID), [0, 1, 3]);
}

#[test]
fn creation_does_not_archive_and_stats_do_not_count_what_is_archived() {
    let server = archived_tasks();
    server.put(&of_task(9, ""), json!({"archived": true})).assert_error(422, "invalid_task");
    let stats = server.get(&in_queue("/stats")).expect(200).json();
    let total: i64 = stats["tasks"].as_object().unwrap().values().map(|count| count.as_i64().unwrap()).sum();
    assert_eq!(total, 2, "{stats}");
    let repeated = server.put(&of_task(3, ""), json!({"routes": ["only-3"], "max_attempts": 1})).expect(200).json();
    assert_eq!(repeated["archived"], true, "a repeated creation finds it as it is");
}

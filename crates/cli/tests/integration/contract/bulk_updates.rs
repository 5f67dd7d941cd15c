//! The update of all tasks that a filter selects: what it counts, and that it is all or nothing
//! (docs/reference/http-api.md §6.7). Atomicity against parallel claims is in `concurrency`, the order of body errors
//! in `errors`.

use serde_json::{Value, json};

use super::support::*;

pub(super) fn bulk(server: &Server, filter: &str, changes: &Value) -> Response {
    server.patch(&in_queue("/tasks"), json!({"filter": filter, "changes": changes}))
}

#[track_caller]
pub(super) fn assert_counts(response: Response, matched: usize, updated: usize) {
    assert_eq!(response.expect(200).json(), json!({"matched": matched, "updated": updated}));
}

#[test]
fn every_matching_task_is_updated_at_one_moment() {
    let server = Server::with_queue();
    for n in 1..=4 {
        server.create(n, json!({"args": {"group": n % 2}}));
    }
    let before = server.snapshot();
    let changes = json!({"name": "n", "args": {"x": 1}, "metadata": {"m": 1}, "priority": 7, "routes": ["b", "a"], "result": {"r": 1}});
    assert_counts(bulk(&server, "args.group == 1", &changes), 2, 2);
    let after = server.snapshot();
    for n in [1, 3] {
        assert_eq!(after["items"][n], before["items"][n], "task {}", n + 1);
    }
    let (first, third) = (&after["items"][0], &after["items"][2]);
    assert_eq!(first["updated_at"], third["updated_at"]);
    assert_ne!(first["updated_at"], before["items"][0]["updated_at"]);
    for task in [first, third] {
        assert_eq!((&task["name"], &task["priority"], &task["routes"]), (&json!("n"), &json!(7), &json!(["a", "b"])));
        assert_eq!(
            (&task["args"], &task["metadata"], &task["result"]),
            (&json!({"x": 1}), &json!({"m": 1}), &json!({"r": 1}))
        );
    }
}

#[test]
fn only_tasks_whose_values_change_count_as_updated() {
    let server = Server::with_queue();
    server.create(1, json!({"priority": 5}));
    server.create(2, json!({"priority": 5, "name": "n"}));
    server.create(3, json!({}));
    let unchanged = server.task(1);
    assert_counts(bulk(&server, "priority >= 0", &json!({"priority": 5, "name": null})), 3, 2);
    assert_eq!(server.task(1), unchanged);
    assert_counts(bulk(&server, "priority == 5", &json!({"priority": 5})), 3, 0);
    assert_counts(bulk(&server, "priority == 6", &json!({"priority": 7})), 0, 0);
}

#[test]
fn running_tasks_are_left_out_before_counting() {
    let server = Server::with_queue();
    for (n, state) in STATES.into_iter().enumerate() {
        server.create_in_state(n, state);
    }
    let running = server.task(1);
    assert_counts(bulk(&server, "priority == 0", &json!({"metadata": {"m": 1}})), 4, 4);
    assert_eq!(server.task(1), running);
    assert_counts(bulk(&server, "status == \"running\"", &json!({"priority": 1})), 0, 0);
    for n in [0, 2, 3, 4] {
        assert_eq!(server.task(n)["metadata"], json!({"m": 1}));
        assert_eq!(server.task(n)["status"], STATES[n]);
    }
}

#[test]
fn the_filter_sees_the_values_before_the_update() {
    let server = Server::with_queue();
    for n in 1..=3 {
        server.create(n, json!({"priority": n}));
    }
    assert_counts(bulk(&server, "priority < 3", &json!({"priority": 3})), 2, 2);
    assert_counts(bulk(&server, "priority == 3", &json!({"priority": 0})), 3, 3);
}

#[test]
fn one_conflict_leaves_every_task_untouched() {
    let server = Server::with_queue();
    for n in 1..=3 {
        server.create(n, json!({}));
    }
    let failed = server.claimed(1);
    server.act(failed, "fail", 1).expect(204);
    let before = server.snapshot();
    let response = bulk(&server, "priority == 0", &json!({"max_attempts": 1, "priority": 9}));
    let details = json!({"task_id": task_id(failed), "field": "max_attempts", "attempt": 1});
    response.assert_details(409, "update_conflict", &details);
    assert_eq!(server.snapshot(), before);
    server.cancel(failed).expect(200);
    assert_counts(bulk(&server, "priority == 0", &json!({"max_attempts": 1})), 3, 3);
}

#[test]
fn one_task_that_becomes_too_large_leaves_every_task_untouched() {
    let server = Server::with_queue();
    server.create(1, json!({}));
    server.create(2, json!({"args": {"a": "x".repeat(600_000)}}));
    server.create(3, json!({}));
    let before = server.snapshot();
    let changes = json!({"metadata": {"m": "y".repeat(600_000)}});
    bulk(&server, "priority == 0", &changes).assert_error(422, "task_data_too_large");
    assert_eq!(server.snapshot(), before);
    assert_counts(bulk(&server, "missing(args.a)", &changes), 2, 2);
}

#[test]
fn a_filter_is_required_and_must_not_be_blank() {
    let server = Server::with_queue();
    let task = server.create(1, json!({}));
    let changes = json!({"priority": 1});
    server.patch(&in_queue("/tasks"), json!({"changes": changes})).assert_error(422, "invalid_filter");
    for filter in ["", " ", "\t\n", "(", "stats == 1", "priority == \"x\""] {
        bulk(&server, filter, &changes).assert_error(422, "invalid_filter");
    }
    let large = format!("priority == 0{}", " ".repeat(8192));
    bulk(&server, &large, &changes).assert_error(422, "filter_too_large");
    assert_eq!(server.task(1), task);
}

#[test]
fn changes_follow_the_rules_of_a_single_update() {
    let server = Server::with_queue();
    let task = server.create(1, json!({}));
    let refused = [
        json!({}),
        json!(null),
        json!([]),
        json!({"priority": null}),
        json!({"priority": 1.5}),
        json!({"routes": []}),
        json!({"status": "failed"}),
        json!({"max_attempts": 0}),
        json!({"result": null}),
    ];
    for changes in refused {
        bulk(&server, "priority == 0", &changes).assert_error(422, "invalid_update");
        bulk(&server, "priority == 99", &changes).assert_error(422, "invalid_update");
    }
    assert_eq!(server.task(1), task);
    assert_counts(bulk(&server, "priority == 0", &json!({"name": null})), 1, 0);
}

#[test]
fn query_parameters_have_no_effect() {
    let server = Server::with_queue();
    server.create(1, json!({}));
    let path = in_queue("/tasks?status=nonsense&limit=0&filter=((&name=x&cursor=x&descending=maybe");
    let body = json!({"filter": "priority == 0", "changes": {"priority": 1}});
    assert_counts(server.patch(&path, body), 1, 1);
}

#[test]
fn a_bulk_update_reaches_more_tasks_than_a_page() {
    let server = Server::with_queue();
    in_parallel(8, |thread| (thread..1200).step_by(8).for_each(|n| drop(server.create(n, json!({})))));
    assert_counts(bulk(&server, "priority == 0", &json!({"priority": 1})), 1200, 1200);
    let page = server.list("limit=1000");
    let moment = &page["items"][0]["updated_at"];
    assert!(page["items"].as_array().unwrap().iter().all(|task| &task["updated_at"] == moment));
}

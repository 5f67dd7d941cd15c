//! Updates that change single members of args and metadata (docs/reference/http-api.md §14.4). What a merge patch does to a
//! value is in `core`; here is that it reaches the task, when it is refused, and that a bulk update stays atomic.

use serde_json::{Value, json};

use super::bulk_updates::{assert_counts, bulk};
use super::support::*;

fn update(server: &Server, n: usize, changes: &Value) -> Value {
    let task = server.patch(&of_task(n, ""), changes).expect(200).json();
    assert_task(&task);
    assert_eq!(server.task(n), task);
    task
}

#[test]
fn a_patch_sets_and_removes_members_and_keeps_the_others() {
    let server = Server::with_queue();
    let definition = json!({
        "args": {"lr": 0.1, "model": {"layers": 2, "width": 64}, "tags": [1, 2]},
        "metadata": {"owner": "a", "note": null},
    });
    let mut expected = server.create(1, &definition);
    let steps = [
        (
            json!({"args_patch": {"lr": 0.5}}),
            "args",
            json!({"lr": 0.5, "model": {"layers": 2, "width": 64}, "tags": [1, 2]}),
        ),
        (
            json!({"args_patch": {"model": {"layers": 4, "width": null, "heads": {"n": 8, "no": null}}}}),
            "args",
            json!({"lr": 0.5, "model": {"layers": 4, "heads": {"n": 8}}, "tags": [1, 2]}),
        ),
        (
            json!({"args_patch": {"tags": [null], "lr": null}}),
            "args",
            json!({"model": {"layers": 4, "heads": {"n": 8}}, "tags": [null]}),
        ),
        (json!({"args_patch": {"model": 1}}), "args", json!({"model": 1, "tags": [null]})),
        (json!({"args_patch": {"model": {"a": {"b": null}}, "tags": null}}), "args", json!({"model": {"a": {}}})),
        (json!({"metadata_patch": {"owner": "b"}}), "metadata", json!({"owner": "b", "note": null})),
        (json!({"metadata_patch": {"owner": null, "note": null}}), "metadata", json!({})),
    ];
    for (changes, field, value) in steps {
        let task = update(&server, 1, &changes);
        assert_ne!(task["updated_at"], expected["updated_at"], "{changes}");
        expected[field] = value;
        expected["updated_at"] = task["updated_at"].clone();
        assert_eq!(task, expected, "{changes}");
    }
    assert_eq!(server.put(&of_task(1, ""), &definition).expect(200).json(), expected, "its creation is remembered");
}

#[test]
fn a_patch_goes_together_with_other_fields() {
    let server = Server::with_queue();
    server.create(1, json!({"args": {"a": 1}, "metadata": {"m": 1}}));
    let changes = json!({"name": "n", "args_patch": {"b": 2}, "metadata": {"k": 1}, "priority": 3});
    let task = update(&server, 1, &changes);
    assert_eq!((&task["args"], &task["metadata"]), (&json!({"a": 1, "b": 2}), &json!({"k": 1})));
    assert_eq!((&task["name"], &task["priority"]), (&json!("n"), &json!(3)));
    let task = update(&server, 1, &json!({"args": {}, "metadata_patch": {"k": null}, "args_patch": null}));
    assert_eq!((&task["args"], &task["metadata"]), (&json!({}), &json!({})));
}

#[test]
fn a_patch_that_changes_nothing_leaves_updated_at_alone() {
    let server = Server::with_queue();
    let task = server.create(1, r#"{"args":{"a":1,"b":{"x":100.0}}}"#);
    let same = [
        r#"{"args_patch":{}}"#,
        r#"{"args_patch":{"a":1}}"#,
        r#"{"args_patch":{"b":{"x":1e2},"c":null}}"#,
        r#"{"args_patch":{"b":{}},"metadata_patch":{"m":null}}"#,
        r#"{"args_patch":{"a":2,"a":1}}"#,
        r#"{"priority":0,"args_patch":null}"#,
    ];
    for changes in same {
        assert_eq!(server.patch(&of_task(1, ""), changes).expect(200).json(), task, "{changes}");
        let body = format!(r#"{{"filter":"priority == 0","changes":{changes}}}"#);
        assert_counts(server.patch(&in_queue("/tasks"), body), 1, 0);
    }
    assert_eq!(server.task(1), task);
    let other_kind = server.patch(&of_task(1, ""), r#"{"args_patch":{"a":1.0}}"#).expect(200);
    assert!(other_kind.text().contains(r#""args":{"a":1.0,"b":{"x":100.0}}"#), "{other_kind:?}");
}

#[test]
fn a_patch_is_an_object_and_never_comes_with_the_whole_value() {
    let server = Server::with_queue();
    let task = server.create(1, json!({"args": {"a": 1}}));
    for (field, patch) in [("args", "args_patch"), ("metadata", "metadata_patch")] {
        for value in [json!([]), json!("x"), json!(1), json!(true), json!([{"a": 1}])] {
            let response = server.patch(&of_task(1, ""), json!({patch: value}));
            response.assert_location("invalid_update", &json!(["body", patch]));
        }
        let both = json!({field: {}, patch: {}});
        server.patch(&of_task(1, ""), &both).assert_location("invalid_update", &json!(["body", patch]));
        bulk(&server, "priority == 0", &both).assert_location("invalid_update", &json!(["body", "changes", patch]));
        bulk(&server, "priority == 99", &json!({patch: []})).assert_error(422, "invalid_update");
        server.patch(&of_task(1, ""), json!({patch: null})).assert_error(422, "invalid_update");
        bulk(&server, "priority == 0", &json!({patch: null})).assert_error(422, "invalid_update");
        server.put(&of_task(2, ""), json!({patch: {}})).assert_error(422, "invalid_task");
        let deep = |depth| server.patch(&of_task(1, ""), format!(r#"{{"{patch}":{}}}"#, nested(depth)));
        deep(65).assert_error(422, "json_too_deep");
        server.patch(&of_task(1, ""), format!(r#"{{"{patch}":{{"a":1e400}}}}"#)).assert_error(422, "invalid_update");
    }
    server.patch(&of_task(1, ""), json!({"result_patch": {}})).assert_error(422, "invalid_update");
    assert_eq!(server.task(1), task);
    let deepest = format!(r#"{{"args_patch":{}}}"#, nested(64));
    server.patch(&of_task(1, ""), deepest).expect(200);
}

#[test]
fn patches_are_taken_in_every_state_but_running() {
    let server = Server::with_queue();
    for (n, state) in STATES.into_iter().enumerate() {
        let before = server.create_in_state(n, state);
        let response = server.patch(&of_task(n, ""), json!({"args_patch": {"new": 1}}));
        if state == "running" {
            response.assert_error(409, "task_running");
            assert_eq!(server.task(n), before);
        } else {
            assert_eq!(response.expect(200).json()["args"]["new"], 1, "{state}");
        }
    }
    assert_counts(bulk(&server, "priority == 0", &json!({"metadata_patch": {"m": 1}})), 4, 4);
}

#[test]
fn the_size_of_the_result_counts_and_one_task_that_is_too_large_leaves_all_untouched() {
    let server = Server::with_queue();
    server.create(1, json!({"args": {"a": 1}}));
    server.create(2, json!({"args": {"long": "x".repeat(900_000)}}));
    server.create(3, json!({"args": {"a": 3}}));
    let before = server.snapshot();
    let longer = json!({"args_patch": {"more": "y".repeat(600_000)}});
    server.patch(&of_task(2, ""), &longer).assert_details(422, "task_data_too_large", &json!({"max_bytes": MIB}));
    bulk(&server, "priority == 0", &longer).assert_error(422, "task_data_too_large");
    assert_eq!(server.snapshot(), before);
    let instead = json!({"args_patch": {"more": "y".repeat(600_000), "long": null}});
    assert_counts(bulk(&server, "priority == 0", &instead), 3, 3);
    for (n, a) in [(1, json!(1)), (2, json!(null)), (3, json!(3))] {
        let args = &server.task(n)["args"];
        assert_eq!((&args["a"], args["long"].is_null()), (&a, true), "task {n}");
        assert_eq!(args["more"].as_str().map(str::len), Some(600_000), "task {n}");
    }
}

#[test]
fn a_bulk_patch_merges_into_the_own_value_of_each_task_at_one_moment() {
    let server = Server::with_queue();
    in_parallel(8, |thread| {
        (thread..1200).step_by(8).for_each(|n| drop(server.create(n, json!({"args": {"n": n, "m": {"k": n % 2}}}))));
    });
    server.claim(1);
    let claimed: usize = server.list("status=running&limit=1")["items"][0]["args"]["n"].as_u64().unwrap() as usize;
    let changes = json!({"args_patch": {"m": {"k": 1}, "seed": 7}, "metadata_patch": {"by": "bulk"}});
    assert_counts(bulk(&server, "args.n >= 0", &changes), 1199, 1199);
    let tasks = server.snapshot()["items"].as_array().unwrap().clone();
    let changed: Vec<&Value> = tasks.iter().filter(|task| task["status"] == "pending").collect();
    assert!(changed.len() > 900, "a page of them");
    for task in &changed {
        let n = &task["args"]["n"];
        assert_eq!(task["args"], json!({"n": n, "m": {"k": 1}, "seed": 7}));
        assert_eq!(task["metadata"], json!({"by": "bulk"}));
        assert_eq!(task["updated_at"], changed[0]["updated_at"]);
    }
    assert_eq!(server.task(claimed)["args"], json!({"n": claimed, "m": {"k": claimed % 2}}));
    assert_counts(bulk(&server, "args.seed == 7", &changes), 1199, 0);
    // Which task was created first, and so was claimed, is not known.
    let others = format!("args.n in [{}, {}]", (claimed + 1) % 1200, (claimed + 2) % 1200);
    assert_counts(bulk(&server, &others, &json!({"args_patch": {"seed": null}})), 2, 2);
    assert_counts(bulk(&server, "missing(args.seed)", &json!({"args_patch": {"seed": 1}})), 2, 2);
}

#[test]
fn patches_at_the_same_time_lose_nothing_of_each_other() {
    let server = Server::with_queue();
    server.create(1, json!({}));
    server.create(2, json!({}));
    in_parallel(16, |n| {
        let changes = json!({"args_patch": {format!("k{n}"): n}});
        match n % 2 {
            0 => drop(bulk(&server, "priority == 0", &changes).expect(200)),
            _ => [1, 2].iter().for_each(|task| drop(server.patch(&of_task(*task, ""), &changes).expect(200))),
        }
    });
    for n in [1, 2] {
        assert_eq!(server.task(n)["args"].as_object().unwrap().len(), 16, "task {n}");
    }
}

#[test]
fn a_patch_survives_a_restart() {
    let mut server = Server::alone();
    server.create(1, json!({"args": {"a": 1}}));
    assert_counts(bulk(&server, "priority == 0", &json!({"args_patch": {"b": {"c": 2}}})), 1, 1);
    let task = update(&server, 1, &json!({"metadata_patch": {"m": 1}}));
    server.kill();
    server.start_again();
    assert_eq!(server.task(1), task);
    assert_eq!(task["args"], json!({"a": 1, "b": {"c": 2}}));
}

//! Updates that change single members of args and metadata (docs/reference/http-api.md §14.4). What a merge patch does to a
//! value is in `core`; here is that it reaches the task, when it is refused, and that a bulk update stays atomic.

use serde_json::json;

use super::bulk_updates::bulk;
use super::support::*;
use super::updates::update;

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

//! Bodies of tasks that wait, archives and settings that nobody means well with: refused with the right code, never a failure
//! of the server (which `Server::send` checks of every answer), and nothing changes.

use serde_json::{Value, json};

use super::support::*;

/// A field of a task and values that it does not take, as JSON text: some of them are no JSON of `serde_json`.
const WRONG: [(&str, &[&str]); 6] = [
    (
        "not_before",
        &[
            "1",
            "0.5",
            "true",
            "[]",
            "{}",
            "\"\"",
            "\"now\"",
            "\"2026-01-01\"",
            "\"2026-13-01T00:00:00Z\"",
            "\"2026-01-01T00:00:00\"",
            "\"10000-01-01T00:00:00Z\"",
            "\"+012026-01-01T00:00:00Z\"",
            "\"2026-01-01T24:00:01Z\"",
            "\"2026-02-30T00:00:00Z\"",
            "\"-0001-01-01T00:00:00Z\"",
            "\"9999-12-31T23:59:59-01:00\"",
            "\"0000-01-01T00:00:00Z\"",
            "\"0001-01-01T00:00:00+01:00\"",
        ],
    ),
    (
        "retry_delay",
        &[
            "1",
            "\"1\"",
            "[]",
            "{}",
            "true",
            "{\"seconds\":null}",
            "{\"seconds\":-1}",
            "{\"seconds\":\"1\"}",
            "{\"seconds\":1,\"factor\":0.99}",
            "{\"seconds\":1,\"factor\":-1e308}",
            "{\"seconds\":1,\"max_seconds\":-0.1}",
            "{\"seconds\":1,\"other\":1}",
            "{\"factor\":2}",
            "{\"seconds\":[1]}",
            "{\"seconds\":true}",
            "{\"seconds\":1,\"factor\":{\"seconds\":null}}",
        ],
    ),
    (
        "timeout_seconds",
        &[
            "0",
            "-1",
            "31536001",
            "1.5",
            "1e300",
            "\"5\"",
            "true",
            "[]",
            "{}",
            "9223372036854775808",
            "-9223372036854775809",
        ],
    ),
    (
        "dependencies",
        &[
            "null",
            "1",
            "\"t_000000000001\"",
            "{}",
            "true",
            "[null]",
            "[1]",
            "[[]]",
            "[\"\"]",
            "[\"t_x\"]",
            "[\"r_000000000001\"]",
            "[\"t_000000000001\",null]",
            "[[\"t_000000000001\"]]",
            "[\"T_000000000001\"]",
        ],
    ),
    ("on_dependency_failure", &["1", "\"\"", "\"Cancel\"", "\"fail\"", "[]", "{}", "true", "[null]"]),
    ("archived", &["1", "\"true\"", "[]", "{}", "0", "\"\""]),
];

/// No JSON at all, wherever they stand.
const NO_NUMBERS: [&str; 6] = ["NaN", "Infinity", "-Infinity", "01", "1e", "0x10"];

#[test]
fn wrong_values_are_refused_in_creations_updates_bulk_updates_and_batches() {
    let server = Server::with_queue();
    server.create(1, json!({}));
    let before = server.snapshot();
    for (field, values) in WRONG {
        for value in values {
            let body = format!("{{\"{field}\":{value}}}");
            if field != "archived" {
                server.put(&of_task(2, ""), &*body).assert_error(422, "invalid_task");
                let batch = format!("{{\"tasks\":[{{\"id\":\"{}\",\"{field}\":{value}}}]}}", task_id(2));
                let item = server.batch("create", &*batch)[0].clone();
                assert_eq!(item["error"]["code"], "invalid_task", "{body}: {item}");
            }
            server.patch(&of_task(1, ""), &*body).assert_error(422, "invalid_update");
            let bulk = format!("{{\"filter\":\"priority == 0\",\"changes\":{body}}}");
            server.patch(&in_queue("/tasks"), &*bulk).assert_error(422, "invalid_update");
        }
    }
    assert_eq!(server.snapshot(), before);
}

#[test]
fn what_is_no_number_is_no_json() {
    let server = Server::with_queue();
    server.create(1, json!({}));
    for number in NO_NUMBERS {
        for body in [
            format!("{{\"timeout_seconds\":{number}}}"),
            format!("{{\"retry_delay\":{{\"seconds\":{number}}}}}"),
            format!("{{\"max_running\":{number}}}"),
        ] {
            for (method, path) in [("PUT", of_task(2, "")), ("PATCH", of_task(1, "")), ("PATCH", in_queue("/settings"))]
            {
                let refused = server.call(method, &path, &*body);
                assert!(matches!(refused.status, 400 | 422), "{method} {path} {body}: {refused:?}");
            }
        }
    }
    // Beyond all finite numbers.
    for number in ["1e309", "-1e309", "1e99999999999"] {
        let body = format!("{{\"retry_delay\":{{\"seconds\":{number}}}}}");
        let refused = server.put(&of_task(2, ""), &*body);
        assert!(matches!(refused.status, 400 | 422), "{body}: {refused:?}");
    }
    server.get(&of_task(2, "")).assert_error(404, "task_not_found");
}

#[test]
fn a_thousand_dependencies_are_taken_and_one_more_is_not() {
    let server = Server::with_queue();
    let ids = |count: usize| json!({"dependencies": (100..100 + count).map(task_id).collect::<Vec<_>>()});
    assert_eq!(server.create(1, ids(1_000))["dependencies"].as_array().unwrap().len(), 1_000);
    for count in [1_001, 20_000] {
        server.put(&of_task(2, ""), ids(count)).assert_location("invalid_task", &json!(["body", "dependencies"]));
        server.patch(&of_task(1, ""), ids(count)).assert_location("invalid_update", &json!(["body", "dependencies"]));
    }
    let repeated = json!({"dependencies": vec![task_id(7); 20_000]});
    assert_eq!(server.create(3, repeated)["dependencies"], json!([task_id(7)]), "different ones are counted");
    let wrong: Vec<Value> = vec![Value::Null; 50_000];
    server.put(&of_task(2, ""), json!({"dependencies": wrong})).assert_error(422, "invalid_task");
    let deep = format!("{{\"dependencies\":{}{}}}", "[".repeat(5_000), "]".repeat(5_000));
    let refused = server.put(&of_task(2, ""), &*deep);
    assert!(matches!(refused.status, 400 | 422), "{refused:?}");
}

#[test]
fn a_large_batch_of_tasks_with_many_dependencies_is_judged_item_by_item() {
    let server = Server::with_queue();
    let dependencies: Vec<String> = (0..1_000).map(|n| task_id(100_000 + n)).collect();
    let of = |n: usize| json!({"id": task_id(n), "dependencies": dependencies});
    let made = server.batch("create", json!({"tasks": (0..100).map(of).collect::<Vec<_>>()}));
    assert!(made.iter().all(|item| item["outcome"] == "created"));
    assert!(!server.finds_a_task("default", 1));
    server.post(&in_queue("/tasks/bulk/delete"), json!({"filter": "exists(id)", "expect": 100})).expect(200);
}

#[test]
fn used_fields_count_towards_the_stored_size() {
    let server = Server::with_queue();
    let empty = |text: usize| json!({"args": {"a": "x".repeat(text)}});
    // What fits without any field, found by halving.
    let (mut fits, mut does_not) = (MIB / 2, MIB);
    while does_not - fits > 1 {
        let middle = fits.midpoint(does_not);
        let answer = server.put(&of_task(1, ""), empty(middle));
        let fitted = answer.status == 201;
        if fitted {
            server.delete(&of_task(1, "")).expect(204);
        }
        (fits, does_not) = if fitted { (middle, does_not) } else { (fits, middle) };
    }
    server.create(1, empty(fits));
    let dependencies: Vec<String> = (0..1_000).map(task_id).collect();
    let with = |text: usize| json!({"args": {"a": "x".repeat(text)}, "dependencies": dependencies});
    let refused = server.put(&of_task(2, ""), with(fits));
    assert!(matches!(refused.status, 413 | 422), "{refused:?}");
    let refused = server.patch(&of_task(1, ""), json!({"dependencies": dependencies}));
    assert!(matches!(refused.status, 413 | 422), "{refused:?}");
    server.create(2, with(fits - 20_000));
}

#[test]
fn wrong_ends_of_runs_are_refused_and_the_run_goes_on() {
    let server = Server::with_queue();
    server.create(1, json!({}));
    server.claim(1);
    for more in [
        "\"retry\":0",
        "\"retry\":\"no\"",
        "\"retry\":[]",
        "\"retry_after_seconds\":-1",
        "\"retry_after_seconds\":\"1\"",
        "\"retry_after_seconds\":[]",
        "\"retry_after_seconds\":true",
        "\"retry_after_seconds\":{\"seconds\":1}",
        "\"delay_seconds\":1",
    ] {
        let body = format!("{{\"run_id\":\"{}\",\"error\":{{\"type\":\"E\",\"message\":\"m\"}},{more}}}", run_id(1));
        server.post(&of_task(1, "/fail"), &*body).assert_error(422, "invalid_request");
    }
    for more in ["\"delay_seconds\":-1", "\"delay_seconds\":\"1\"", "\"delay_seconds\":{}", "\"retry\":true"] {
        let body = format!("{{\"run_id\":\"{}\",{more}}}", run_id(1));
        server.post(&of_task(1, "/unclaim"), &*body).assert_error(422, "invalid_request");
    }
    server.act(1, "heartbeat", 1).expect(200);
}

#[test]
fn nulls_are_absent_where_the_rule_says_so() {
    let server = Server::with_queue();
    let nulls = json!({
        "not_before": null, "retry_delay": null, "timeout_seconds": null, "on_dependency_failure": null,
    });
    let task = server.create(1, &nulls);
    assert_eq!(server.put(&of_task(1, ""), json!({})).expect(200).json(), task);
    assert_eq!(server.patch(&of_task(1, ""), nulls).expect(200).json(), task);
    for nothing in [json!({}), json!({"archived": null}), json!({"on_dependency_failure": null, "archived": null})] {
        server.patch(&of_task(1, ""), nothing).assert_error(422, "invalid_update");
    }
    let delay = json!({"retry_delay": {"seconds": 1, "factor": null, "max_seconds": null}});
    assert_eq!(server.create(2, delay)["retry_delay"], json!({"factor": 2, "max_seconds": 86_400, "seconds": 1}));
    let bulk = json!({"filter": "priority == 0", "changes": {"priority": 1}, "include_archived": null});
    assert_eq!(server.patch(&in_queue("/tasks"), bulk).expect(200).json()["matched"], 2);
    let act = json!({"filter": "priority == 1", "include_archived": null, "dry_run": null, "expect": null});
    assert_eq!(server.post(&in_queue("/tasks/bulk/cancel"), act).expect(200).json()["matched"], 2);
    let wrong = json!({"filter": "priority == 1", "include_archived": "true"});
    server.post(&in_queue("/tasks/bulk/cancel"), wrong).assert_error(422, "invalid_request");
}

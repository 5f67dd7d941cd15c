//! Who ran a task (docs/reference/http-api.md §14.6): `worker` of a claim, `last_run` of a task. An extension that changes
//! nothing for those who do not use it.

use serde_json::{Value, json};

use super::support::*;

/// The body of a claim by run `n` for the default route.
fn claim_body(n: usize, worker: &Value) -> Value {
    json!({"route": "default", "run_id": run_id(n), "worker": worker})
}

/// Claims as run `n`; gives the answer, of which the task was checked.
#[track_caller]
fn claim_by(server: &Server, n: usize, worker: &Value) -> Value {
    let claim = server.post(&in_queue("/tasks/claim"), claim_body(n, worker)).expect(200).json();
    assert_task(&claim["task"]);
    claim
}

fn host(name: &str) -> Value {
    json!({"id": "w_000000000001", "host": name, "pid": 4711, "slot": 0})
}

/// What the task shows, by id and on a page.
#[track_caller]
fn last_run(server: &Server, n: usize) -> Option<Value> {
    let task = server.task(n);
    let page = server.list(BY_ID);
    let listed = page["items"].as_array().unwrap().iter().find(|item| item["id"] == task["id"]);
    assert_eq!(listed, Some(&task));
    task.get("last_run").cloned()
}

#[test]
fn a_task_shows_who_claimed_it_and_the_run_id_only_when_the_run_is_over() {
    let server = Server::with_queue();
    for (n, end) in (1..).zip(["complete", "fail", "unclaim", "cancel"]) {
        server.create(n, json!({"max_attempts": 1}));
        let claim = claim_by(&server, n, &host("gpu-3"));
        let active = json!({"attempt": 1, "worker": host("gpu-3"), "run_id": null});
        assert_eq!(claim["task"]["last_run"], active);
        assert_eq!(last_run(&server, n), Some(active), "{end}");
        match end {
            "cancel" => drop(server.cancel(n).expect(200)),
            _ => drop(server.act(n, end, n).expect(204)),
        }
        let ended = json!({"attempt": 1, "worker": host("gpu-3"), "run_id": run_id(n)});
        assert_eq!(last_run(&server, n), Some(ended), "{end}");
        if end == "unclaim" {
            server.cancel(n).expect(200);
        }
    }
}

#[test]
fn the_field_stands_behind_those_of_the_contract() {
    let server = Server::with_queue();
    server.create(1, json!({}));
    let text = server.post(&in_queue("/tasks/claim"), claim_body(1, &json!({"b": 1.0, "a": "x"}))).expect(200).text();
    let expected =
        r#","finished_at":null,"last_run":{"attempt":1,"worker":{"a":"x","b":1.0},"run_id":null}},"run_id":"#;
    assert!(text.contains(expected), "{text}");
}

#[test]
fn a_worker_that_is_no_small_object_is_refused_and_nothing_is_claimed() {
    let server = Server::with_queue();
    server.create(1, json!({}));
    let sized = |bytes: usize| json!({"a": "x".repeat(bytes - 8)});
    for wrong in [json!([]), json!("gpu-3"), json!(1), json!(true), sized(4097)] {
        let refused = server.post(&in_queue("/tasks/claim"), claim_body(1, &wrong));
        refused.assert_location("invalid_request", &json!(["body", "worker"]));
    }
    let deep = format!(r#"{{"route":"default","run_id":"{}","worker":{}}}"#, run_id(1), nested(65));
    server.post(&in_queue("/tasks/claim"), deep.as_str()).assert_error(422, "json_too_deep");
    // Before the queue is looked for, as everything that is wrong with a body.
    server.post("/api/v2/queues/none/tasks/claim", claim_body(1, &json!([]))).assert_error(422, "invalid_request");
    assert_eq!(server.task(1)["status"], "pending");
    let claim = claim_by(&server, 1, &sized(4096));
    assert_eq!(claim["task"]["last_run"]["worker"], sized(4096));
    server.act(1, "complete", 1).expect(204);
}

#[test]
fn filters_know_who_ran_a_task() {
    let server = Server::with_queue();
    server.create(1, json!({}));
    server.create(2, json!({}));
    claim_by(&server, 1, &host("a"));
    server.assert_selections(&[("last_run.worker.host == 'a'", &[1]), ("missing(last_run.attempt)", &[2])]);
    server.assert_refused(&[
        "exists(last_run)",
        "last_run.worker == 'a'",
        "last_run.host == 'a'",
        "last_run.attempt == 'a'",
    ]);
    let refused = server.filter("last_run.atempt == 1").json();
    assert_eq!(refused["error"]["message"], "unknown field `last_run.atempt`, did you mean `last_run.attempt`?");
}

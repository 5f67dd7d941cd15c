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
fn a_client_can_ask_whether_claims_may_say_it() {
    let server = Server::with_queue();
    let capabilities = server.get("/api/v2/capabilities").expect(200).json();
    assert!(capabilities["features"].as_array().unwrap().contains(&json!("run-info")), "{capabilities}");
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
fn everything_keeps_it_but_a_claim_without_a_worker() {
    let server = Server::with_queue();
    server.create(1, json!({"max_attempts": 1}));
    claim_by(&server, 1, &host("a"));
    server.act(1, "heartbeat", 1).expect(200);
    server.act(1, "fail", 1).expect(204);
    let ended = Some(json!({"attempt": 1, "worker": host("a"), "run_id": run_id(1)}));
    server.patch(&of_task(1, ""), json!({"priority": 3, "result": {"x": 1}})).expect(200);
    assert_eq!(last_run(&server, 1), ended);
    let requeued = server.requeue(1).expect(200).json();
    assert_eq!((&requeued["attempt"], requeued.get("last_run").cloned()), (&json!(0), ended.clone()));
    let body = json!({"filter": "last_run.worker.host == 'a'", "changes": {"priority": 4}});
    let updated = server.patch(&in_queue("/tasks"), body).expect(200).json();
    assert_eq!(updated, json!({"matched": 1, "updated": 1}));
    assert_eq!(last_run(&server, 1), ended);

    let claim = server.claim(2);
    assert_eq!(claim["task"].get("last_run"), None);
    assert_eq!(last_run(&server, 1), None);
    server.act(1, "unclaim", 2).expect(204);
    assert_eq!(last_run(&server, 1), None);
    for silent in [3, 4] {
        // Null is absent.
        claim_by(&server, silent, &Value::Null);
        assert_eq!(last_run(&server, 1), None);
        server.act(1, "unclaim", silent).expect(204);
    }
}

#[test]
fn a_repeated_claim_changes_nothing_whatever_its_worker() {
    let server = Server::with_queue();
    server.create(1, json!({}));
    let first = claim_by(&server, 1, &host("a"));
    for worker in [host("b"), Value::Null, host("a")] {
        assert_eq!(claim_by(&server, 1, &worker), first);
    }
    assert_eq!(server.claim(1), first);
    server.create(2, json!({}));
    let silent = server.claim(2);
    assert_eq!(claim_by(&server, 2, &host("b")), silent);
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
fn it_does_not_count_towards_the_stored_size() {
    let server = Server::with_queue();
    let smallest =
        r#"{"args":{"a":""},"max_attempts":3,"metadata":{},"name":null,"priority":0,"result":{},"routes":["default"]}"#;
    server.create(1, json!({"args": {"a": "x".repeat(MIB - smallest.len())}}));
    let claim = claim_by(&server, 1, &json!({"a": "y".repeat(4000)}));
    assert_eq!(claim["task"]["last_run"]["attempt"], 1);
    server.act(1, "complete", 1).expect(204);
    server.patch(&of_task(1, ""), json!({"priority": 1})).expect(200);
}

#[test]
fn filters_lists_and_counts_know_who_ran_a_task() {
    let server = Server::with_queue();
    for n in 1..=4 {
        server.create(n, json!({}));
    }
    for (n, name) in (1..).zip(["a", "b", "a"]) {
        claim_by(&server, n, &host(name));
    }
    server.act(1, "complete", 1).expect(204);
    server.act(2, "fail", 2).expect(204);
    let ended = format!("last_run.run_id == '{}'", run_id(1));
    server.assert_selections(&[
        ("last_run.worker.host == 'a'", &[1, 3]),
        ("last_run.worker.pid > 4000 and last_run.attempt == 1", &[1, 2, 3]),
        ("'folder' not in last_run.worker", &[1, 2, 3]),
        ("missing(last_run.worker.host)", &[4]),
        ("last_run.run_id == None", &[3]),
        (&ended, &[1]),
        ("exists(last_run.run_id) and status != 'running'", &[1, 2]),
    ]);
    let count = |filter: &str| {
        let path = in_queue(&format!("/tasks/count?filter={}", encode(filter)));
        server.get(&path).expect(200).json()["count"].clone()
    };
    assert_eq!(count("last_run.worker.host == 'a'"), 2);
    assert_eq!(count("missing(last_run.attempt)"), 1);
    server.assert_refused(&[
        "exists(last_run)",
        "last_run.worker == 'a'",
        "last_run.host == 'a'",
        "last_run.attempt == 'a'",
    ]);
    let refused = server.filter("last_run.atempt == 1").json();
    assert_eq!(refused["error"]["message"], "unknown field `last_run.atempt`, did you mean `last_run.attempt`?");
}

#[test]
fn a_claim_that_waits_says_who_claims() {
    let server = Server::with_arguments(&["--log-level", "debug"]);
    server.create_queue("q");
    let request = Request::new("POST", &in_queue("/tasks/claim")).header("Prefer", "wait=25");
    let mut waiting = server.connect();
    waiting.write(&request.json(claim_body(1, &host("patient"))).to_bytes()).unwrap();
    server.await_log_lines(WAITS, 1);
    server.create(1, json!({}));
    let response = waiting.read_response(true).unwrap();
    assert_eq!(response.json()["task"]["last_run"]["worker"], host("patient"));
    assert_eq!(last_run(&server, 1), Some(json!({"attempt": 1, "worker": host("patient"), "run_id": null})));
}

#[test]
fn it_survives_a_kill_of_the_server() {
    let mut server = Server::alone();
    for n in 1..=2 {
        server.create(n, json!({}));
        claim_by(&server, n, &host("a"));
    }
    server.act(2, "complete", 2).expect(204);
    let before = server.snapshot();
    server.kill();
    server.start_again();
    assert_eq!(server.snapshot(), before);
    assert_eq!(last_run(&server, 1), Some(json!({"attempt": 1, "worker": host("a"), "run_id": null})));
}

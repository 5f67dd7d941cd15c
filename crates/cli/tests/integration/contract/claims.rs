//! Claiming: which task comes first, what a claim changes and answers, and how often a run id may be used
//! (docs/reference/task-life.md §3 and §7.1). What happens to a run afterwards is in `runs`.

use serde_json::{Value, json};

use super::support::*;

/// The numbers of all pending tasks in the order in which they are claimed, with run ids from `first_run`.
fn drain(server: &Server, first_run: usize) -> Vec<usize> {
    let mut order = Vec::new();
    for run in first_run.. {
        let response = server.claim_for("q", "default", run);
        if response.status == 204 {
            return order;
        }
        order.push(response.expect(200).json()["task"]["id"].as_str().unwrap()[2..].parse().unwrap());
    }
    order
}

#[test]
fn a_claim_answers_exactly_the_task_the_run_and_the_lease() {
    let server = Server::with_queue();
    let created = server.create(1, json!({"name": "n", "args": {"a": 1}}));
    let claim = server.claim(1);
    let mut expected = created;
    for (field, value) in [("status", json!("running")), ("attempt", json!(1)), ("last_route", json!("default"))] {
        expected[field] = value;
    }
    expected["started_at"] = claim["task"]["started_at"].clone();
    expected["updated_at"] = claim["task"]["started_at"].clone();
    let lease = &claim["lease_expires_at"];
    assert_eq!(claim, json!({"task": expected, "run_id": run_id(1), "lease_expires_at": lease}));
    assert_eq!(micros(lease) - micros(&expected["started_at"]), 300_000_000);
    assert_eq!(server.task(1), expected);
}

#[test]
fn a_claim_without_a_compatible_task_is_204() {
    let server = Server::with_queue();
    server.claim_for("q", "default", 1).expect(204);
    for (n, state) in STATES.into_iter().enumerate().skip(1) {
        server.create_in_state(n, state);
        server.claim_for("q", &format!("only-{n}"), 1).expect(204);
    }
    server.create(9, json!({"routes": ["gpu"]}));
    server.claim_for("q", "default", 1).expect(204);
    server.create_queue("other");
    server.claim_for("other", "gpu", 1).expect(204);
    server.claim_for("q", "gpu", 1).expect(200);
}

#[test]
fn the_highest_priority_comes_first_and_then_the_first_in() {
    let server = Server::with_queue();
    let priorities = [0, 5, -1, 5, 0, i64::MAX, i64::MIN, -1];
    for (n, priority) in priorities.into_iter().enumerate() {
        server.create(9 - n, json!({"priority": priority}));
    }
    assert_eq!(drain(&server, 1), [4, 8, 6, 9, 5, 7, 2, 3]);
}

#[test]
fn updates_and_heartbeats_never_change_the_pending_order() {
    let server = Server::with_queue();
    for n in 1..=4 {
        server.create(n, json!({"priority": 1}));
    }
    server.patch(&of_task(1, ""), json!({"name": "new", "routes": ["a", "default"], "args": {"x": 1}})).expect(200);
    server.patch(&of_task(2, ""), json!({"priority": 2})).expect(200);
    server.patch(&of_task(2, ""), json!({"priority": 1})).expect(200);
    let bulk = json!({"filter": "priority == 1", "changes": {"metadata": {"x": 1}}});
    server.patch(&in_queue("/tasks"), bulk).expect(200);
    assert_eq!(drain(&server, 1), [1, 2, 3, 4]);
}

#[test]
fn routes_match_exactly_and_case_sensitively() {
    let server = Server::with_queue();
    server.create(1, json!({"routes": ["GPU", "a.b", "x_y"]}));
    for route in ["gpu", "Gpu", "GP", "GPU1", "a", "b", "a-b", "aXb", "x.y", "x-y", "default"] {
        server.claim_for("q", route, 1).expect(204);
    }
    assert_eq!(server.claim_for("q", "a.b", 1).expect(200).json()["task"]["last_route"], "a.b");
    for route in ["GPU", "x_y"] {
        server.claim_for("q", route, 2).expect(204);
    }
    server.act(1, "unclaim", 1).expect(204);
    assert_eq!(server.claim_for("q", "GPU", 3).expect(200).json()["task"]["last_route"], "GPU");
}

#[test]
fn the_attempt_increases_at_claim_and_earlier_outcomes_are_kept() {
    let server = Server::with_queue();
    server.create(1, json!({}));
    server.patch(&of_task(1, ""), json!({"result": {"r": 1}})).expect(200);
    server.claim(1);
    server.act(1, "fail", 1).expect(204);
    let failed = server.task(1);
    assert_eq!(failed["attempt"], 1);
    let second = server.claim(2)["task"].clone();
    assert_eq!(second["attempt"], 2);
    assert_eq!(second["last_error"], failed["last_error"]);
    assert_eq!(second["result"], json!({"r": 1}));
    assert_eq!(second["finished_at"], Value::Null);
    assert!(micros(&second["started_at"]) > micros(&failed["finished_at"]));
}

#[test]
fn repeating_a_claim_gives_the_same_run_and_claims_nothing_else() {
    let server = Server::with_queue();
    server.create(1, json!({}));
    server.create(2, json!({}));
    let claim = server.claim(1);
    assert_eq!(server.claim(1), claim);
    assert_eq!(server.claim(1), claim);
    assert_eq!(server.task(2)["status"], "pending");
    let lease = server.act(1, "heartbeat", 1).expect(200).json()["lease_expires_at"].clone();
    let again = server.claim(1);
    assert_eq!((&again["lease_expires_at"], &again["task"]), (&lease, &claim["task"]));
}

#[test]
fn an_active_run_id_of_another_queue_or_route_is_a_conflict() {
    let server = Server::with_queue();
    server.create_queue("other");
    server.create_in("other", 1, json!({}));
    let task = server.create(1, json!({"routes": ["default", "gpu"]}));
    server.claim(1);
    server.claim_for("q", "gpu", 1).assert_error(409, "run_id_conflict");
    server.claim_for("q", "Default", 1).assert_error(409, "run_id_conflict");
    server.claim_for("other", "default", 1).assert_error(409, "run_id_conflict");
    server.claim_for("nope", "default", 1).assert_error(404, "queue_not_found");
    assert_eq!(server.task(1)["attempt"], json!(1), "{task}");
    assert_eq!(server.claim_for("other", "default", 2).expect(200).json()["task"]["attempt"], 1);
}

#[test]
fn a_finished_run_id_never_claims_again() {
    let server = Server::with_queue();
    server.create_queue("other");
    server.create_in("other", 1, json!({}));
    for (n, end) in ["complete", "fail", "unclaim", "cancel"].into_iter().enumerate() {
        server.create(n, json!({}));
        server.claim_for("q", "default", n).expect(200);
        server.act(n, end, n).expect(if end == "cancel" { 200 } else { 204 });
        server.claim_for("q", "default", n).assert_error(409, "stale_run");
        server.claim_for("other", "default", n).assert_error(409, "stale_run");
        server.claim_for("q", "nothing-here", n).assert_error(409, "stale_run");
        server.claim_for("nope", "default", n).assert_error(404, "queue_not_found");
        if matches!(end, "fail" | "unclaim") {
            server.cancel(n).expect(200);
        }
    }
}

#[test]
fn older_runs_of_a_task_are_remembered_too() {
    let server = Server::with_queue();
    server.create(1, json!({"max_attempts": 10}));
    for run in 1..=4 {
        server.claim(run);
        server.act(1, "fail", run).expect(204);
    }
    server.requeue(1).expect(200);
    let before = server.task(1);
    for run in 1..=4 {
        server.claim_for("q", "default", run).assert_error(409, "stale_run");
    }
    assert_eq!(server.task(1), before);
    server.claim(5);
    server.claim_for("q", "default", 1).assert_error(409, "stale_run");
}

#[test]
fn a_claim_needs_exactly_a_route_and_a_run_id() {
    let server = Server::with_queue();
    server.create(1, json!({}));
    let bodies = [
        json!({}),
        json!({"route": "default"}),
        json!({"run_id": run_id(1)}),
        json!({"route": null, "run_id": run_id(1)}),
        json!({"route": "default", "run_id": null}),
        json!({"route": ["default"], "run_id": run_id(1)}),
        json!({"route": "default", "run_id": 1}),
        json!({"route": "default", "run_id": run_id(1), "queue": "q"}),
        json!({"routes": ["default"], "run_id": run_id(1)}),
    ];
    for body in bodies {
        server.post(&in_queue("/tasks/claim"), body).assert_error(422, "invalid_request");
    }
    assert_eq!(server.task(1)["status"], "pending");
}

#[test]
fn ordinary_answers_show_neither_the_active_run_nor_its_lease() {
    let server = Server::with_queue();
    server.create(1, json!({}));
    server.claim(7);
    let answers = [
        server.get(&of_task(1, "")).text(),
        server.get(&in_queue("/tasks")).text(),
        server.put(&of_task(1, ""), json!({})).expect(200).text(),
        server.patch(&of_task(1, ""), json!({"priority": 1})).text(),
        server.cancel(1).expect(200).text(),
    ];
    for answer in answers {
        assert!(!answer.contains(&run_id(7)) && !answer.contains("lease"), "{answer}");
    }
}

#[test]
fn a_run_id_of_a_deleted_task_or_queue_claims_nothing_also_after_a_restart() {
    let mut server = Server::alone();
    server.create(1, json!({}));
    server.claim(1);
    server.act(1, "complete", 1).expect(204);
    server.delete(&of_task(1, "")).expect(204);
    server.create_queue("other");
    server.create_in("other", 2, json!({}));
    server.claim_for("other", "default", 2).expect(200);
    server.post(&format!("/api/v2/queues/other/tasks/{}/cancel", task_id(2)), ()).expect(200);
    server.delete("/api/v2/queues/other?cascade=true").expect(204);
    server.create(3, json!({}));
    for _ in 0..2 {
        for run in [1, 2] {
            server.claim_for("q", "default", run).assert_error(409, "stale_run");
        }
        server.restart();
    }
    assert_eq!(server.claimed(3), 3);
}

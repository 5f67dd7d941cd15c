//! Claiming: what a claim answers (docs/reference/task-life.md §3 and §7.1). Which task comes first, and how often a run id may be
//! used, is proven by the conformance suite of the stores. What happens to a run afterwards is in `runs`.

use serde_json::json;

use super::support::*;

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

//! Claiming: what a claim answers (docs/reference/task-life.md §3 and §7.1). Which task comes first, which routes match, what a
//! repetition gives and how often a run id may be used is proven by the conformance suite of the stores. What happens to a run afterwards is in `runs`.

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
fn ordinary_answers_show_neither_the_active_run_nor_its_lease() {
    let server = Server::with_task();
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
fn who_claimed_a_task_stands_behind_the_fields_of_the_contract() {
    let server = Server::with_task();
    let claim = json!({"route": "default", "run_id": run_id(1), "worker": {"b": 1.0, "a": "x"}});
    let text = server.post(&in_queue("/tasks/claim"), claim).expect(200).text();
    let expected =
        r#","finished_at":null,"last_run":{"attempt":1,"worker":{"a":"x","b":1.0},"run_id":null}},"run_id":"#;
    assert!(text.contains(expected), "{text}");
}

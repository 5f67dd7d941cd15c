//! Tasks that wait for other tasks (extension `dependencies`): when they can be claimed. What becomes of them when another one
//! fails is in `dependency_failures.rs`.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::support::*;

fn waiting_for(numbers: &[usize]) -> Value {
    json!({"dependencies": numbers.iter().map(|n| task_id(*n)).collect::<Vec<_>>(), "routes": ["child"]})
}

/// Claims task `n`, the next one of the route `default`, and completes it.
#[track_caller]
fn complete(server: &Server, n: usize, run: usize) {
    assert_eq!(server.claimed(run), n);
    server.act(n, "complete", run).expect(204);
}

#[test]
fn a_task_is_claimed_only_when_all_that_it_depends_on_have_succeeded() {
    let server = Server::with_queue();
    server.create(1, json!({}));
    server.create(2, json!({}));
    let task = server.create(3, waiting_for(&[2, 1]));
    assert_eq!((&task["status"], &task["dependencies"]), (&json!("pending"), &json!([task_id(1), task_id(2)])));
    assert!(!server.finds_a_task("child", 10));
    complete(&server, 1, 1);
    assert!(!server.finds_a_task("child", 11));
    server.claim(2);
    assert!(!server.finds_a_task("child", 12));
    server.act(2, "complete", 2).expect(204);
    let claimed = server.claim_for("q", "child", 13).expect(200).json();
    assert_eq!(claimed["task"]["id"], json!(task_id(3)));
    assert_eq!(claimed["task"]["dependencies"], task["dependencies"], "they stay what they were");
}

#[test]
fn a_waiting_claim_is_woken_when_the_last_dependency_succeeds() {
    let server = Server::with_arguments(&["--log-level", "debug"]);
    server.create_queue("q");
    server.create(1, json!({}));
    server.create(2, waiting_for(&[1]));
    server.claim(1);
    let body = json!({"route": "child", "run_id": run_id(2)});
    let request = Request::new("POST", &in_queue("/tasks/claim")).header("Prefer", "wait=25").json(body);
    let mut waiter = server.connect();
    waiter.write(&request.to_bytes()).unwrap();
    server.await_log_lines(WAITS, 1);
    let begun = Instant::now();
    server.act(1, "complete", 1).expect(204);
    let response = waiter.read_response(true).unwrap().expect(200);
    assert_eq!(response.json()["task"]["id"], json!(task_id(2)));
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

#[test]
fn missing_tasks_are_waited_for_until_they_are_there_and_have_succeeded() {
    let server = Server::with_queue();
    server.create(2, waiting_for(&[1]));
    assert!(!server.finds_a_task("child", 10));
    server.create(1, json!({}));
    assert!(!server.finds_a_task("child", 11));
    complete(&server, 1, 1);
    assert!(server.finds_a_task("child", 12));
    server.create_queue("other");
    server.create_in("other", 3, waiting_for(&[1]));
    server.claim_for("other", "child", 13).expect(204);
}

#[test]
fn a_dependency_that_succeeded_before_is_met_at_once_and_one_that_is_gone_is_not() {
    let server = Server::with_queue();
    server.create(1, json!({}));
    complete(&server, 1, 1);
    server.create(2, waiting_for(&[1]));
    assert!(server.finds_a_task("child", 10));
    server.delete(&of_task(1, "")).expect(204);
    assert!(!server.finds_a_task("child", 13), "it must exist");
    server.create(1, json!({}));
    complete(&server, 1, 3);
    assert!(server.finds_a_task("child", 14));
    // A task that runs is not taken back.
    server.claim_for("q", "child", 15).expect(200);
    server.delete(&of_task(1, "")).expect(204);
    server.act(2, "complete", 15).expect(204);
}

#[test]
fn a_task_that_waits_for_itself_or_in_a_circle_waits_until_it_is_updated() {
    let server = Server::with_queue();
    server.create(1, waiting_for(&[1]));
    server.create(2, waiting_for(&[3]));
    server.create(3, waiting_for(&[2]));
    assert!(!server.finds_a_task("child", 10));
    server.patch(&of_task(1, ""), json!({"dependencies": []})).expect(200);
    let claimed = server.claim_for("q", "child", 11).expect(200).json();
    assert_eq!(claimed["task"]["id"], json!(task_id(1)));
    assert!(!server.finds_a_task("child", 12));
    server.patch(&of_task(2, ""), json!({"dependencies": [task_id(1)]})).expect(200);
    server.act(1, "complete", 11).expect(204);
    for n in [2, 3] {
        let claimed = server.claim_for("q", "child", 20 + n).expect(200).json();
        assert_eq!(claimed["task"]["id"], json!(task_id(n)));
        server.act(n, "complete", 20 + n).expect(204);
    }
}

#[test]
fn who_creates_or_updates_a_task_that_waits_for_itself_is_warned() {
    let server = Server::with_queue();
    let warnings = |response: &Response| response.header("taskqueue-warnings").map(str::to_owned);
    let cycle = Some("dependency_cycle".to_owned());
    assert_eq!(warnings(&server.put(&of_task(1, ""), waiting_for(&[1])).expect(201)), cycle);
    assert_eq!(warnings(&server.put(&of_task(1, ""), waiting_for(&[1])).expect(200)), cycle);
    assert_eq!(warnings(&server.put(&of_task(2, ""), waiting_for(&[3])).expect(201)), None);
    assert_eq!(warnings(&server.put(&of_task(3, ""), waiting_for(&[2])).expect(201)), cycle);
    let change = |ids: &[usize]| json!({"dependencies": ids.iter().map(|n| task_id(*n)).collect::<Vec<_>>()});
    assert_eq!(warnings(&server.patch(&of_task(3, ""), change(&[9])).expect(200)), None);
    assert_eq!(warnings(&server.patch(&of_task(3, ""), change(&[9, 2])).expect(200)), cycle);
    let reasons = server.get(&of_task(3, "/explain")).expect(200).json()["reasons"].clone();
    assert_eq!((&reasons[0]["code"], &reasons[0]["tasks"]), (&json!("dependency_cycle"), &json!([task_id(2)])));
    assert_eq!(reasons[1]["code"], "dependencies");
    assert_eq!(warnings(&server.put(&of_task(4, ""), json!({})).expect(201)), None);
}

#[test]
fn order_and_repetition_of_dependencies_are_no_difference() {
    let server = Server::with_queue();
    let made = server.create(9, waiting_for(&[3, 1, 2]));
    for same in [waiting_for(&[1, 2, 3]), waiting_for(&[3, 3, 2, 1, 1])] {
        assert_eq!(server.put(&of_task(9, ""), same).expect(200).json(), made);
    }
    for other in [waiting_for(&[1, 2]), waiting_for(&[1, 2, 3, 4]), json!({"routes": ["child"]})] {
        server.put(&of_task(9, ""), other).assert_error(409, "task_id_conflict");
    }
    let mut cancels = waiting_for(&[1, 2, 3]);
    cancels["on_dependency_failure"] = json!("cancel");
    server.put(&of_task(9, ""), &cancels).assert_error(409, "task_id_conflict");
    cancels["on_dependency_failure"] = json!("wait");
    server.put(&of_task(9, ""), &cancels).expect(200);
    let changed = server.patch(&of_task(9, ""), json!({"dependencies": [task_id(2), task_id(1), task_id(3)]}));
    assert_eq!(changed.expect(200).json(), made, "the same set changes nothing");
    let plain = server.create(8, json!({"dependencies": []}));
    assert_eq!(plain.get("dependencies"), None);
}

#[test]
fn an_update_replaces_the_dependencies_of_one_task_and_of_many() {
    let server = Server::with_queue();
    server.create(1, json!({}));
    complete(&server, 1, 1);
    for n in 2..6 {
        server.create(n, waiting_for(&[1, 100]));
    }
    assert!(!server.finds_a_task("child", 10));
    let changed = server.patch(&of_task(2, ""), json!({"dependencies": [task_id(1)]})).expect(200).json();
    assert_eq!(changed["dependencies"], json!([task_id(1)]));
    server.claim_for("q", "child", 11).expect(200);
    server.patch(&of_task(2, ""), json!({"dependencies": []})).assert_error(409, "task_running");
    assert!(!server.finds_a_task("child", 12));
    let body = json!({"filter": "status == 'pending'", "changes": {"dependencies": [task_id(1), task_id(2)]}});
    assert_eq!(server.patch(&in_queue("/tasks"), &body).expect(200).json(), json!({"matched": 3, "updated": 3}));
    assert_eq!(server.patch(&in_queue("/tasks"), &body).expect(200).json(), json!({"matched": 3, "updated": 0}));
    assert!(!server.finds_a_task("child", 13));
    server.act(2, "complete", 11).expect(204);
    let claims = json!({"route": "child", "run_ids": (20..24).map(run_id).collect::<Vec<_>>()});
    let claimed: Vec<Value> = server.batch("claim", claims).iter().map(|item| item["task"]["id"].clone()).collect();
    assert_eq!(claimed, [json!(task_id(3)), json!(task_id(4)), json!(task_id(5)), Value::Null]);
    let text = server.get(&of_task(3, "")).text();
    assert!(text.contains(r#""dependencies":["t_000000000001","t_000000000002"]}"#), "{text}");
}

#[test]
fn a_batch_creates_a_task_with_those_that_wait_for_it() {
    let server = Server::with_queue();
    // The child comes first: the order of a batch is no matter.
    let mut tasks: Vec<Value> = vec![json!({"id": task_id(1), "dependencies": [task_id(0)]})];
    tasks.extend((2..50).map(|n| json!({"id": task_id(n), "dependencies": [task_id(n - 1), task_id(0)]})));
    tasks.push(json!({"id": task_id(0)}));
    for outcome in ["created", "existing"] {
        let made = server.batch("create", json!({"tasks": tasks}));
        assert!(made.iter().all(|item| item["outcome"] == outcome), "{made:?}");
    }
    for n in 0..50 {
        let claims = json!({"route": "default", "run_ids": [run_id(n), run_id(1_000 + n)]});
        let claimed = server.batch("claim", claims);
        assert_eq!(claimed[0]["task"]["id"], json!(task_id(n)));
        assert_eq!(claimed[1]["outcome"], "none", "{n}");
        let report = json!({"task_id": task_id(n), "run_id": run_id(n), "action": "complete", "result": {}});
        assert_eq!(server.batch("report", json!({"reports": [report]}))[0]["outcome"], "done");
    }
}

#[test]
fn a_delayed_task_waits_for_both_its_time_and_its_dependencies() {
    let server = Server::with_queue();
    server.create(1, json!({}));
    let mut delayed = waiting_for(&[1]);
    delayed["not_before"] = json!("2099-01-01T00:00:00Z");
    server.create(2, &delayed);
    complete(&server, 1, 1);
    assert!(!server.finds_a_task("child", 10));
    server
        .patch(&of_task(2, ""), json!({"not_before": "2020-01-01T00:00:00Z", "dependencies": [task_id(7)]}))
        .expect(200);
    assert!(!server.finds_a_task("child", 11));
    server.patch(&of_task(2, ""), json!({"dependencies": [task_id(1)]})).expect(200);
    assert!(server.finds_a_task("child", 12));
}

#[test]
fn what_waits_for_what_survives_a_kill() {
    let mut server = Server::alone();
    server.create(1, json!({}));
    server.create(2, waiting_for(&[1]));
    let before = server.snapshot();
    server.kill();
    server.start_again();
    assert_eq!(server.snapshot(), before);
    assert!(!server.finds_a_task("child", 10));
    complete(&server, 1, 1);
    server.kill();
    server.start_again();
    assert!(server.finds_a_task("child", 11));
}

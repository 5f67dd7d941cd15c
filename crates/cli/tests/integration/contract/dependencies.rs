//! Tasks that wait for other tasks (extension `dependencies`): what is asked and shown. When they can be claimed, and what becomes
//! of them in every case, is proven by the conformance suite of the stores.

use serde_json::{Value, json};
use taskqueue_test_postgres::eventually;

use super::support::*;

fn waiting_for(numbers: &[usize]) -> Value {
    json!({"dependencies": numbers.iter().map(|n| task_id(*n)).collect::<Vec<_>>(), "routes": ["child"]})
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

/// A task that is cancelled when one of these cannot succeed any more.
fn cancelled_with(n: usize) -> Value {
    let mut body = waiting_for(&[n]);
    body["on_dependency_failure"] = json!("cancel");
    body
}

/// The task was cancelled because of this one, which is told with what became of it.
#[track_caller]
fn assert_cancelled_because_of(task: &Value, n: usize, what: &str) {
    assert_eq!((&task["status"], &task["attempt"]), (&json!("cancelled"), &json!(0)), "{task}");
    let error = &task["last_error"];
    assert_eq!((&error["type"], &error["run_id"]), (&json!("DependencyFailed"), &Value::Null), "{task}");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains(&task_id(n)) && message.contains(what), "{message}");
    micros(&error["occurred_at"]);
}

#[test]
fn who_asked_for_it_is_cancelled_and_told_what_became_of_the_other_and_a_run_goes_on() {
    let server = Server::with_queue();
    server.create_in_state(1, "succeeded");
    server.create(2, cancelled_with(1));
    server.claim_for("q", "child", 2).expect(200);
    server.delete(&of_task(1, "")).expect(204);
    for (n, what) in [(10, "failed"), (20, "was cancelled"), (30, "was deleted")] {
        server.create(n, json!({"max_attempts": 1}));
        server.create(n + 1, cancelled_with(n));
        server.create(n + 2, waiting_for(&[n]));
        match what {
            "failed" => {
                server.claim(n);
                server.act(n, "fail", n).expect(204);
            }
            "was cancelled" => drop(server.cancel(n).expect(200)),
            _ => drop(server.delete(&of_task(n, "")).expect(204)),
        }
        // That may be as late as 5 s after its cause.
        eventually("the task is cancelled", || server.task(n + 1)["status"] == "cancelled");
        assert_cancelled_because_of(&server.task(n + 1), n, what);
        assert_eq!(server.task(n + 2)["status"], "pending", "{what}: it waits");
    }
    assert_eq!(server.task(2)["status"], "running");
    server.act(2, "complete", 2).expect(204);
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

//! Tasks that wait for other tasks (extension `dependencies`): what is asked and shown. When they can be claimed, and what becomes
//! of them in every case, is proven by the conformance suite of the stores.

use serde_json::{Value, json};
use taskqueue_test_postgres::eventually;

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
    for n in 2..5 {
        server.create(n, waiting_for(&[1, 100]));
    }
    let changed = server.patch(&of_task(2, ""), json!({"dependencies": [task_id(1)]})).expect(200).json();
    assert_eq!(changed["dependencies"], json!([task_id(1)]));
    let body = json!({"filter": "exists(id)", "changes": {"dependencies": [task_id(2), task_id(1)]}});
    for updated in [3, 0] {
        let answer = server.patch(&in_queue("/tasks"), &body).expect(200).json();
        assert_eq!(answer, json!({"matched": 3, "updated": updated}));
    }
    let text = server.get(&of_task(3, "")).text();
    assert!(text.contains(r#""dependencies":["t_000000000001","t_000000000002"]}"#), "{text}");
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
fn a_batch_tells_of_tasks_that_are_cancelled_at_once_as_created() {
    let server = Server::with_queue();
    server.create_in_state(1, "cancelled");
    let mut body = cancelled_with(1);
    body["id"] = json!(task_id(2));
    assert_eq!(server.batch("create", json!({"tasks": [body]}))[0]["outcome"], "created");
    assert_cancelled_because_of(&server.task(2), 1, "was cancelled");
}

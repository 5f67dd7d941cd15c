//! Actions on all tasks that a filter selects (docs/reference/http-api.md §14.8): what they change and answer, their checks, and
//! that others are served meanwhile.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use taskqueue_test_postgres::eventually;

use super::support::*;

const ACTIONS: [&str; 3] = ["cancel", "requeue", "delete"];

fn act(server: &Server, action: &str, body: Value) -> Response {
    server.post(&in_queue(&format!("/tasks/bulk/{action}")), body)
}

#[track_caller]
fn assert_counts(response: Response, matched: usize, changed: usize) {
    assert_eq!(response.expect(200).json(), json!({"matched": matched, "changed": changed}));
}

fn one_of_each_state() -> SharedServer {
    let server = Server::with_queue();
    for (n, state) in STATES.into_iter().enumerate() {
        server.create_in_state(n, state);
    }
    server
}

fn states(server: &Server) -> Vec<Value> {
    (0..STATES.len()).map(|n| server.task(n)["status"].clone()).collect()
}

#[test]
fn each_action_answers_how_many_tasks_it_changed() {
    for (action, applies_to) in [("cancel", 2), ("requeue", 2), ("delete", 4)] {
        let server = one_of_each_state();
        let before = server.snapshot();
        let counted = json!({"filter": "exists(id)", "dry_run": true, "expect": applies_to});
        assert_counts(act(&server, action, counted), applies_to, 0);
        assert_eq!(server.snapshot(), before, "a dry run");
        let body = json!({"filter": "exists(id)", "expect": applies_to});
        assert_counts(act(&server, action, body), applies_to, applies_to);
        assert_counts(act(&server, action, json!({"filter": "exists(id)"})), 0, 0);
    }
}

#[test]
fn an_expectation_that_fails_is_told_with_the_numbers() {
    let server = one_of_each_state();
    let before = states(&server);
    for (action, matched) in [("cancel", 2), ("requeue", 2), ("delete", 4)] {
        for dry_run in [json!(false), json!(true), Value::Null] {
            let body = json!({"filter": "priority == 0", "expect": 3, "dry_run": dry_run});
            let refused = act(&server, action, body);
            refused.assert_error(409, "expectation_failed");
            assert_eq!(refused.json()["error"]["details"], json!({"expected": 3, "matched": matched}));
        }
    }
    assert_eq!(states(&server), before);
}

#[test]
fn checks_come_in_the_order_of_the_contract() {
    let server = Server::start();
    for action in ACTIONS {
        let of = |queue: &str, body: Value| server.post(&format!("/api/v2/queues/{queue}/tasks/bulk/{action}"), body);
        for body in [json!({}), json!({"filter": null}), json!({"filter": 1, "expect": -1})] {
            of(".bad", body).assert_error(422, "invalid_filter");
        }
        for body in [
            json!({"filter": "(", "expect": -1}),
            json!({"filter": "(", "expect": 1.5}),
            json!({"filter": "(", "dry_run": "yes"}),
            json!({"filter": "(", "changes": {}}),
            json!([]),
        ] {
            of("nope", body).assert_error(422, "invalid_request");
        }
        of(".bad", json!({"filter": "("})).assert_error(422, "invalid_request");
        for filter in ["(", "", " \t"] {
            of("nope", json!({"filter": filter})).assert_error(422, "invalid_filter");
        }
        of("nope", json!({"filter": "x".repeat(8_193)})).assert_error(422, "filter_too_large");
        for dry_run in [false, true] {
            of("nope", json!({"filter": "exists(id)", "dry_run": dry_run})).assert_error(404, "queue_not_found");
        }
        let path = format!("/api/v2/queues/q/tasks/bulk/{action}");
        server.get(&path).assert_error(405, "method_not_allowed");
    }
}

/// Far more than one portion. A request of another client counts if the same action was neither at its beginning before it nor at
/// its end after it: what has to wait for the end of an action never counts, however slow the machine is. Of those that begin in
/// the middle only the last one of each action may end after it, so most of them count.
#[test]
fn others_are_served_while_many_tasks_are_cancelled() {
    const TASKS: usize = 6_000;
    const SERVED: usize = 15;
    let server = Server::with_queue();
    in_parallel(8, |part| {
        for n in (part..TASKS).step_by(8) {
            server.create(n, json!({"routes": ["bulk"], "name": "bulk"}));
        }
    });
    let ended = AtomicUsize::new(0);
    let act_on_all = |action: &str| drop(act(&server, action, json!({"filter": "name == 'bulk'"})).expect(200));
    let act_again = |round: usize| {
        act_on_all(["cancel", "requeue"][round % 2]);
        ended.fetch_add(1, Ordering::SeqCst);
    };
    let cancelled = || server.get(&in_queue("/tasks/count?status=cancelled")).expect(200).json()["count"].clone();
    // The action that is half done, if one is.
    let under_way = || {
        let action = ended.load(Ordering::SeqCst);
        (1..TASKS as u64).contains(&cancelled().as_u64().unwrap()).then_some(action)
    };
    let (mut begun, mut served, mut n) = (0, 0, TASKS);
    meanwhile(&[&act_again], || {
        eventually("others are served in the middle of actions", || {
            let requests: [&dyn Fn(); 3] = [
                &|| drop(server.create(n, json!({"routes": ["other"]}))),
                &|| drop(server.claim_for("q", "other", n).expect(200)),
                &|| drop(server.act(n, "complete", n).expect(204)),
            ];
            for request in requests {
                let before = under_way();
                request();
                begun += usize::from(before.is_some());
                served += usize::from(before.is_some() && before == under_way());
            }
            n += 1;
            served >= SERVED
        });
    });
    assert!(2 * served > begun, "of {begun} requests in the middle of actions only {served} were answered there");
    act_on_all("cancel");
    assert_eq!(cancelled(), json!(TASKS));
}

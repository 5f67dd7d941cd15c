//! Many callers at once: writes behave as if one after the other (docs/reference/http-api.md §13,
//! docs/reference/invariants.md §2). What parallel calls of one kind do is proven by the conformance suite of the stores.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::support::*;

#[test]
fn of_complete_and_cancel_exactly_one_wins() {
    let server = Server::with_queue();
    for n in 0..40 {
        server.create(n, json!({}));
        server.claim(n);
        let answers = in_parallel(2, |side| if side == 0 { server.act(n, "complete", n) } else { server.cancel(n) });
        let status = server.task(n)["status"].clone();
        match (answers[0].status, answers[1].status) {
            (204, 409) => assert_eq!(status, "succeeded"),
            (409, 200) => {
                answers[0].assert_details(409, "run_finalized", &json!({"action": "cancel"}));
                assert_eq!(status, "cancelled");
            }
            other => panic!("task {n}: {other:?}"),
        }
    }
}

#[test]
fn an_update_or_deletion_comes_before_a_claim_or_not_at_all() {
    let server = Server::with_queue();
    for n in 0..40 {
        let (path, run) = (of_task(n, ""), n);
        server.create(n, json!({}));
        let change = |side: usize| match (side, n % 2) {
            (0, _) => server.claim_for("q", "default", run),
            (_, 0) => server.patch(&path, json!({"name": "new"})),
            _ => server.delete(&path),
        };
        let answers = in_parallel(2, change);
        match (answers[0].status, answers[1].status) {
            (200, 200) => assert_eq!(answers[0].json()["task"]["name"], "new"),
            (200, 409) => {
                answers[1].assert_error(409, "task_running");
                assert_eq!(answers[0].json()["task"], server.task(n));
                assert_eq!(server.task(n)["name"], Value::Null);
            }
            (204, 204) => drop(server.get(&path).assert_error(404, "task_not_found")),
            other => panic!("task {n}: {other:?}"),
        }
    }
}

#[test]
fn a_claimed_task_never_disappears_with_its_queue() {
    let server = Server::start();
    for round in 0..30 {
        server.create_queue("q");
        server.create(1, json!({}));
        let cascade = in_queue("?cascade=true");
        let claim = || server.claim_for("q", "default", round);
        let answers = in_parallel(2, |side| if side == 0 { claim() } else { server.delete(&cascade) });
        match (answers[0].status, answers[1].status) {
            (200, 409) => {
                answers[1].assert_error(409, "queue_has_running_tasks");
                assert_eq!(server.task(1)["status"], "running");
                server.act(1, "complete", round).expect(204);
                server.delete(&cascade).expect(204);
            }
            (404, 204) => drop(answers[0].assert_error(404, "queue_not_found")),
            other => panic!("round {round}: {other:?}"),
        }
    }
}

#[test]
fn a_walk_finds_every_unchanged_task_exactly_once_while_others_write() {
    let server = Server::with_queue();
    server.create_each(0..60, |n| json!({"priority": n % 5, "name": "stable"}));
    let write = |id: usize, round: usize| {
        server.create(id, json!({"priority": round % 7, "name": "changing"}));
        server.patch(&of_task(id, ""), json!({"priority": (round + 3) % 7})).expect(200);
        server.delete(&of_task(id, "")).expect(204);
    };
    let writers: [&(dyn Fn(usize) + Sync); 2] =
        [&|round| write(1000 + round % 100, round), &|round| write(2000 + round % 100, round)];
    meanwhile(&writers, || {
        for order in ["priority", "created_at", "name&descending=no", "updated_at&descending=no"] {
            let query = format!("order_by={order}");
            let stable: Vec<usize> = server.walk(&query, 7).into_iter().filter(|&n| n < 60).collect();
            assert_eq!(stable.len(), 60, "{query}: {stable:?}");
            assert_eq!(stable.iter().collect::<HashSet<_>>().len(), 60, "{query}: {stable:?}");
        }
    });
}

#[test]
fn count_and_items_of_a_grouped_page_come_from_one_moment() {
    let server = Server::with_queue();
    server.create_each(0..20, |_| json!({}));
    let write = |extra: usize, task: usize, round: usize| {
        server.create(extra, json!({"priority": round}));
        server.cancel(task).expect(200);
        server.requeue(task).expect(200);
        server.delete(&of_task(extra, "")).expect(204);
    };
    let writers: [&(dyn Fn(usize) + Sync); 2] =
        [&|round| write(100, round % 10, round), &|round| write(200, 10 + round % 10, round)];
    meanwhile(&writers, || {
        for _ in 0..100 {
            let page = server.count("group_by=status");
            let sum: u64 = page["items"].as_array().unwrap().iter().map(|item| item["count"].as_u64().unwrap()).sum();
            assert_eq!(page["count"], Value::from(sum), "{page}");
        }
    });
}

//! Many callers at once: writes behave as if one after the other (docs/reference/http-api.md §13,
//! docs/reference/invariants.md §2).

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use super::support::*;

/// How many answers had each status.
fn statuses(answers: &[Response]) -> HashMap<u16, usize> {
    let mut counts = HashMap::new();
    for answer in answers {
        *counts.entry(answer.status).or_insert(0) += 1;
    }
    counts
}

fn id_of(claim: &Response) -> String {
    claim.json()["task"]["id"].as_str().unwrap().to_owned()
}

#[test]
fn a_hundred_parallel_creations_of_one_id_give_one_201() {
    let server = Server::with_queue();
    let bodies =
        [r#"{"args":{"a":1,"b":2},"routes":["x","y"]}"#, r#"{"routes":["y","x"],"priority":0,"args":{"b":2,"a":1}}"#];
    let answers = in_parallel(100, |n| server.put(&of_task(1, ""), bodies[n % 2]));
    assert_eq!(statuses(&answers), HashMap::from([(201, 1), (200, 99)]));
    assert!(answers.iter().all(|answer| answer.json() == answers[0].json()));
}

#[test]
fn parallel_claims_with_one_run_id_in_several_queues_take_one_task() {
    let server = Server::start();
    let queues = ["a", "b", "c", "d"];
    for (n, queue) in queues.into_iter().enumerate() {
        server.create_queue(queue);
        server.create_in(queue, n, json!({}));
    }
    let answers = in_parallel(20, |n| server.claim_for(queues[n % 4], "default", 1));
    let (claims, conflicts): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 200);
    assert_eq!((claims.len(), conflicts.len()), (5, 15));
    assert!(claims.iter().all(|claim| id_of(claim) == id_of(claims[0])));
    conflicts.iter().for_each(|answer| drop(answer.assert_error(409, "run_id_conflict")));
}

#[test]
fn parallel_claims_take_as_many_tasks_as_the_limits_allow() {
    let server = Server::with_queue();
    for n in 0..20 {
        server.create(n, json!({"routes": ["cpu", "gpu"]}));
    }
    let limits = json!({"max_running": 7, "route_limits": {"gpu": 3}});
    server.patch(&in_queue("/settings"), limits).expect(200);
    let gpu = in_parallel(10, |n| server.claim_for("q", "gpu", n));
    assert_eq!(statuses(&gpu), HashMap::from([(200, 3), (204, 7)]), "the limit of the route");
    let cpu = in_parallel(10, |n| server.claim_for("q", "cpu", 10 + n));
    assert_eq!(statuses(&cpu), HashMap::from([(200, 4), (204, 6)]), "what the limit of the queue leaves");
}

#[test]
fn every_pending_task_is_claimed_exactly_once() {
    let server = Server::with_queue();
    in_parallel(8, |thread| (thread..400).step_by(8).for_each(|n| drop(server.create(n, json!({"priority": n % 3})))));
    let next_run = AtomicUsize::new(1);
    let claimed: Vec<Vec<String>> = in_parallel(8, |_| {
        let mut mine = Vec::new();
        loop {
            let claim = server.claim_for("q", "default", next_run.fetch_add(1, Ordering::Relaxed));
            if claim.status == 204 {
                return mine;
            }
            mine.push(id_of(&claim.expect(200)));
        }
    });
    let claimed = claimed.concat();
    assert_eq!(claimed.len(), 400, "204 is only for an empty queue");
    assert_eq!(claimed.iter().collect::<HashSet<_>>().len(), 400, "no task is claimed twice");
}

#[test]
fn each_task_succeeds_once_while_workers_give_back_and_fail() {
    let server = Server::with_queue();
    for n in 0..60 {
        server.create(n, json!({"max_attempts": 1000}));
    }
    let next_run = AtomicUsize::new(1);
    let succeeded: Vec<Vec<String>> = in_parallel(8, |_| {
        let mut mine = Vec::new();
        loop {
            let run = next_run.fetch_add(1, Ordering::Relaxed);
            let claim = server.claim_for("q", "default", run);
            if claim.status == 204 {
                return mine;
            }
            let id = id_of(&claim.expect(200));
            let action = ["complete", "fail", "unclaim", "complete"][run % 4];
            server.post(&in_queue(&format!("/tasks/{id}/{action}")), action_body(action, run)).expect(204);
            if action == "complete" {
                mine.push(id);
            }
        }
    });
    let succeeded = succeeded.concat();
    assert_eq!(succeeded.iter().collect::<HashSet<_>>().len(), succeeded.len());
    // A worker may find nothing while others hold the rest, so some tasks may be left over.
    let groups = server.get(&in_queue("/tasks/count?group_by=status")).json();
    let count_of = |status: &str| {
        let items = groups["items"].as_array().unwrap().iter();
        items.filter(|item| item["key"]["status"] == status).map(|item| item["count"].as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!(count_of("succeeded"), succeeded.len() as u64);
    assert_eq!(count_of("succeeded") + count_of("pending"), 60);
}

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
        let answers =
            in_parallel(
                2,
                |side| if side == 0 { server.claim_for("q", "default", round) } else { server.delete(&cascade) },
            );
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
    for n in 0..60 {
        server.create(n, json!({"priority": n % 5, "name": "stable"}));
    }
    let write = |id: usize, round: usize| {
        server.create(id, json!({"priority": round % 7, "name": "changing"}));
        server.patch(&of_task(id, ""), json!({"priority": (round + 3) % 7})).expect(200);
        server.delete(&of_task(id, "")).expect(204);
    };
    let writers: [&(dyn Fn(usize) + Sync); 2] =
        [&|round| write(1000 + round % 100, round), &|round| write(2000 + round % 100, round)];
    meanwhile(&writers, || {
        for query in [
            "order_by=priority",
            "order_by=created_at",
            "order_by=name&descending=no",
            "order_by=updated_at&descending=no",
        ] {
            let stable: Vec<usize> = server.walk(query, 7).into_iter().filter(|&n| n < 60).collect();
            assert_eq!(stable.len(), 60, "{query}: {stable:?}");
            assert_eq!(stable.iter().collect::<HashSet<_>>().len(), 60, "{query}: {stable:?}");
        }
    });
}

#[test]
fn count_and_items_of_a_grouped_page_come_from_one_moment() {
    let server = Server::with_queue();
    for n in 0..20 {
        server.create(n, json!({}));
    }
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
            let page = server.get(&in_queue("/tasks/count?group_by=status")).expect(200).json();
            let sum: u64 = page["items"].as_array().unwrap().iter().map(|item| item["count"].as_u64().unwrap()).sum();
            assert_eq!(page["count"], Value::from(sum), "{page}");
        }
    });
}

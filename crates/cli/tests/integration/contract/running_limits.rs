//! Limits of how many tasks run (extension `queue-settings`): they hold exactly at one server, whatever happens meanwhile.
//! Several servers are in `scale_out`.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use taskqueue_test_postgres::eventually;

use super::support::*;

#[track_caller]
fn change(server: &Server, patch: Value) {
    server.patch(&in_queue("/settings"), patch).expect(200);
}

fn create_many(server: &Server, tasks: usize, body: &Value) {
    let of = |n: usize| {
        let mut task = body.clone();
        task["id"] = json!(task_id(n));
        task
    };
    for from in (0..tasks).step_by(1_000) {
        let items: Vec<Value> = (from..tasks.min(from + 1_000)).map(of).collect();
        server.batch("create", json!({"tasks": items}));
    }
}

/// How many are running, and how many of them were claimed for the route `gpu`. Each number is of one moment.
fn running(server: &Server) -> (u64, u64) {
    let count = |query: &str| server.get(&in_queue(&format!("/tasks/count?status=running{query}"))).expect(200).json();
    let gpu = count(&format!("&filter={}", encode("last_route == 'gpu'")))["count"].as_u64().unwrap();
    (count("")["count"].as_u64().unwrap(), gpu)
}

/// Eight clients claim and end runs while the limits change; an observer never sees more than a limit that was in force.
#[test]
fn limits_hold_for_eight_clients_while_settings_change() {
    const TASKS: usize = 4_000;
    const HIGH: (u64, u64) = (6, 3);
    const LOW: (u64, u64) = (3, 1);
    let server = Server::with_queue();
    create_many(&server, TASKS, &json!({"routes": ["cpu", "gpu"], "max_attempts": 100}));
    let set = |(all, gpu): (u64, u64)| change(&server, json!({"max_running": all, "route_limits": {"gpu": gpu}}));
    set(HIGH);
    let (next_run, most) = (AtomicUsize::new(1), AtomicUsize::new(0));
    let client = |lane: usize, until: Instant| {
        let route = if lane.is_multiple_of(2) { "gpu" } else { "cpu" };
        let mut held: Vec<(String, String)> = Vec::new();
        while Instant::now() < until {
            let run = run_id(next_run.fetch_add(1, Ordering::SeqCst));
            let claim = server.post(&in_queue("/tasks/claim"), json!({"route": route, "run_id": run}));
            if claim.status == 200 {
                held.push((claim.json()["task"]["id"].as_str().unwrap().to_owned(), run));
            }
            // Each client holds up to two, so that both limits are reached.
            if held.len() > 1 || claim.status == 204 {
                for (n, (task, run)) in held.drain(..).enumerate() {
                    let (action, body) = match n % 2 {
                        0 => ("complete", json!({"run_id": run, "result": {}})),
                        _ => ("unclaim", json!({"run_id": run})),
                    };
                    server.post(&in_queue(&format!("/tasks/{task}/{action}")), body).expect(204);
                }
            }
        }
        for (task, run) in held {
            server.post(&in_queue(&format!("/tasks/{task}/unclaim")), json!({"run_id": run})).expect(204);
        }
    };
    let until = Instant::now() + Duration::from_secs(4);
    thread::scope(|scope| {
        for lane in 0..8 {
            let client = &client;
            scope.spawn(of_this_test(move || client(lane, until)));
        }
        // The limit in force is the higher one while it is changed; after a change to the lower one, runs above it go on.
        while Instant::now() < until {
            for _ in 0..20 {
                let (all, gpu) = running(&server);
                assert!(all <= HIGH.0 && gpu <= HIGH.1, "{all} are running, {gpu} of them for gpu");
                most.fetch_max(usize::try_from(all).unwrap(), Ordering::SeqCst);
            }
            set(LOW);
            eventually("the lower limits are reached", || {
                let (all, gpu) = running(&server);
                all <= LOW.0 && gpu <= LOW.1
            });
            for _ in 0..20 {
                let (all, gpu) = running(&server);
                assert!(all <= LOW.0 && gpu <= LOW.1, "{all} are running, {gpu} of them for gpu");
            }
            set(HIGH);
        }
    });
    assert!(most.load(Ordering::SeqCst) > usize::try_from(LOW.0).unwrap(), "the limits were never in the way");
    assert_eq!(running(&server), (0, 0));
    // What is free is given again, and no more. A fast machine has done all tasks by now.
    let fresh: Vec<Value> = (0..20).map(|n| json!({"id": task_id(TASKS + n), "routes": ["cpu", "gpu"]})).collect();
    server.batch("create", json!({"tasks": fresh}));
    let claimed = |route: &str, first: usize| {
        let runs: Vec<String> = (first..first + 20).map(run_id).collect();
        let items = server.batch("claim", json!({"route": route, "run_ids": runs}));
        items.iter().filter(|item| item["outcome"] == "claimed").count() as u64
    };
    assert_eq!((claimed("gpu", 10_000_000), claimed("cpu", 20_000_000)), (HIGH.1, HIGH.0 - HIGH.1));
}

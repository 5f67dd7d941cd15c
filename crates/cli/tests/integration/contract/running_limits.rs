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

#[test]
fn no_more_tasks_run_than_the_limits_allow_and_an_end_makes_room() {
    let server = Server::with_queue();
    create_many(&server, 20, &json!({"routes": ["cpu", "gpu"]}));
    change(&server, json!({"max_running": 3, "route_limits": {"gpu": 2}}));
    let claim = |route: &str, run: usize| server.claim_for("q", route, run).status;
    assert_eq!([claim("gpu", 1), claim("gpu", 2), claim("gpu", 3), claim("cpu", 4)], [200, 200, 204, 200]);
    assert_eq!([claim("cpu", 5), claim("gpu", 6)], [204, 204], "the queue is full");
    assert_eq!(claim("gpu", 1), 200, "the repetition of a claim needs no room");
    server.act(2, "complete", 4).expect(204);
    assert_eq!([claim("gpu", 7), claim("cpu", 8)], [204, 200]);
    server.cancel(0).expect(200);
    assert_eq!([claim("gpu", 9), claim("gpu", 10)], [200, 204]);
    // A batch takes what there is room for.
    change(&server, json!({"max_running": 6}));
    let runs: Vec<String> = (100..110).map(run_id).collect();
    let items = server.batch("claim", json!({"route": "cpu", "run_ids": runs}));
    assert_eq!(items.iter().filter(|item| item["outcome"] == "claimed").count(), 3);
    // A lower limit takes nothing away.
    change(&server, json!({"max_running": 1}));
    assert_eq!(running(&server).0, 6);
    assert_eq!(claim("cpu", 200), 204);
    change(&server, json!({"max_running": null, "route_limits": null}));
    assert_eq!([claim("gpu", 201), claim("cpu", 202)], [200, 200]);
}

#[test]
fn a_limit_of_zero_stops_claims_and_limits_survive_a_kill() {
    let mut server = Server::alone();
    create_many(&server, 5, &json!({}));
    change(&server, json!({"max_running": 0}));
    server.claim_for("q", "default", 1).expect(204);
    change(&server, json!({"max_running": 2}));
    server.claim(2);
    server.claim(3);
    server.kill();
    server.start_again();
    server.claim_for("q", "default", 4).expect(204);
    assert_eq!(server.claim(2)["task"]["id"], json!(task_id(0)), "a repetition");
    server.act(0, "fail", 2).expect(204);
    server.claim(5);
    server.claim_for("q", "default", 6).expect(204);
}

#[test]
fn an_end_wakes_a_claim_that_waits_for_room() {
    let server = Server::with_arguments(&["--log-level", "debug"]);
    server.create_queue("q");
    create_many(&server, 4, &json!({}));
    change(&server, json!({"max_running": 1}));
    server.claim(0);
    for (n, end) in [(0, "complete"), (1, "fail"), (2, "unclaim")] {
        let body = json!({"route": "default", "run_id": run_id(n + 1)});
        let request = Request::new("POST", &in_queue("/tasks/claim")).header("Prefer", "wait=25").json(body);
        let before = server.count_log_lines(WAITS);
        let mut waiter = server.connect();
        waiter.write(&request.to_bytes()).unwrap();
        server.await_log_lines(WAITS, before + 1);
        let begun = Instant::now();
        server.act(n, end, n).expect(204);
        waiter.read_response(true).unwrap().expect(200);
        assert!(begun.elapsed() < Duration::from_secs(20), "{end}: {:?}", begun.elapsed());
        if end == "fail" {
            // The failed task is claimed again behind the others.
            assert_eq!(server.task(2)["status"], "running");
        }
    }
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

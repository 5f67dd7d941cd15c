//! Ended tasks that are kept for a limited time (extension `queue-settings`, `retention`), with real time: seconds at most.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::support::*;

/// Ended tasks go at most so late, by the promise of the extension.
const LATEST: Duration = Duration::from_secs(60);

#[track_caller]
fn keep(server: &Server, retention: Value) {
    server.patch(&in_queue("/settings"), json!({"retention": retention})).expect(200);
}

/// Waits until exactly these tasks are left, archived ones included; the wait is a claim that finds nothing.
#[track_caller]
fn await_left(server: &Server, expected: &[usize]) {
    let begun = Instant::now();
    for run in 900_000.. {
        let left = server.ids(&format!("{BY_ID}&include_archived=true"));
        if left == expected {
            return;
        }
        assert!(expected.iter().all(|n| left.contains(n)), "too much is gone: {left:?} instead of {expected:?}");
        assert!(begun.elapsed() < LATEST, "{left:?} are left, not {expected:?}");
        let body = json!({"route": "nobody", "run_id": run_id(run)});
        let wait = Request::new("POST", &in_queue("/tasks/claim")).header("Prefer", "wait=1").json(body);
        server.send(&wait).expect(204);
    }
}

#[test]
fn tasks_go_by_their_state_when_their_time_is_over_also_after_a_kill() {
    let mut server = Server::alone();
    for (n, state) in STATES.into_iter().enumerate() {
        server.create_in_state(n, state);
    }
    keep(&server, json!({"succeeded_seconds": 0}));
    server.kill();
    server.start_again();
    await_left(&server, &[0, 1, 3, 4]);
    keep(&server, json!({"failed_seconds": 1, "cancelled_seconds": 3_600}));
    await_left(&server, &[0, 1, 4]);
    keep(&server, json!({"cancelled_seconds": 0}));
    await_left(&server, &[0, 1]);
    // Those that end later go, too.
    server.act(1, "complete", 1_001).expect(204);
    server.cancel(0).expect(200);
    server.kill();
    server.start_again();
    await_left(&server, &[]);
    server.get(&of_task(1, "")).assert_error(404, "task_not_found");
}

/// A round of another client counts if some tasks were gone before it and some were there after it: what has to wait until all are
/// gone never counts, however slow the machine is. Of those that begin in the middle only the last one may end after it, so most of
/// them count.
#[test]
fn thousands_of_tasks_go_while_others_are_served() {
    const TASKS: usize = 3_000;
    let server = Server::with_queue();
    server.create(TASKS, json!({"routes": ["kept"]}));
    let left = || server.get(&in_queue("/tasks/count?status=cancelled")).expect(200).json()["count"].as_u64().unwrap();
    let (mut met, mut served, mut run) = (0, 0, 0);
    let begun = Instant::now();
    while served < 3 {
        keep(&server, json!({"cancelled_seconds": 86_400}));
        for from in (0..TASKS).step_by(1_000) {
            let tasks: Vec<Value> = (from..from + 1_000).map(|n| json!({"id": task_id(n), "name": "old"})).collect();
            server.batch("create", json!({"tasks": tasks}));
        }
        server.post(&in_queue("/tasks/bulk/cancel"), json!({"filter": "name == 'old'"})).expect(200);
        keep(&server, json!({"cancelled_seconds": 0}));
        loop {
            let before = left();
            server.claim_for("q", "kept", run).expect(200);
            server.act(TASKS, "unclaim", run).expect(204);
            run += 1;
            let after = left();
            let in_the_middle = (1..TASKS as u64).contains(&before);
            met += usize::from(in_the_middle);
            served += usize::from(in_the_middle && after > 0);
            if after == 0 {
                break;
            }
            assert!(begun.elapsed() < 2 * LATEST, "{after} are left; {served} were served meanwhile");
        }
    }
    assert!(2 * served > met, "of {met} rounds that began while tasks went only {served} ended meanwhile");
}

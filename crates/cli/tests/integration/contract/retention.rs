//! Ended tasks that are kept for a limited time (extension `queue-settings`, `retention`), with real time: seconds at most. That others are
//! served while thousands go is proven by the conformance suite of the stores and in `server`.

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
        server.send(&claim_request("nobody", run).waiting(1)).expect(204);
    }
}

#[test]
fn tasks_go_by_their_state_when_their_time_is_over_also_after_a_kill() {
    let mut server = Server::alone();
    server.create_in_states(0);
    keep(&server, json!({"succeeded_seconds": 0}));
    server.restart_by("KILL");
    await_left(&server, &[0, 1, 3, 4]);
    keep(&server, json!({"failed_seconds": 1, "cancelled_seconds": 3_600}));
    await_left(&server, &[0, 1, 4]);
    keep(&server, json!({"cancelled_seconds": 0}));
    await_left(&server, &[0, 1]);
    // Those that end later go, too.
    server.act(1, "complete", 1_001).expect(204);
    server.cancel(0).expect(200);
    server.restart_by("KILL");
    await_left(&server, &[]);
    server.get(&of_task(1, "")).assert_error(404, "task_not_found");
}

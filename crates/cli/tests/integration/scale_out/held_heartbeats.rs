//! Held heartbeats where several servers share a database: a run that is ended at one server ends the heartbeat that is held
//! at another, also when notifications are lost.

use serde_json::json;

use super::{NOTIFIED, announced, found_by_next_poll, fresh_database, logging_servers, notified};
use crate::support::*;

/// Task `n` runs as run `n`, whose heartbeat is held there.
pub(super) fn hold(there: &Server, n: usize) -> Connection {
    there.create(n, json!({}));
    assert_eq!(there.claimed(n), n);
    let heartbeat = Request::new("POST", &of_task(n, "/heartbeat")).waiting(28);
    there.begin_until_logged(&heartbeat.json(json!({"run_id": run_id(n)})), HELD)
}

/// The run of task `n` is ended here.
#[track_caller]
pub(super) fn end(here: &Server, n: usize, action: &str) {
    match action {
        "cancel" => drop(here.cancel(n).expect(200)),
        _ => drop(here.act(n, action, n).expect(204)),
    }
}

/// The held heartbeat is told what became of its run.
#[track_caller]
pub(super) fn told(held: &mut Connection, action: &str) {
    assert_eq!(held.read_response(true).unwrap().assert_error(409, "run_finalized")["action"], action);
}

#[test]
fn a_cancel_at_one_server_ends_a_heartbeat_that_is_held_at_another() {
    let database = fresh_database();
    let [here, there] = logging_servers(&database.url());
    for n in 0..4 {
        // Only who is known to hold heartbeats is notified. The unit tests of the store have that this ends the wait.
        let mut held = announced(&here, || hold(&there, n));
        notified(&there, || end(&here, n, "cancel"));
        told(&mut held, "cancel");
    }
    // A report is not notified: whoever sent it knows. The poll finds it.
    let before = there.count_log_lines(NOTIFIED);
    for (n, action) in [(20, "complete"), (21, "fail")] {
        let mut held = announced(&here, || hold(&there, n));
        found_by_next_poll(&there, || end(&here, n, action));
        told(&mut held, action);
    }
    assert_eq!(there.count_log_lines(NOTIFIED), before);
}

#[test]
fn a_task_that_was_cancelled_and_deleted_elsewhere_ends_its_held_heartbeat() {
    let database = fresh_database();
    let [here, there] = logging_servers(&database.url());
    let mut held = hold(&there, 1);
    here.cancel(1).expect(200);
    here.delete("/api/v2/queues/q?cascade=true").expect(204);
    let response = held.read_response(true).unwrap();
    // What it is told depends on what is left when it asks.
    assert!(matches!(response.status, 404 | 409), "{response:?}");
}

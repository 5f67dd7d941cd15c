//! Held heartbeats where several servers share a database: a run that is ended at one server ends the heartbeat that is held
//! at another, also when notifications are lost.

use std::time::{Duration, Instant};

use serde_json::json;
use taskqueue_test_postgres::{Cluster, PoolMode, Pooler};

use super::fresh_database;
use crate::support::*;

/// A server that logs when a heartbeat is held.
fn server(url: &str) -> Server {
    Server::with_arguments(&["--log-level", "debug", "--database", url])
}

/// Task `n` runs as run `n`, whose heartbeat is held there.
fn hold(there: &Server, n: usize) -> Connection {
    there.create(n, json!({}));
    assert_eq!(there.claimed(n), n);
    let before = there.count_log_lines(HELD);
    let heartbeat = Request::new("POST", &of_task(n, "/heartbeat")).header("Prefer", "wait=28");
    let mut connection = there.connect();
    connection.write(&heartbeat.json(json!({"run_id": run_id(n)})).to_bytes()).unwrap();
    there.await_log_lines(HELD, before + 1);
    connection
}

/// The run of task `n`, held there, is ended here. How long the heartbeat was held after that: the time until it was answered
/// without the time that the same two requests take on this machine now when nothing is waited for.
#[track_caller]
fn heard(here: &Server, there: &Server, n: usize, action: &str) -> Duration {
    let mut held = hold(there, n);
    let begun = Instant::now();
    match action {
        "cancel" => drop(here.cancel(n).expect(200)),
        _ => drop(here.act(n, action, n).expect(204)),
    }
    let acted = begun.elapsed();
    let response = held.read_response(true).unwrap();
    let waited = begun.elapsed();
    assert_eq!(response.assert_error(409, "run_finalized")["action"], action);
    // It had asked for 28 seconds, so its time was not over.
    assert!(waited < Duration::from_secs(20), "{waited:?}");
    let begun = Instant::now();
    there.act(n, "heartbeat", n).assert_error(409, "run_finalized");
    waited.saturating_sub(acted + begun.elapsed())
}

#[test]
fn a_cancel_at_one_server_ends_a_heartbeat_that_is_held_at_another() {
    let database = fresh_database();
    let (here, there) = (server(&database.url()), server(&database.url()));
    here.create_queue("q");
    let quick = (0..12).filter(|n| heard(&here, &there, *n, "cancel") < Duration::from_millis(400)).count();
    // A server polls once in a second: by polling alone hardly a third would be as quick.
    assert!(quick >= 8, "{quick} of 12 were quick: notifications do not arrive");
    // A report is not notified: whoever sent it knows. The poll finds it.
    heard(&here, &there, 20, "complete");
    heard(&here, &there, 21, "fail");
}

#[test]
fn behind_a_pooler_polling_ends_held_heartbeats() {
    let database = fresh_database();
    let pooler = Pooler::start(Cluster::shared(), &database, PoolMode::Transaction);
    let (here, there) = (server(&pooler.url(&database)), server(&pooler.url(&database)));
    here.create_queue("q");
    let mut waits: Vec<Duration> = (0..5).map(|n| heard(&here, &there, n, "cancel")).collect();
    waits.sort_unstable();
    // Specified are 2 seconds, and a poll comes every second. What the requests themselves take is not counted, and two of five
    // may come together with a pause of the machine; the factor is for one that is short of processors for longer.
    assert!(waits[2] < 2 * Duration::from_secs(2), "{waits:?}");
}

#[test]
fn a_task_that_was_cancelled_and_deleted_elsewhere_ends_its_held_heartbeat() {
    let database = fresh_database();
    let (here, there) = (server(&database.url()), server(&database.url()));
    here.create_queue("q");
    let mut held = hold(&there, 1);
    here.cancel(1).expect(200);
    here.delete("/api/v2/queues/q?cascade=true").expect(204);
    let response = held.read_response(true).unwrap();
    // What it is told depends on what is left when it asks.
    assert!(matches!(response.status, 404 | 409), "{response:?}");
}

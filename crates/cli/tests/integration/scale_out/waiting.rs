//! Waiting claims where several servers share a database: a task that is created at one server wakes a claim that waits at
//! another, also when notifications are lost.

use std::time::{Duration, Instant};

use serde_json::json;
use taskqueue_test_postgres::{Cluster, eventually};

use super::{announced, fresh_database, logging_servers, notified};
use crate::sqlite::clock::library;
use crate::support::*;

fn waiting(n: usize, seconds: u32) -> Request {
    claim_request("default", n).waiting(seconds)
}

/// Sends a waiting claim, and waits until it has found nothing.
pub(super) fn begin(server: &Server, n: usize) -> Connection {
    server.begin_until_logged(&waiting(n, 28), WAITS)
}

/// Creates a task as soon as the database answers.
#[track_caller]
fn await_created(server: &Server, n: usize) {
    let create = Request::new("PUT", &of_task(n, "")).json(json!({}));
    eventually("the task is created", || matches!(server.connect().exchange(&create).unwrap().status, 200 | 201));
}

/// The task that a waiter got.
#[track_caller]
pub(super) fn got(waiter: &mut Connection) -> usize {
    claimed_task(&waiter.read_response(true).unwrap().expect(200))
}

#[test]
fn a_task_created_at_one_server_wakes_a_claim_that_waits_at_another() {
    let database = fresh_database();
    let [here, there] = logging_servers(&database.url());
    for n in 0..4 {
        // Only who is known to have waiters is notified. The unit tests of the store have that this wakes the claim.
        let mut waiter = announced(&here, || begin(&there, n));
        notified(&there, || drop(here.create(n, json!({}))));
        assert_eq!(got(&mut waiter), n);
    }
    let mut waiter = begin(&there, 100);
    here.delete("/api/v2/queues/q?cascade=true").assert_error(409, "queue_has_running_tasks");
    (0..4).for_each(|n| drop(here.cancel(n).expect(200)));
    here.delete("/api/v2/queues/q?cascade=true").expect(204);
    waiter.read_response(true).unwrap().assert_error(404, "queue_not_found");
}

#[test]
fn a_hundred_waiters_at_two_servers_take_a_hundred_tasks_once_each() {
    let database = fresh_database();
    let servers = logging_servers(&database.url());
    let mut waiters: Vec<_> = (0..100).map(|n| servers[n % 2].begin_request(&waiting(n, 28))).collect();
    in_parallel(4, |lane| (0..25).for_each(|n| drop(servers[lane % 2].create(lane * 25 + n, json!({})))));
    let take = |(n, waiter): (usize, &mut Connection)| {
        loop {
            let response = waiter.read_response(true).unwrap();
            if response.status != 503 {
                return claimed_task(&response.expect(200));
            }
            // Nothing was done: on a busy machine some of a hundred may wait for longer than the storage lets them.
            response.assert_error(503, "database_busy");
            waiter.write(&waiting(n, 28).to_bytes()).unwrap();
        }
    };
    let mut taken: Vec<usize> = waiters.iter_mut().enumerate().map(take).collect();
    taken.sort_unstable();
    assert_eq!(taken, (0..100).collect::<Vec<_>>());
}

#[test]
fn a_waiter_outlasts_the_end_of_every_connection_to_the_database() {
    let database = fresh_database();
    let [here, there] = logging_servers(&database.url());
    let listening = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%pg_notify%'
        OR query = 'COMMIT' OR query LIKE 'LISTEN%'";
    for n in 0..3 {
        let mut waiter = begin(&there, n);
        eventually("somebody listens", || !database.rows(listening).is_empty());
        // Among them the ones that notify.
        assert!(Cluster::shared().terminate_backends(&database) > 2);
        await_created(&here, n);
        // Had it been missed, there would be no task in the answer when the 28 seconds are over.
        assert_eq!(got(&mut waiter), n);
    }
}

#[test]
fn a_waiter_outlasts_a_restart_of_the_database() {
    let cluster = Cluster::private();
    let database = cluster.database();
    let [here, there] = logging_servers(&database.url());
    let mut waiter = begin(&there, 1);
    cluster.restart();
    await_created(&here, 1);
    assert_eq!(got(&mut waiter), 1);
}

#[test]
fn steps_of_the_clock_neither_end_a_wait_nor_hide_a_task() {
    let folder = tempfile::tempdir().unwrap();
    let (clock, file) = (folder.path().join("clock"), folder.path().join("tasks.db"));
    // As a whole: the server may read it at any moment.
    let set = |shift: &str| put_in_place(&clock, shift, 0o600);
    let library = library();
    let environment = [
        ("LD_PRELOAD", library.to_str().unwrap()),
        ("FAKETIME_TIMESTAMP_FILE", clock.to_str().unwrap()),
        ("FAKETIME_NO_CACHE", "1"),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
    ];
    let database = fresh_database();
    for place in [file.to_str().unwrap().to_owned(), database.url()] {
        set("+0s");
        let server = Server::with_environment(&["--log-level", "debug", "--database", &place], &environment);
        server.create_queue("q");
        for (n, shift) in ["+86400s", "-86400s", "+0s"].into_iter().enumerate() {
            let mut waiter = begin(&server, n);
            set(shift);
            server.create(n, json!({}));
            assert_eq!(got(&mut waiter), n, "{shift}");
            let begun = Instant::now();
            let mut waiter = server.begin_request(&waiting(100 + n, 2));
            set(if n == 0 { "-3600s" } else { "+3600s" });
            waiter.read_response(true).unwrap().expect(204);
            // Longer than the client reads if the wait went by the wrong clock, or not at all.
            assert!(begun.elapsed() >= Duration::from_secs(2), "{shift}: {:?}", begun.elapsed());
        }
    }
}

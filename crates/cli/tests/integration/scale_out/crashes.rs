//! Servers are killed and their connections are closed while clients work: every acknowledged write is there (I1, I7, I9).

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread;

use serde_json::json;
use taskqueue_test_postgres::{Database, eventually};

use super::{fresh_database, server};
use crate::support::*;

const CLIENTS: usize = 6;
const ROUNDS: usize = 4;

/// A write that a client got an answer for.
#[derive(Clone, Copy)]
enum Acknowledged {
    Created(usize),
    /// A task and its run.
    Claimed(usize, usize),
    Completed(usize, usize),
}

/// Sends until the answer is not 503; none once the server is down.
fn send_until_accepted(server: &Server, request: &Request) -> Option<Response> {
    loop {
        // Without the general checks of `Server::send`, which do not allow 503.
        let response = Connection::tcp(&server.address).ok()?.exchange(request).ok()?;
        if response.status != 503 {
            return Some(response);
        }
        assert!(response.header("Retry-After").is_some(), "{response:?}");
    }
}

/// Creates a task, claims any and completes that one, repeatedly, until `stop` is set or the server is down.
fn work(server: &Server, numbers: impl Iterator<Item = usize>, stop: &AtomicBool, journal: &Sender<Acknowledged>) {
    for n in numbers.take_while(|_| !stop.load(Ordering::SeqCst)) {
        let route = format!("shared-{}", n % 2);
        let create = Request::new("PUT", &of_task(n, "")).json(json!({"routes": [route]}));
        let Some(created) = send_until_accepted(server, &create) else { return };
        assert!(matches!(created.status, 200 | 201), "{created:?}");
        journal.send(Acknowledged::Created(n)).unwrap();
        let Some(claimed) = send_until_accepted(server, &claim_request(&route, n)) else { return };
        // Every client creates a task before it claims one, so there is always one left.
        let task = claimed_task(&claimed.expect(200));
        journal.send(Acknowledged::Claimed(task, n)).unwrap();
        let body = json!({"run_id": run_id(n), "result": {"run": n}});
        let complete = Request::new("POST", &of_task(task, "/complete")).json(body);
        let Some(completed) = send_until_accepted(server, &complete) else { return };
        completed.expect(204);
        journal.send(Acknowledged::Completed(task, n)).unwrap();
    }
}

fn close_some_connections(database: &Database) {
    database.rows(
        "SELECT pg_terminate_backend(pid) FROM (
            SELECT pid FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid() ORDER BY random() LIMIT 2
        ) AS chosen",
    );
}

/// One round: all clients work; connections are closed, then one server is killed while the other one goes on.
fn round(servers: &[Server], victim: usize, number: usize, database: &Database) -> Vec<Acknowledged> {
    let (sender, journal) = mpsc::channel();
    let stop = &AtomicBool::new(false);
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (server, sender) = (&servers[client % servers.len()], sender.clone());
            let first = (number * CLIENTS + client + 1) * 100_000;
            scope.spawn(move || work(server, first..first + 100_000, stop, &sender));
        }
        drop(sender);
        let at_the_end = StopAtTheEnd(stop);
        let mut acknowledged: Vec<Acknowledged> = journal.iter().take(60).collect();
        close_some_connections(database);
        acknowledged.extend(journal.iter().take(60));
        close_some_connections(database);
        servers[victim].signal("KILL");
        acknowledged.extend(journal.iter().take(60));
        drop(at_the_end);
        acknowledged.extend(journal.iter());
        acknowledged
    })
}

fn assert_present(server: &Server, acknowledged: &[Acknowledged]) {
    let (found, mut claimed) = (server.tasks_by_number(BY_ID), HashSet::new());
    for answer in acknowledged {
        match answer {
            Acknowledged::Created(n) => assert!(found.contains_key(n), "task {n} is lost"),
            Acknowledged::Claimed(n, run) => {
                assert!(claimed.insert(*n), "task {n} was claimed by two runs");
                let task = &found[n];
                assert_eq!(task["attempt"], 1, "{task}");
                let done = task["status"] == "succeeded" && task["result"] == json!({"run": run});
                assert!(done || task["status"] == "running", "claimed by {run}: {task}");
            }
            Acknowledged::Completed(n, run) => {
                let task = &found[n];
                assert_eq!((&task["status"], &task["result"]), (&json!("succeeded"), &json!({"run": run})), "{task}");
            }
        }
    }
    let counts = server.count("group_by=status");
    assert_eq!(counts["count"], found.len());
    for group in counts["items"].as_array().unwrap() {
        let status = &group["key"]["status"];
        let counted = found.values().filter(|task| task["status"] == *status).count();
        assert_eq!(group["count"], counted, "{status}");
    }
    assert!(found.values().all(|task| task["attempt"].as_i64().unwrap() <= 1));
}

#[test]
fn no_acknowledged_write_is_lost_when_servers_and_connections_die() {
    let database = fresh_database();
    let mut servers = vec![server(&database.url()), server(&database.url())];
    servers[0].create_queue("q");
    let mut acknowledged = Vec::new();
    for number in 0..ROUNDS {
        let victim = number % 2;
        acknowledged.extend(round(&servers, victim, number, &database));
        assert_present(&servers[1 - victim], &acknowledged);
        servers[victim].wait();
        servers[victim].start_again();
        assert_present(&servers[victim], &acknowledged);
    }
    let running = "SELECT run_id FROM taskqueue.tasks WHERE run_id IS NOT NULL GROUP BY run_id HAVING count(*) > 1";
    assert!(database.rows(running).is_empty(), "a run owns two tasks");
    eventually("no connection of a killed server is left", || {
        let open = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in %'";
        database.rows(open).is_empty()
    });
}

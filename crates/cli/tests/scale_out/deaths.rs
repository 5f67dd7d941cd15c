//! Servers are killed, and connections of theirs ended, while clients work: what was acknowledged is there (I1, I7, I9).

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread;

use serde_json::{Value, json};
use taskqueue_test_postgres::{Database, eventually};

use crate::support::*;
use crate::{fresh_database, server};

const CLIENTS: usize = 6;
const ROUNDS: usize = 4;

/// What a client was told.
#[derive(Clone, Copy)]
enum Told {
    Created(usize),
    /// A task and its run.
    Claimed(usize, usize),
    Completed(usize, usize),
}

/// Sends until there is an answer that is not 503; nothing once the server is gone.
fn insist(server: &Server, request: &Request) -> Option<Response> {
    loop {
        // On a connection of its own, and without the general rules: they know of no 503.
        let response = Connection::tcp(&server.address).ok()?.exchange(request).ok()?;
        if response.status != 503 {
            return Some(response);
        }
        assert!(response.header("Retry-After").is_some(), "{response:?}");
    }
}

/// Creates a task, claims any and completes that one, again and again, until told to stop or the server is gone.
fn work(server: &Server, numbers: impl Iterator<Item = usize>, stop: &AtomicBool, journal: &Sender<Told>) {
    for n in numbers.take_while(|_| !stop.load(Ordering::SeqCst)) {
        let route = format!("shared-{}", n % 2);
        let create = Request::new("PUT", &of_task(n, "")).json(json!({"routes": [route]}));
        let Some(created) = insist(server, &create) else { return };
        assert!(matches!(created.status, 200 | 201), "{created:?}");
        journal.send(Told::Created(n)).unwrap();
        let claim = Request::new("POST", &in_queue("/tasks/claim")).json(json!({"route": route, "run_id": run_id(n)}));
        let Some(claimed) = insist(server, &claim) else { return };
        // Everyone creates one before claiming one, so there is always one left.
        let task: usize = claimed.expect(200).json()["task"]["id"].as_str().unwrap()[2..].parse().unwrap();
        journal.send(Told::Claimed(task, n)).unwrap();
        let body = json!({"run_id": run_id(n), "result": {"run": n}});
        let complete = Request::new("POST", &of_task(task, "/complete")).json(body);
        let Some(completed) = insist(server, &complete) else { return };
        completed.expect(204);
        journal.send(Told::Completed(task, n)).unwrap();
    }
}

/// Stops the clients also when the test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn end_some_connections(database: &Database) {
    database.rows(
        "SELECT pg_terminate_backend(pid) FROM (
            SELECT pid FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid() ORDER BY random() LIMIT 2
        ) AS chosen",
    );
}

/// One round: everybody works; connections are ended, then one server is killed while the other one goes on.
fn round(servers: &[Server], doomed: usize, number: usize, database: &Database) -> Vec<Told> {
    let (sender, journal) = mpsc::channel();
    let stop = &AtomicBool::new(false);
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (server, sender) = (&servers[client % servers.len()], sender.clone());
            let first = (number * CLIENTS + client + 1) * 100_000;
            scope.spawn(move || work(server, first..first + 100_000, stop, &sender));
        }
        drop(sender);
        let at_the_end = Stop(stop);
        let mut told: Vec<Told> = journal.iter().take(60).collect();
        end_some_connections(database);
        told.extend(journal.iter().take(60));
        end_some_connections(database);
        servers[doomed].signal("KILL");
        told.extend(journal.iter().take(60));
        drop(at_the_end);
        told.extend(journal.iter());
        told
    })
}

fn all_tasks(server: &Server) -> HashMap<usize, Value> {
    let (mut found, mut cursor) = (HashMap::new(), String::new());
    loop {
        let page = server.list(&format!("{BY_ID}{cursor}"));
        for (n, task) in numbers(&page).into_iter().zip(page["items"].as_array().unwrap()) {
            assert!(found.insert(n, task.clone()).is_none(), "task {n} is listed twice");
        }
        let Some(next) = page["next_cursor"].as_str() else { return found };
        cursor = format!("&cursor={}", encode(next));
    }
}

fn assert_kept(server: &Server, told: &[Told]) {
    let (found, mut claimed) = (all_tasks(server), HashSet::new());
    for told in told {
        match told {
            Told::Created(n) => assert!(found.contains_key(n), "task {n} is lost"),
            Told::Claimed(n, run) => {
                assert!(claimed.insert(*n), "task {n} was claimed by two runs");
                let task = &found[n];
                assert_eq!(task["attempt"], 1, "{task}");
                let done = task["status"] == "succeeded" && task["result"] == json!({"run": run});
                assert!(done || task["status"] == "running", "claimed by {run}: {task}");
            }
            Told::Completed(n, run) => {
                let task = &found[n];
                assert_eq!((&task["status"], &task["result"]), (&json!("succeeded"), &json!({"run": run})), "{task}");
            }
        }
    }
    let counts = server.get(&in_queue("/tasks/count?group_by=status")).json();
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
    let mut told = Vec::new();
    for number in 0..ROUNDS {
        let doomed = number % 2;
        told.extend(round(&servers, doomed, number, &database));
        assert_kept(&servers[1 - doomed], &told);
        servers[doomed].wait();
        servers[doomed].start_again();
        assert_kept(&servers[doomed], &told);
    }
    let running = "SELECT run_id FROM taskqueue.tasks WHERE run_id IS NOT NULL GROUP BY run_id HAVING count(*) > 1";
    assert!(database.rows(running).is_empty(), "a run owns two tasks");
    eventually("no connection of a killed server is left", || {
        let open = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in %'";
        database.rows(open).is_empty()
    });
}

//! One of two servers is stopped with SIGTERM while clients work (L4).

use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use taskqueue_test_postgres::{Database, eventually};

use super::{fresh_database, server};
use crate::support::*;

/// A transaction of another program that locks all tasks named `held` until its input ends.
fn hold(database: &Database) -> Child {
    let mut command = Command::new(taskqueue_test_postgres::program("psql"));
    command.arg(database.url()).arg("-q").stdin(Stdio::piped()).stdout(Stdio::null());
    let mut psql = command.spawn().unwrap();
    let sql = "BEGIN; SELECT 1 FROM taskqueue.tasks WHERE name = 'held' FOR UPDATE;\n";
    psql.stdin.as_mut().unwrap().write_all(sql.as_bytes()).unwrap();
    let holding = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'psql'
        AND state = 'idle in transaction' AND query LIKE '%FOR UPDATE%'";
    eventually("the task is held", || database.rows(holding).len() == 1);
    psql
}

#[test]
fn sigterm_answers_what_is_under_way_and_ends_in_time() {
    let database = fresh_database();
    let (mut leaving, staying) = (server(&database.url()), server(&database.url()));
    leaving.create_queue("q");
    leaving.create(1, json!({"name": "held"}));
    let mut psql = hold(&database);
    let begun = thread::scope(|scope| {
        // In progress: it waits for the locked task.
        let waiting = scope.spawn(|| leaving.patch(&of_task(1, ""), json!({"priority": 7})));
        let load = |n: usize| (0..40).for_each(|m| drop(staying.create(n * 100 + m, json!({}))));
        let loads = [1, 2].map(|n| scope.spawn(move || load(n)));
        let loading = scope.spawn(|| {
            // Until the server accepts no more connections.
            let create = |n: usize| Request::new("PUT", &of_task(n, "")).json(json!({}));
            let send = |n| Connection::tcp(&leaving.address)?.exchange(&create(n));
            (1_000..).take_while(|n| send(*n).is_ok_and(|answer| answer.status == 201)).count()
        });
        eventually("some work is done", || staying.get(&in_queue("/tasks/count")).json()["count"].as_u64() > Some(40));
        let begun = Instant::now();
        leaving.signal("TERM");
        drop(psql.stdin.take());
        assert_eq!(waiting.join().unwrap().expect(200).json()["priority"], 7);
        let answered = loading.join().unwrap();
        for load in loads {
            load.join().unwrap();
        }
        let listed = staying.ids(&format!("{BY_ID}&filter={}", encode("id >= 't_000000001000'")));
        assert!(listed.len() >= answered, "{answered} were acknowledged, {} are there", listed.len());
        begun
    });
    let (status, _) = leaving.wait();
    assert_eq!(status.code(), Some(0), "{}", leaving.stderr());
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    psql.wait().unwrap();
    assert_eq!(staying.task(1)["priority"], 7);
}

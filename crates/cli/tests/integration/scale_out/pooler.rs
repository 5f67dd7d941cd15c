//! Real servers behind PgBouncer in transaction mode: they work, say once that they are slower, and start again. What waits is found
//! by polling.

use serde_json::json;
use taskqueue_test_postgres::{Cluster, PoolMode, Pooler};

use super::held_heartbeats::{end, hold, told};
use super::output::assert_followed;
use super::waiting::{begin, got};
use super::{found_by_next_poll, fresh_database, logging_servers, server};
use crate::support::*;

#[test]
fn behind_a_pooler_everything_works_with_one_warning() {
    let database = fresh_database();
    let pooler = Pooler::start(Cluster::shared(), &database, PoolMode::Transaction);
    let mut server = server(&pooler.url(&database));
    server.create_queue("q");
    for round in 0..3 {
        in_parallel(6, |thread| {
            for n in (0..10).map(|n| round * 1_000 + thread * 100 + n) {
                let route = format!("route-{n}");
                server.create(n, json!({"routes": [route]}));
                server.claim_for("q", &route, n).expect(200);
                server.act(n, "complete", n).expect(204);
                assert_eq!(server.task(n)["status"], "succeeded");
            }
        });
        let log = server.stderr();
        let lines: Vec<&str> = log.lines().filter(|line| !line.is_empty()).collect();
        let warned = lines.iter().filter(|line| line.contains("pooler")).count();
        // Each start may find out anew.
        assert!(warned <= round + 1, "{log}");
        assert_eq!(lines.len(), warned, "nothing else is to be said: {log}");
        server.restart();
    }
    assert!(server.stderr().contains("pooler"), "the pooler did not forget anything");
}

#[test]
fn behind_a_pooler_polling_ends_waits_for_what_happens_at_another_server() {
    let database = fresh_database();
    let pooler = Pooler::start(Cluster::shared(), &database, PoolMode::Transaction);
    let servers = logging_servers(&pooler.url(&database));
    let [here, there] = &servers;
    assert_followed(&servers);
    // A poll comes every second, and within 2 seconds is specified.
    for n in 10..15 {
        let mut waiter = begin(there, n);
        found_by_next_poll(there, || drop(here.create(n, json!({}))));
        assert_eq!(got(&mut waiter), n);
    }
    for n in 20..25 {
        let mut held = hold(there, n);
        found_by_next_poll(there, || end(here, n, "cancel"));
        told(&mut held, "cancel");
    }
    for server in &servers {
        let log = server.stderr();
        let complaint = |line: &&str| [" WARN ", " ERROR ", "panicked"].iter().any(|word| line.contains(word));
        let said = log.lines().filter(complaint).filter(|line| !line.contains("pooler")).count();
        assert_eq!(said, 0, "{log}");
    }
}

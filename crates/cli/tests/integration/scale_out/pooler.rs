//! A real server behind PgBouncer in transaction mode: it works, says once that it is slower, and starts again.

use serde_json::json;
use taskqueue_test_postgres::{Cluster, PoolMode, Pooler};

use super::{fresh_database, server};
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

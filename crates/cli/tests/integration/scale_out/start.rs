//! Servers that start together on an empty database.

use serde_json::json;

use super::fresh_database;
use crate::support::*;

#[test]
fn servers_that_migrate_an_empty_database_at_once_all_start_and_create_their_queue_once() {
    for round in 0..3 {
        let database = fresh_database();
        let url = database.url();
        let servers = in_parallel(3, |_| Server::with_arguments(&["--database", &url, "--queue", "q"]));
        for (n, server) in servers.iter().enumerate() {
            assert_eq!(server.get("/api/v2/queues").expect(200).json(), json!([{"name": "q"}]));
            server.create(n, json!({"args": {"round": round}}));
        }
        for server in &servers {
            assert_eq!(server.ids(BY_ID), [0, 1, 2]);
        }
        let applied = database.rows("SELECT count(*) FROM taskqueue.migrations WHERE version = 1");
        assert_eq!(applied, [[Some("1".to_owned())]]);
    }
}

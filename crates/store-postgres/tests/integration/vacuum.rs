//! What claims leave behind is removed before autovacuum comes.

use taskqueue_store::conformance::prelude::*;
use taskqueue_test_postgres::eventually;

use crate::storage::with_queue;

/// Tasks and routes of each: together more entries than a server leaves dead without doing something about it.
const TASKS: usize = 21;
const ROUTES: usize = 500;

/// Creates and cancels tasks, so that all their places in the pending order are dead.
async fn leave_many_dead(fixture: &Fixture) {
    let names: Vec<String> = (0..ROUTES).map(|n| format!("route-{n}")).collect();
    for id in 0..TASKS {
        fixture.create(id, with_routes(&names)).await;
        fixture.ok(cancel("q", id)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_left_many_dead_entries_vacuums_them() {
    let (storage, fixture) = with_queue().await;
    fixture.create("last", with_routes(&["route-0"])).await;
    leave_many_dead(&fixture).await;
    // Those of autovacuum are counted apart.
    let vacuumed =
        "SELECT (vacuum_count > 0 AND n_dead_tup < 1000)::text FROM pg_stat_user_tables WHERE relname = 'ready'";
    eventually("the pending order is vacuumed", || storage.database.rows(vacuumed)[0][0].as_deref() == Some("true"));
    assert_eq!(fixture.claimed(claim("q", "route-0", 1)).await.unwrap().task.id, task_id("last"));
    fixture.store.close().await;
}

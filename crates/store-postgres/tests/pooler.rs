//! Through PgBouncer in transaction mode, which forgets what was prepared: a good part of the suite that every backend
//! passes, and a storm over two servers. That it is warned of once is seen in the log of a real server.
//! A program of its own, because prepared statements are numbered through a whole process: all other tests would go on to numbers
//! beyond the ones that are taken here.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "integration/storage/mod.rs"]
#[allow(dead_code, reason = "this program uses a part of it")]
mod storage;

use std::collections::HashSet;
use std::sync::OnceLock;

use storage::open;
use storage::tables::assert_tables_are_consistent;
use taskqueue_test_postgres::{Cluster, Database, PoolMode, Pooler};
use tokio_postgres::{Client, NoTls};

use taskqueue_store::conformance::concurrency::busy_workers_lose_nothing;
use taskqueue_store::conformance::prelude::*;

/// A database behind the pooler that all tests here share.
struct Behind {
    database: Database,
    url: String,
}

fn fresh() -> Behind {
    static POOLER: OnceLock<Pooler> = OnceLock::new();
    let database = Cluster::shared().database();
    let pooler = POOLER.get_or_init(|| Pooler::start(Cluster::shared(), &database, PoolMode::Transaction));
    let url = pooler.url(&database);
    Behind { database, url }
}

impl Storage for Behind {
    async fn open(&self, clock: ManualClock) -> Arc<dyn Store> {
        Arc::new(open(&self.url, Some(Arc::new(clock))).await.unwrap_or_else(|error| panic!("{error}")))
    }
}

taskqueue_store::conformance_tests! { fresh;
    queues {
        a_recreated_queue_is_empty
        running_tasks_block_the_deletion_of_their_queue
        equal_ids_in_two_queues_do_not_touch_each_other
    }
    claims {
        highest_priority_first_then_first_in_first_out
        a_replayed_claim_returns_the_same_task_and_the_unchanged_lease
    }
    actions { every_action_in_every_state_whoever_reports_it_and_its_repetition }
    updates { bulk_updates_count_matches_and_changes_and_leave_running_tasks_out }
    archive { lists_and_counts_leave_archived_tasks_out_unless_they_are_included }
    observations { observations_are_listed_filtered_counted_and_grouped }
    leases { a_lease_ends_at_the_scan_after_its_end }
    concurrency {
        concurrent_claims_get_distinct_tasks
        commuting_commands_together_equal_the_same_one_by_one
        a_busy_queue_loses_nothing
        a_storm_of_random_commands_keeps_every_invariant
    }
}
taskqueue_store::conformance_tests! { fresh on storage;
    durability { active_runs_and_their_leases_survive }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_servers_behind_one_pooler_lose_nothing() {
    let behind = fresh();
    let fixture = Fixture::with_queue(&behind).await;
    let stores = [Arc::clone(&fixture.store), behind.open(fixture.clock.clone()).await];
    busy_workers_lose_nothing(&fixture, &stores).await;
    for store in stores {
        store.close().await;
    }
    assert_tables_are_consistent(&behind.database).await;
}

/// Names that are taken from a number on: more than all tests here use while one of them runs.
const NAMES: usize = 5_000;

/// A connection of somebody else.
async fn stranger(behind: &Behind) -> Client {
    let (client, connection) = tokio_postgres::connect(&behind.url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// The number in the name of the statement that this process prepares next: it takes one to find out.
async fn next_number(behind: &Behind) -> usize {
    let client = stranger(behind).await;
    // In one transaction, so that the pooler keeps one connection.
    client.batch_execute("BEGIN").await.unwrap();
    let statement = client.prepare("SELECT 1 AS probe").await.unwrap();
    let find = "SELECT name FROM pg_prepared_statements WHERE statement = 'SELECT 1 AS probe'";
    let name: String = client.query_typed(find, &[]).await.unwrap()[0].get(0);
    drop(statement);
    client.batch_execute("COMMIT").await.unwrap();
    name.strip_prefix('s').unwrap().parse::<usize>().unwrap() + 1
}

/// A pooler keeps connections, and on them what a process prepared that has ended since.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_of_an_earlier_process_are_not_in_the_way() {
    let behind = fresh();
    let next = next_number(&behind).await;
    let taken: String = (next..next + NAMES).map(|number| format!("PREPARE s{number} AS SELECT 1;")).collect();
    stranger(&behind).await.batch_execute(&taken).await.unwrap();
    let fixture = Fixture::with_queue(&behind).await;
    fixture.create(1, Definition::default()).await;
    fixture.get(1).await;
    fixture.store.close().await;
}

/// Another program may have left statements under our names: each of them would do something else than we mean.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_of_others_under_our_names_are_never_used() {
    let behind = fresh();
    let first = next_number(&behind).await;
    let fixture = Fixture::with_queue(&behind).await;
    behind.database.admin("CREATE TABLE trap (n bigint)");
    // Every connection of the pooler but the one that our statements were prepared on.
    let mut strangers = Vec::new();
    for _ in 0..4 {
        let client = stranger(&behind).await;
        client.batch_execute("BEGIN").await.unwrap();
        let ours = client.query_typed("SELECT name FROM pg_prepared_statements", &[]).await.unwrap();
        let ours: HashSet<String> = ours.iter().map(|row| row.get(0)).collect();
        let traps: String = (first..first + NAMES)
            .filter(|n| !ours.contains(&format!("s{n}")))
            .map(|n| format!("PREPARE s{n} AS INSERT INTO trap SELECT {n} RETURNING n;"))
            .collect();
        client.batch_execute(&traps).await.unwrap();
        strangers.push(client);
    }
    for client in &strangers {
        client.batch_execute("COMMIT").await.unwrap();
    }
    drop(strangers);
    for n in 0..40 {
        fixture.create_running(n, Definition::default()).await;
        fixture.ok(complete("q", n, n, JsonObject::empty())).await;
        fixture.get(n).await;
    }
    fixture.store.close().await;
    assert_eq!(behind.database.rows("SELECT count(*) FROM trap")[0][0].as_deref(), Some("0"));
    assert_tables_are_consistent(&behind.database).await;
}

//! Through PgBouncer in transaction mode, which forgets what was prepared: a good part of the suite that every backend
//! passes, and a storm over two servers. That it is warned of once is seen in the log of a real server.

use std::sync::OnceLock;

use taskqueue_store::conformance::concurrency::busy_workers_lose_nothing;
use taskqueue_store::conformance::prelude::*;
use taskqueue_test_postgres::{Cluster, Database, PoolMode, Pooler};

use crate::storage::open;
use crate::storage::tables::assert_tables_are_consistent;

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

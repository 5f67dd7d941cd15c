//! Purges beside what other servers do at the same moment.

use taskqueue_test_postgres::{Cluster, Database, eventually};
use tokio::task::block_in_place;

use super::*;
use crate::database_tests::{QUEUE_KEY, migrated, session};

/// Waits until so many statements wait for others, or until one that might has ended.
fn until_waiting(database: &Database, count: usize, has_ended: impl Fn() -> bool) {
    let waiting = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    block_in_place(|| eventually("statements wait", || has_ended() || database.rows(waiting).len() >= count));
}

/// A queue is deleted while its counts are merged: one of them was held by a writer, and the merge has added the others anew.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_is_deleted_while_its_counts_are_merged_leaves_none() {
    let database = migrated(Cluster::shared());
    let (writer, merging, deleting) = (session(&database).await, session(&database).await, session(&database).await);
    database.admin(&format!(
        "INSERT INTO taskqueue.tally (queue_key, routes, status, tasks, shard)
        VALUES ({QUEUE_KEY}, '[\"default\"]', 'pending', 1, 1), ({QUEUE_KEY}, '[\"default\"]', 'pending', -1, 2)"
    ));
    writer.execute_text("BEGIN; SELECT 1 FROM taskqueue.tally WHERE shard = 2 FOR UPDATE").await.unwrap();
    begin_to_write(&merging).await.unwrap();
    merge_tally(&merging, 3).await.unwrap();
    writer.execute_text("COMMIT").await.unwrap();
    let deletion = tokio::spawn(async move {
        begin_to_write(&deleting).await?;
        deleting.query(&sql::LOCK_QUEUE_ALONE, &[&vec!["q"]]).await?;
        deleting.execute(&sql::DELETE_QUEUE, &[&QUEUE_KEY, &0_i64]).await?;
        deleting.execute_text("COMMIT").await
    });
    until_waiting(&database, 1, || false);
    merging.execute_text("COMMIT").await.unwrap();
    deletion.await.unwrap().unwrap();
    assert!(database.rows("SELECT 1 FROM taskqueue.tally").is_empty());
}

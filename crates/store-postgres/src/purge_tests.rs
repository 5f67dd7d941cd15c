//! Purges beside what other servers do at the same moment.

use taskqueue_test_postgres::{Cluster, Database, eventually};
use tokio::task::block_in_place;

use super::*;
use crate::database_tests::{QUEUE_KEY, REQUIRED_COLUMNS, migrated, session};

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

/// A deleted queue with two delayed tasks. The one that was created last comes first.
fn with_delayed_tasks() -> Database {
    let database = migrated(Cluster::shared());
    database.admin(&format!(
        "INSERT INTO taskqueue.tasks ({REQUIRED_COLUMNS}, not_before)
        SELECT n, {QUEUE_KEY}, n, 0, n, 0, 3, 0, 100, 't_' || lpad(n::text, 12, '0'), 'pending', '[\"default\"]', 30 - 10 * n
        FROM generate_series(1, 2) AS n;
        INSERT INTO taskqueue.delayed (queue_key, not_before, task_key)
        SELECT queue_key, not_before, task_key FROM taskqueue.tasks;
        DELETE FROM taskqueue.queues; INSERT INTO taskqueue.purges VALUES ({QUEUE_KEY}, 0)"
    ));
    database
}

/// Purges the rest, one row at a time.
async fn purge_all(database: &Database) {
    let session = session(database).await;
    while purge(&session, 1, None).await.unwrap() {}
    for table in ["tasks", "delayed", "ready", "purges"] {
        assert!(database.rows(&format!("SELECT 1 FROM taskqueue.{table}")).is_empty(), "{table}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_purge_and_the_release_of_delayed_tasks_do_not_wait_in_a_circle() {
    let database = with_delayed_tasks();
    let (holder, purging, releasing) = (session(&database).await, session(&database).await, session(&database).await);
    // A purge comes to them behind the delayed tasks.
    holder.execute_text("BEGIN; LOCK TABLE taskqueue.ended IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let purged = tokio::spawn(async move { purge(&purging, 2, None).await });
    until_waiting(&database, 1, || false);
    let released = tokio::spawn(async move {
        begin_to_write(&releasing).await?;
        releasing.first(&sql::RELEASE_DELAYED, &[&100_i64, &1_000_i64]).await?;
        releasing.execute_text("COMMIT").await
    });
    until_waiting(&database, 2, || released.is_finished());
    holder.execute_text("ROLLBACK").await.unwrap();
    purged.await.unwrap().unwrap();
    released.await.unwrap().unwrap();
    purge_all(&database).await;
}

/// Such as a claim has whose snapshot is older than the deletion.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_purge_does_not_wait_for_a_delayed_task_that_another_transaction_moves() {
    let database = with_delayed_tasks();
    let (moving, purging) = (session(&database).await, session(&database).await);
    let moved = "BEGIN; SELECT 1 FROM taskqueue.tasks WHERE task_key = 2 FOR UPDATE;
        DELETE FROM taskqueue.delayed WHERE task_key = 2";
    moving.execute_text(moved).await.unwrap();
    purge(&purging, 1, None).await.unwrap();
    moving.execute_text("ROLLBACK").await.unwrap();
    purge_all(&database).await;
}

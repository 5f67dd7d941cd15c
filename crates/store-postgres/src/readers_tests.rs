//! The pool keeps short reads going, survives a database that goes away, and stops what nobody waits for.

use futures_util::future::join_all;
use taskqueue_store::conformance::prelude::*;
use taskqueue_store::reading::WorkerRead;
use taskqueue_test_postgres::{Cluster, Database, eventually};

use crate::Concurrency;
use crate::database_tests::{Plain, migrated, session};
use crate::long_reader::Snapshot;
use crate::readers::{Lane, ReadError, Readers};
use crate::reads;
use crate::session::Session;

fn readers(database: &Database) -> Arc<Readers> {
    Arc::new(Readers::new(Arc::new(Plain { url: database.url() }), Concurrency::default()))
}

async fn queues(readers: &Readers) -> Result<Vec<QueueName>, StoreError> {
    let read = |session: Arc<Session>| async move { reads::list_queue_keys(&session).await };
    let queues = readers.read(Lane::Short, "listing queues", read).await?;
    Ok(queues.into_iter().map(|(_, queue)| queue).collect())
}

/// A read that waits for a lock.
async fn blocked(snapshot: &Snapshot<'_>) -> Result<(), ReadError> {
    Ok(snapshot.session.execute_text("SELECT pg_advisory_lock_shared(1)").await?)
}

fn waiting(database: &Database) -> usize {
    database
        .rows("SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory'")
        .len()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_whose_connection_was_lost_is_done_again_on_a_new_one() {
    let database = migrated(Cluster::shared());
    let readers = readers(&database);
    for _ in 0..3 {
        assert_eq!(queues(&readers).await, Ok(vec![queue("q")]));
        assert_eq!(Cluster::shared().terminate_backends(&database), 1, "one after the other, reads share a connection");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_database_costs_readers_nothing() {
    let cluster = Cluster::private();
    let database = migrated(&cluster);
    let readers = readers(&database);
    join_all((0..8).map(|_| queues(&readers))).await;
    cluster.restart();
    for answer in join_all((0..8).map(|_| queues(&readers))).await {
        assert_eq!(answer, Ok(vec![queue("q")]));
    }
    cluster.stop();
    assert_eq!(queues(&readers).await, Err(StoreError::Unavailable));
    cluster.start();
    assert_eq!(queues(&readers).await, Ok(vec![queue("q")]));
}

#[tokio::test(flavor = "multi_thread")]
async fn long_reads_leave_connections_to_short_ones_and_are_stopped_when_nobody_waits() {
    let database = migrated(Cluster::shared());
    let holder = session(&database).await;
    holder.execute_text("SELECT pg_advisory_lock(1)").await.unwrap();
    let readers = readers(&database);
    let long: Vec<_> = (0..20)
        .map(|_| {
            let readers = Arc::clone(&readers);
            tokio::spawn(async move { readers.read_long("waiting", blocked).await })
        })
        .collect();
    eventually("as many long reads run as may", || waiting(&database) == Concurrency::default().long_reads);
    assert_eq!(queues(&readers).await, Ok(vec![queue("q")]));
    long.iter().for_each(|read| read.abort());
    eventually("they are stopped on the server", || waiting(&database) == 0);
    eventually("their connections are gone", || {
        let sql = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%shared(1)%'
            AND pid <> pg_backend_pid()";
        database.rows(sql).is_empty()
    });
    assert_eq!(queues(&readers).await, Ok(vec![queue("q")]));
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_cuts_off_what_is_under_way_and_refuses_the_rest() {
    let database = migrated(Cluster::shared());
    let holder = session(&database).await;
    holder.execute_text("SELECT pg_advisory_lock(1)").await.unwrap();
    let readers = readers(&database);
    let reading = {
        let readers = Arc::clone(&readers);
        tokio::spawn(async move { readers.read_long("waiting", blocked).await })
    };
    eventually("it runs", || waiting(&database) == 1);
    readers.close();
    assert_eq!(reading.await.unwrap(), Err(StoreError::Unavailable));
    assert_eq!(queues(&readers).await, Err(StoreError::Unavailable));
    eventually("it is stopped on the server", || waiting(&database) == 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_read_leaves_no_transaction_behind() {
    let database = migrated(Cluster::shared());
    let readers = readers(&database);
    for name in ["q", "r"] {
        let name = queue(name);
        let all = ObservationQuery { filter: None, limit: 1, after: None };
        let (asked, read) = (name.clone(), WorkerRead::page(all).0);
        let read = async move |snapshot: &Snapshot<'_>| reads::read_workers(snapshot, &asked, &read, None).await;
        assert_eq!(readers.read_long("reading", read).await.is_ok(), name == queue("q"));
        let open = "SELECT pid FROM pg_stat_activity WHERE datname = current_database()
            AND state LIKE 'idle in transaction%'";
        eventually("the snapshot is ended", || database.rows(open).is_empty());
    }
}

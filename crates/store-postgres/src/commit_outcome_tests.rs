//! What is believed of a transaction's end, on a real server that crashes, and for how long one that is away is asked.

use taskqueue_test_postgres::{Cluster, Database};
use tokio::task::block_in_place;

use super::*;
use crate::address::Address;
use crate::database_tests::migrated;
use crate::session::{Schema, Session};

fn connector(database: &Database) -> Connector {
    Connector::new(Address::parse(&database.url()).unwrap(), Schema::new("taskqueue")).unwrap()
}

/// Begins a transaction that writes something.
async fn begin(session: &Session, queue: i64) -> TransactionId {
    let insert = format!("INSERT INTO taskqueue.queues (queue_key, name) VALUES ({queue}, 'new{queue}')");
    session.execute_text(&format!("BEGIN; {insert}")).await.unwrap();
    let row = session.first(&sql::CURRENT_TRANSACTION, &[]).await.unwrap().unwrap();
    TransactionId { number: row.get(0), crash_epoch: row.get(1) }
}

/// On a server of its own: a checkpoint in between, as a database of another test that is dropped causes it, leaves it unknown.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_is_told_by_its_name() {
    let cluster = Cluster::private();
    let database = migrated(&cluster);
    let connector = connector(&database);
    let session = connector.session(&[]).await.unwrap();
    let name = begin(&session, 100).await;
    session.execute_text("COMMIT").await.unwrap();
    assert_eq!(find_commit_outcome(&connector, Some(name)).await, Some(true));
    let name = begin(&session, 101).await;
    session.execute_text("ROLLBACK").await.unwrap();
    assert_eq!(find_commit_outcome(&connector, Some(name)).await, Some(false));
    assert_eq!(find_commit_outcome(&connector, None).await, None);
}

/// A crash loses the names of transactions that were not written to disk; the next ones get them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_a_crash_gave_to_another_transaction_is_not_trusted() {
    let cluster = Cluster::private();
    // Nothing is written to disk before somebody commits.
    cluster.configure("wal_writer_delay = 10s");
    let database = migrated(&cluster);
    let connector = connector(&database);
    let session = connector.session(&[]).await.unwrap();
    let name = begin(&session, 100).await;
    block_in_place(|| {
        cluster.crash();
        cluster.start();
        // Each a transaction of its own, with the next name.
        database.admin(&"SELECT pg_current_xact_id(); COMMIT;".repeat(200));
    });
    let status = database.rows(&format!("SELECT pg_xact_status('{}'::xid8)", name.number));
    assert_eq!(status, [[Some("committed".to_owned())]], "another transaction has its name");
    assert_eq!(find_commit_outcome(&connector, Some(name)).await, None);
    assert!(database.rows("SELECT 1 FROM taskqueue.queues WHERE queue_key = 100").is_empty());
}

/// A caller waits longer, so it is told that nobody knows. A socket that is not there refuses at once, so that the time is that of
/// the pauses alone.
#[tokio::test(start_paused = true)]
async fn a_database_that_cannot_be_asked_leaves_it_unknown_within_five_seconds() {
    let nobody = tempfile::tempdir().unwrap();
    let folder = nobody.path().to_str().unwrap().replace('/', "%2F");
    let address = Address::parse(&format!("postgres://me@{folder}/db")).unwrap();
    let connector = Connector::new(address, Schema::new("taskqueue")).unwrap();
    let (id, begun) = (TransactionId { number: "1".to_owned(), crash_epoch: "1".to_owned() }, Instant::now());
    assert_eq!(find_commit_outcome(&connector, Some(id)).await, None);
    let asked = begun.elapsed();
    assert!(TIMEOUT <= asked && asked < Duration::from_secs(5), "{asked:?}");
}

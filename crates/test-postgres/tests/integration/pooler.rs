//! A pooler in transaction mode, with its treachery: statements prepared in one transaction may be lost in the next.

use taskqueue_test_postgres::{Cluster, Database, PoolMode, Pooler};
use tokio_postgres::{Client, NoTls};

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn backend(client: &Client) -> String {
    let messages = client.simple_query("SELECT pg_backend_pid()").await.unwrap();
    let row = messages.iter().find_map(|message| match message {
        tokio_postgres::SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    row.unwrap().get(0).unwrap().to_owned()
}

/// A pooler in front of a database, and two clients of it.
async fn two_clients(mode: PoolMode) -> (Pooler, Database, Client, Client) {
    let database = Cluster::shared().database();
    let pooler = Pooler::start(Cluster::shared(), &database, mode);
    let (one, other) = (connect(&pooler.url(&database)).await, connect(&pooler.url(&database)).await);
    (pooler, database, one, other)
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_of_a_pooler_share_connections_between_their_transactions() {
    let (_pooler, database, one, other) = two_clients(PoolMode::Transaction).await;
    assert_eq!(backend(&one).await, backend(&other).await);
    one.batch_execute("BEGIN; CREATE TABLE kept (n int)").await.unwrap();
    assert_ne!(backend(&one).await, backend(&other).await, "a transaction has its connection to itself");
    one.batch_execute("COMMIT").await.unwrap();
    assert_eq!(database.rows("SELECT count(*) FROM kept"), [[Some("0".to_owned())]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prepared_statement_does_not_follow_its_client() {
    let (_pooler, _database, one, other) = two_clients(PoolMode::Transaction).await;
    let statement = one.prepare("SELECT 1").await.unwrap();
    // The connection on which it was prepared is taken, so the next transaction gets another.
    other.batch_execute("BEGIN").await.unwrap();
    let lost = one.query(&statement, &[]).await.unwrap_err();
    assert_eq!(lost.code(), Some(&tokio_postgres::error::SqlState::INVALID_SQL_STATEMENT_NAME));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_keeps_its_connection() {
    let (_pooler, _database, one, other) = two_clients(PoolMode::Session).await;
    assert_ne!(backend(&one).await, backend(&other).await);
}

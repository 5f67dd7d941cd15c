//! What only a look into the tables can show of a move.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod storage;
#[path = "storage/upgrades.rs"]
mod upgrades;

use storage::tables::assert_tables_are_consistent;
use storage::{Fresh, fresh};
use taskqueue_store::Store;
use taskqueue_store::conformance::fixture::Fixture;
use taskqueue_store::conformance::moved::{assert_moved, assert_small_chunks, print_much, say_and_print};
use taskqueue_store::transfer::transfer;
use taskqueue_store_postgres::{Address, PostgresTransfer};

fn address(storage: &Fresh) -> Address {
    Address::parse(&storage.database.url()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_progress_and_telemetry_are_moved() {
    let (storage, other) = (fresh(), fresh());
    let fixture = Fixture::with_queue(&storage).await;
    say_and_print(&fixture).await;
    let Fixture { store, clock } = fixture;
    store.close().await;
    drop(store);
    let mut source = PostgresTransfer::source(address(&storage), "taskqueue").await.unwrap();
    let target = Box::new(PostgresTransfer::target(address(&other), "taskqueue").await.unwrap());
    transfer(&mut source, target, &mut |_| {}).await.unwrap();
    drop(source);
    assert_tables_are_consistent(&other.database);

    let (from, to) = (storage.try_open(&clock).await.unwrap(), other.try_open(&clock).await.unwrap());
    assert_moved(&from, &to).await;
    to.close().await;
    assert_tables_are_consistent(&other.database);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn much_output_makes_small_chunks() {
    let storage = fresh();
    let fixture = Fixture::with_queue(&storage).await;
    print_much(&fixture).await;
    fixture.store.close().await;
    drop(fixture);
    let mut source = PostgresTransfer::source(address(&storage), "taskqueue").await.unwrap();
    assert_small_chunks(&mut source).await;
}

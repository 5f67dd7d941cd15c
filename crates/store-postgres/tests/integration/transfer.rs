//! What only a look into the tables can show of a move.

use std::net::TcpListener;

use taskqueue_store::conformance::moved::{assert_moved, assert_small_chunks, print_much, say_and_print};
use taskqueue_store::conformance::prelude::*;
use taskqueue_store::transfer::transfer;
use taskqueue_store_postgres::{Address, PostgresTransfer};
use taskqueue_test_postgres::eventually;

use crate::storage::tables::assert_tables_are_consistent;
use crate::storage::{Fresh, fresh, with_queue};

fn address(storage: &Fresh) -> Address {
    Address::parse(&storage.database.url()).unwrap()
}

/// Time is paused: it passes at once while nothing happens.
#[tokio::test(start_paused = true)]
async fn a_database_that_is_slow_to_answer_has_half_a_minute() {
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = || Address::parse(&format!("postgres://me@{}/work", mute.local_addr().unwrap())).unwrap();
    let opened = [
        PostgresTransfer::source(address(), "taskqueue").await.err(),
        PostgresTransfer::target(address(), "taskqueue").await.err(),
    ];
    for error in opened.map(|error| error.unwrap().to_string()) {
        assert!(error.contains("no answer within 30s"), "{error}");
    }
}

async fn move_all(from: &Fresh, to: &Fresh) {
    let mut source = PostgresTransfer::source(address(from), "taskqueue").await.unwrap();
    let target = Box::new(PostgresTransfer::target(address(to), "taskqueue").await.unwrap());
    transfer(&mut source, target, &mut |_| {}).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_progress_and_telemetry_are_moved() {
    let (storage, other) = (fresh(), fresh());
    let fixture = Fixture::with_queue(&storage).await;
    say_and_print(&fixture).await;
    let clock = fixture.close().await;
    move_all(&storage, &other).await;
    assert_tables_are_consistent(&other.database).await;

    let (from, to) = (storage.try_open(&clock).await.unwrap(), other.try_open(&clock).await.unwrap());
    assert_moved(&from, &to).await;
    to.close().await;
    assert_tables_are_consistent(&other.database).await;
}

/// Activity is statistics of a database: it is not moved, and begins again in the new one (docs/decisions/0059).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn activity_stays_where_it_was_counted() {
    let (storage, other) = (fresh(), fresh());
    // The target has been used before, and is empty again.
    let used = Fixture::with_queue(&other).await;
    used.create(1, Definition::default()).await;
    save_activity(&*used.store).await.unwrap();
    used.ok(cancel("q", 1)).await;
    used.ok(delete_queue("q", true)).await;
    save_activity(&*used.store).await.unwrap();
    eventually("the deleted queue is purged", || other.database.rows("SELECT 1 FROM taskqueue.purges").is_empty());
    used.close().await;

    let fixture = Fixture::with_queue(&storage).await;
    fixture.create(1, Definition::default()).await;
    save_activity(&*fixture.store).await.unwrap();
    let clock = fixture.close().await;
    move_all(&storage, &other).await;

    let counted = async |storage: &Fresh| {
        let store = storage.try_open(&clock).await.unwrap();
        let stats = store.queue_stats(&queue("q"), &ALL_ROUTES).await.unwrap();
        store.close().await;
        (stats.figures.tasks(Status::Pending), stats.last_hour.of(Event::Created))
    };
    assert_eq!((counted(&storage).await, counted(&other).await), ((1, 1), (1, 0)));
    assert_tables_are_consistent(&other.database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn much_output_makes_small_chunks() {
    let (storage, fixture) = with_queue().await;
    print_much(&fixture).await;
    fixture.close().await;
    let mut source = PostgresTransfer::source(address(&storage), "taskqueue").await.unwrap();
    assert_small_chunks(&mut source).await;
}

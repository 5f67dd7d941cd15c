//! What only a look into the file can show of a move.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod storage;

use rusqlite::Connection;
use storage::{assert_file_is_consistent, fresh};
use taskqueue_core::definition::Definition;
use taskqueue_store::conformance::commands::*;
use taskqueue_store::conformance::fixture::Fixture;
use taskqueue_store::conformance::moved::{assert_moved, assert_small_chunks, print_much, say_and_print};
use taskqueue_store::transfer::{TransferError, transfer};
use taskqueue_store_sqlite::SqliteTransfer;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_progress_and_telemetry_are_moved() {
    let (folder, other) = (fresh(), fresh());
    let fixture = Fixture::with_queue(&folder).await;
    say_and_print(&fixture).await;
    let Fixture { store, clock } = fixture;
    store.close().await;
    drop(store);
    let mut source = SqliteTransfer::source(&folder.file()).unwrap();
    let target = Box::new(SqliteTransfer::target(&other.file()).unwrap());
    transfer(&mut source, target, &mut |_| {}).await.unwrap();
    drop(source);
    assert_file_is_consistent(&other.look());

    let (from, to) = (folder.try_open(&clock).unwrap(), other.try_open(&clock).unwrap());
    assert_moved(&from, &to).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn much_output_makes_small_chunks() {
    let folder = fresh();
    let fixture = Fixture::with_queue(&folder).await;
    print_much(&fixture).await;
    fixture.store.close().await;
    drop(fixture);
    let mut source = SqliteTransfer::source(&folder.file()).unwrap();
    assert_small_chunks(&mut source).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_of_a_deleted_queue_are_not_moved() {
    let (folder, other) = (fresh(), fresh());
    let fixture = Fixture::with_queue(&folder).await;
    fixture.create(1, Definition::default()).await;
    fixture.ok(create_queue("r")).await;
    fixture.ok(create("r", 2, Definition::default())).await;
    fixture.store.close().await;
    drop(fixture);
    // As a deletion leaves it before the purge.
    let deleted = "INSERT INTO purges (queue_key) SELECT queue_key FROM queues WHERE name = 'q';
        DELETE FROM tally WHERE queue_key IN (SELECT queue_key FROM purges); DELETE FROM queues WHERE name = 'q'";
    Connection::open(folder.file()).unwrap().execute_batch(deleted).unwrap();
    let mut source = SqliteTransfer::source(&folder.file()).unwrap();
    let target = Box::new(SqliteTransfer::target(&other.file()).unwrap());
    let moved = transfer(&mut source, target, &mut |_| {}).await.unwrap();
    assert_eq!((moved.queues, moved.tasks()), (1, 1));
    assert_file_is_consistent(&other.look());
    // What is left of the deleted queue is something.
    Connection::open(other.file()).unwrap().execute_batch("DELETE FROM queues").unwrap();
    let target = Box::new(SqliteTransfer::target(&other.file()).unwrap());
    assert_eq!(transfer(&mut source, target, &mut |_| {}).await, Err(TransferError::NotEmpty));
}

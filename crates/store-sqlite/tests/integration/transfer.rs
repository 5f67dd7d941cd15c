//! What only a look into the file can show of a move.

use rusqlite::Connection;
use taskqueue_store::conformance::moved::{assert_moved, assert_small_chunks, print_much, say_and_print};
use taskqueue_store::conformance::prelude::*;
use taskqueue_store::transfer::{TransferError, transfer};
use taskqueue_store_sqlite::SqliteTransfer;

use crate::storage::{Folder, assert_sound, fresh, with_queue};

async fn move_all(from: &Folder, to: &Folder) {
    let mut source = SqliteTransfer::source(&from.file()).unwrap();
    let target = Box::new(SqliteTransfer::target(&to.file()).unwrap());
    transfer(&mut source, target, &mut |_| {}).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_progress_and_telemetry_are_moved() {
    let ((folder, fixture), other) = (with_queue().await, fresh());
    say_and_print(&fixture).await;
    let clock = fixture.close().await;
    move_all(&folder, &other).await;
    assert_sound(&other.file());

    let (from, to) = (folder.try_open(&clock).unwrap(), other.try_open(&clock).unwrap());
    assert_moved(&from, &to).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn much_output_makes_small_chunks() {
    let (folder, fixture) = with_queue().await;
    print_much(&fixture).await;
    fixture.close().await;
    let mut source = SqliteTransfer::source(&folder.file()).unwrap();
    assert_small_chunks(&mut source).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_of_a_deleted_queue_are_not_moved() {
    let ((folder, fixture), other) = (with_queue().await, fresh());
    fixture.create(1, Definition::default()).await;
    fixture.ok(create_queue("r")).await;
    fixture.ok(create("r", 2, Definition::default())).await;
    fixture.close().await;
    // As a deletion leaves it before the purge.
    let deleted = "INSERT INTO purges (queue_key, kept_until) SELECT queue_key, 0 FROM queues WHERE name = 'q';
        DELETE FROM tally WHERE queue_key IN (SELECT queue_key FROM purges); DELETE FROM queues WHERE name = 'q'";
    Connection::open(folder.file()).unwrap().execute_batch(deleted).unwrap();
    let mut source = SqliteTransfer::source(&folder.file()).unwrap();
    let target = Box::new(SqliteTransfer::target(&other.file()).unwrap());
    let moved = transfer(&mut source, target, &mut |_| {}).await.unwrap();
    assert_eq!((moved.queues, moved.tasks()), (1, 1));
    assert_sound(&other.file());
    // What is left of the deleted queue is something.
    Connection::open(other.file()).unwrap().execute_batch("DELETE FROM queues").unwrap();
    let target = Box::new(SqliteTransfer::target(&other.file()).unwrap());
    assert_eq!(transfer(&mut source, target, &mut |_| {}).await, Err(TransferError::NotEmpty));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dependents_that_were_left_to_be_settled_are_settled_after_the_move() {
    let ((folder, fixture), other) = (with_queue().await, fresh());
    fixture.ok(create_all([1, 2])).await;
    fixture.create(3, waits_for(&[1])).await;
    fixture.create(4, cancelled_with(&[2])).await;
    fixture.create(5, cancelled_with(&[9])).await;
    fixture.ok(cancel("q", 2)).await;
    fixture.ok(requeue("q", 4)).await;
    fixture.ok(delete("q", 2)).await;
    let clock = fixture.close().await;
    // As if they had been too many for one transaction, and the server had ended before the rest.
    let file = Connection::open(folder.file()).unwrap();
    file.execute("UPDATE tasks SET status = 'pending' WHERE id = ?1", [task_id(4).as_str()]).unwrap();
    file.execute("UPDATE tally SET tasks = 4, status = 'pending' WHERE status = 'pending'", []).unwrap();
    file.execute("DELETE FROM tally WHERE status = 'cancelled'", []).unwrap();
    file.execute("UPDATE dependencies SET state = 0 WHERE dependency = ?1", [task_id(2).as_str()]).unwrap();
    file.execute("INSERT INTO unsettled SELECT queue_key, ?1, NULL FROM queues", [task_id(2).as_str()]).unwrap();
    drop(file);
    move_all(&folder, &other).await;

    let moved = Fixture { store: other.open(clock.clone()).await, clock };
    assert_eq!(moved.status(4).await, Status::Pending);
    moved.upkeep().await;
    assert_eq!((moved.status(4).await, moved.status(5).await), (Status::Cancelled, Status::Pending));
    // The writer says so a moment after its answer.
    while !moved.store.finds_nothing(Lookup::Upkeep) {
        tokio::task::yield_now().await;
    }
}

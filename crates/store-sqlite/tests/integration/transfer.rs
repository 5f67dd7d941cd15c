//! What only a look into the file can show of a move.

use rusqlite::Connection;
use taskqueue_store::conformance::moved::{assert_moved, assert_small_chunks, print_much, say_and_print};
use taskqueue_store::conformance::prelude::*;
use taskqueue_store::transfer::{TransferError, transfer};
use taskqueue_store_sqlite::SqliteTransfer;

use crate::storage::{Folder, assert_file_is_consistent, fresh, report_of, with_queue};

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
    assert_file_is_consistent(&other.look());

    let (from, to) = (folder.try_open(&clock).unwrap(), other.try_open(&clock).unwrap());
    assert_moved(&from, &to).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_and_archived_tasks_are_moved_and_ended_tasks_are_deleted_when_their_time_is_over() {
    let ((folder, fixture), other) = (with_queue().await, fresh());
    for id in 1..=3 {
        fixture.create(id, Definition::default()).await;
    }
    fixture.ok(cancel("q", 1)).await;
    fixture.ok(update("q", 1, to_archived(true))).await;
    let retention = RetentionPatch { cancelled_seconds: Some(Some(60)), ..RetentionPatch::default() };
    let patch = SettingsPatch { paused: Some(true), retention, ..SettingsPatch::default() };
    let settings = fixture.ok(change_settings("q", patch)).await;
    fixture.upkeep().await;
    let clock = fixture.close().await;
    move_all(&folder, &other).await;
    assert_file_is_consistent(&other.look());
    assert!(report_of(&other.file()).findings.is_sound());

    let moved = Fixture { store: other.open(clock.clone()).await, clock };
    assert_eq!(moved.store.queue_settings(&queue("q")).await, Ok(settings));
    assert!(moved.get(1).await.lifecycle.archived);
    assert_eq!(moved.count(all()).await, 2);
    moved.clock.advance_seconds(60);
    moved.upkeep().await;
    let missing = moved.store.get_task(&queue("q"), task_id(1)).await;
    assert!(matches!(missing, Err(StoreError::Refused(Refusal::TaskNotFound { .. }))), "{missing:?}");
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
    assert_file_is_consistent(&other.look());
    // What is left of the deleted queue is something.
    Connection::open(other.file()).unwrap().execute_batch("DELETE FROM queues").unwrap();
    let target = Box::new(SqliteTransfer::target(&other.file()).unwrap());
    assert_eq!(transfer(&mut source, target, &mut |_| {}).await, Err(TransferError::NotEmpty));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_that_wait_are_moved_with_what_is_noted_of_their_dependencies() {
    let ((folder, fixture), other) = (with_queue().await, fresh());
    let limited = SchedulingFields { timeout_seconds: Some(60), ..SchedulingFields::default() };
    fixture.create(1, scheduled(limited)).await;
    fixture.create(2, waits_for(&[1])).await;
    fixture.create(3, Definition::default()).await;
    fixture.create(4, waits_for(&[3, 9])).await;
    fixture.ok(delete("q", 3)).await;
    fixture.ok(create_later(5, Definition::default(), fixture.now().plus_seconds(30))).await;
    fixture.claim(1).await;
    let before = fixture.tasks("q").await;
    let clock = fixture.close().await;
    move_all(&folder, &other).await;
    assert!(report_of(&other.file()).findings.is_sound());

    let moved = Fixture { store: other.open(clock.clone()).await, clock };
    assert_eq!(moved.tasks("q").await, before);
    moved.ok(complete("q", 1, 1, object("{}"))).await;
    assert_eq!(moved.claim(2).await.task.id, task_id(2));
    assert_eq!(moved.claimed(claim("q", "default", 3)).await, None);
    moved.clock.advance_seconds(30);
    assert_eq!(moved.claim(3).await.task.id, task_id(5));
    // What it was when it was deleted is remembered: a requeue of 4 would wait for it, and one that is to be cancelled is.
    let cancels = Update { on_dependency_failure: Some(OnDependencyFailure::Cancel), ..Update::default() };
    moved.ok(update("q", 4, cancels)).await;
    assert_eq!(moved.status(4).await, Status::Cancelled);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dependents_that_were_left_to_be_settled_are_settled_after_the_move() {
    let ((folder, fixture), other) = (with_queue().await, fresh());
    for id in [1, 2] {
        fixture.create(id, Definition::default()).await;
    }
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

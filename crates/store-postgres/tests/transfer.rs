//! What only a look into the tables can show of a move.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod storage;

use storage::tables::assert_tables_are_consistent;
use storage::{Fresh, fresh};
use taskqueue_core::definition::Definition;
use taskqueue_core::observation::WorkerStatus;
use taskqueue_core::selection::ObservationQuery;
use taskqueue_store::command::AddOutput;
use taskqueue_store::conformance::commands::*;
use taskqueue_store::conformance::fixture::Fixture;
use taskqueue_store::transfer::{CHUNK_BYTES, Source, transfer};
use taskqueue_store::{Store, StoreExt};
use taskqueue_store_postgres::{Address, PostgresTransfer};

fn address(storage: &Fresh) -> Address {
    Address::parse(&storage.database.url()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_progress_and_telemetry_are_moved() {
    let (storage, other) = (fresh(), fresh());
    let fixture = Fixture::with_queue(&storage).await;
    for id in 1..=3 {
        fixture.create(id, Definition::default()).await;
        fixture.claim(id).await;
    }
    let large = "0123456789abcdef".repeat(4_096);
    for n in 0..5 {
        let printed = print(1, 1, n * large.len() as u64, &large);
        fixture.ok(AddOutput { most_bytes: 200_000, ..printed }).await;
    }
    fixture.ok(print(2, 2, 3, "é behind a gap\0")).await;
    fixture.ok(print(2, 2, 100, "behind another one")).await;
    fixture.ok(progress(2, 2, r#"{"step":2}"#)).await;
    fixture.ok(progress(3, 3, "{}")).await;
    fixture.ok(observe("q", 1, "default", WorkerStatus::Busy)).await;
    fixture.ok(measure(1, r#"{"cpu":1.5}"#)).await;
    let Fixture { store, clock } = fixture;
    store.close().await;
    drop(store);
    let mut source = PostgresTransfer::source(address(&storage), "taskqueue").await.unwrap();
    let target = Box::new(PostgresTransfer::target(address(&other), "taskqueue").await.unwrap());
    transfer(&mut source, target, &mut |_| {}).await.unwrap();
    drop(source);
    assert_tables_are_consistent(&other.database);

    let (from, to) = (storage.try_open(&clock).await.unwrap(), other.try_open(&clock).await.unwrap());
    let (q, query) = (queue("q"), ObservationQuery { filter: None, limit: 9, after: None });
    assert_eq!(to.list_workers(&q, query.clone()).await, from.list_workers(&q, query).await);
    for id in (1..=3).map(task_id) {
        assert_eq!(to.get_task(&q, id).await, from.get_task(&q, id).await);
        for offset in [0, 4, 50, 130_000, 200_000] {
            let moved = to.read_output(&q, id, offset, 200_000).await;
            assert_eq!(moved, from.read_output(&q, id, offset, 200_000).await, "{id} {offset}");
            assert_eq!(moved.is_ok(), id != task_id(3));
        }
    }
    // The next output follows, and pushes out what is too much.
    let end = 5 * large.len() as u64;
    to.write(AddOutput { most_bytes: 200_000, ..print(1, 1, end, "the end") }).await.unwrap();
    let read = to.read_output(&q, task_id(1), 0, 200_000).await.unwrap();
    assert_eq!((read.start, read.end()), (end + 7 - 200_000, end + 7));
    assert!(read.text.ends_with("cdefthe end"));
    to.close().await;
    assert_tables_are_consistent(&other.database);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn much_output_makes_small_chunks() {
    let storage = fresh();
    let fixture = Fixture::with_queue(&storage).await;
    let large = "x".repeat(65_536);
    for id in 1..=3 {
        fixture.create(id, Definition::default()).await;
        fixture.claim(id).await;
        for n in 0..(CHUNK_BYTES / large.len() / 2) as u64 {
            let printed = print(id, id, n * large.len() as u64, &large);
            fixture.ok(AddOutput { most_bytes: CHUNK_BYTES, ..printed }).await;
        }
    }
    fixture.store.close().await;
    drop(fixture);
    let mut source = PostgresTransfer::source(address(&storage), "taskqueue").await.unwrap();
    let first = source.tasks(None).await.unwrap();
    assert_eq!(first.tasks.len(), 2);
    let second = source.tasks(first.last_key).await.unwrap();
    assert_eq!(second.tasks.len(), 1);
    assert_eq!(second.tasks[0].output.as_ref().unwrap().byte_count(), CHUNK_BYTES / 2);
}

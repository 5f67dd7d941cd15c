//! A sync of the database file that fails. Whatever the log was copied to may be lost then, so the log must stay as it is.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use taskqueue_core::definition::Definition;
use taskqueue_core::time::Timestamp;
use taskqueue_store::clock::ManualClock;
use taskqueue_store::conformance::commands::*;
use taskqueue_store::{Store, StoreError, StoreExt};

use super::*;

fn open(path: &Path) -> SqliteStore {
    let clock = ManualClock::new(Timestamp::from_micros(1_767_225_600_000_000));
    SqliteStore::open(path, Arc::new(clock), &Options::default()).unwrap()
}

/// Creates a task that needs some hundred pages of the log.
async fn create_large(store: &SqliteStore, number: u64) -> Result<(), StoreError> {
    let definition = Definition { args: object_of_bytes(1_000_000), ..Definition::default() };
    store.write(create("q", number, definition)).await.map(drop)
}

fn log_bytes(file: &Path) -> u64 {
    std::fs::metadata(file.with_file_name("tasks.db-wal")).map_or(0, |log| log.len())
}

/// Bytes of the log with which the checkpointer is woken: its header, and frames with a header each. Nothing is written while
/// it works, so that the log cannot be begun anew before the sync.
const WOKEN_BYTES: u64 = 32 + 8_192 * (24 + 4_096);

async fn until_unavailable(store: &SqliteStore) {
    let begun = Instant::now();
    while store.check().await != Err(StoreError::Unavailable) {
        assert!(begun.elapsed() < Duration::from_secs(20), "the failed sync has no consequence");
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_failed_sync_of_the_database_no_write_is_taken_and_a_restart_finds_every_acknowledged_one() {
    let folder = tempfile::tempdir().unwrap();
    let (file, before) = (folder.path().join("tasks.db"), folder.path().join("before.db"));
    let store = open(&file);
    store.write(create_queue("q")).await.unwrap();
    drop(store);
    // What is on the disk if nothing of what is copied from now on gets there.
    std::fs::copy(&file, &before).unwrap();

    let store = open(&file);
    store.ownership.syncs_to_fail.store(1, Ordering::Relaxed);
    let mut written = 0;
    while log_bytes(&file) < WOKEN_BYTES {
        create_large(&store, written).await.unwrap();
        written += 1;
    }
    until_unavailable(&store).await;
    for attempt in 0..3 {
        assert_eq!(create_large(&store, written).await, Err(StoreError::Unavailable), "attempt {attempt}");
    }
    assert_eq!(store.write(claim("q", "nothing", 1)).await, Err(StoreError::Unavailable), "also what needs no disk");
    assert_eq!(store.check().await, Err(StoreError::Unavailable), "it does not heal by itself");
    assert!(store.get_task(&queue("q"), task_id(0)).await.is_ok(), "reads go on");
    let log = log_bytes(&file);
    store.close().await;
    assert_eq!(log_bytes(&file), log, "the log is left as it is");
    drop(store);

    std::fs::copy(&before, &file).unwrap();
    let store = open(&file);
    for number in 0..written {
        assert!(store.get_task(&queue("q"), task_id(number)).await.is_ok(), "task {number} of {written}");
    }
    create_large(&store, written).await.unwrap();
    assert_eq!(store.check().await, Ok(vec![]));
    store.close().await;
    assert_eq!(log_bytes(&file), 0);
}

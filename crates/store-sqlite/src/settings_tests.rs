//! What is counted for the limits of a queue, whenever they are set and whatever happens to the store.

use std::sync::Arc;

use taskqueue_core::definition::Definition;
use taskqueue_core::settings::{RouteLimitsPatch, SettingsPatch};
use taskqueue_core::time::Timestamp;
use taskqueue_store::clock::ManualClock;
use taskqueue_store::conformance::commands::*;
use taskqueue_store::{Store, StoreExt};
use tempfile::TempDir;

use crate::{Options, SqliteStore};

fn open(folder: &TempDir) -> SqliteStore {
    let clock = ManualClock::new(Timestamp::from_micros(1_767_225_600_000_000));
    SqliteStore::open(&folder.path().join("tasks.db"), Arc::new(clock), &Options::default()).unwrap()
}

fn limits(max_running: u64, gpu: u64) -> SettingsPatch {
    let limits = [(route("gpu"), Some(gpu))].into();
    let route_limits = RouteLimitsPatch::Merge(limits);
    SettingsPatch { max_running: Some(Some(max_running)), route_limits, ..SettingsPatch::default() }
}

async fn is_claimed(store: &SqliteStore, route: &str, run: usize) -> bool {
    store.write(claim("q", route, run)).await.unwrap().is_some()
}

#[tokio::test]
async fn runs_that_began_before_a_limit_or_before_a_restart_count() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    for name in ["q", "r"] {
        store.write(create_queue(name)).await.unwrap();
        for id in 0..9 {
            let definition = Definition { routes: routes(&["cpu", "gpu"]), ..Definition::default() };
            store.write(create(name, id, definition)).await.unwrap();
        }
    }
    store.write(claim("r", "gpu", 100)).await.unwrap();
    assert!(
        is_claimed(&store, "gpu", 1).await && is_claimed(&store, "gpu", 2).await && is_claimed(&store, "cpu", 3).await
    );
    store.write(change_settings("q", limits(4, 2))).await.unwrap();
    assert!(!is_claimed(&store, "gpu", 4).await);
    assert!(is_claimed(&store, "cpu", 5).await);
    assert!(!is_claimed(&store, "cpu", 6).await);
    store.close().await;
    drop(store);
    let store = open(&folder);
    assert!(!is_claimed(&store, "gpu", 4).await && !is_claimed(&store, "cpu", 6).await);
    store.write(heartbeat("q", 0, 1)).await.unwrap();
    assert!(!is_claimed(&store, "cpu", 6).await, "a heartbeat is no other run");
    store.write(unclaim("q", 0, 1)).await.unwrap();
    assert!(is_claimed(&store, "gpu", 7).await && !is_claimed(&store, "gpu", 8).await);
    store.write(change_settings("q", limits(9, 2))).await.unwrap();
    assert!(!is_claimed(&store, "gpu", 8).await && is_claimed(&store, "cpu", 9).await);
}

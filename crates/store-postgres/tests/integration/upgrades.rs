//! A schema of every version that was released is brought up to date, is sound, holds what it held, and is worked with.

use std::path::PathBuf;

use taskqueue_store::conformance::Storage;
use taskqueue_store::conformance::fixture::Fixture;
use taskqueue_store::conformance::upgraded::{Held, assert_upgraded, clock};

use crate::storage::{fresh, report_of};

const SCHEMAS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/schemas");

/// The dumps, by version.
fn dumps() -> Vec<PathBuf> {
    let mut dumps: Vec<PathBuf> = std::fs::read_dir(SCHEMAS).unwrap().map(|entry| entry.unwrap().path()).collect();
    dumps.sort();
    dumps
}

fn held(version: i64) -> Held {
    Held { deleted_runs: version >= 2, last_runs: version >= 3, progress_and_output: version >= 5 }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schema_of_every_released_version_is_upgraded_and_worked_with() {
    for (dump, version) in dumps().iter().zip(1..) {
        let storage = fresh();
        storage.database.admin(&std::fs::read_to_string(dump).unwrap());
        let before = report_of(&storage).await;
        assert_eq!((before.schema, before.findings.count()), (version, 0), "{before:?}");
        let clock = clock();
        let fixture = Fixture { store: storage.open(clock.clone()).await, clock };
        let after = report_of(&storage).await;
        assert!(after.rules_checked && after.findings.is_sound(), "{version}: {after:#?}");
        assert_eq!(after.tasks, 6, "{version}");
        assert_upgraded(&fixture, held(version)).await;
        fixture.store.close().await;
        let worked = report_of(&storage).await;
        assert!(worked.findings.is_sound(), "{version}: {worked:#?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_schema_before_the_newest_has_a_dump() {
    let storage = fresh();
    storage.open(clock()).await.close().await;
    let newest = report_of(&storage).await.schema;
    let (older, dumps) = (newest - 1, i64::try_from(dumps().len()).unwrap());
    assert!(dumps >= older, "add tests/schemas/{older:04}.sql: a database of the schema before the newest");
}

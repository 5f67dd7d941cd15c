//! The model and the embedded backend agree about random histories, also when the file is closed and opened in between,
//! and the file is consistent afterwards.

use taskqueue_store::conformance::agreement::{agree, agree_on_filters};

use crate::storage::{Folder, assert_sound, flushing, fresh};

/// Histories for each test, each from a seed of its own; a failure names it.
const SEEDS: std::ops::Range<u64> = 0..12;
const STEPS: usize = 400;

async fn random_histories(storage: fn() -> Folder, first_seed: u64, reopens: bool) {
    for seed in SEEDS {
        let folder = storage();
        let fixture = agree(&folder, first_seed + seed, STEPS, reopens).await;
        assert_sound(&folder.file());
        fixture.store.close().await;
        assert_sound(&folder.file());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_histories_get_the_same_answers() {
    random_histories(fresh, 0, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_histories_with_restarts_get_the_same_answers() {
    random_histories(fresh, 1_000, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_histories_that_every_transaction_writes_get_the_same_answers() {
    random_histories(flushing, 3_000, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_filters_select_the_same_tasks() {
    for seed in SEEDS {
        agree_on_filters(&fresh(), 2_000 + seed, 100).await;
    }
}

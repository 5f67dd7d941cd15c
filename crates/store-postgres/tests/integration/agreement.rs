//! The model and the scale-out backend agree about random histories, also when the store is closed and opened in between,
//! and the tables are consistent afterwards.

use futures_util::future::join_all;
use taskqueue_store::conformance::agreement::{agree, agree_on_filters};

use crate::storage::fresh;
use crate::storage::tables::{assert_sound, assert_tables_are_consistent};

/// Histories for each test, each from a seed of its own; a failure names it.
const SEEDS: std::ops::Range<u64> = 0..3;
const STEPS: usize = 300;

/// One history of each seed. They wait for the database more than they compute, so all of them run at a time.
async fn random_histories(first_seed: u64, reopens: bool) {
    let history = |seed: u64| async move {
        let storage = fresh();
        let fixture = agree(&storage, first_seed + seed, STEPS, reopens).await;
        assert_sound(&storage.database).await;
        fixture.store.close().await;
        assert_tables_are_consistent(&storage.database).await;
    };
    join_all(SEEDS.map(history)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_histories_get_the_same_answers() {
    random_histories(3_000, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_histories_with_restarts_get_the_same_answers() {
    random_histories(4_000, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_filters_select_the_same_tasks() {
    join_all(SEEDS.map(|seed| async move { agree_on_filters(&fresh(), 5_000 + seed, 100).await })).await;
}

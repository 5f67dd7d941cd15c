//! Moving a database to another one keeps everything: between two openings of its storage each of these tests moves it
//! elsewhere, from one backend to the other and between two databases of one, and must not notice.

mod chunks;
mod databases;
mod refusals;

use databases::Kind::{self, File, Schema};
use databases::Moving;
use taskqueue_store::conformance::agreement::agree;
use taskqueue_store::conformance::fixture::Fixture;

mod from_sqlite_to_postgresql {
    fn fresh() -> super::Moving {
        super::Moving::through(&[super::File, super::Schema])
    }
    taskqueue_store::durability_suite!(fresh);
}

mod from_postgresql_to_sqlite {
    fn fresh() -> super::Moving {
        super::Moving::through(&[super::Schema, super::File])
    }
    taskqueue_store::durability_suite!(fresh);
}

mod from_sqlite_to_sqlite {
    fn fresh() -> super::Moving {
        super::Moving::through(&[super::File])
    }
    taskqueue_store::durability_suite!(fresh);
}

mod from_postgresql_to_postgresql {
    fn fresh() -> super::Moving {
        super::Moving::through(&[super::Schema])
    }
    taskqueue_store::durability_suite!(fresh);
}

/// A random history of so many steps, of which about four move everything, gets the answers of the model.
async fn assert_random_moves_are_not_noticed(seeds: std::ops::Range<u64>, kinds: &[Kind]) {
    for seed in seeds {
        let moving = Moving::through(kinds);
        let Fixture { store, .. } = agree(&moving, seed, 400, true).await;
        store.close().await;
        moving.assert_consistent();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_histories_between_both_backends_get_the_same_answers() {
    assert_random_moves_are_not_noticed(0..6, &[File, Schema]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_histories_in_all_directions_get_the_same_answers() {
    assert_random_moves_are_not_noticed(100..106, &[Schema, Schema, File, File]).await;
}

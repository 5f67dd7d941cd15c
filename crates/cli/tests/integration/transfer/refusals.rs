//! What is not moved, and what stays behind when a move is broken off.

use taskqueue_core::definition::Definition;
use taskqueue_core::time::Timestamp;
use taskqueue_store::StoreExt;
use taskqueue_store::conformance::ManualClock;
use taskqueue_store::conformance::commands::*;
use taskqueue_store::conformance::fixture::Fixture;
use taskqueue_store::transfer::TransferError;

use super::databases::Kind::{self, File, Schema};
use super::databases::Place;

const DIRECTIONS: [[Kind; 2]; 4] = [[File, Schema], [Schema, File], [File, File], [Schema, Schema]];

/// Some time that is not now: a server with this clock is not taken for one that lives.
fn clock() -> ManualClock {
    ManualClock::new(Timestamp::from_micros(1_767_225_600_000_000))
}

/// A place with the queue `q`, a task in it, and no server.
async fn filled(kind: Kind) -> Place {
    let (place, clock) = (Place::new(kind), clock());
    let fixture = Fixture { store: place.open(clock.clone()).await, clock };
    fixture.ok(create_queue("q")).await;
    fixture.create(1, Definition::default()).await;
    fixture.store.close().await;
    place
}

async fn queues(place: &Place) -> usize {
    let store = place.open(clock()).await;
    let queues = store.list_queues().await.unwrap().len();
    store.close().await;
    queues
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_that_is_not_empty_is_refused_and_left_alone() {
    for [from, to] in DIRECTIONS {
        let (source, target) = (filled(from).await, filled(to).await);
        assert_eq!(source.move_to(&target).await, Err(TransferError::NotEmpty));
        assert_eq!(queues(&target).await, 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_that_is_not_there_is_refused_and_not_made() {
    for kind in [File, Schema] {
        let source = Place::new(kind);
        assert!(matches!(source.source().await, Err(TransferError::Refused(_))));
        match &source {
            Place::File(directory) => assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0),
            Place::Schema(database) => {
                assert_eq!(database.rows("SELECT 1 FROM pg_namespace WHERE nspname = 'some where'").len(), 0);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_that_is_broken_off_leaves_an_empty_target_that_takes_the_next_one() {
    for [from, to] in DIRECTIONS {
        let (source, target) = (filled(from).await, Place::new(to));
        {
            let (mut side, mut broken) = (source.source().await.unwrap(), target.target().await.unwrap());
            broken.add_queues(&side.queues().await.unwrap()).await.unwrap();
            broken.add_tasks(&side.tasks(None).await.unwrap().tasks).await.unwrap();
        }
        assert_eq!(queues(&target).await, 0);
        let moved = source.move_to(&target).await.unwrap();
        assert_eq!((moved.queues, moved.tasks()), (1, 1));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_in_use_is_neither_source_nor_target() {
    let (source, target) = (filled(File).await, Place::new(File));
    let server = source.open(clock()).await;
    assert!(source.source().await.is_err_and(|error| error.to_string().contains("in use")));
    drop(server);
    let held = target.target().await.unwrap();
    assert!(source.move_to(&target).await.is_err_and(|error| error.to_string().contains("in use")));
    drop(held);
    let schema = filled(Schema).await;
    let Place::Schema(database) = &schema else { panic!("a schema") };
    let scan = |ago: i64| {
        database.admin(&format!(
            "UPDATE \"some where\".clock SET last_scan_at = (extract(epoch FROM clock_timestamp()) - {ago}) * 1000000"
        ));
    };
    scan(5);
    assert!(schema.source().await.is_err_and(|error| error.to_string().contains("stop every server")));
    assert!(schema.target().await.is_err_and(|error| error.to_string().contains("stop every server")));
    scan(16);
    let held = schema.source().await.unwrap();
    assert!(schema.source().await.is_err_and(|error| error.to_string().contains("stop every server")));
    drop(held);
}

/// The same for a file is tested in its backend, which can read it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_of_a_deleted_queue_are_not_moved() {
    let (source, target) = (filled(Schema).await, Place::new(File));
    let Place::Schema(database) = &source else { panic!("a schema") };
    database.admin(
        "INSERT INTO \"some where\".purges SELECT queue_key, 0 FROM \"some where\".queues;
        DELETE FROM \"some where\".tally; DELETE FROM \"some where\".queues;
        INSERT INTO \"some where\".queues (queue_key, name) VALUES (1, 'q')",
    );
    assert_eq!(filled(Schema).await.move_to(&source).await, Err(TransferError::NotEmpty));
    let moved = source.move_to(&target).await.unwrap();
    assert_eq!((moved.queues, moved.tasks()), (1, 0));
}

//! The time of the service on a real database's clock: what is stored beside it counts for everything that is written.

use taskqueue_store::conformance::prelude::*;
use taskqueue_test_postgres::Database;

use crate::storage::{fresh, open};

const SECOND: i64 = 1_000_000;
/// More than a test takes, and far less than the offsets here.
const MINUTE: i64 = 60 * SECOND;

/// What the database's own clock shows.
fn database_micros(database: &Database) -> i64 {
    let rows = database.rows("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint");
    rows[0][0].as_ref().unwrap().parse().unwrap()
}

/// A store at the database's time.
async fn store_of(database: &Database) -> Fixture {
    let store = open(&database.url(), None).await.unwrap_or_else(|error| panic!("{error}"));
    Fixture { store: Arc::new(store), clock: ManualClock::new(Timestamp::default()) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_that_is_written_goes_by_the_offset_that_is_stored() {
    let fresh = fresh();
    let database = &fresh.database;
    let fixture = store_of(database).await;
    fixture.ok(create_queue("q")).await;
    fixture.ok(Scan).await;
    let offset = 3_600 * SECOND;
    database.admin(&format!("UPDATE taskqueue.clock SET offset_micros = {offset}"));
    let is_shifted = |what: &str, at: Timestamp| {
        let difference = at.as_micros() - database_micros(database);
        assert!((difference - offset).abs() < MINUTE, "{what} is {difference} ahead of the database's clock");
    };
    let created = fixture.create(1, Definition::default()).await.lifecycle;
    is_shifted("a creation", created.created_at);
    let claimed = fixture.claim(1).await;
    is_shifted("a claim", claimed.task.lifecycle.started_at.unwrap());
    is_shifted("a lease", claimed.lease_expires_at.plus_seconds(-300));
    fixture.ok(fail("q", 1, 1)).await;
    let failed = fixture.get(1).await;
    is_shifted("an end", failed.lifecycle.finished_at.unwrap());
    is_shifted("an error", failed.outcome.last_error.unwrap().occurred_at);
    is_shifted("an update", fixture.task_of(update("q", 1, to_priority(3))).await.lifecycle.updated_at);
    fixture.ok(Scan).await;
    let scanned = database.rows("SELECT last_scan_at, offset_micros FROM taskqueue.clock").swap_remove(0);
    let number = |column: usize| scanned[column].as_ref().unwrap().parse::<i64>().unwrap();
    is_shifted("a scan", Timestamp::from_micros(number(0)));
    assert!((offset - MINUTE..=offset).contains(&number(1)), "the offset shrinks slowly: {}", number(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_time_that_is_years_ahead_is_put_right_when_no_server_lives_and_one_starts() {
    let fresh = fresh();
    let database = &fresh.database;
    let fixture = store_of(database).await;
    fixture.ok(create_queue("q")).await;
    database.admin(&format!("UPDATE taskqueue.clock SET offset_micros = {}", 3 * 365 * 86_400 * SECOND));
    fixture.create(1, Definition::default()).await;
    fixture.ok(Scan).await;
    let before = fixture.claim(1).await.task.lifecycle.updated_at;
    fixture.store.close().await;
    // Beside a server that lives, the time is what it is for all.
    let beside = store_of(database).await;
    assert!(beside.create(2, Definition::default()).await.lifecycle.created_at >= before);
    beside.store.close().await;

    database.admin(&format!("UPDATE taskqueue.clock SET last_scan_at = last_scan_at - {MINUTE}"));
    let fixture = store_of(database).await;
    let created = fixture.create(3, Definition::default()).await.lifecycle.created_at;
    assert!((created.as_micros() - database_micros(database)).abs() < MINUTE, "{created}");
    let again = fixture.claim(1).await;
    let left = again.lease_expires_at.as_micros() - database_micros(database);
    assert!((240 * SECOND..=300 * SECOND).contains(&left), "the lease is good for {left} more microseconds");
    fixture.ok(complete("q", 1, 1, object("{}"))).await;
    assert!(fixture.get(1).await.lifecycle.updated_at >= before, "a task never goes back");
}

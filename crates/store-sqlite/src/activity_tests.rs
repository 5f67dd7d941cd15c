//! What becomes of the rows of activity in the file, and which rows figures read.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use taskqueue_core::activity::{Activity, Record, Span, Unit};
use taskqueue_core::definition::Definition;
use taskqueue_core::limits::{STATS_ROUTES, TASK_ROUTES};
use taskqueue_core::stats::PendingDetail;
use taskqueue_core::time::Timestamp;
use taskqueue_store::activity::{ActivityRow, ProcessId};
use taskqueue_store::clock::{Clock, ManualClock};
use taskqueue_store::command::SaveActivity;
use taskqueue_store::conformance::commands::*;
use taskqueue_store::{Store, StoreExt};
use tempfile::TempDir;

use crate::{Options, SqliteStore};

struct Opened {
    store: SqliteStore,
    /// Past the store.
    file: Connection,
    clock: ManualClock,
    _folder: TempDir,
}

impl Opened {
    /// A store with the queue `q`.
    async fn new() -> Self {
        let (folder, clock) =
            (tempfile::tempdir().unwrap(), ManualClock::new(Timestamp::from_micros(1_767_225_600_000_000)));
        let path = folder.path().join("tasks.db");
        let store = SqliteStore::open(&path, Arc::new(clock.clone()), &Options::default()).unwrap();
        store.write(create_queue("q")).await.unwrap();
        Self { store, file: Connection::open(&path).unwrap(), clock, _folder: folder }
    }

    /// Saves that something happened in each of the last minutes.
    async fn save_minutes(&self, minutes: i64) {
        let queue = self.store.list_queue_keys().await.unwrap()[0].0;
        let mut activity = Activity::default();
        activity.add(Record::CREATED);
        let span = |minute: i64| Span::of(Unit::Minute, self.clock.now().plus_seconds(-60 * minute));
        let rows = (0..minutes).map(|minute| ActivityRow { queue, span: span(minute), activity: activity.clone() });
        self.save(rows.collect()).await;
    }

    async fn save(&self, rows: Vec<ActivityRow>) {
        self.store.write(SaveActivity { process: ProcessId(7), rows }).await.unwrap();
    }

    fn rows(&self) -> i64 {
        self.file.query_row("SELECT count(*) FROM activity", [], |row| row.get(0)).unwrap()
    }
}

#[tokio::test]
async fn what_is_too_old_is_forgotten_some_at_a_time() {
    let opened = Opened::new().await;
    opened.save_minutes(1_440).await;
    opened.clock.advance_seconds(86_400);
    opened.save(Vec::new()).await;
    assert_eq!(opened.rows(), 1, "that of a day ago is still kept");
    // More than are forgotten at once, and all of them long ago.
    let numbers = "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 4500)";
    let insert = format!("{numbers} INSERT INTO activity SELECT 1, 60, n * 60, 8, x'00' FROM numbers");
    assert_eq!(opened.file.execute(&insert, []), Ok(4_500));
    for left in [2_501, 501, 1, 1] {
        opened.save(Vec::new()).await;
        assert_eq!(opened.rows(), left);
    }
}

#[tokio::test]
async fn the_activity_of_a_deleted_queue_is_purged() {
    let opened = Opened::new().await;
    opened.save_minutes(1_440).await;
    opened.store.write(create_queue("r")).await.unwrap();
    opened.store.write(create("r", 1, Definition::default())).await.unwrap();
    taskqueue_store::activity::save_activity(&opened.store).await.unwrap();
    assert_eq!(opened.rows(), 1_442);
    opened.store.write(delete_queue("q", true)).await.unwrap();
    // An idle writer purges.
    let begun = Instant::now();
    while opened.file.query_row("SELECT count(*) FROM purges", [], |row| row.get::<_, i64>(0)).unwrap() > 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "{} rows are left", opened.rows());
        std::thread::yield_now();
    }
    assert_eq!(opened.rows(), 2, "those of the other queue");
}

#[tokio::test]
async fn figures_that_are_asked_again_read_no_task() {
    let opened = Opened::new().await;
    opened.store.write(create("q", 1, with_priority(1))).await.unwrap();
    opened.clock.advance_seconds(5);
    opened.store.write(create("q", 2, with_priority(2))).await.unwrap();
    let key = opened.store.list_queue_keys().await.unwrap()[0].0;
    let figures = opened.store.figures(&[key], &ALL_ROUTES, PendingDetail::Number).await.unwrap();
    assert_eq!(figures.queues[0].1.oldest_pending(), Some(opened.clock.now().plus_seconds(-5)));
    // Whoever reads it now fails.
    opened.file.execute("UPDATE tasks SET packed = x'00'", []).unwrap();
    assert_eq!(opened.store.figures(&[key], &ALL_ROUTES, PendingDetail::Number).await.unwrap().queues, figures.queues);
    assert_eq!(opened.store.queue_stats(&queue("q"), &ALL_ROUTES).await.unwrap().figures, figures.queues[0].1);
}

#[tokio::test]
async fn of_more_routes_than_an_answer_shows_the_oldest_tasks_are_not_looked_for() {
    let opened = Opened::new().await;
    let tasks = STATS_ROUTES / TASK_ROUTES + 1;
    for task in 0..tasks {
        let names: Vec<String> = (0..TASK_ROUTES).map(|n| format!("r{task:03}-{n:03}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        opened.store.write(create("q", task, with_routes(&names))).await.unwrap();
    }
    let figures = opened.store.queue_stats(&queue("q"), &ALL_ROUTES).await.unwrap().figures;
    assert_eq!(figures.routes().len(), tasks * TASK_ROUTES);
    let known = figures.routes().take_while(|(_, route)| route.oldest_pending.is_some()).count();
    assert_eq!(known, STATS_ROUTES, "the first ones, which are shown");
    assert!(figures.routes().skip(known).all(|(_, route)| route.pending == 1 && route.oldest_pending.is_none()));
}

#[tokio::test]
async fn the_size_of_the_database_has_that_of_the_log() {
    let opened = Opened::new().await;
    let bytes = |name: &str| {
        let path = format!("{}{name}", opened.file.path().unwrap());
        std::fs::metadata(path).unwrap().len()
    };
    let expected = bytes("") + bytes("-wal");
    assert_eq!(
        opened.store.figures(&[], &ALL_ROUTES, PendingDetail::Number).await.unwrap().database_bytes,
        Some(expected)
    );
    assert!(bytes("-wal") > 0);
}

#[tokio::test]
async fn activity_that_cannot_be_read_is_an_error_and_not_nothing() {
    let opened = Opened::new().await;
    opened.save_minutes(1).await;
    opened.file.execute("UPDATE activity SET activity = x'ff'", []).unwrap();
    assert!(opened.store.queue_stats(&queue("q"), &ALL_ROUTES).await.is_err());
    let key = opened.store.list_queue_keys().await.unwrap()[0].0;
    assert!(opened.store.figures(&[key], &ALL_ROUTES, PendingDetail::Number).await.is_ok(), "they need none of it");
}

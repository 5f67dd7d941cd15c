//! What output and progress cost in the file: a start and the work with tasks read nothing of output, an addition costs the
//! same however much there is, and small texts share a row.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::{Connection, OpenFlags, params};
use taskqueue_core::definition::Definition;
use taskqueue_core::output::{KeptOutput, OutputChange, Part};
use taskqueue_core::time::Timestamp;
use taskqueue_store::clock::ManualClock;
use taskqueue_store::command::AddOutput;
use taskqueue_store::conformance::commands::*;
use taskqueue_store::transaction::{QueueKey, TaskKey, Transaction};
use taskqueue_store::{Store, StoreExt};
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::claim_index::ClaimIndex;
use crate::transaction::SqliteTransaction;
use crate::{Options, SqliteStore, migrate, rows, statements as sql};

struct File {
    folder: TempDir,
    clock: ManualClock,
}

impl File {
    fn new() -> Self {
        let clock = ManualClock::new(Timestamp::from_micros(1_767_225_600_000_000));
        Self { folder: tempfile::tempdir().unwrap(), clock }
    }

    fn open(&self) -> SqliteStore {
        let path = self.folder.path().join("tasks.db");
        SqliteStore::open(&path, Arc::new(self.clock.clone()), &Options::default()).unwrap()
    }

    fn connection(&self, flags: OpenFlags) -> Connection {
        Connection::open_with_flags(self.folder.path().join("tasks.db"), flags).unwrap()
    }

    fn count(&self, sql: &str) -> i64 {
        self.connection(OpenFlags::SQLITE_OPEN_READ_ONLY).query_row(sql, [], |row| row.get(0)).unwrap()
    }
}

/// A store in which run 1 has claimed task 1.
async fn running(file: &File) -> SqliteStore {
    let store = file.open();
    store.write(create_queue("q")).await.unwrap();
    store.write(create("q", 1, with_budget(9))).await.unwrap();
    store.write(claim("q", "default", 1)).await.unwrap();
    store
}

#[tokio::test]
async fn a_start_and_the_work_with_tasks_read_nothing_of_output() {
    let file = File::new();
    let store = running(&file).await;
    store.write(print(1, 1, 0, "text")).await.unwrap();
    drop(store);
    // Whoever looks at output now gets an error.
    file.connection(OpenFlags::SQLITE_OPEN_READ_WRITE)
        .execute_batch("DROP TABLE output_pieces; DROP TABLE outputs")
        .unwrap();
    let store = file.open();
    store.write(heartbeat("q", 1, 1)).await.unwrap();
    store.write(progress(1, 1, r#"{"step":1}"#)).await.unwrap();
    store.write(fail("q", 1, 1)).await.unwrap();
    store.write(claim("q", "default", 2)).await.unwrap().unwrap();
    store.write(complete("q", 1, 2, object("{}"))).await.unwrap();
    assert!(store.get_task(&queue("q"), task_id(1)).await.is_ok());
    assert_eq!(store.count_tasks(&queue("q"), filtered("missing(progress.step)")).await, Ok(1));
    assert!(store.read_output(&queue("q"), task_id(1), 0, 1_000).await.is_err(), "this does read it");
}

#[tokio::test]
async fn a_piece_that_is_lost_is_an_error_and_never_other_bytes() {
    let file = File::new();
    let store = running(&file).await;
    let large = "x".repeat(10_000);
    for n in 0..3 {
        store.write(AddOutput { most_bytes: 1 << 20, ..print(1, 1, n * 10_000, &large) }).await.unwrap();
    }
    let lost = "DELETE FROM output_pieces WHERE start = 10000";
    file.connection(OpenFlags::SQLITE_OPEN_READ_WRITE).execute_batch(lost).unwrap();
    let read = async |offset| store.read_output(&queue("q"), task_id(1), offset, 1 << 20).await;
    assert!(read(0).await.is_err() && read(15_000).await.is_err());
    assert_eq!(read(20_000).await.unwrap().text, large);
}

#[tokio::test]
async fn texts_that_come_in_the_wrong_order_share_rows_too() {
    let file = File::new();
    let store = running(&file).await;
    for n in 0..500 {
        for offset in [n * 20 + 10, n * 20] {
            store.write(AddOutput { most_bytes: 1 << 20, ..print(1, 1, offset, "0123456789") }).await.unwrap();
        }
    }
    let pieces = file.count("SELECT count(*) FROM output_pieces");
    assert!(pieces <= 6, "10,000 bytes in {pieces} rows");
    let read = store.read_output(&queue("q"), task_id(1), 0, 1 << 20).await.unwrap();
    assert_eq!(read.text, "0123456789".repeat(1_000));
}

#[tokio::test]
async fn small_texts_share_a_row_and_old_rows_go() {
    let file = File::new();
    let store = running(&file).await;
    let line = "0123456789".repeat(10);
    for n in 0..100 {
        store.write(AddOutput { most_bytes: 1 << 20, ..print(1, 1, n * 100, &line) }).await.unwrap();
    }
    assert_eq!(file.count("SELECT count(*) FROM output_pieces"), 3, "10,000 bytes in rows of at most 3,500");
    let large = "x".repeat(65_536);
    for n in 0..9 {
        let printed = print(1, 1, 10_000 + n * 65_536, &large);
        store.write(AddOutput { most_bytes: 262_144, ..printed }).await.unwrap();
    }
    assert_eq!(file.count("SELECT count(*) FROM output_pieces"), 4, "each as it came");
    store.write(AddOutput { most_bytes: 262_144, ..print(1, 1, 10_000 + 9 * 65_536, "x") }).await.unwrap();
    assert_eq!(
        file.count("SELECT sum(length(bytes)) FROM output_pieces"),
        262_145,
        "the oldest byte is left in its row"
    );
    store.write(fail("q", 1, 1)).await.unwrap();
    store.write(claim("q", "default", 2)).await.unwrap();
    store.write(print(1, 2, 0, "anew")).await.unwrap();
    assert_eq!(file.count("SELECT sum(length(bytes)) FROM output_pieces"), 4, "of the run before nothing is left");
}

#[tokio::test]
async fn bytes_that_come_in_reverse_share_rows_too() {
    let file = File::new();
    let store = running(&file).await;
    for at in (0..1_000).rev() {
        store.write(print(1, 1, at, "x")).await.unwrap();
    }
    assert_eq!(file.count("SELECT count(*) FROM output_pieces"), 1);
    assert_eq!(store.read_output(&queue("q"), task_id(1), 0, 1_000).await.unwrap().text, "x".repeat(1_000));
}

#[tokio::test]
async fn no_output_is_left_of_deleted_tasks() {
    let file = File::new();
    let store = Arc::new(file.open());
    store.write(create_queue("q")).await.unwrap();
    let rows = "SELECT (SELECT count(*) FROM outputs) + (SELECT count(*) FROM output_pieces)";
    for id in 0..20 {
        store.write(create("q", id, Definition::default())).await.unwrap();
        store.write(claim("q", "default", id)).await.unwrap();
        let mut prints = JoinSet::new();
        for n in 0..80 {
            let printed = AddOutput { most_bytes: 1 << 20, ..print(id, id, n * 3_500, &"x".repeat(3_500)) };
            let store = Arc::clone(&store);
            prints.spawn(async move { store.write(printed).await.unwrap() });
        }
        prints.join_all().await;
        store.write(complete("q", id, id, object("{}"))).await.unwrap();
    }
    assert_eq!(file.count(rows), 20 * 81);
    store.write(delete("q", 0)).await.unwrap();
    assert_eq!(file.count(rows), 19 * 81);
    let some = act_on_all("q", taskqueue_core::bulk_action::BulkAction::Delete, "id < 't_000000000005'");
    assert_eq!(store.act_on_tasks(Arc::new(some)).await.unwrap().changed, 4);
    assert_eq!(file.count(rows), 15 * 81);
    store.write(delete_queue("q", true)).await.unwrap();
    // More pieces than one step of the purge removes. Closing waits for no purge, so others come before.
    while file.count("SELECT count(*) FROM purges") > 0 {
        store.write(create_queue("r")).await.unwrap();
    }
    assert_eq!((file.count(rows), file.count("SELECT count(*) FROM tasks")), (0, 0));
}

/// A migrated database in memory, with the steps that SQLite takes on it counted.
fn counting() -> (Connection, Arc<AtomicU64>) {
    let mut connection = Connection::open_in_memory().unwrap();
    migrate::migrate(&mut connection, "memory".as_ref()).unwrap();
    let steps = Arc::<AtomicU64>::default();
    let counted = Arc::clone(&steps);
    let count = move || {
        counted.fetch_add(1, Ordering::Relaxed);
        false
    };
    connection.progress_handler(1, Some(count)).unwrap();
    (connection, steps)
}

#[test]
fn an_addition_costs_the_same_however_much_output_there_is() {
    const PIECES: u64 = 20_000;
    let (connection, steps) = counting();
    let fill = "INSERT INTO output_pieces (task_key, start, bytes)
        WITH RECURSIVE numbers(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < ?1)
        SELECT task, n * 4000, zeroblob(4000) FROM numbers, (SELECT 1 AS task UNION SELECT 2 UNION SELECT 3)";
    connection.execute(fill, [PIECES.cast_signed()]).unwrap();
    let mut claim_index = ClaimIndex::default();
    let mut tx = SqliteTransaction::new(&connection, &mut claim_index, Timestamp::from_micros(1));
    let mut add = |start: u64, offset: u64| {
        let end = offset.max(PIECES * 4_000 - 1) + 1;
        let kept = KeptOutput { run_id: run_id(1), attempt: 1, parts: vec![Part { start, end }] };
        let change = OutputChange { kept, replaces: false, added: vec![(offset, "x")] };
        let before = steps.load(Ordering::Relaxed);
        tx.save_output(QueueKey(1), TaskKey(2), &change).unwrap();
        steps.load(Ordering::Relaxed) - before
    };
    let (first, pushed, joined) =
        (add(0, PIECES * 4_000), add(4_000, PIECES * 4_000 + 1), add(4_001, PIECES * 4_000 + 2));
    for (what, cost) in [("a new piece", first), ("one piece pushed out", pushed), ("nothing pushed out", joined)] {
        assert!(cost < 200, "{what}: {cost} steps");
    }
    let left = connection.query_row("SELECT count(*) FROM output_pieces WHERE task_key = 2", [], |row| row.get(0));
    assert_eq!(left, Ok(PIECES.cast_signed()), "one more and one less");

    let before = steps.load(Ordering::Relaxed);
    let values = params![2, (PIECES * 4_000 - 2).cast_signed(), i64::MAX];
    let mut listed = connection.prepare(sql::LIST_OUTPUT_PIECES).unwrap();
    assert_eq!(listed.query_map(values, |row| row.get::<_, i64>(0)).unwrap().count(), 2);
    let cost = steps.load(Ordering::Relaxed) - before;
    assert!(cost < 200, "reading the end: {cost} steps");
}

#[tokio::test]
async fn progress_of_the_same_size_leaves_the_row_of_its_task_alone() {
    let file = File::new();
    let store = running(&file).await;
    // An outcome and the head. Then what SQLite writes to the head is refused.
    store.write(progress(1, 1, r#"{"step":10}"#)).await.unwrap();
    let packed = "SELECT packed FROM tasks";
    let connection = file.connection(OpenFlags::SQLITE_OPEN_READ_ONLY);
    let head = connection.query_row(packed, [], |row| row.get::<_, Vec<u8>>(0)).unwrap();
    assert_eq!(rows::PackedHead::unpack(&head).unwrap().progress_bytes, 11);
    store.close().await;
    drop(store);
    let trigger = "CREATE TRIGGER untouched BEFORE UPDATE ON tasks BEGIN SELECT raise(ABORT, 'written'); END";
    file.connection(OpenFlags::SQLITE_OPEN_READ_WRITE).execute_batch(trigger).unwrap();
    let store = file.open();
    store.write(progress(1, 1, r#"{"step":20}"#)).await.unwrap();
    assert!(store.write(progress(1, 1, r#"{"step":200}"#)).await.is_err(), "its size is in the head");
    let shown = store.get_task(&queue("q"), task_id(1)).await.unwrap().outcome.progress.unwrap();
    assert_eq!(shown.value, object(r#"{"step":20}"#));
}

//! Pages behind many archived tasks: given up by bounded reads, and found by long ones.

use std::path::Path;
use std::sync::Arc;

use rusqlite::{Connection, params};
use taskqueue_core::limits::PAGE_BYTES;
use taskqueue_core::selection::{OrderField, TaskOrder, TaskQuery, TaskSelection};
use taskqueue_core::task::Status;
use taskqueue_core::time::Timestamp;
use taskqueue_store::Store;
use taskqueue_store::StoreExt;
use taskqueue_store::clock::ManualClock;
use taskqueue_store::conformance::commands::{create_queue, queue};
use taskqueue_store::page::WriteTask;
use taskqueue_store::reading::TaskRead;

use crate::rows::{Extended, PackedDocuments, PackedHead};
use crate::snapshot::Snapshot;
use crate::{Options, SqliteStore, plain_pages};

/// More than a bounded read passes over.
const ARCHIVED: i64 = 10_050;
const TASKS: i64 = ARCHIVED + 10;

fn open(path: &Path) -> SqliteStore {
    let clock = ManualClock::new(Timestamp::from_micros(1_767_225_600_000_000));
    SqliteStore::open(path, Arc::new(clock), &Options::default()).unwrap()
}

/// Cancelled tasks with the numbers from 1 to [`TASKS`], by creation and by id. The first five and the last five are not archived.
fn fill(path: &Path) {
    let connection = Connection::open(path).unwrap();
    connection.execute_batch("BEGIN").unwrap();
    let insert = "INSERT INTO tasks (task_key, queue_key, id, created_at, status, packed) VALUES (?1, 1, ?2, ?1, 'cancelled', ?3)";
    let mut insert = connection.prepare(insert).unwrap();
    let define = "INSERT INTO definitions (task_key, identity, documents) VALUES (?1, zeroblob(32), ?2)";
    let mut define = connection.prepare(define).unwrap();
    for n in 1..=TASKS {
        let head = PackedHead {
            attempt: 0,
            max_attempts: 3,
            priority: 0,
            pending_seq: n,
            definition_bytes: 10,
            updated_at: Timestamp::from_micros(n),
            started_at: None,
            finished_at: None,
            run: None,
            finished_run: None,
            last_route: None,
            progress_bytes: 0,
            extended: Extended { archived: (6..=TASKS - 5).contains(&n), ..Extended::default() },
            routes: r#"["default"]"#,
        };
        insert.execute(params![n, format!("t_{n:012}"), head.pack()]).unwrap();
        define.execute(params![n, PackedDocuments { args: "{}", metadata: "{}" }.pack()]).unwrap();
    }
    let tally = r#"INSERT INTO tally VALUES (1, '["default"]', 'cancelled', ?1, ?2)"#;
    connection.execute(tally, [TASKS, ARCHIVED]).unwrap();
    connection.execute_batch("COMMIT").unwrap();
}

fn query(field: OrderField, descending: bool, limit: u16) -> TaskQuery {
    let order = TaskOrder { field, descending };
    TaskQuery { selection: TaskSelection::default(), order, limit, after: None, max_bytes: PAGE_BYTES }
}

fn write() -> WriteTask {
    Arc::new(|out, task| out.extend(format!("{} ", task.created_at.as_micros()).into_bytes()))
}

fn numbers(bytes: &[u8]) -> Vec<i64> {
    let text = std::str::from_utf8(bytes).unwrap();
    text.split_whitespace().map(|number| number.parse().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_behind_many_archived_tasks_is_a_long_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks.db");
    let store = open(&path);
    store.write(create_queue("q")).await.unwrap();
    store.close().await;
    drop(store);
    fill(&path);
    let connection = Connection::open(&path).unwrap();
    let file = Snapshot { connection: &connection, active: None };
    let bounded = |query: TaskQuery| {
        let (read, page) = TaskRead::written(query, write());
        let TaskRead::Page(query, rows) = read else { panic!("a page") };
        let listed = plain_pages::list(&file, &queue("q"), query, &rows).unwrap_or_else(|_| panic!());
        listed.map(|()| page.take().unwrap())
    };
    let store = open(&path);
    for field in [OrderField::CreatedAt, OrderField::Id] {
        for descending in [false, true] {
            let first = bounded(query(field, descending, 4)).expect("a page that is full before them");
            assert!(first.next.is_some());
            assert!(bounded(query(field, descending, 9)).is_none(), "{field:?} {descending}");
            let mut expected: Vec<i64> = (1..=5).chain(TASKS - 4..=TASKS).collect();
            if descending {
                expected.reverse();
            }
            let page = store.list_tasks(&queue("q"), query(field, descending, 100), write()).await.unwrap();
            assert_eq!((numbers(&page.bytes), page.next), (expected.clone(), None));
            let mut walked = Vec::new();
            let mut next = query(field, descending, 3);
            loop {
                let page = store.list_tasks(&queue("q"), next.clone(), write()).await.unwrap();
                walked.extend(numbers(&page.bytes));
                next.after = page.next;
                if next.after.is_none() {
                    break;
                }
            }
            assert_eq!(walked, expected);
        }
    }
    let mut with_archived = query(OrderField::CreatedAt, true, 9);
    with_archived.selection.include_archived = true;
    let page = bounded(with_archived).expect("nothing is passed over");
    assert_eq!(numbers(&page.bytes), (TASKS - 8..=TASKS).rev().collect::<Vec<_>>());
    let of_status = TaskSelection { status: Some(Status::Cancelled), ..TaskSelection::default() };
    assert_eq!(store.count_tasks(&queue("q"), of_status).await, Ok(10));
}

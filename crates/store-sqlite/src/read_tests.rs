//! What reads cost, and what they see.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rusqlite::{Connection, params};
use taskqueue_core::filter::TaskFilter;
use taskqueue_core::grouping::GroupQuery;
use taskqueue_core::sparse::Need;
use taskqueue_store::conformance::prelude::*;
use taskqueue_store::page::WriteTask;
use taskqueue_store::reading::TaskRead;

use crate::claim_index::ClaimIndex;
use crate::claim_index::room::Room;
use crate::history::HistoryOptions;
use crate::published_index::PublishedIndex;
use crate::queries::{Read, Snapshot};
use crate::queue_tests::{Opened, open};
use crate::rows::{Extended, PackedDocuments, PackedHead};
use crate::sparse_reads::{TaskAccess, begin};
use crate::{migrate, open, reads};

// What lists and counts of few tasks among many cost, and that they miss none.

/// Of 20,000 tasks all but these have succeeded.
const FEW: [(Status, [i64; 3]); 4] = [
    (Status::Pending, [1, 7_001, 19_001]),
    (Status::Running, [2, 7_002, 19_002]),
    (Status::Failed, [3, 7_003, 19_003]),
    (Status::Cancelled, [4, 7_004, 19_004]),
];
/// A visit of all tasks takes more than ten steps of SQLite's machine for each.
const FEW_STEPS: u64 = 20_000;

const TASKS: i64 = 20_000;
/// All tasks have the same routes.
const COUNT_TASKS: &str = "
DELETE FROM tally;
INSERT INTO tally SELECT queue_key, '[\"default\"]', status, count(*), 0 FROM tasks GROUP BY queue_key, status;";

/// Inserts a task with a number that is also its time.
fn insert(connection: &Connection, n: i64, id: &str, status: Status, priority: i64, extended: Extended<'_>) {
    let run_id = format!("r_{n:012}");
    let head = PackedHead {
        attempt: 0,
        max_attempts: 3,
        priority,
        pending_seq: n,
        definition_bytes: 10,
        updated_at: Timestamp::from_micros(n),
        started_at: None,
        finished_at: None,
        run: (status == Status::Running).then_some((&run_id, Timestamp::from_micros(1_000))),
        finished_run: None,
        last_route: None,
        progress_bytes: 0,
        extended,
        routes: r#"["default"]"#,
    };
    let insert =
        "INSERT INTO tasks (task_key, queue_key, id, created_at, status, packed) VALUES (?1, 1, ?2, ?1, ?3, ?4)";
    connection.prepare_cached(insert).unwrap().execute(params![n, id, status.as_str(), head.pack()]).unwrap();
    let documents = PackedDocuments { args: &format!("{{\"n\":{n}}}"), metadata: "{}" }.pack();
    let define = "INSERT INTO definitions (task_key, identity, documents) VALUES (?1, zeroblob(32), ?2)";
    connection.prepare_cached(define).unwrap().execute(params![n, documents]).unwrap();
}

fn fill(connection: &Connection) {
    connection.execute_batch("BEGIN; INSERT INTO queues VALUES (1, 'q')").unwrap();
    for n in 1..=TASKS {
        let state = FEW.iter().find(|(_, numbers)| numbers.contains(&n)).map_or(Status::Succeeded, |(state, _)| *state);
        insert(connection, n, &format!("t_{:012}", n * 7_919 % TASKS), state, n % 5, Extended::default());
    }
    connection.execute_batch(&format!("{COUNT_TASKS} COMMIT")).unwrap();
}

struct Filled {
    connection: Connection,
    index: PublishedIndex,
    steps: Arc<AtomicU64>,
    _folder: tempfile::TempDir,
}

impl Filled {
    fn change(&self, sql: &str) {
        self.connection.execute_batch(sql).unwrap();
        self.connection.execute_batch(COUNT_TASKS).unwrap();
    }

    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("q.db");
        std::fs::File::create(&path).unwrap();
        let mut connection = open::writer(&path).unwrap();
        migrate::migrate(&mut connection, &path).unwrap();
        fill(&connection);
        let clock = Arc::new(ManualClock::new(Timestamp::from_micros(0)));
        let mut claim_index = ClaimIndex::new(HistoryOptions::default(), None, Room::default());
        claim_index.reload(&connection).unwrap();
        let index = PublishedIndex::new(claim_index, clock, 90);
        let steps = Arc::<AtomicU64>::default();
        let counted = Arc::clone(&steps);
        let count = move || {
            counted.fetch_add(10, Ordering::Relaxed);
            false
        };
        connection.progress_handler(10, Some(count)).unwrap();
        Self { connection, index, steps, _folder: folder }
    }

    /// Returns what a read gives, and that it is cheap.
    #[track_caller]
    fn cheap<T>(&self, what: &str, read: impl FnOnce(&Snapshot<'_>) -> Read<T>) -> T {
        let before = self.steps.load(Ordering::Relaxed);
        let value = read(&Snapshot { connection: &self.connection, active: None });
        let steps = self.steps.load(Ordering::Relaxed) - before;
        assert!(steps < FEW_STEPS, "{what}: {steps} steps");
        value.unwrap_or_else(|_| panic!("{what}"))
    }

    /// The numbers of the tasks that a list gives, page by page.
    #[track_caller]
    fn list(&self, selection: &TaskSelection, order: TaskOrder, limit: u16) -> Vec<i64> {
        let (mut numbers, mut after) = (Vec::new(), None);
        loop {
            let what = format!("{selection:?} {order:?} after {after:?}");
            let query = TaskQuery { selection: selection.clone(), order, limit, after, max_bytes: PAGE_BYTES };
            let (read, page) = TaskRead::rows(query, |task| (task.created_at.as_micros(), 8));
            self.cheap(&what, |file| reads::read_tasks(file, &self.index, &queue("q"), read)).unwrap();
            let page = page.take().unwrap();
            numbers.extend(page.items);
            after = page.next;
            if after.is_none() {
                return numbers;
            }
        }
    }
}

fn selections(status: Status) -> [TaskSelection; 4] {
    let filter = |text: &str| Some(TaskFilter::parse(&text.replace('@', status.as_str())).unwrap());
    let selection = |status, filter| TaskSelection { status, filter, ..TaskSelection::default() };
    [
        selection(Some(status), None),
        selection(None, filter("status == '@'")),
        selection(None, filter("status in ['@'] and args.n > 0")),
        selection(Some(status), filter("args.n > 0")),
    ]
}

#[test]
fn few_tasks_of_a_state_are_listed_and_counted_without_visiting_the_others() {
    let filled = Filled::new();
    for (status, numbers) in FEW {
        for selection in selections(status) {
            for field in OrderField::ALL {
                for descending in [false, true] {
                    for limit in [2, 100] {
                        let mut listed = filled.list(&selection, TaskOrder { field, descending }, limit);
                        if field == OrderField::CreatedAt {
                            assert!(listed.is_sorted_by(|a, b| (a < b) != descending), "{listed:?}");
                        }
                        listed.sort_unstable();
                        assert_eq!(listed, numbers, "{selection:?} {field:?}");
                    }
                }
            }
            let what = format!("a count of {selection:?}");
            let (read, page) =
                TaskRead::groups(GroupQuery { selection, dimensions: Vec::new(), limit: 0, after: None });
            filled.cheap(&what, |file| reads::read_tasks(file, &filled.index, &queue("q"), read)).unwrap();
            assert_eq!(page.take().unwrap().count, 3);
        }
    }
    let filter = TaskFilter::parse("status != 'succeeded' and args.n < 19003").unwrap();
    let several = TaskSelection { filter: Some(filter), ..TaskSelection::default() };
    let listed = filled.list(&several, TaskOrder { field: OrderField::CreatedAt, descending: false }, 3);
    assert_eq!(listed, [1, 2, 3, 4, 7_001, 7_002, 7_003, 7_004, 19_001, 19_002]);
}

#[test]
fn few_succeeded_tasks_are_found_from_the_oldest_on() {
    let filled = Filled::new();
    let swapped = "
    UPDATE tasks SET status = iif(task_key < 50 AND status = 'succeeded', 'succeeded', 'cancelled');";
    filled.change(swapped);
    for selection in selections(Status::Succeeded) {
        let listed = filled.list(&selection, TaskOrder::default(), 100);
        assert_eq!(listed, (5..50).rev().collect::<Vec<i64>>());
    }
}

/// Gives every 64th task one state, and all others another one.
const SPREAD: i64 = 64;

fn spread(filled: &Filled, state: Status, others: Status) {
    let changed =
        format!("UPDATE tasks SET status = iif(task_key % {SPREAD} = 0, '{}', '{}');", state.as_str(), others.as_str());
    filled.change(&changed);
}

#[test]
fn a_page_of_spread_tasks_that_have_no_index_ends_when_it_is_full() {
    let filled = Filled::new();
    spread(&filled, Status::Succeeded, Status::Pending);
    for selection in selections(Status::Succeeded) {
        for field in [OrderField::CreatedAt, OrderField::Id] {
            for descending in [false, true] {
                let mut listed = filled.list(&selection, TaskOrder { field, descending }, 4);
                listed.sort_unstable();
                assert_eq!(listed, (1..=312).map(|n| n * SPREAD).collect::<Vec<i64>>());
            }
        }
    }
}

#[test]
fn a_page_of_spread_tasks_ends_when_it_is_full_if_the_writer_does_not_answer() {
    let filled = Filled::new();
    spread(&filled, Status::Pending, Status::Succeeded);
    let _withdrawn = filled.index.withdraw().unwrap();
    for selection in selections(Status::Pending) {
        let query = TaskQuery { selection, order: TaskOrder::default(), limit: 4, after: None, max_bytes: PAGE_BYTES };
        let (read, page) = TaskRead::rows(query, |_| ((), 1));
        filled.cheap("a page", |file| reads::read_tasks(file, &filled.index, &queue("q"), read)).unwrap();
        assert!(page.take().unwrap().next.is_some());
    }
}

#[test]
fn a_task_that_the_writer_does_not_know_of_is_found_by_a_visit() {
    let filled = Filled::new();
    let changed = "
    UPDATE tasks SET status = 'pending' WHERE task_key IN (2, 500);";
    filled.change(changed);
    let file = Snapshot { connection: &filled.connection, active: None };
    let [by_status, ..] = selections(Status::Pending);
    let begun = begin(&file, &filled.index, &queue("q"), &by_status, Need::All).unwrap_or_else(|_| panic!());
    assert!(matches!(begun.access, TaskAccess::Visit { matching: 5, is_sparse: true }));
    let query =
        TaskQuery { selection: by_status, order: TaskOrder::default(), limit: 100, after: None, max_bytes: PAGE_BYTES };
    let (read, page) = TaskRead::rows(query, |_| ((), 1));
    reads::read_tasks(&file, &filled.index, &queue("q"), read).unwrap_or_else(|_| panic!()).unwrap();
    assert_eq!(page.take().unwrap().items.len(), 5);
}

// Pages behind many archived tasks: given up by bounded reads, and found by long ones.

/// More than a bounded read passes over.
const ARCHIVED: i64 = 10_050;
const ALL_TASKS: i64 = ARCHIVED + 10;

/// Cancelled tasks with the numbers from 1 to [`ALL_TASKS`], by creation and by id. The first five and the last five are not
/// archived.
fn fill_archived(path: &Path) {
    let connection = Connection::open(path).unwrap();
    connection.execute_batch("BEGIN").unwrap();
    for n in 1..=ALL_TASKS {
        let extended = Extended { archived: (6..=ALL_TASKS - 5).contains(&n), ..Extended::default() };
        insert(&connection, n, &format!("t_{n:012}"), Status::Cancelled, 0, extended);
    }
    let tally = r#"INSERT INTO tally VALUES (1, '["default"]', 'cancelled', ?1, ?2)"#;
    connection.execute(tally, [ALL_TASKS, ARCHIVED]).unwrap();
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
    fill_archived(&path);
    let connection = Connection::open(&path).unwrap();
    let file = Snapshot { connection: &connection, active: None };
    let bounded = |query: TaskQuery| {
        let (read, page) = TaskRead::written(query, write());
        let TaskRead::Page(query, rows) = read else { panic!("a page") };
        let listed = reads::list_plain(&file, &queue("q"), query, &rows).unwrap_or_else(|_| panic!());
        listed.map(|()| page.take().unwrap())
    };
    let store = open(&path);
    for field in [OrderField::CreatedAt, OrderField::Id] {
        for descending in [false, true] {
            let first = bounded(query(field, descending, 4)).expect("a page that is full before them");
            assert!(first.next.is_some());
            assert!(bounded(query(field, descending, 9)).is_none(), "{field:?} {descending}");
            let mut expected: Vec<i64> = (1..=5).chain(ALL_TASKS - 4..=ALL_TASKS).collect();
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
    assert_eq!(numbers(&page.bytes), (ALL_TASKS - 8..=ALL_TASKS).rev().collect::<Vec<_>>());
    let of_status = TaskSelection { status: Some(Status::Cancelled), ..TaskSelection::default() };
    assert_eq!(store.count_tasks(&queue("q"), of_status).await, Ok(10));
}

// An explanation is of one moment, whatever the writer does meanwhile; and it says so when it could not look.

/// Explanations while the writer works.
const LOOKS: usize = 300;

/// What is said of the dependency, which the file knows, and of who comes first, which the memory knows.
fn seen(Explanation { reasons, .. }: Explanation) -> (Option<Status>, u64) {
    let mut seen = (Some(Status::Succeeded), 0);
    for reason in reasons {
        match reason {
            Reason::Dependencies { unmet } => seen.0 = unmet[0].1,
            Reason::WaitingTurn { ahead } => seen.1 = ahead,
            Reason::NoWorker { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    seen
}

/// Task 2 waits for task 1, which is claimed, fails for good and is requeued again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn an_explanation_beside_a_busy_writer_is_never_of_two_moments() {
    let opened = Opened::new().await;
    opened.ok(create("q", 1, with_priority(1))).await;
    opened.ok(create("q", 2, waits_for(&[1]))).await;
    let over = Arc::new(AtomicBool::new(false));
    let (writes, until) = (Arc::clone(&opened.store), Arc::clone(&over));
    let writing = tokio::spawn(async move {
        let mut run = 0;
        while !until.load(Ordering::Relaxed) {
            run += 1;
            writes.write(claim("q", "default", run)).await.unwrap().unwrap();
            writes.write(fail_for_good("q", 1, run)).await.unwrap();
            writes.write(requeue("q", 1)).await.unwrap();
        }
        run
    });
    let mut states = Vec::new();
    for _ in 0..LOOKS {
        let (status, ahead) = seen(opened.store.explain(&queue("q"), task_id(2)).await.unwrap());
        assert_eq!(ahead, u64::from(status == Some(Status::Pending)), "{status:?}");
        states.extend(status);
    }
    over.store(true, Ordering::Relaxed);
    assert!(writing.await.unwrap() > 1);
    let mut words: Vec<&str> = states.iter().map(|status| status.as_str()).collect();
    words.sort_unstable();
    words.dedup();
    assert!(words.len() > 1, "the writer did nothing meanwhile: {words:?}");
}

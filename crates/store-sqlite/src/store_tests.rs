//! A store from its opening to its end: claims that find nothing, outages, activity, and a disk that fails.

use std::future::poll_fn;
use std::path::Path;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Instant;

use taskqueue_core::activity::{Activity, Record, Span};
use taskqueue_core::limits::{STATS_ROUTES, TASK_ROUTES};
use taskqueue_store::activity::{ActivityRow, ProcessId};
use taskqueue_store::conformance::prelude::*;
use tempfile::TempDir;

use crate::queue_tests::{Opened, open};
use crate::*;

// What is answered without the writer, and what is not. The writer of these stores has ended; the test holds the receiver of the queue.

/// A store whose commands arrive at the test.
struct Writerless {
    store: SqliteStore,
    requests: crate::writer::Backlog,
    clock: ManualClock,
    _folder: TempDir,
}

/// A store with the queue `q` that has done these commands, and then lost its writer.
async fn after(commands: Vec<AnyCommand>, options: Options) -> Writerless {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::new(START);
    let mut store = SqliteStore::open(&folder.path().join("tasks.db"), Arc::new(clock.clone()), &options).unwrap();
    store.write(create_queue("q")).await.unwrap();
    for command in commands {
        command.write_to(&store).await.unwrap();
    }
    let (queue, requests) = WriteQueue::new();
    let threads = Arc::get_mut(&mut store.threads).unwrap();
    std::mem::replace(&mut threads.queue, queue).close();
    threads.writer.join();
    Writerless { store, requests, clock, _folder: folder }
}

impl Writerless {
    /// The answer, if it is given at once; otherwise the command went to the writer.
    async fn answer<W: Write>(&mut self, command: W) -> Option<Result<W::Answer, StoreError>> {
        let mut write = pin!(command.write_to(&self.store));
        let answer = poll_fn(|context| match write.as_mut().poll(context) {
            Poll::Ready(answer) => Poll::Ready(Some(answer)),
            Poll::Pending => Poll::Ready(None),
        });
        let answer = answer.await;
        let expected = self.requests.try_next().is_some_and(|next| !next.is_empty());
        assert_eq!(answer.is_none(), expected, "either answered or handed over");
        answer
    }
}

type ClaimAnswer = Option<Result<Option<Box<Claimed>>, StoreError>>;

const NO_TASK: ClaimAnswer = Some(Ok(None));
const TO_THE_WRITER: ClaimAnswer = None;

fn empty_claim() -> Claim {
    claim("q", "default", "empty")
}

#[tokio::test]
async fn a_claim_that_finds_nothing_needs_no_writer() {
    let mut store = after(commands![create("q", 1, with_routes(&["other"]))], Options::default()).await;
    assert_eq!([store.answer(empty_claim()).await, store.answer(empty_claim()).await], [NO_TASK; 2]);
    assert_eq!(store.answer(claim_all([1, 2])).await, Some(Ok(vec![Ok(None), Ok(None)])));
}

#[tokio::test]
async fn whatever_is_not_sure_to_find_nothing_goes_to_the_writer() {
    let past =
        commands![create("q", 1, Definition::default()), claim("q", "default", 1), complete("q", 1, 1, object("{}"))];
    let active = commands![create("q", 2, Definition::default()), claim("q", "default", 2)];
    let pending = commands![create("q", 3, with_routes(&["gpu"]))];
    let mut store = after([&past[..], &active, &pending].concat(), Options::default()).await;
    assert_eq!(store.answer(empty_claim()).await, NO_TASK);
    let others = [
        ("a task is there", AnyCommand::from(claim("q", "gpu", 4))),
        ("the queue is not", AnyCommand::from(claim("r", "default", 4))),
        ("an active run", AnyCommand::from(claim("q", "default", 2))),
        ("an active run, for another route", AnyCommand::from(claim("q", "other", 2))),
        ("a run that has ended", AnyCommand::from(claim("q", "default", 1))),
        ("an active run among new ones", AnyCommand::from(claim_all([4, 2]))),
        ("a run that has ended among new ones", AnyCommand::from(claim_all([4, 1]))),
        ("no claim", AnyCommand::from(heartbeat("q", 2, 2))),
        ("no claim", AnyCommand::from(create("q", 4, Definition::default()))),
        ("no claim", AnyCommand::from(Scan)),
    ];
    for (why, command) in others {
        assert_eq!(store.answer(command).await, None, "{why}");
    }
}

#[tokio::test]
async fn a_claim_in_a_queue_that_is_paused_or_full_needs_no_writer() {
    let limited = |max_running| {
        let limit = SettingsPatch { max_running: Some(Some(max_running)), ..SettingsPatch::default() };
        let (one, two) = (create("q", 1, Definition::default()), create("q", 2, Definition::default()));
        commands![one, two, claim("q", "default", 1), change_settings("q", limit)]
    };
    let mut full = after(limited(1), Options::default()).await;
    assert_eq!(full.answer(empty_claim()).await, NO_TASK);
    assert_eq!(full.answer(claim("q", "default", 1)).await, TO_THE_WRITER, "it has its task");
    let mut with_room = after(limited(2), Options::default()).await;
    assert_eq!(with_room.answer(empty_claim()).await, TO_THE_WRITER);
    let pause = SettingsPatch { paused: Some(true), ..SettingsPatch::default() };
    let mut commands = limited(2);
    commands.push(change_settings("q", pause).into());
    let mut paused = after(commands, Options::default()).await;
    assert_eq!(paused.answer(empty_claim()).await, NO_TASK);
    assert_eq!(paused.answer(claim("q", "default", 1)).await, TO_THE_WRITER, "it has its task");
}

#[tokio::test]
async fn a_claim_goes_to_the_writer_when_the_time_of_a_delayed_task_has_come() {
    let delayed = |id, route, seconds| create_later(id, with_routes(&[route]), START.plus_seconds(seconds));
    let blocked = create("q", 3, waits_for(&[4]));
    let commands = commands![delayed(1, "gpu", 30), delayed(2, "default", 60), blocked];
    let mut store = after(commands, Options::default()).await;
    assert_eq!(store.answer(empty_claim()).await, NO_TASK);
    assert!(store.store.finds_nothing(Lookup::Upkeep));
    store.clock.advance_micros(30_000_000 - 1);
    assert_eq!(store.answer(empty_claim()).await, NO_TASK);
    assert!(store.store.finds_nothing(Lookup::Upkeep));
    store.clock.advance_micros(1);
    assert!(!store.store.finds_nothing(Lookup::Upkeep));
    assert_eq!(store.answer(empty_claim()).await, TO_THE_WRITER, "it is due, whatever its routes are");
}

#[tokio::test]
async fn a_claim_goes_to_the_writer_while_the_index_is_withdrawn() {
    let mut store = after(vec![], Options::default()).await;
    let claim_index = store.store.shared.published_index.withdraw().unwrap();
    assert_eq!(store.answer(empty_claim()).await, TO_THE_WRITER);
    store.store.shared.published_index.publish(claim_index);
    assert_eq!(store.answer(empty_claim()).await, NO_TASK);
}

#[tokio::test]
async fn after_an_outage_claims_and_upkeep_go_to_the_writer_who_grants_the_credit() {
    let running = || commands![create("q", 1, with_routes(&["gpu"])), claim("q", "gpu", 1), Scan];
    let mut store = after(running(), Options::default()).await;
    store.clock.advance_seconds(15);
    assert_eq!(store.answer(empty_claim()).await, NO_TASK);
    store.clock.advance_micros(1);
    assert_eq!(store.answer(empty_claim()).await, TO_THE_WRITER);
    assert!(!store.store.finds_nothing(Lookup::Upkeep), "reads show the credit after the next upkeep");

    let mut store = after(running(), Options { outage_credit_seconds: 0, ..Options::default() }).await;
    store.clock.advance_seconds(600);
    assert_eq!(store.answer(empty_claim()).await, NO_TASK, "no credit, nothing to do first");
    assert!(store.store.finds_nothing(Lookup::Upkeep));
}

#[tokio::test]
async fn a_store_whose_writer_is_gone_answers_no_claim() {
    let Writerless { store, requests, clock: _, _folder } = after(vec![], Options::default()).await;
    drop(requests);
    assert_eq!(store.write(empty_claim()).await, Err(StoreError::Unavailable));
}

#[tokio::test]
async fn a_check_tells_a_writer_that_hangs_from_a_storage_that_failed() {
    let Writerless { store, .. } = &after(vec![], Options::default()).await;
    assert_eq!(store.check().await, Ok(vec![]));
    let a_minute_ago = Instant::now().checked_sub(std::time::Duration::from_secs(60)).unwrap();
    let _transaction = store.shared.health.begin(a_minute_ago, false);
    assert_eq!(store.check().await, Err(StoreError::Busy));
    store.shared.failed.store(true, Ordering::Relaxed);
    assert_eq!(store.check().await, Err(StoreError::Unavailable), "that needs a person first");
}

// What becomes of the rows of activity in the file, and which rows figures read.

impl Opened {
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
        self.count("activity")
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
    assert_eq!(opened.file().execute(&insert, []), Ok(4_500));
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
    taskqueue_store::activity::save_activity(&*opened.store).await.unwrap();
    assert_eq!(opened.rows(), 1_442);
    opened.store.write(delete_queue("q", true)).await.unwrap();
    // An idle writer purges.
    let begun = Instant::now();
    while opened.count("purges") > 0 {
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
    opened.file().execute("UPDATE tasks SET packed = x'00'", []).unwrap();
    assert_eq!(opened.store.figures(&[key], &ALL_ROUTES, PendingDetail::Number).await.unwrap().queues, figures.queues);
    assert_eq!(opened.store.queue_stats(&queue("q"), &ALL_ROUTES).await.unwrap().figures, figures.queues[0].1);
}

#[tokio::test]
async fn of_more_routes_than_an_answer_shows_the_oldest_tasks_are_not_looked_for() {
    let opened = Opened::new().await;
    let tasks = STATS_ROUTES / TASK_ROUTES + 1;
    for task in 0..tasks {
        let names = (0..TASK_ROUTES).map(|n| format!("r{task:03}-{n:03}"));
        opened.ok(create("q", task, with_routes(&names.collect::<Vec<_>>()))).await;
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
        let path = format!("{}{name}", opened.file().path().unwrap());
        std::fs::metadata(path).unwrap().len()
    };
    let expected = bytes("") + bytes("-wal");
    let figures = opened.store.figures(&[], &ALL_ROUTES, PendingDetail::Number).await.unwrap();
    assert_eq!(figures.database_bytes, Some(expected));
    assert!(bytes("-wal") > 0);
}

#[tokio::test]
async fn activity_that_cannot_be_read_is_an_error_and_not_nothing() {
    let opened = Opened::new().await;
    opened.save_minutes(1).await;
    opened.file().execute("UPDATE activity SET activity = x'ff'", []).unwrap();
    assert!(opened.store.queue_stats(&queue("q"), &ALL_ROUTES).await.is_err());
    let key = opened.store.list_queue_keys().await.unwrap()[0].0;
    assert!(opened.store.figures(&[key], &ALL_ROUTES, PendingDetail::Number).await.is_ok(), "they need none of it");
}

// A sync of the database file that fails. Whatever the log was copied to may be lost then, so the log must stay as it is.

/// Creates a task that needs some hundred pages of the log.
async fn create_large(store: &SqliteStore, number: u64) -> Result<(), StoreError> {
    let definition = Definition { args: object_of_bytes(1_000_000), ..Definition::default() };
    store.write(create("q", number, definition)).await.map(drop)
}

fn log_bytes(file: &Path) -> u64 {
    std::fs::metadata(file.with_file_name("tasks.db-wal")).map_or(0, |log| log.len())
}

/// Bytes of the log with which the checkpointer is woken: its header, and frames with a header each. Nothing is written while
/// it works, so that the log cannot be begun anew before the sync.
const WOKEN_BYTES: u64 = 32 + 8_192 * (24 + 4_096);

async fn until_unavailable(store: &SqliteStore) {
    let begun = Instant::now();
    while store.check().await != Err(StoreError::Unavailable) {
        assert!(begun.elapsed() < Duration::from_secs(20), "the failed sync has no consequence");
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_failed_sync_of_the_database_no_write_is_taken_and_a_restart_finds_every_acknowledged_one() {
    let folder = tempfile::tempdir().unwrap();
    let (file, before) = (folder.path().join("tasks.db"), folder.path().join("before.db"));
    let store = open(&file);
    store.write(create_queue("q")).await.unwrap();
    drop(store);
    // What is on the disk if nothing of what is copied from now on gets there.
    std::fs::copy(&file, &before).unwrap();

    let store = open(&file);
    store.shared.ownership.syncs_to_fail.store(1, Ordering::Relaxed);
    let mut written = 0;
    while log_bytes(&file) < WOKEN_BYTES {
        create_large(&store, written).await.unwrap();
        written += 1;
    }
    until_unavailable(&store).await;
    for attempt in 0..3 {
        assert_eq!(create_large(&store, written).await, Err(StoreError::Unavailable), "attempt {attempt}");
    }
    assert_eq!(store.write(claim("q", "nothing", 1)).await, Err(StoreError::Unavailable), "also what needs no disk");
    assert_eq!(store.check().await, Err(StoreError::Unavailable), "it does not heal by itself");
    assert!(store.get_task(&queue("q"), task_id(0)).await.is_ok(), "reads go on");
    let log = log_bytes(&file);
    store.close().await;
    assert_eq!(log_bytes(&file), log, "the log is left as it is");
    drop(store);

    std::fs::copy(&before, &file).unwrap();
    let store = open(&file);
    for number in 0..written {
        assert!(store.get_task(&queue("q"), task_id(number)).await.is_ok(), "task {number} of {written}");
    }
    create_large(&store, written).await.unwrap();
    assert_eq!(store.check().await, Ok(vec![]));
    store.close().await;
    assert_eq!(log_bytes(&file), 0);
}

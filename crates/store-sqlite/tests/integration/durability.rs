//! The file itself: what is refused at start, what happens when it is moved away or its disk is full, what a copy of it
//! holds, and how a deleted queue is purged. What survives a restart in general is in the durability suite.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use rusqlite::Connection;
use taskqueue_store::bulk::Gate;
use taskqueue_store::conformance::prelude::*;
use taskqueue_store_sqlite::{OpenError, Options, SqliteStore};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::storage::{Folder, assert_sound, count, fresh, with_queue};

fn clock() -> ManualClock {
    ManualClock::new(START)
}

fn refusal_to_open(folder: &Folder) -> OpenError {
    match folder.try_open(&clock()) {
        Ok(_) => panic!("the file was opened"),
        Err(error) => error,
    }
}

/// Asks again until it is so; a heal or a purge takes part of a second.
async fn until<F: Future<Output = bool>>(what: &str, mut so: impl FnMut() -> F) {
    let begun = Instant::now();
    while !so().await {
        assert!(begun.elapsed() < Duration::from_secs(20), "still not so: {what}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_has_one_owner_however_its_path_is_spelled() {
    let folder = fresh();
    let store = folder.try_open(&clock()).unwrap();
    assert!(matches!(refusal_to_open(&folder), OpenError::Owned(_)));
    let link = folder.file().with_file_name("link.db");
    std::os::unix::fs::symlink(folder.file(), &link).unwrap();
    let through_link = SqliteStore::open(&link, Arc::new(clock()), &Options::default());
    assert!(matches!(through_link.err(), Some(OpenError::Owned(_))));
    let hard_link = folder.file().with_file_name("hard.db");
    std::fs::hard_link(folder.file(), &hard_link).unwrap();
    let through_hard_link = SqliteStore::open(&hard_link, Arc::new(clock()), &Options::default());
    assert!(matches!(through_hard_link.err(), Some(OpenError::HardLinked(_))));
    std::fs::remove_file(hard_link).unwrap();
    store.write(create_queue("q")).await.unwrap();
    drop(store);
    let store = folder.try_open(&clock()).unwrap();
    assert_eq!(store.list_queues().await.unwrap(), [queue("q")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_whose_lock_was_removed_writes_no_more() {
    let folder = fresh();
    let first = folder.try_open(&clock()).unwrap();
    first.write(create_queue("q")).await.unwrap();
    std::fs::remove_file(folder.file().with_file_name("tasks.db-lock")).unwrap();
    assert_eq!(first.write(create_queue("r")).await, Err(StoreError::Unavailable));
    assert_eq!(first.check().await, Err(StoreError::Unavailable));
    assert!(matches!(refusal_to_open(&folder), OpenError::Owned(_)), "the file itself is locked too");
    drop(first);
    let second = folder.try_open(&clock()).unwrap();
    second.write(create_queue("s")).await.unwrap();
    assert_eq!(second.list_queues().await.unwrap(), [queue("q"), queue("s")]);
}

/// Takes the 4 seconds that the store waits for whoever holds the file.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_was_answered_busy_is_never_done() {
    let folder = fresh();
    let store = Arc::new(folder.try_open(&clock()).unwrap());
    store.write(create_queue("q")).await.unwrap();
    let stranger = Connection::open(folder.file()).unwrap();
    stranger.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut waiting = JoinSet::new();
    for name in ["a", "b", "c"] {
        let store = Arc::clone(&store);
        waiting.spawn(async move { store.write(create_queue(name)).await });
    }
    while let Some(answer) = waiting.join_next().await {
        assert_eq!(answer.unwrap(), Err(StoreError::Busy));
    }
    stranger.execute_batch("ROLLBACK").unwrap();
    store.write(create_queue("d")).await.unwrap();
    assert_eq!(store.list_queues().await.unwrap(), [queue("d"), queue("q")]);
}

#[tokio::test]
async fn while_a_bulk_update_is_written_reads_go_on_and_a_write_that_waits_for_too_long_is_busy_and_never_done() {
    let folder = fresh();
    let (written, goes_on) = (Arc::new(Notify::new()), Arc::new(Barrier::new(2)));
    let (tell, wait) = (Arc::clone(&written), Arc::clone(&goes_on));
    let gate = Gate::within_write(move || {
        tell.notify_one();
        wait.wait();
    });
    let clock = clock();
    let store = folder.try_open(&clock).unwrap();
    let fixture = Fixture { store: Arc::new(store), clock };
    fixture.ok(create_queue("q")).await;
    fixture.ok(create_all(0..10)).await;
    let store = Arc::clone(&fixture.store);
    let bulk = update_all("q", "exists(id)", to_priority(5));
    let writing = tokio::spawn(gate.around(async move { store.update_tasks(Arc::new(bulk)).await }));
    written.notified().await;
    let reads_go_on = async || {
        assert_eq!(fixture.count(filtered("priority == 0")).await, 10);
        assert_eq!(fixture.get(1).await.definition.priority, 0);
        assert_eq!(fixture.tasks("q").await.len(), 10);
        assert_eq!(fixture.store.list_queues().await.unwrap(), [queue("q")]);
    };
    reads_go_on().await;

    tokio::time::pause();
    let begun = tokio::time::Instant::now();
    let (created, claimed, cancelled) = tokio::join!(
        fixture.write(create("q", "late", Definition::default())),
        fixture.write(claim("q", "default", 1)),
        fixture.write(cancel("q", 2)),
    );
    let waited = begun.elapsed();
    tokio::time::resume();
    assert!((5_000..5_100).contains(&waited.as_millis()), "{waited:?}");
    assert_eq!((created, claimed, cancelled), (Err(StoreError::Busy), Err(StoreError::Busy), Err(StoreError::Busy)));
    reads_go_on().await;

    goes_on.wait();
    assert_eq!(writing.await.unwrap(), Ok(Updated { matched: 10, updated: 10 }));
    // It comes after whatever waited.
    fixture.ok(create_queue("last")).await;
    assert_eq!(fixture.count_by_status().await, [10, 0, 0, 0, 0], "what was busy is never done");
    assert_eq!(fixture.count(filtered("priority == 5")).await, 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_store_takes_no_write_and_leaves_no_log() {
    let folder = fresh();
    let store = folder.try_open(&clock()).unwrap();
    store.write(create_queue("q")).await.unwrap();
    let log = folder.file().with_file_name("tasks.db-wal");
    assert!(log.exists());
    store.close().await;
    assert!(!log.exists());
    assert_eq!(store.write(create_queue("r")).await, Err(StoreError::Unavailable));
    assert_eq!(store.write(claim("q", "default", 1)).await, Err(StoreError::Unavailable));
    store.close().await;
}

#[test]
fn a_foreign_database_is_refused_and_left_alone() {
    let folder = fresh();
    let foreign = Connection::open(folder.file()).unwrap();
    foreign.execute_batch("CREATE TABLE theirs (a); INSERT INTO theirs VALUES (1)").unwrap();
    drop(foreign);
    assert!(matches!(refusal_to_open(&folder), OpenError::Foreign(_)));
    assert_eq!(count(&folder.look(), "SELECT count(*) FROM sqlite_schema"), 1);
    assert_eq!(count(&folder.look(), "SELECT count(*) FROM theirs"), 1);

    let folder = fresh();
    Connection::open(folder.file()).unwrap().pragma_update(None, "application_id", 7).unwrap();
    assert!(matches!(refusal_to_open(&folder), OpenError::Foreign(_)));
}

#[test]
fn what_is_no_database_is_refused_and_left_alone() {
    let folder = fresh();
    let garbage = b"this is no database, and it is longer than the header of one".repeat(100);
    std::fs::write(folder.file(), &garbage).unwrap();
    assert!(matches!(refusal_to_open(&folder), OpenError::Damaged(..)));
    assert_eq!(std::fs::read(folder.file()).unwrap(), garbage);

    let folder = fresh();
    std::fs::create_dir(folder.file()).unwrap();
    assert!(matches!(refusal_to_open(&folder), OpenError::NotAFile(_) | OpenError::Unusable(..)));

    let folder = fresh();
    std::fs::write(folder.file(), b"").unwrap();
    assert!(folder.try_open(&clock()).is_ok(), "an empty file is a new database");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_was_moved_away_takes_no_write_until_it_is_back() {
    let (folder, fixture) = with_queue().await;
    fixture.create(1, Definition::default()).await;
    let away = folder.file().with_file_name("away.db");
    std::fs::rename(folder.file(), &away).unwrap();
    // The lease scan of every second, at the latest, finds out; from then on nobody says that there is nothing.
    assert_eq!(fixture.write(Scan).await, Err(StoreError::Unavailable));
    assert_eq!(fixture.write(claim("q", "nothing", 1)).await, Err(StoreError::Unavailable));
    assert_eq!(fixture.write(create("q", 2, Definition::default())).await, Err(StoreError::Unavailable));
    assert_eq!(fixture.store.check().await, Err(StoreError::Unavailable));

    std::fs::write(folder.file(), b"").unwrap();
    assert_eq!(fixture.write(claim("q", "default", 1)).await, Err(StoreError::Unavailable), "another file is not ours");
    assert_eq!(fixture.store.check().await, Err(StoreError::Unavailable));

    std::fs::rename(&away, folder.file()).unwrap();
    until("writes are taken again", async || fixture.write(claim("q", "default", 1)).await.is_ok()).await;
    assert_eq!(fixture.store.check().await, Ok(vec![]));
    assert_eq!(fixture.count_by_status().await, [0, 1, 0, 0, 0], "what was refused was not done");
    let before = fixture.tasks("q").await;
    let fixture = fixture.reopen(&folder).await;
    assert_eq!(fixture.tasks("q").await, before);
    assert_sound(&folder.file());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_of_the_files_holds_whatever_was_answered_before() {
    let (folder, copy) = (fresh(), fresh());
    let fixture = Fixture::with_queue(&folder).await;
    for id in 0..10 {
        fixture.create(id, Definition::default()).await;
        if id % 2 == 0 {
            fixture.claim(id).await;
        }
    }
    fixture.ok(complete("q", 0, 0, object(r#"{"a":1}"#))).await;
    // Run 2 has the first task that was pending.
    fixture.ok(progress(1, 2, r#"{"step":2}"#)).await;
    for n in 0..20 {
        fixture.ok(print(1, 2, n * 100, &n.to_string().repeat(50))).await;
    }
    // What a kill leaves behind: the file and its log, without an orderly end. Too few commits for a checkpoint.
    for suffix in ["", "-wal"] {
        let name = |folder: &Folder| format!("{}{suffix}", folder.file().display());
        std::fs::copy(name(&folder), name(&copy)).unwrap();
    }
    let second = Fixture { store: Arc::new(copy.try_open(&fixture.clock).unwrap()), clock: fixture.clock.clone() };
    assert_eq!(second.tasks("q").await, fixture.tasks("q").await);
    assert_eq!(second.claim(2).await, fixture.claim(2).await);
    let printed = async |fixture: &Fixture, offset| {
        fixture.store.read_output(&queue("q"), task_id(1), offset, 1_000).await.unwrap()
    };
    for offset in (0..=2_000).step_by(50) {
        assert_eq!(printed(&second, offset).await, printed(&fixture, offset).await);
    }
    second.ok(print(1, 2, printed(&fixture, u64::MAX).await.start, " and more")).await;
    second.store.close().await;
    assert_sound(&copy.file());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_space_of_a_deleted_queue_is_used_again() {
    let (folder, fixture) = with_queue().await;
    let mut pages = Vec::new();
    for round in 0..3 {
        let name = format!("big{round}");
        fixture.ok(create_queue(&name)).await;
        let large = Definition { args: object_of_bytes(500), ..Definition::default() };
        let tasks = (0..1_000).map(|id| (task_id(id), Box::new(large.clone().into()))).collect();
        fixture.ok(CreateTasks { queue: queue(&name), tasks }).await;
        pages.push(count(&folder.look(), "SELECT page_count FROM pragma_page_count"));
        fixture.ok(delete_queue(&name, true)).await;
        until("the queue is purged", || async { count(&folder.look(), "SELECT count(*) FROM purges") == 0 }).await;
    }
    assert!(pages[2] <= pages[0] + pages[0] / 20, "{pages:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_id_of_a_queue_under_purge_owns_one_task_at_most_after_a_restart() {
    let (folder, fixture) = with_queue().await;
    fixture.ok(create_queue("dead")).await;
    fixture.ok(CreateTasks { queue: queue("dead"), ..create_all(0..1_000) }).await;
    // Purged last: the highest id, created last.
    fixture.ok(create("dead", "zzz", with_routes(&["only"]))).await;
    fixture.claimed(claim("dead", "only", 1)).await.unwrap();
    fixture.ok(fail("dead", "zzz", 1)).await;
    fixture.create(1, Definition::default()).await;
    fixture.create(2, Definition::default()).await;
    let kept_until = fixture.now().plus_seconds(86_400).as_micros();
    let clock = fixture.close().await;
    // A stop right behind the deletion, before anything was purged.
    let deleted = format!(
        "INSERT INTO purges (queue_key, kept_until) SELECT queue_key, {kept_until} FROM queues WHERE name = 'dead';
        DELETE FROM tally WHERE queue_key IN (SELECT queue_key FROM purges);
        DELETE FROM queues WHERE name = 'dead';"
    );
    Connection::open(folder.file()).unwrap().execute_batch(&deleted).unwrap();

    let fixture = Fixture { store: Arc::new(folder.try_open(&clock).unwrap()), clock };
    let stale = Refusal::StaleRun { run_id: run_id(1) };
    assert_eq!(fixture.refused(claim("q", "default", 1)).await, stale, "before its purge");
    until("the purge is over", async || count(&folder.look(), "SELECT count(*) FROM purges") == 0).await;
    assert_eq!(fixture.refused(claim("q", "default", 1)).await, stale, "and until the deletion says");
    fixture.clock.advance_seconds(86_400);
    fixture.scan().await;
    assert_eq!(fixture.claim(1).await.task.id, task_id(1), "then it is forgotten");
    assert_eq!(count(&folder.look(), "SELECT count(*) FROM deleted_runs"), 0);
    assert_eq!(fixture.status(2).await, Status::Pending);
}

/// One thread sends faster than the writer writes, so the waiting room fills up.
#[tokio::test]
async fn more_commands_than_may_wait_are_refused_as_busy_and_no_other_is_lost() {
    let (_folder, fixture) = with_queue().await;
    let mut writes = JoinSet::new();
    for id in 0..20_000 {
        let (store, command) = (Arc::clone(&fixture.store), create("q", id, Definition::default()));
        writes.spawn(async move { store.write(command).await });
    }
    let (mut done, mut busy) = (0, 0);
    for answer in writes.join_all().await {
        match answer {
            Ok(CreatedTask { created: true, .. }) => done += 1,
            Err(StoreError::Busy) => busy += 1,
            other => panic!("{other:?}"),
        }
    }
    assert!(done >= 4_096 && busy > 0, "{done} done, {busy} busy");
    assert_eq!(fixture.count(all()).await, done);
    fixture.create("afterwards", Definition::default()).await;
}

/// A clock that can be found ahead, as after a sleep of the machine; the time of the service has not moved yet.
struct Sleeper(ManualClock, AtomicU64);

impl Clock for Sleeper {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    fn start_after(&self, latest: Timestamp) {
        self.0.start_after(latest);
    }

    fn times_found_ahead(&self) -> u64 {
        self.1.load(Ordering::SeqCst)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sleep_of_the_machine_is_credited_once_and_before_anything_else() {
    let folder = fresh();
    let sleeper = Arc::new(Sleeper(clock(), AtomicU64::new(0)));
    let store = SqliteStore::open(&folder.file(), Arc::<Sleeper>::clone(&sleeper), &Options::default()).unwrap();
    let fixture = Fixture { store: Arc::new(store), clock: sleeper.0.clone() };
    fixture.ok(create_queue("q")).await;
    fixture.create(1, with_routes(&["only"])).await;
    fixture.scan().await;
    fixture.claimed(claim("q", "only", 1)).await.unwrap();
    fixture.pass(295).await;
    let lease = async || fixture.get(1).await.lifecycle.run.unwrap().lease_expires_at;
    assert_eq!(lease().await, fixture.now().plus_seconds(5));
    sleeper.1.fetch_add(1, Ordering::SeqCst);
    // Even a claim that finds nothing.
    assert_eq!(fixture.claimed(claim("q", "default", 2)).await, None);
    let credited = fixture.now().plus_seconds(90);
    assert_eq!(lease().await, credited);
    fixture.clock.advance_seconds(1);
    assert_eq!(fixture.claimed(claim("q", "default", 3)).await, None);
    fixture.create(2, Definition::default()).await;
    assert_eq!((fixture.scan().await.credited_runs, lease().await), (0, credited));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn times_that_lie_years_ahead_in_the_file_last_no_longer_than_until_the_next_start() {
    const YEARS_SECONDS: i64 = 3 * 365 * 86_400;
    let folder = fresh();
    let wrong = clock();
    wrong.advance_seconds(YEARS_SECONDS);
    let fixture = Fixture { store: Arc::new(folder.try_open(&wrong).unwrap()), clock: wrong };
    fixture.ok(create_queue("q")).await;
    fixture.create(1, with_budget(3)).await;
    fixture.create("gone", Definition::default()).await;
    fixture.scan().await;
    fixture.claim(1).await;
    fixture.claim("gone").await;
    fixture.ok(fail("q", "gone", "gone")).await;
    fixture.ok(cancel("q", "gone")).await;
    fixture.ok(delete("q", "gone")).await;
    fixture.ok(observe("q", 1, "default", WorkerStatus::Busy)).await;
    let before = fixture.get(1).await;
    let Fixture { store, .. } = fixture;
    store.close().await;
    drop(store);

    let right = clock();
    let fixture = Fixture { store: Arc::new(folder.try_open(&right).unwrap()), clock: right };
    assert_eq!(fixture.create(2, with_priority(-1)).await.lifecycle.created_at, fixture.now(), "the clock is believed");
    assert_eq!(fixture.scan().await, Scanned::default());
    let expected = fixture.now().plus_seconds(300);
    assert_eq!(fixture.claim(1).await.lease_expires_at, expected, "good from now on, and not for years");
    assert_eq!(fixture.store.count_workers(&queue("q"), None).await, Ok(0));
    assert_eq!(fixture.refused(claim("q", "default", "gone")).await, Refusal::StaleRun { run_id: run_id("gone") });
    assert_eq!(fixture.pass(295).await, Scanned::default());
    assert_eq!(fixture.pass(5).await.expired_runs, 1);
    let after = fixture.get(1).await;
    assert!(after.lifecycle.updated_at >= before.lifecycle.updated_at, "a task never goes back");
    assert_eq!(fixture.claim(2).await.lease_expires_at, fixture.now().plus_seconds(300));
    fixture.clock.advance_seconds(86_400);
    fixture.scan().await;
    assert_eq!(fixture.claimed(claim("q", "nothing", "gone")).await, None, "kept for a day from the start");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_does_not_say_who_claims_writes_no_outcome() {
    let (folder, fixture) = with_queue().await;
    let rows = |sql: &str| count(&folder.look(), &format!("SELECT count(*) FROM outcomes {sql}"));
    fixture.ok(create_all(1..=3)).await;
    fixture.claim(1).await;
    fixture.ok(unclaim("q", 1, 1)).await;
    assert_eq!(rows(""), 0, "neither before nor after is there anything to say");
    fixture.claimed(claim_by(r#"{"host":"a"}"#, 2)).await.unwrap();
    assert_eq!(rows("WHERE instr(outcome, CAST('{\"host\":\"a\"}' AS BLOB)) > 0"), 1);
    fixture.ok(unclaim("q", 2, 2)).await;
    fixture.claim_each(3..=5).await;
    assert_eq!(rows(""), 0, "the next claim did not say it");
    assert_sound(&folder.file());
}

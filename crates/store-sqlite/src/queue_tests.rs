//! Settings of queues, and tasks that wait or have ended in them.

use std::path::{Path, PathBuf};
use std::time::Instant;

use rusqlite::{Connection, OpenFlags};
use taskqueue_store::conformance::prelude::*;
use tempfile::TempDir;

use crate::{Options, SqliteStore};

// A store in a folder of its own, for tests that also look into its file.

/// Opens a store at the time at which tests begin.
pub(crate) fn open(file: &Path) -> SqliteStore {
    SqliteStore::open(file, Arc::new(ManualClock::new(START)), &Options::default()).unwrap()
}

pub(crate) struct Opened {
    pub(crate) store: Arc<SqliteStore>,
    pub(crate) clock: ManualClock,
    folder: TempDir,
}

impl Opened {
    /// With the queue `q`.
    pub(crate) async fn new() -> Self {
        let opened = Self::open(tempfile::tempdir().unwrap(), ManualClock::new(START));
        opened.ok(create_queue("q")).await;
        opened
    }

    fn open(folder: TempDir, clock: ManualClock) -> Self {
        let store = SqliteStore::open(&file(&folder), Arc::new(clock.clone()), &Options::default()).unwrap();
        Self { store: Arc::new(store), clock, folder }
    }

    /// Closed and opened again.
    pub(crate) async fn again(self) -> Self {
        let Self { store, clock, folder } = self;
        store.close().await;
        drop(store);
        Self::open(folder, clock)
    }

    pub(crate) async fn ok<W: Write>(&self, command: W) -> W::Answer {
        command.write_to(&*self.store).await.unwrap()
    }

    /// Returns how many rows of the file these are: a table, or a table and a condition.
    pub(crate) fn count(&self, rows: &str) -> i64 {
        self.number(&format!("SELECT count(*) FROM {rows}"))
    }

    /// Returns the number that a query of the file gives.
    pub(crate) fn number(&self, sql: &str) -> i64 {
        let file = Connection::open_with_flags(file(&self.folder), OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        file.query_row(sql, [], |row| row.get(0)).unwrap()
    }

    /// The file, past the store.
    pub(crate) fn file(&self) -> Connection {
        Connection::open(file(&self.folder)).unwrap()
    }
}

fn file(folder: &TempDir) -> PathBuf {
    folder.path().join("tasks.db")
}

// What is counted for the limits of a queue, whenever they are set and whatever happens to the store.

fn limits(max_running: u64, gpu: u64) -> SettingsPatch {
    let limits = [(route("gpu"), Some(gpu))].into();
    let route_limits = RouteLimitsPatch::Merge(limits);
    SettingsPatch { max_running: Some(Some(max_running)), route_limits, ..SettingsPatch::default() }
}

async fn is_claimed(store: &SqliteStore, route: &str, run: usize) -> bool {
    store.write(claim("q", route, run)).await.unwrap().is_some()
}

#[tokio::test]
async fn runs_that_began_before_a_limit_or_before_a_restart_count() {
    let opened = Opened::new().await;
    opened.ok(create_queue("r")).await;
    let store = &opened.store;
    for name in ["q", "r"] {
        for id in 0..9 {
            let definition = Definition { routes: routes(&["cpu", "gpu"]), ..Definition::default() };
            store.write(create(name, id, definition)).await.unwrap();
        }
    }
    store.write(claim("r", "gpu", 100)).await.unwrap();
    for (route, run) in [("gpu", 1), ("gpu", 2), ("cpu", 3)] {
        assert!(is_claimed(store, route, run).await, "{route} {run}");
    }
    store.write(change_settings("q", limits(4, 2))).await.unwrap();
    assert!(!is_claimed(store, "gpu", 4).await);
    assert!(is_claimed(store, "cpu", 5).await);
    assert!(!is_claimed(store, "cpu", 6).await);
    let opened = opened.again().await;
    let store = &opened.store;
    assert!(!is_claimed(store, "gpu", 4).await && !is_claimed(store, "cpu", 6).await);
    store.write(heartbeat("q", 0, 1)).await.unwrap();
    assert!(!is_claimed(store, "cpu", 6).await, "a heartbeat is no other run");
    store.write(unclaim("q", 0, 1)).await.unwrap();
    assert!(is_claimed(store, "gpu", 7).await && !is_claimed(store, "gpu", 8).await);
    store.write(change_settings("q", limits(9, 2))).await.unwrap();
    assert!(!is_claimed(store, "gpu", 8).await && is_claimed(store, "cpu", 9).await);
}

// What is noted of ended tasks, and when: a look into the file beside the store.

impl Opened {
    /// One step, by the writer.
    async fn step(&self) -> UpkeepReport {
        self.ok(Upkeep).await
    }

    /// All steps; gives how many tasks were deleted.
    async fn upkeep(&self) -> u64 {
        let mut deleted = 0;
        loop {
            let done = self.step().await;
            deleted += done.deleted;
            if !done.more {
                return deleted;
            }
        }
    }

    /// Creates these tasks, and completes them.
    async fn end(&self, tasks: std::ops::Range<usize>) {
        self.ok(create_all(tasks.clone())).await;
        self.ok(claim_all(tasks.clone())).await;
        self.ok(report_all(tasks.map(|id| complete("q", id, id, object("{}")).into()))).await;
    }

    /// Returns whether no upkeep is due. The writer may still be about to publish what it knows.
    fn has_nothing_to_do(&self) -> bool {
        let until = Instant::now() + Duration::from_secs(10);
        while Instant::now() < until {
            if self.store.finds_nothing(Lookup::Upkeep) {
                return true;
            }
            std::thread::yield_now();
        }
        false
    }
}

/// Keeps tasks of a state for so many seconds, or for ever.
fn kept(succeeded: Option<u64>, cancelled: Option<u64>) -> SettingsPatch {
    let (succeeded_seconds, cancelled_seconds) = (Some(succeeded), Some(cancelled));
    let retention = RetentionPatch { succeeded_seconds, cancelled_seconds, ..RetentionPatch::default() };
    SettingsPatch { retention, ..SettingsPatch::default() }
}

#[tokio::test]
async fn nothing_is_noted_in_a_queue_that_keeps_its_tasks() {
    let opened = Opened::new().await;
    opened.end(0..3).await;
    assert_eq!((opened.count("ended"), opened.has_nothing_to_do()), (0, true));
    opened.ok(change_settings("q", kept(None, Some(5)))).await;
    opened.upkeep().await;
    opened.end(3..6).await;
    assert_eq!((opened.count("ended"), opened.has_nothing_to_do()), (0, true), "another state is kept for ever");
}

#[tokio::test]
async fn an_upkeep_is_due_exactly_when_a_task_is() {
    let opened = Opened::new().await;
    opened.ok(change_settings("q", kept(Some(5), None))).await;
    assert!(!opened.store.finds_nothing(Lookup::Upkeep), "the tasks of the queue are to be read");
    opened.upkeep().await;
    opened.end(0..2).await;
    let opened = opened.again().await;
    assert!(opened.has_nothing_to_do());
    opened.clock.advance_seconds(5);
    assert!(!opened.store.finds_nothing(Lookup::Upkeep));
    assert_eq!(opened.upkeep().await, 2);
    assert!(opened.has_nothing_to_do());
    assert_eq!(opened.count("ended"), 0);
}

#[tokio::test]
async fn the_tasks_of_a_queue_are_read_in_steps_that_go_on_after_a_restart() {
    let mut opened = Opened::new().await;
    for first in (0..2_500).step_by(500) {
        opened.end(first..first + 500).await;
    }
    opened.ok(change_settings("q", kept(Some(60), None))).await;
    for noted in [1_000, 2_000, 2_500] {
        let more = opened.step().await.more;
        assert_eq!((opened.count("ended"), more), (noted, noted < 2_500));
        opened = opened.again().await;
    }
    assert_eq!(opened.count("ended_reads"), 0);
    opened.clock.advance_seconds(60);
    assert_eq!(opened.upkeep().await, 2_500);
    assert_eq!((opened.count("ended"), opened.count("tasks")), (0, 0));
}

#[tokio::test]
async fn tasks_that_are_not_noted_are_read_in_larger_steps() {
    let opened = Opened::new().await;
    for first in (0..4_500).step_by(500) {
        opened.ok(create_all(first..first + 500)).await;
    }
    opened.ok(change_settings("q", kept(Some(60), None))).await;
    assert_eq!([opened.step().await.more, opened.step().await.more], [true, false]);
    assert_eq!((opened.count("ended"), opened.count("ended_reads")), (0, 0));
}

#[tokio::test]
async fn what_is_requeued_or_deleted_is_not_noted_any_more() {
    let opened = Opened::new().await;
    opened.ok(change_settings("q", kept(Some(60), Some(60)))).await;
    opened.upkeep().await;
    opened.end(0..3).await;
    opened.ok(create("q", 3, Definition::default())).await;
    opened.ok(cancel("q", 3)).await;
    assert_eq!(opened.count("ended"), 4);
    opened.ok(delete("q", 1)).await;
    opened.ok(requeue("q", 3)).await;
    assert_eq!(opened.count("ended"), 2);
}

/// The end of a task that never ran is its latest update.
#[tokio::test]
async fn an_update_of_a_task_that_never_ran_keeps_it_for_longer() {
    let opened = Opened::new().await;
    opened.ok(change_settings("q", kept(None, Some(60)))).await;
    opened.ok(create("q", 1, Definition::default())).await;
    opened.ok(cancel("q", 1)).await;
    opened.clock.advance_seconds(40);
    opened.ok(update("q", 1, to_priority(5))).await;
    opened.clock.advance_seconds(20);
    assert_eq!((opened.upkeep().await, opened.count("ended")), (0, 1));
    opened.clock.advance_seconds(40);
    assert_eq!((opened.upkeep().await, opened.count("ended")), (1, 0));
}

#[tokio::test]
async fn what_was_noted_goes_with_the_retention_and_with_the_queue() {
    let opened = Opened::new().await;
    opened.ok(change_settings("q", kept(Some(60), None))).await;
    opened.upkeep().await;
    opened.end(0..700).await;
    opened.ok(change_settings("q", kept(None, None))).await;
    assert!(!opened.store.finds_nothing(Lookup::Upkeep));
    assert!(opened.step().await.more, "some at a time");
    assert_eq!((opened.upkeep().await, opened.count("ended")), (0, 0));
    opened.ok(change_settings("q", kept(Some(60), None))).await;
    opened.upkeep().await;
    assert_eq!(opened.count("ended"), 700);
    opened.ok(delete_queue("q", true)).await;
    let opened = opened.again().await;
    assert_eq!((opened.upkeep().await, opened.count("ended")), (0, 0));
    assert!(opened.has_nothing_to_do());
}

#[tokio::test]
async fn no_queue_waits_until_all_tasks_of_another_one_are_deleted() {
    let opened = Opened::new().await;
    opened.ok(create_queue("r")).await;
    for name in ["q", "r"] {
        opened.ok(change_settings(name, kept(Some(60), Some(60)))).await;
    }
    opened.upkeep().await;
    opened.end(0..900).await;
    opened.ok(create("r", 1, Definition::default())).await;
    opened.ok(cancel("r", 1)).await;
    opened.clock.advance_seconds(60);
    let deleted = [opened.step().await.deleted, opened.step().await.deleted, opened.step().await.deleted];
    assert_eq!(deleted.iter().sum::<u64>(), 3 * 250);
    assert_eq!(opened.store.count_tasks(&queue("r"), all()).await, Ok(0));
    assert_eq!(opened.upkeep().await, 901 - 3 * 250);
}

// What is noted of tasks that wait, in the file: what a look beside the store finds there.

impl Opened {
    /// The task that the next claim of the run gets.
    async fn claimed(&self, run: usize) -> Option<TaskId> {
        self.ok(claim("q", "default", run)).await.map(|claimed| claimed.task.id)
    }
}

#[tokio::test]
async fn a_task_that_goes_takes_what_is_noted_for_it_along() {
    let opened = Opened::new().await;
    opened.ok(create("q", 1, waits_for(&[2, 3, 4]))).await;
    opened.ok(create("q", 5, waits_for(&[2]))).await;
    assert_eq!(opened.count("dependencies"), 4);
    opened.ok(delete("q", 1)).await;
    assert_eq!(opened.count("dependencies"), 1);
    opened.ok(update("q", 5, Update { dependencies: Some(dependencies(&[])), ..Update::default() })).await;
    assert_eq!(opened.count("dependencies"), 0);
    assert_eq!(opened.claimed(1).await, Some(task_id(5)));
}

/// Whoever completes a task and then claims finds what waited for it, also what the completion has left to the upkeep.
#[tokio::test]
async fn a_claim_that_finds_nothing_settles_what_was_left_in_its_queue_first() {
    let opened = Opened::new().await;
    opened.ok(create_queue("r")).await;
    for name in ["q", "r"] {
        opened.ok(create(name, 0, Definition::default())).await;
        for id in 1..=300 {
            opened.ok(create(name, id, waits_for(&[0]))).await;
        }
    }
    opened.ok(cancel("r", 0)).await;
    assert_eq!(opened.claimed(1_000).await, Some(task_id(0)));
    opened.ok(complete("q", 0, 1_000, object("{}"))).await;
    assert_eq!(opened.count("unsettled"), 2);
    for run in 1..=300 {
        assert!(opened.claimed(1_000 + run).await.is_some(), "claim {run}");
    }
    assert_eq!(opened.claimed(2_000).await, None);
    assert_eq!(opened.count("unsettled"), 1, "of the other queue");
}

#[tokio::test]
async fn dependents_beyond_a_thousand_are_settled_by_the_upkeep_and_go_with_their_queue() {
    let opened = Opened::new().await;
    opened.ok(create("q", 0, Definition::default())).await;
    for id in 1..=1_100 {
        opened.ok(create("q", id, waits_for(&[0]))).await;
    }
    opened.ok(cancel("q", 0)).await;
    assert_eq!(opened.count("unsettled"), 1);
    assert!(!opened.store.finds_nothing(Lookup::Upkeep));
    let opened = opened.again().await;
    assert!(!opened.store.finds_nothing(Lookup::Upkeep), "a start knows of it");
    while opened.ok(Upkeep).await.more {}
    // The writer says so a moment after its answer.
    while !opened.store.finds_nothing(Lookup::Upkeep) {
        tokio::task::yield_now().await;
    }
    assert_eq!(opened.count("unsettled"), 0);
    assert_eq!(opened.count("dependencies WHERE state = 3"), 1_100);
    opened.ok(requeue("q", 0)).await;
    assert_eq!(opened.count("unsettled"), 1);
    opened.ok(delete_queue("q", true)).await;
    assert_eq!(opened.count("unsettled"), 0);
    // The writer purges while it has nothing else to do, and has done so when it is closed or asked again.
    let mut opened = opened;
    while opened.count("purges") > 0 {
        opened = opened.again().await;
        opened.ok(create_queue("r")).await;
    }
    assert_eq!((opened.count("dependencies"), opened.count("tasks")), (0, 0));
}

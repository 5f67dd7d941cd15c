//! Commands of two servers that meet at the same rows at the same moment.

use futures_util::future::{FutureExt, join3};
use taskqueue_store::conformance::prelude::*;
use taskqueue_test_postgres::{Database, eventually};
use tokio::task::JoinSet;

use super::{Servers, claimed_of_any};
use crate::held_rows::Stranger;

/// A batch that reports one worker and measures another locks both. Batches that do it the other way round at another server must
/// not wait in a circle, which the database ends after a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reports_and_measurements_of_the_same_workers_at_two_servers_never_wait_in_a_circle() {
    let servers = Servers::open(2).await;
    let workers = 12;
    let report = |worker| AnyCommand::from(observe("q", worker, "default", WorkerStatus::Idle));
    servers.together((0..workers).map(report).collect()).await;
    for _ in 0..30 {
        // Every second command goes to the other server: each of them reports and measures every worker, in both orders.
        let rising = (0..workers).flat_map(|worker| [report(worker), measure(worker, "{}").into()]);
        let falling = (0..workers).rev().flat_map(|worker| [measure(worker, "{}").into(), report(worker)]);
        servers.all_succeed(rising.chain(falling).collect()).await;
    }
    let database = &servers.storage.database;
    let counted = "SELECT deadlocks, xact_commit > 60 FROM pg_stat_database WHERE datname = current_database()";
    eventually("the database has counted", || database.rows(counted)[0][1].as_deref() == Some("t"));
    assert_eq!(database.rows(counted)[0][0].as_deref(), Some("0"));
    servers.end().await;
}

/// I13: a task that is requeued while it is pending is so all the time, also while the other server holds it. The claim's batch
/// reads the task as well, for a creation that is repeated.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_finds_the_only_task_while_another_server_requeues_it() {
    let servers = Servers::open(2).await;
    for round in 0..60 {
        servers.fixture.create(round, Definition::default()).await;
        let requeued = || AnyCommand::from(requeue("q", round));
        let repeated = || AnyCommand::from(create("q", round, Definition::default()));
        // The first store requeues, the second one claims and creates again.
        let mut commands: Vec<AnyCommand> = (0..3).flat_map(|_| [requeued(), repeated()]).collect();
        commands.extend([requeued(), AnyCommand::from(claim("q", "default", round))]);
        let answers = servers.together(commands).await;
        for answer in &answers[..7] {
            let allowed = matches!(answer, Ok(_) | Err(StoreError::Refused(Refusal::TaskStateConflict { .. })));
            assert!(allowed, "{answer:?}");
        }
        let claimed = claimed_of_any(&answers[7]).map(|claimed| claimed.task.id);
        assert_eq!(claimed, Some(task_id(round)), "round {round}");
        servers.fixture.ok(complete("q", round, round, object("{}"))).await;
    }
    servers.end().await;
}

/// A table that somebody else has locked: the statement of a store that needs it waits.
pub(super) struct HeldTable<'d> {
    database: &'d Database,
    name: &'static str,
    stranger: Stranger,
}

impl<'d> HeldTable<'d> {
    /// Nobody else reads it.
    async fn hold(database: &'d Database, name: &'static str) -> Self {
        Self::lock(database, name, "ACCESS EXCLUSIVE").await
    }

    /// Nobody else writes to it.
    pub(super) async fn keep(database: &'d Database, name: &'static str) -> Self {
        Self::lock(database, name, "SHARE").await
    }

    async fn lock(database: &'d Database, name: &'static str, mode: &str) -> Self {
        let stranger = Stranger::says(database, &format!("LOCK TABLE taskqueue.{name} IN {mode} MODE")).await;
        Self { database, name, stranger }
    }

    /// Waits until so many statements wait for it.
    pub(super) fn stops(&self, count: usize) {
        let waiting =
            format!("SELECT 1 FROM pg_locks WHERE relation = 'taskqueue.{}'::regclass AND NOT granted", self.name);
        eventually("statements wait", || self.database.rows(&waiting).len() >= count);
    }

    pub(super) async fn let_go(self) {
        self.stranger.lets_go().await;
    }
}

/// Both writers of the first store stand still; what is written to it now is one batch when they go on.
async fn stop_writers(servers: &Servers, offset: u64) -> (HeldTable<'_>, JoinSet<Result<(), StoreError>>) {
    let outputs = HeldTable::hold(&servers.storage.database, "outputs").await;
    let mut prints = JoinSet::new();
    for (number, id) in ["one", "two"].into_iter().enumerate() {
        let store = Arc::clone(&servers.stores[0]);
        prints.spawn(async move { print(id, id, offset, "text").write_to(&*store).await });
        outputs.stops(number + 1);
    }
    (outputs, prints)
}

/// Both writers of the first store have printed, as tasks of their own: their connections are there, their statements are prepared,
/// and they have seen whether tasks wait for others.
pub(super) async fn warm_writers(servers: &Servers) {
    for id in ["one", "two"] {
        servers.fixture.create(id, with_routes(&["printing"])).await;
        servers.fixture.claimed(claim("q", "printing", id)).await.unwrap();
    }
    let (outputs, prints) = stop_writers(servers, 0).await;
    outputs.let_go().await;
    assert!(prints.join_all().await.iter().all(Result::is_ok));
}

/// Commands for the first store, whose writers are warm and which are begun together, stand still when everything was read for them
/// but workers, which are read last of all: they contain the report of one.
pub(super) async fn stop_batch<'s>(servers: &'s Servers, batch: &mut (impl Future + Unpin)) -> HeldTable<'s> {
    let (outputs, prints) = stop_writers(servers, 4).await;
    let observations = HeldTable::hold(&servers.storage.database, "observations").await;
    assert!(batch.now_or_never().is_none(), "nobody is there to write");
    outputs.let_go().await;
    assert!(prints.join_all().await.iter().all(Result::is_ok));
    observations.stops(1);
    observations
}

/// I13, step by step: a batch has read a cancelled task, for a creation that is repeated, when another server requeues it; only
/// then does its claim, for which nothing was picked, look whether anything is pending. To see this fail, take `entry.held` out
/// of `unready_or_picked` (transaction_rows.rs): the claim then leaves out the task that was only read, and is told that there is
/// nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_finds_a_task_that_was_requeued_after_its_batch_had_read_it() {
    let servers = Servers::open(2).await;
    let fixture = &servers.fixture;
    fixture.create("x", Definition::default()).await;
    fixture.ok(cancel("q", "x")).await;
    warm_writers(&servers).await;

    let store = &*servers.stores[0];
    let mut batch = Box::pin(join3(
        create("q", "x", Definition::default()).write_to(store),
        claim("q", "default", 1).write_to(store),
        observe("q", 1, "default", WorkerStatus::Idle).write_to(store),
    ));
    let observations = stop_batch(&servers, &mut batch).await;
    requeue("q", "x").write_to(&*servers.stores[1]).await.unwrap();
    observations.let_go().await;
    let (created, claimed, observed) = batch.await;
    assert!(matches!(created, Ok(CreatedTask { created: false, .. })), "{created:?}");
    assert_eq!(claimed.unwrap().map(|claimed| claimed.task.id), Some(task_id("x")));
    observed.unwrap();
    servers.end().await;
}

/// The upkeep has read the settings of a queue, for tasks that had ended before it had a retention, when that is taken back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_whose_retention_was_taken_back_during_the_upkeep_is_kept() {
    let servers = Servers::open(2).await;
    let (fixture, database) = (&servers.fixture, &servers.storage.database);
    let retention = Retention { cancelled_seconds: Some(1), ..Retention::default() };
    fixture.ok(CreateQueue { queue: queue("kept"), retention }).await;
    fixture.ok(create("kept", 1, Definition::default())).await;
    fixture.ok(cancel("kept", 1)).await;
    fixture.upkeep().await;
    fixture.clock.advance_seconds(2);
    let reading =
        "INSERT INTO taskqueue.ended_readings SELECT queue_key, 'zzzz' FROM taskqueue.queues WHERE name = 'kept'";
    database.admin(reading);
    let ended = HeldTable::hold(database, "ended").await;
    let store = Arc::clone(&servers.stores[0]);
    let upkeep = tokio::spawn(async move { upkeep(&*store).await });
    ended.stops(1);
    let retention = RetentionPatch { cancelled_seconds: Some(None), ..RetentionPatch::default() };
    let patch = SettingsPatch { retention, ..SettingsPatch::default() };
    change_settings("kept", patch).write_to(&*servers.stores[1]).await.unwrap();
    ended.let_go().await;
    upkeep.await.unwrap().unwrap();
    assert_eq!(fixture.tasks("kept").await.len(), 1);
    servers.end().await;
}

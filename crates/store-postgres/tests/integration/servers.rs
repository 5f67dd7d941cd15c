//! Several stores on one database, as several servers are: together they behave as one (I1, I2, I12, I15 to I19, T1).

mod activity;
mod limits;
mod races;
mod waiting_tasks;

use taskqueue_store::conformance::concurrency;
use taskqueue_store::conformance::prelude::*;
use taskqueue_test_postgres::eventually;
use tokio::task::JoinHandle;

use crate::storage::tables::assert_tables_are_consistent;
use crate::storage::{Fresh, fresh, with_queue};

/// Stores on one database, at one clock.
pub(crate) struct Servers {
    pub(crate) storage: Fresh,
    /// The first of them.
    pub(crate) fixture: Fixture,
    pub(crate) stores: Vec<Arc<dyn Store>>,
}

impl Servers {
    /// So many, with the queue `q`.
    pub(crate) async fn open(number: usize) -> Self {
        let (storage, fixture) = with_queue().await;
        fixture.scan().await;
        let mut stores = vec![Arc::clone(&fixture.store)];
        while stores.len() < number {
            stores.push(storage.open(fixture.clock.clone()).await);
        }
        Self { storage, fixture, stores }
    }

    /// Writes everything at once, to one store after the other. The answers come in the order of the commands.
    async fn together<W: Write>(&self, commands: Vec<W>) -> Vec<Result<W::Answer, StoreError>> {
        concurrency::together(&self.stores, commands).await
    }

    /// Writes at once what must succeed.
    async fn all_succeed<W: Write>(&self, commands: Vec<W>) {
        for answer in self.together(commands).await {
            assert!(answer.is_ok(), "{answer:?}");
        }
    }

    /// Begins to write to one of them what must succeed.
    fn begin<W: Write>(&self, store: usize, command: W) -> JoinHandle<W::Answer> {
        let store = Arc::clone(&self.stores[store]);
        tokio::spawn(async move { command.write_to(&*store).await.unwrap() })
    }

    /// Everything is as it should be when nobody writes any more.
    pub(crate) async fn end(self) {
        for store in &self.stores {
            store.close().await;
        }
        assert_tables_are_consistent(&self.storage.database).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn all_servers_of_a_database_have_one_secret_even_if_they_start_at_once() {
    let storage = fresh();
    let clock = Fixture::open(&storage).await.clock;
    storage.database.admin("DELETE FROM taskqueue.installation_secret");
    let stores = futures_util::future::join_all((0..4).map(|_| storage.open(clock.clone()))).await;
    let secret = stores[0].parts().secret.unwrap();
    for store in stores {
        assert_eq!(store.parts().secret, Some(secret));
        store.close().await;
    }
}

fn claimed(answer: &Result<Option<Box<Claimed>>, StoreError>) -> Option<&Claimed> {
    answer.as_ref().unwrap().as_deref()
}

/// The same among commands of other kinds.
fn claimed_of_any(answer: &Result<AnyAnswer, StoreError>) -> Option<&Claimed> {
    match answer {
        Ok(AnyAnswer::Claimed(claimed)) => claimed.as_deref(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_through_several_servers_never_overlap_and_none_is_lost() {
    let servers = Servers::open(3).await;
    concurrency::claims_get_distinct_tasks(&servers.fixture, &servers.stores, 120).await;
    servers.end().await;
}

/// I13: tasks of two routes are picked for both at once. Whichever claim comes second must look further, also at what
/// other commands of its batch hold or have read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_for_several_routes_leave_nothing_behind() {
    let servers = Servers::open(2).await;
    for round in 0..12 {
        let name = |n: usize| format!("{round}x{n}");
        let creations = || (0..10).map(|n| create("q", name(n), with_routes(&["a", "b"])));
        servers.together(creations().collect()).await;
        let claims = (0..10).map(|n| claim("q", ["a", "b"][n / 2 % 2], name(n)));
        let mut commands: Vec<_> = claims.map(AnyCommand::from).collect();
        commands.extend(creations().map(AnyCommand::from));
        commands.extend((0..10).map(|n| AnyCommand::from(update("q", name(n), to_priority(n as i64)))));
        commands.extend((0..10).map(|n| AnyCommand::from(cancel("q", format!("no{n}")))));
        let answers = servers.together(commands).await;
        let taken = answers[..10].iter().filter_map(claimed_of_any).count();
        assert_eq!(taken, 10, "somebody went away empty-handed while something was pending");
        for answer in &answers[10..20] {
            let repeated = matches!(answer, Ok(AnyAnswer::Created(CreatedTask { created: false, .. })));
            assert!(repeated, "{answer:?}");
        }
        for answer in &answers[20..30] {
            let allowed = matches!(answer, Ok(_) | Err(StoreError::Refused(Refusal::TaskRunning { .. })));
            assert!(allowed, "{answer:?}");
        }
    }
    servers.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_run_id_at_several_servers_takes_one_task() {
    let servers = Servers::open(2).await;
    concurrency::each_run_id_takes_one_task(&servers.fixture, &servers.stores, 8).await;
    servers.end().await;
}

/// I3: a claim that comes twice at once is answered with its task both times, also when there is no other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_run_id_at_several_servers_gets_the_only_task_every_time() {
    let servers = Servers::open(2).await;
    for round in 0..60 {
        servers.fixture.create(round, Definition::default()).await;
        let answers = servers.together((0..8).map(|_| claim("q", "default", round)).collect()).await;
        for answer in &answers {
            assert_eq!(claimed(answer).map(|claimed| claimed.task.id), Some(task_id(round)), "{answers:?}");
        }
    }
    servers.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parallel_creations_of_one_id_at_two_servers_create_one_task() {
    let servers = Servers::open(2).await;
    concurrency::creations_of_one_id_create_one_task(&servers.fixture, &servers.stores).await;
    servers.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_over_three_servers_keeps_every_invariant() {
    for seed in [11, 12, 13] {
        let servers = Servers::open(3).await;
        let assert_tables = async || assert_tables_are_consistent(&servers.storage.database).await;
        concurrency::storm(&servers.fixture, &servers.stores, seed, [12, 60], assert_tables).await;
        servers.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_pending_order_is_that_of_the_acknowledgements_whoever_gave_them() {
    let servers = Servers::open(2).await;
    let (routes, mut expected) = ([&["a"][..], &["a", "b"], &["b"]], Vec::new());
    for id in 0..60_usize {
        let definition = Definition { priority: (id % 4 / 3) as i64, ..with_routes(routes[id % 3]) };
        expected.push((-definition.priority, id));
        servers.stores[id % 2].write(create("q", id, definition)).await.unwrap();
    }
    // Requeued through the other server: behind everything of their priority.
    for id in [0, 6, 12] {
        servers.stores[1].write(requeue("q", id)).await.unwrap();
        expected.retain(|(_, known)| *known != id);
        expected.push((if id % 4 == 3 { -1 } else { 0 }, id));
    }
    // A stable sort: by priority, then as they stand.
    expected.sort_by_key(|(priority, _)| *priority);
    for route in ["a", "b"] {
        let of_route = |id: usize| if route == "a" { id % 3 != 2 } else { id % 3 == 2 };
        for (_, id) in expected.iter().filter(|(_, id)| of_route(*id)) {
            let run = format!("{route}{id}");
            let answer = servers.stores[id / 2 % 2].write(claim("q", route, run)).await;
            assert_eq!(claimed(&answer).unwrap().task.id, task_id(id));
        }
    }
    servers.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bulk_updates_and_claims_of_another_server_never_mix() {
    let servers = Servers::open(2).await;
    concurrency::bulk_updates_and_claims_never_mix(&servers.fixture, &servers.stores).await;
    servers.end().await;
}

/// I17, I18: if a task was claimed, the queue is not deleted; else the queue is deleted with all its tasks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_among_creations_and_claims_takes_all_or_is_refused() {
    let servers = Servers::open(3).await;
    let (mut deleted, mut refused) = (0, 0);
    for round in 0..20 {
        servers.fixture.ok(create_queue("x")).await;
        let name = |n: usize| format!("{round}x{n}");
        servers.fixture.ok(create("x", name(100), with_routes(&["rare"]))).await;
        let creations = (0..12).map(|n| create("x", name(n), Definition::default()));
        let mut commands: Vec<_> = creations.map(AnyCommand::from).collect();
        let claims = if round % 2 == 0 { "default" } else { "none" };
        commands.extend((12..24).map(|n| AnyCommand::from(claim("x", claims, name(n)))));
        commands.insert(round % commands.len(), delete_queue("x", true).into());
        let answers = servers.together(commands.clone()).await;
        let (mut taken, mut is_deleted) = (0, false);
        for (command, answer) in commands.iter().zip(&answers) {
            match (command, answer) {
                (AnyCommand::DeleteQueue(_), Ok(_)) => is_deleted = true,
                (AnyCommand::DeleteQueue(_), Err(StoreError::Refused(Refusal::QueueHasRunningTasks { .. }))) => {}
                (_, Err(StoreError::Refused(Refusal::QueueNotFound { .. }))) => {}
                (_, Ok(AnyAnswer::Claimed(claimed))) => taken += usize::from(claimed.is_some()),
                (_, Ok(AnyAnswer::Created(CreatedTask { created: true, .. }))) => {}
                _ => panic!("{command:?} gave {answer:?}"),
            }
        }
        if is_deleted {
            assert_eq!(taken, 0, "a claimed task disappeared with its queue");
            servers.stores[1].write(create_queue("x")).await.unwrap();
            assert_eq!(servers.fixture.tasks("x").await, vec![]);
            assert_eq!(servers.stores[2].write(claim("x", "rare", name(99))).await, Ok(None));
            deleted += 1;
        } else {
            assert!(taken > 0, "a deletion was refused though nothing ran");
            let running = servers.fixture.store.count_tasks(&queue("x"), of_status(Status::Running)).await;
            assert_eq!(running, Ok(taken as u64));
            for task in servers.fixture.tasks("x").await {
                servers.fixture.ok(cancel("x", &task.id.as_str()[2..])).await;
            }
            refused += 1;
        }
        servers.fixture.ok(delete_queue("x", true)).await;
    }
    assert!(deleted >= 10, "{deleted} deletions, {refused} refusals");
    servers.end().await;
}

/// I11: the scans of all servers and a report see the same expiry; it is charged once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scans_of_all_servers_expire_each_run_once() {
    let servers = Servers::open(3).await;
    for round in 0..4 {
        let name = |n: usize| format!("{round}x{n}");
        let routes = [name(0)];
        let route = routes[0].as_str();
        servers.together((0..30).map(|n| create("q", name(n), with_routes(&[route]))).collect()).await;
        let mut tasks = Vec::new();
        for answer in servers.together((0..30).map(|n| claim("q", route, name(n))).collect()).await {
            let claimed = claimed(&answer).unwrap();
            tasks.push((claimed.task.id.to_string(), claimed.run_id.to_string()));
        }
        servers.fixture.pass(295).await;
        servers.fixture.clock.advance_seconds(6);
        let mut commands = vec![AnyCommand::from(Scan); 6];
        // The same moment is seen by reports of some of the runs.
        let heartbeats = tasks.iter().take(10).map(|(id, run)| heartbeat("q", &id[2..], &run[2..]));
        commands.extend(heartbeats.map(AnyCommand::from));
        let answers = servers.together(commands).await;
        let mut expired = 0;
        for answer in &answers[..6] {
            let Ok(AnyAnswer::Scanned(Scanned { expired_runs, credited_runs: 0, .. })) = answer else {
                panic!("{answer:?}")
            };
            expired += expired_runs;
        }
        assert!((20..=30).contains(&expired), "{expired}");
        for answer in &answers[6..] {
            let gone = Err(StoreError::Refused(Refusal::RunFinalized { end: RunEnd::HeartbeatExpired }));
            assert_eq!(*answer, gone);
        }
        for (id, run) in &tasks {
            let task = servers.fixture.get(&id[2..]).await;
            assert_eq!((task.lifecycle.status, task.lifecycle.attempt), (Status::Pending, 1), "{task:?}");
            assert_eq!(task.outcome.last_error.unwrap().run_id.unwrap().as_str(), run);
        }
    }
    servers.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_queue_is_purged_by_whoever_is_left() {
    let servers = Servers::open(2).await;
    for hundred in 0..15 {
        let ids = hundred * 100..(hundred + 1) * 100;
        servers.together(ids.map(|id| create("q", id, with_routes(&["a", "b"]))).collect()).await;
    }
    servers.fixture.ok(delete_queue("q", true)).await;
    drop(servers.fixture.store.close());
    servers.stores[0].close().await;
    servers.stores[1].write(Scan).await.unwrap();
    let left = "SELECT 1 FROM taskqueue.tasks UNION ALL SELECT 1 FROM taskqueue.ready
        UNION ALL SELECT 1 FROM taskqueue.purges UNION ALL SELECT 1 FROM taskqueue.definitions";
    eventually("nothing is left of the queue", || servers.storage.database.rows(left).is_empty());
    servers.end().await;
}

/// A worker cannot be of two routes, however its reports come.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_route_of_a_worker_is_decided_once_over_all_servers() {
    let servers = Servers::open(2).await;
    for worker in 0..20 {
        let report = |n: usize| observe("q", worker, ["a", "b"][n % 2], WorkerStatus::Idle);
        let answers = servers.together((0..8).map(report).collect()).await;
        let accepted = |n: usize| answers.iter().skip(n).step_by(2).filter(|answer| answer.is_ok()).count();
        for answer in &answers {
            let allowed = matches!(answer, Ok(_) | Err(StoreError::Refused(Refusal::WorkerRouteConflict { .. })));
            assert!(allowed, "{answer:?}");
        }
        assert!([(4, 0), (0, 4)].contains(&(accepted(0), accepted(1))), "of both routes: {answers:?}");
    }
    servers.end().await;
}

/// I5: a claim that is repeated while its run ends and another one takes the task is never told that it still owns it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_claim_is_never_told_of_a_newer_run() {
    let servers = Servers::open(2).await;
    servers.fixture.create(1, with_budget(i64::MAX)).await;
    servers.fixture.claim("0x0").await;
    for round in 0..40 {
        let (old, new) = (format!("{round}x0"), format!("{}x0", round + 1));
        let (first, second) = (Arc::clone(&servers.stores[0]), Arc::clone(&servers.stores[1]));
        let (failure, next) = (fail("q", 1, &old), claim("q", "default", &new));
        let moving = tokio::spawn(async move {
            first.write(failure).await.unwrap();
            first.write(next).await.unwrap();
        });
        while !moving.is_finished() {
            match second.write(claim("q", "default", &old)).await {
                Ok(Some(claimed)) => {
                    assert_eq!(claimed.task.lifecycle.attempt, round + 1);
                    assert_eq!(claimed.task.lifecycle.run.unwrap().run_id, run_id(&old));
                }
                Err(StoreError::Refused(Refusal::StaleRun { .. })) => {}
                other => panic!("{other:?}"),
            }
        }
        moving.await.unwrap();
    }
    servers.end().await;
}

/// A run that began and ended together with its task leaves nothing that would block its id.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_is_claimed_cancelled_and_deleted_at_once_leaves_no_run() {
    let servers = Servers::open(1).await;
    for round in 0..20 {
        let name = format!("x{round}");
        servers.fixture.create(&name, Definition::default()).await;
        let mut commands = commands![claim("q", "default", &name), heartbeat("q", "none", "none")];
        commands.extend(commands![claim("q", "default", format!("y{round}")), cancel("q", &name), delete("q", &name)]);
        servers.together(commands).await;
        assert_tables_are_consistent(&servers.storage.database).await;
        servers.together(commands![cancel("q", &name), delete("q", &name)]).await;
        servers.fixture.ok(delete("q", &name)).await;
    }
    servers.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_does_not_say_who_claims_writes_no_outcome() {
    let (storage, fixture) = with_queue().await;
    let rows = |sql: &str| {
        let counted = storage.database.rows(&format!("SELECT count(*) FROM taskqueue.outcomes {sql}"));
        counted[0][0].clone().unwrap()
    };
    fixture.ok(create_all(1..=3)).await;
    fixture.claim(1).await;
    fixture.ok(unclaim("q", 1, 1)).await;
    assert_eq!(rows(""), "0", "neither before nor after is there anything to say");
    fixture.claimed(claim_by(r#"{"host":"a"}"#, 2)).await.unwrap();
    assert_eq!(rows("WHERE last_run_attempt = 1 AND last_run_worker = '{\"host\":\"a\"}'"), "1");
    fixture.ok(unclaim("q", 2, 2)).await;
    fixture.claim_each(3..=5).await;
    let expected = ("1".into(), "1".into());
    assert_eq!((rows(""), rows("WHERE last_run_attempt IS NULL AND last_run_worker IS NULL")), expected);
}

/// A server claims and says who it is; another one, which has no such rows in memory, shows it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_runs_a_task_is_seen_by_every_server() {
    let (storage, fixture) = with_queue().await;
    let other = storage.try_open(&fixture.clock).await.unwrap();
    fixture.create(1, Definition::default()).await;
    fixture.claimed(claim_by(r#"{"host":"a"}"#, 1)).await.unwrap();
    let seen = other.get_task(&queue("q"), task_id(1)).await.unwrap();
    assert_eq!(seen, fixture.get(1).await);
    assert_eq!(seen.outcome.last_run.unwrap().worker.as_str(), r#"{"host":"a"}"#);
    other.write(fail("q", 1, 1)).await.unwrap();
    assert_eq!(fixture.get(1).await.view().last_run.unwrap().run_id, Some(run_id(1).as_str()));
    other.close().await;
}

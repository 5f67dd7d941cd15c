//! Commands of two servers that meet at the same rows at the same moment.

use taskqueue_core::definition::Definition;
use taskqueue_core::observation::WorkerStatus;
use taskqueue_core::refusal::Refusal;
use taskqueue_store::StoreError;
use taskqueue_store::conformance::any_command::AnyCommand;
use taskqueue_store::conformance::commands::*;
use taskqueue_test_postgres::eventually;

use super::{Servers, claimed_of_any};

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
        for answer in servers.together(rising.chain(falling).collect()).await {
            assert!(answer.is_ok(), "{answer:?}");
        }
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

//! What a worker and a client notice of a move: nothing.

use taskqueue_core::definition::Definition;
use taskqueue_core::ids::QueueName;
use taskqueue_core::json::JsonObject;
use taskqueue_core::observation::WorkerStatus;
use taskqueue_core::refusal::Refusal;
use taskqueue_core::selection::ObservationQuery;
use taskqueue_core::task::{RunEnd, Status};
use taskqueue_store::StoreExt;
use taskqueue_store::command::{ReportWorker, Scanned};
use taskqueue_store::conformance::commands::*;
use taskqueue_store::conformance::fixture::Fixture;

use super::databases::Kind::{self, File, Schema};
use super::databases::Moving;

const DIRECTIONS: [&[Kind]; 2] = [&[File, Schema], &[Schema, File]];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_active_run_goes_on_heartbeats_and_completes() {
    for kinds in DIRECTIONS {
        let moving = Moving::through(kinds);
        let fixture = Fixture::with_queue(&moving).await;
        fixture.create(1, Definition::default()).await;
        fixture.scan().await;
        let claimed = fixture.claim(1).await;
        let fixture = fixture.reopen(&moving).await;
        assert_eq!(fixture.claim(1).await, claimed, "the claim is replayed");
        fixture.clock.advance_seconds(10);
        fixture.ok(heartbeat("q", 1, 1)).await;
        assert_eq!(fixture.pass(295).await.expired_runs, 0);
        let fixture = fixture.reopen(&moving).await;
        fixture.ok(complete("q", 1, 1, object(r#"{"loss":1}"#))).await;
        let fixture = fixture.reopen(&moving).await;
        // A replay.
        fixture.ok(complete("q", 1, 1, object(r#"{"loss":1}"#))).await;
        assert_eq!(fixture.refused(fail("q", 1, 1)).await, Refusal::RunFinalized { end: RunEnd::Complete });
        assert_eq!(fixture.status(1).await, Status::Succeeded);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_was_good_before_a_long_move_is_good_for_the_credit() {
    for kinds in DIRECTIONS {
        let moving = Moving::through(kinds);
        let fixture = Fixture::with_queue(&moving).await;
        fixture.create(1, Definition::default()).await;
        fixture.scan().await;
        fixture.claim(1).await;
        fixture.pass(200).await;
        fixture.clock.advance_seconds(3600);
        let fixture = fixture.reopen(&moving).await;
        assert_eq!(fixture.scan().await, Scanned { credited_runs: 1, ..Scanned::default() });
        assert_eq!(fixture.pass(85).await.expired_runs, 0);
        fixture.ok(heartbeat("q", 1, 1)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_run_id_stays_used_up() {
    for kinds in DIRECTIONS {
        let moving = Moving::through(kinds);
        let fixture = Fixture::with_queue(&moving).await;
        fixture.create(1, with_budget(99)).await;
        for run in 0..20 {
            fixture.claim(run).await;
            fixture.ok(fail_with("q", 1, run, failure("a\0b"))).await;
        }
        let before = fixture.tasks("q").await;
        let fixture = fixture.reopen(&moving).await.reopen(&moving).await;
        assert_eq!(fixture.tasks("q").await, before);
        for run in 0..20 {
            assert_eq!(fixture.refused(claim("q", "default", run)).await, Refusal::StaleRun { run_id: run_id(run) });
        }
        fixture.ok(delete("q", 1)).await;
        fixture.create(1, Definition::default()).await;
        let fixture = fixture.reopen(&moving).await;
        for run in 0..20 {
            assert_eq!(fixture.refused(claim("q", "default", run)).await, Refusal::StaleRun { run_id: run_id(run) });
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_tasks_go_behind_those_that_were_moved() {
    for kinds in DIRECTIONS {
        let moving = Moving::through(kinds);
        let fixture = Fixture::with_queue(&moving).await;
        // More than one chunk, and numbers far beyond the first ones of a fresh database.
        for id in 0..1_100 {
            fixture.create(id, Definition::default()).await;
        }
        for id in (0..1_100).rev() {
            fixture.ok(requeue("q", id)).await;
        }
        let fixture = fixture.reopen(&moving).await;
        fixture.create("new", Definition::default()).await;
        for (run, id) in (0..1_100).rev().enumerate() {
            assert_eq!(fixture.claim(run).await.task.id, task_id(id));
        }
        assert_eq!(fixture.claim("last").await.task.id, task_id("new"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heavy_tasks_and_observations_with_metadata_are_moved() {
    for kinds in DIRECTIONS {
        let moving = Moving::through(kinds);
        let fixture = Fixture::with_queue(&moving).await;
        // Several chunks by their bytes.
        for id in 0..20 {
            fixture.create(id, Definition { args: args_beyond_the_limit(0), ..Definition::default() }).await;
        }
        let report = worker_report("default", WorkerStatus::Busy);
        let report = taskqueue_core::observation::Report { metadata: object(r#"{"gpu":"\u0000"}"#), ..report };
        fixture.ok(ReportWorker { queue: queue("q"), id: worker_id(1), report }).await;
        let workers = async |fixture: &Fixture| {
            let query = ObservationQuery { filter: None, limit: 10, after: None };
            fixture.store.list_workers(&QueueName::parse("q").unwrap(), query).await.unwrap().items
        };
        let before = (fixture.tasks("q").await, workers(&fixture).await);
        assert_ne!(before.1[0].report.metadata, JsonObject::empty());
        let fixture = fixture.reopen(&moving).await;
        assert_eq!((fixture.tasks("q").await, workers(&fixture).await), before);
    }
}

//! What a worker and a client notice of a move: nothing.

use taskqueue_core::definition::Definition;
use taskqueue_core::ids::QueueName;
use taskqueue_core::json::JsonObject;
use taskqueue_core::observation::WorkerStatus;
use taskqueue_core::refusal::Refusal;
use taskqueue_core::selection::ObservationQuery;
use taskqueue_core::task::{RunEnd, Status};
use taskqueue_store::command::{Answer, Command, Scanned};
use taskqueue_store::conformance::bench::Bench;
use taskqueue_store::conformance::commands::*;

use crate::places::Kind::{self, File, Schema};
use crate::places::Moving;

const DIRECTIONS: [&[Kind]; 2] = [&[File, Schema], &[Schema, File]];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_active_run_goes_on_heartbeats_and_completes() {
    for kinds in DIRECTIONS {
        let moving = Moving::through(kinds);
        let bench = Bench::with_queue(&moving).await;
        bench.create(1, Definition::default()).await;
        bench.scan().await;
        let claimed = bench.claim(1).await;
        let bench = bench.reopen(&moving).await;
        assert_eq!(bench.claim(1).await, claimed, "the claim is replayed");
        bench.clock.advance_seconds(10);
        bench.ok(heartbeat("q", 1, 1)).await;
        assert_eq!(bench.pass(295).await.expired_runs, 0);
        let bench = bench.reopen(&moving).await;
        bench.ok(complete("q", 1, 1, object(r#"{"loss":1}"#))).await;
        let bench = bench.reopen(&moving).await;
        assert_eq!(bench.ok(complete("q", 1, 1, object(r#"{"loss":1}"#))).await, Answer::Done, "a replay");
        assert_eq!(bench.refused(fail("q", 1, 1)).await, Refusal::RunFinalized { end: RunEnd::Complete });
        assert_eq!(bench.status(1).await, Status::Succeeded);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_was_good_before_a_long_move_is_good_for_the_credit() {
    for kinds in DIRECTIONS {
        let moving = Moving::through(kinds);
        let bench = Bench::with_queue(&moving).await;
        bench.create(1, Definition::default()).await;
        bench.scan().await;
        bench.claim(1).await;
        bench.pass(200).await;
        bench.clock.advance_seconds(3600);
        let bench = bench.reopen(&moving).await;
        assert_eq!(bench.scan().await, Scanned { credited_runs: 1, ..Scanned::default() });
        assert_eq!(bench.pass(85).await.expired_runs, 0);
        bench.ok(heartbeat("q", 1, 1)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_run_id_stays_used_up() {
    for kinds in DIRECTIONS {
        let moving = Moving::through(kinds);
        let bench = Bench::with_queue(&moving).await;
        bench.create(1, with_budget(99)).await;
        for run in 0..20 {
            bench.claim(run).await;
            bench.ok(fail_with("q", 1, run, failure("a\0b"))).await;
        }
        let before = bench.tasks("q").await;
        let bench = bench.reopen(&moving).await.reopen(&moving).await;
        assert_eq!(bench.tasks("q").await, before);
        for run in 0..20 {
            assert_eq!(bench.refused(claim("q", "default", run)).await, Refusal::StaleRun { run_id: run_id(run) });
        }
        bench.ok(delete("q", 1)).await;
        bench.create(1, Definition::default()).await;
        let bench = bench.reopen(&moving).await;
        for run in 0..20 {
            assert_eq!(bench.refused(claim("q", "default", run)).await, Refusal::StaleRun { run_id: run_id(run) });
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_tasks_go_behind_those_that_were_moved() {
    for kinds in DIRECTIONS {
        let moving = Moving::through(kinds);
        let bench = Bench::with_queue(&moving).await;
        // More than one chunk, and numbers far beyond the first ones of a fresh database.
        for id in 0..1_100 {
            bench.create(id, Definition::default()).await;
        }
        for id in (0..1_100).rev() {
            bench.ok(requeue("q", id)).await;
        }
        let bench = bench.reopen(&moving).await;
        bench.create("new", Definition::default()).await;
        for (run, id) in (0..1_100).rev().enumerate() {
            assert_eq!(bench.claim(run).await.task.id, task_id(id));
        }
        assert_eq!(bench.claim("last").await.task.id, task_id("new"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heavy_tasks_and_observations_with_metadata_are_moved() {
    for kinds in DIRECTIONS {
        let moving = Moving::through(kinds);
        let bench = Bench::with_queue(&moving).await;
        // Several chunks by their bytes.
        for id in 0..20 {
            bench.create(id, Definition { args: args_beyond_the_limit(0), ..Definition::default() }).await;
        }
        let report = worker_report("default", WorkerStatus::Busy);
        let report = taskqueue_core::observation::Report { metadata: object(r#"{"gpu":"\u0000"}"#), ..report };
        bench.ok(Command::ReportWorker { queue: queue("q"), id: worker_id(1), report }).await;
        let workers = async |bench: &Bench| {
            let query = ObservationQuery { filter: None, limit: 10, after: None };
            bench.store.list_workers(&QueueName::parse("q").unwrap(), query).await.unwrap().items
        };
        let before = (bench.tasks("q").await, workers(&bench).await);
        assert_ne!(before.1[0].report.metadata, JsonObject::empty());
        let bench = bench.reopen(&moving).await;
        assert_eq!((bench.tasks("q").await, workers(&bench).await), before);
    }
}

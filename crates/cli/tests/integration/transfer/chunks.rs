//! Moves of more than one chunk, of many tasks and of a few heavy ones. That a worker notices nothing of a move is in the suite.

use taskqueue_core::definition::Definition;
use taskqueue_core::ids::QueueName;
use taskqueue_core::json::JsonObject;
use taskqueue_core::observation::WorkerStatus;
use taskqueue_core::selection::ObservationQuery;
use taskqueue_store::StoreExt;
use taskqueue_store::command::ReportWorker;
use taskqueue_store::conformance::commands::*;
use taskqueue_store::conformance::fixture::Fixture;

use super::databases::Kind::{self, File, Schema};
use super::databases::Moving;

const DIRECTIONS: [&[Kind]; 2] = [&[File, Schema], &[Schema, File]];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_tasks_go_behind_those_that_were_moved() {
    for kinds in DIRECTIONS {
        let moving = Moving::through(kinds);
        let fixture = Fixture::with_queue(&moving).await;
        // More than one chunk, and numbers far beyond the first ones of a fresh database.
        fixture.ok(create_all(0..1_000)).await;
        fixture.ok(create_all(1_000..1_100)).await;
        for id in (0..1_100).rev() {
            fixture.ok(requeue("q", id)).await;
        }
        let fixture = fixture.reopen(&moving).await;
        fixture.create("new", Definition::default()).await;
        let (first, rest) = (fixture.ok(claim_all(0..1_000)).await, fixture.ok(claim_all(1_000..1_100)).await);
        let claimed = first.into_iter().chain(rest).map(|claimed| claimed.unwrap().unwrap().task.id);
        assert_eq!(claimed.collect::<Vec<_>>(), (0..1_100).rev().map(task_id).collect::<Vec<_>>());
        assert_eq!(fixture.claim("last").await.task.id, task_id("new"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heavy_tasks_and_observations_with_metadata_are_moved() {
    for kinds in DIRECTIONS {
        let moving = Moving::through(kinds);
        let fixture = Fixture::with_queue(&moving).await;
        fixture.create("failed", Definition::default()).await;
        fixture.claim(1).await;
        fixture.ok(fail_with("q", "failed", 1, failure("a\0b"))).await;
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

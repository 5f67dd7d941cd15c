//! What survives the end of a store: everything that was acknowledged (I7, I9), for storage that can be opened again.

use taskqueue_core::definition::Definition;
use taskqueue_core::grouping::{TaskDimension, TaskGroupQuery};
use taskqueue_core::observation::WorkerStatus;
use taskqueue_core::refusal::Refusal;
use taskqueue_core::selection::{ObservationQuery, OrderField, TaskOrder};
use taskqueue_core::task::{RunEnd, Status};

use super::Storage;
use super::actions::bring_to;
use super::bench::Bench;
use super::claims::claim_all;
use super::commands::*;
use super::counts::assert_kept_counts_are_right;
use crate::clock::ManualClock;
use crate::command::{Answer, Scanned};

pub async fn queues_tasks_and_identities_survive(storage: &impl Storage) {
    let bench = Bench::with_queue(storage).await;
    bench.ok(create_queue("empty")).await;
    for (id, status) in (1..).zip(Status::ALL) {
        bring_to(&bench, id, status).await;
    }
    bench.create("updated", Definition::default()).await;
    bench.ok(update("q", "updated", to_priority(-3))).await;
    let before = bench.tasks("q").await;
    let bench = bench.reopen(storage).await;
    assert_eq!(bench.store.list_queues().await.unwrap(), ["empty", "q"].map(queue));
    assert_eq!(bench.tasks("q").await, before);
    assert!(matches!(
        bench.ok(create("q", "updated", Definition::default())).await,
        Answer::Task { created: false, .. }
    ));
    assert!(matches!(bench.refused(create("q", "updated", with_priority(-3))).await, Refusal::TaskIdConflict { .. }));
    assert_eq!(bench.ok(create_queue("empty")).await, Answer::Created(false));
}

pub async fn active_runs_and_their_leases_survive(storage: &impl Storage) {
    let bench = Bench::with_queue(storage).await;
    for id in 1..4 {
        bench.create(id, Definition::default()).await;
    }
    let first = bench.claim(1).await;
    bench.claim(2).await;
    bench.pass(100).await;
    bench.ok(heartbeat("q", 2, 2)).await;
    let bench = bench.reopen(storage).await;
    assert_eq!(bench.claim(1).await, first, "a claim is replayed after a restart");
    assert!(matches!(bench.refused(claim("q", "other", 1)).await, Refusal::RunIdConflict { .. }));
    bench.scan().await;
    assert_eq!(bench.pass(195).await.expired_runs, 0);
    assert_eq!(bench.pass(5).await.expired_runs, 1, "the lease was neither lengthened nor shortened");
    assert_eq!(bench.status(1).await, Status::Pending);
    bench.ok(complete("q", 2, 2, object("{}"))).await;
    assert!(matches!(bench.refused(delete_queue("q", false)).await, Refusal::QueueNotEmpty { tasks: 3, .. }));
}

pub async fn finished_and_past_runs_survive(storage: &impl Storage) {
    let bench = Bench::with_queue(storage).await;
    bench.create(1, with_budget(9)).await;
    for run in [1, 2, 3] {
        bench.claim(run).await;
        bench.ok(fail("q", 1, run)).await;
    }
    let before = bench.tasks("q").await;
    let mut bench = bench;
    for _ in 0..2 {
        bench = bench.reopen(storage).await;
        for run in [1, 2, 3] {
            assert_eq!(bench.refused(claim("q", "default", run)).await, Refusal::StaleRun { run_id: run_id(run) });
        }
        assert_eq!(bench.ok(fail("q", 1, 3)).await, Answer::Done);
        assert_eq!(bench.refused(unclaim("q", 1, 3)).await, Refusal::RunFinalized { end: RunEnd::Fail });
        assert_eq!(bench.refused(fail("q", 1, 2)).await, Refusal::StaleRun { run_id: run_id(2) });
        assert_eq!(bench.tasks("q").await, before);
    }
}

pub async fn run_ids_of_deleted_tasks_survive(storage: &impl Storage) {
    let bench = Bench::with_queue(storage).await;
    bench.ok(create_queue("other")).await;
    for (queue, first) in [("q", 1), ("other", 3)] {
        bench.ok(create(queue, 1, with_budget(9))).await;
        for run in [first, first + 1] {
            bench.ok(claim(queue, "default", run)).await;
            bench.ok(fail(queue, 1, run)).await;
        }
    }
    bench.ok(delete("q", 1)).await;
    bench.ok(delete_queue("other", true)).await;
    let mut bench = bench;
    for _ in 0..2 {
        bench.clock.advance_seconds(40_000);
        bench = bench.reopen(storage).await;
        bench.scan().await;
        for run in 1..=4 {
            assert_eq!(bench.refused(claim("q", "default", run)).await, Refusal::StaleRun { run_id: run_id(run) });
        }
    }
    bench.clock.advance_seconds(6_400);
    bench.scan().await;
    assert_eq!(bench.claimed(claim("q", "default", 1)).await, None, "forgotten a day after the deletion");
}

pub async fn the_pending_order_survives(storage: &impl Storage) {
    let bench = Bench::with_queue(storage).await;
    for id in ["f", "a", "c", "b", "e", "d"] {
        bench.create(id, with_routes(&["default", "x"])).await;
    }
    bench.ok(update("q", "e", to_priority(1))).await;
    bench.ok(requeue("q", "a")).await;
    bench.ok(cancel("q", "b")).await;
    bench.ok(update("q", "d", to_routes(&["y"]))).await;
    let bench = bench.reopen(storage).await;
    bench.create("g", Definition::default()).await;
    bench.ok(requeue("q", "b")).await;
    assert_eq!(bench.claimed(claim("q", "x", 1)).await.unwrap().task.id, task_id("e"));
    assert_eq!(claim_all(&bench, "default", "r").await, ["f", "c", "a", "g", "b"]);
    assert_eq!(claim_all(&bench, "y", "y").await, ["d"]);
}

pub async fn observations_survive(storage: &impl Storage) {
    let bench = Bench::with_queue(storage).await;
    bench.ok(observe("q", 1, "a", WorkerStatus::Busy)).await;
    let query = ObservationQuery { filter: None, limit: 10, after: None };
    let before = bench.store.list_workers(&queue("q"), query.clone()).await.unwrap();
    let bench = bench.reopen(storage).await;
    assert_eq!(bench.store.list_workers(&queue("q"), query).await.unwrap(), before);
    assert!(matches!(
        bench.refused(observe("q", 1, "b", WorkerStatus::Idle)).await,
        Refusal::WorkerRouteConflict { .. }
    ));
}

pub async fn cursors_survive(storage: &impl Storage) {
    let bench = Bench::with_queue(storage).await;
    for id in 0..9 {
        bench.create(id, with_routes(&[["a", "b", "c"][id % 3]])).await;
    }
    let order = TaskOrder { field: OrderField::Priority, descending: true };
    let page = bench.page("q", &all(), order, 4, None).await;
    let expected = bench.page("q", &all(), order, 4, page.next.clone()).await;
    let group = bench.groups(all(), &[TaskDimension::Routes], 1).await.next.unwrap();
    let bench = bench.reopen(storage).await;
    assert_eq!(bench.page("q", &all(), order, 4, page.next).await, expected);
    let dimensions = vec![TaskDimension::Routes];
    let query = TaskGroupQuery { selection: all(), dimensions, limit: 9, after: Some(Ok(group)) };
    assert_eq!(bench.store.group_tasks(&queue("q"), query).await.unwrap().groups.len(), 2);
}

pub async fn counts_survive(storage: &impl Storage) {
    let bench = Bench::with_queue(storage).await;
    for (id, status) in (1..).zip(Status::ALL) {
        bring_to(&bench, id, status).await;
    }
    let bench = bench.reopen(storage).await;
    assert_eq!(bench.count_by_status().await, [1; 5]);
    assert_kept_counts_are_right(&*bench.store, "q").await;
    bench.ok(delete("q", 1)).await;
    assert_kept_counts_are_right(&*bench.store, "q").await;
}

pub async fn an_outage_between_two_opens_grants_the_credit(storage: &impl Storage) {
    let bench = Bench::with_queue(storage).await;
    bench.create(1, Definition::default()).await;
    bench.create(2, Definition::default()).await;
    bench.scan().await;
    bench.claim(1).await;
    bench.pass(10).await;
    // Claimed after the last scan that was written: its own time is the last sign of life.
    bench.clock.advance_seconds(1);
    bench.claim(2).await;
    bench.clock.advance_seconds(3600);
    let bench = bench.reopen(storage).await;
    assert_eq!(bench.scan().await, Scanned { credited_runs: 2, ..Scanned::default() });
    bench.ok(heartbeat("q", 1, 1)).await;
    assert_eq!(bench.pass(85).await.expired_runs, 0);
    assert_eq!(bench.pass(5).await.expired_runs, 1);
    assert_eq!(bench.status(1).await, Status::Running);
}

pub async fn a_deleted_queue_stays_deleted(storage: &impl Storage) {
    let bench = Bench::with_queue(storage).await;
    for id in 0..20 {
        bench.create(id, Definition::default()).await;
    }
    bench.ok(delete_queue("q", true)).await;
    let bench = bench.reopen(storage).await;
    assert_eq!(bench.store.list_queues().await, Ok(vec![]));
    bench.ok(create_queue("q")).await;
    assert_eq!(bench.tasks("q").await, vec![]);
    assert_eq!(bench.claimed(claim("q", "default", 1)).await, None);
    assert_kept_counts_are_right(&*bench.store, "q").await;
}

pub async fn time_never_goes_back_over_a_restart(storage: &impl Storage) {
    let bench = Bench::with_queue(storage).await;
    bench.create(1, Definition::default()).await;
    let before = bench.get(1).await.lifecycle.updated_at;
    bench.store.close().await;
    drop(bench.store);
    let clock = ManualClock::new(before.plus_seconds(-3600));
    let bench = Bench { store: storage.open(clock.clone()).await, clock };
    bench.create(2, Definition::default()).await;
    assert!(bench.get(2).await.lifecycle.created_at >= before);
    assert!(bench.claim(1).await.task.lifecycle.updated_at >= before);
}

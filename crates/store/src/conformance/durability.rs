//! What survives the end of a store: everything that was acknowledged (I7, I9), for storage that can be opened again.

use super::actions::bring_to;
use super::claims::claim_all;
use super::prelude::*;

pub async fn queues_tasks_and_identities_survive(storage: &impl Storage) {
    let fixture = Fixture::with_queue(storage).await;
    fixture.ok(create_queue("empty")).await;
    for (id, status) in (1..).zip(Status::ALL) {
        bring_to(&fixture, id, status).await;
    }
    fixture.create("updated", Definition::default()).await;
    fixture.ok(update("q", "updated", to_priority(-3))).await;
    let before = fixture.tasks("q").await;
    let fixture = fixture.reopen(storage).await;
    assert_eq!(fixture.store.list_queues().await.unwrap(), ["empty", "q"].map(queue));
    assert_eq!(fixture.tasks("q").await, before);
    assert_eq!(fixture.count_by_status().await, [2, 1, 1, 1, 1]);
    assert_kept_counts_are_right(&*fixture.store, "q").await;
    fixture.ok(delete("q", 1)).await;
    assert_kept_counts_are_right(&*fixture.store, "q").await;
    let repeated = fixture.ok(create("q", "updated", Definition::default())).await;
    assert!(matches!(repeated, CreatedTask { created: false, .. }));
    assert!(matches!(fixture.refused(create("q", "updated", with_priority(-3))).await, Refusal::TaskIdConflict { .. }));
    assert!(!fixture.ok(create_queue("empty")).await);
}

pub async fn active_runs_and_their_leases_survive(storage: &impl Storage) {
    let fixture = Fixture::with_queue(storage).await;
    fixture.ok(create_all(1..4)).await;
    let first = fixture.claim(1).await;
    fixture.claim(2).await;
    fixture.pass(100).await;
    fixture.ok(heartbeat("q", 2, 2)).await;
    let fixture = fixture.reopen(storage).await;
    assert_eq!(fixture.claim(1).await, first, "a claim is replayed after a restart");
    assert!(matches!(fixture.refused(claim("q", "other", 1)).await, Refusal::RunIdConflict { .. }));
    fixture.scan().await;
    assert_eq!(fixture.pass(195).await.expired_runs, 0);
    assert_eq!(fixture.pass(5).await.expired_runs, 1, "the lease was neither lengthened nor shortened");
    assert_eq!(fixture.status(1).await, Status::Pending);
    fixture.ok(complete("q", 2, 2, object("{}"))).await;
    assert!(matches!(fixture.refused(delete_queue("q", false)).await, Refusal::QueueNotEmpty { tasks: 3, .. }));
}

pub async fn what_tasks_wait_for_survives(storage: &impl Storage) {
    let fixture = Fixture::with_queue(storage).await;
    let at = fixture.now().plus_seconds(30);
    fixture.create(1, with_priority(9)).await;
    fixture.create(2, waits_for(&[1])).await;
    fixture.ok(create_later(3, Definition::default(), at)).await;
    fixture.create(4, cancelled_with(&[3])).await;
    let limited = SchedulingFields { timeout_seconds: Some(600), ..SchedulingFields::default() };
    fixture.create(5, Definition { priority: 5, ..scheduled(limited) }).await;
    fixture.create(6, Definition::default()).await;
    fixture.ok(cancel("q", 6)).await;
    fixture.ok(update("q", 6, to_archived(true))).await;
    assert_eq!([fixture.claim(1).await.task.id, fixture.claim(2).await.task.id], [1, 5].map(task_id));
    fixture.ok(change_settings("q", SettingsPatch { max_running: Some(Some(3)), ..SettingsPatch::default() })).await;
    let before = fixture.tasks("q").await;
    let fixture = fixture.reopen(storage).await;
    assert_eq!(fixture.tasks("q").await, before);
    assert_eq!(fixture.store.queue_settings(&queue("q")).await.unwrap().max_running, Some(3));
    assert_kept_counts_are_right(&*fixture.store, "q").await;
    assert!(fixture.claimed(claim("q", "default", 3)).await.is_none());
    fixture.ok(complete("q", 1, 1, object("{}"))).await;
    assert_eq!(fixture.claim(4).await.task.id, task_id(2));
    let fixture = fixture.reopen(storage).await;
    fixture.pass(30).await;
    assert_eq!(fixture.claim(5).await.task.id, task_id(3), "its time has come");
    fixture.create(7, Definition::default()).await;
    assert!(fixture.claimed(claim("q", "default", 6)).await.is_none(), "the queue is at its limit");
    fixture.ok(cancel("q", 3)).await;
    fixture.upkeep().await;
    assert_eq!(fixture.status(4).await, Status::Cancelled);
    assert_eq!(fixture.claim(7).await.task.id, task_id(7));
    for id in [2, 7] {
        fixture.ok(heartbeat("q", id, if id == 2 { 4 } else { 7 })).await;
    }
    fixture.ok(heartbeat("q", 5, 2)).await;
    fixture.pass(280).await;
    fixture.ok(heartbeat("q", 5, 2)).await;
    fixture.pass(280).await;
    fixture.ok(heartbeat("q", 5, 2)).await;
    assert_eq!(fixture.get(5).await.lifecycle.status, Status::Running);
    fixture.pass(15).await;
    let ended = FinishedRun { run_id: run_id(2), end: RunEnd::Timeout };
    assert_eq!(fixture.get(5).await.lifecycle.finished_run, Some(ended));
}

/// What is noted of a dependency when it is deleted, and when ended tasks are to be deleted.
pub async fn what_is_noted_of_dependencies_and_retention_survives(storage: &impl Storage) {
    let fixture = Fixture::with_queue(storage).await;
    fixture.create(1, Definition::default()).await;
    fixture.create(2, waits_for(&[1, 9])).await;
    fixture.ok(delete("q", 1)).await;
    fixture.create(3, Definition::default()).await;
    fixture.ok(cancel("q", 3)).await;
    fixture.ok(update("q", 3, to_archived(true))).await;
    let retention = RetentionPatch { cancelled_seconds: Some(Some(60)), ..RetentionPatch::default() };
    let patch = SettingsPatch { paused: Some(true), retention, ..SettingsPatch::default() };
    let settings = fixture.ok(change_settings("q", patch)).await;
    fixture.upkeep().await;
    let before = fixture.tasks("q").await;
    let fixture = fixture.reopen(storage).await;
    assert_eq!(fixture.store.queue_settings(&queue("q")).await, Ok(settings));
    assert_eq!((fixture.tasks("q").await, fixture.count(all()).await), (before, 1));
    // A requeue would wait for it, and one that is to be cancelled is.
    let cancels = Update { on_dependency_failure: Some(OnDependencyFailure::Cancel), ..Update::default() };
    fixture.ok(update("q", 2, cancels)).await;
    assert_eq!(fixture.status(2).await, Status::Cancelled);
    fixture.clock.advance_seconds(60);
    fixture.upkeep().await;
    assert_eq!(fixture.tasks("q").await, vec![], "also the archived one");
}

pub async fn who_ran_a_task_survives(storage: &impl Storage) {
    let fixture = Fixture::with_queue(storage).await;
    fixture.create_many((1..=4).map(|id| (id, with_budget(9)))).await;
    for run in 1..=3 {
        fixture.claimed(claim_by(&format!(r#"{{"slot":{run},"nul":"\u0000"}}"#), run)).await.unwrap();
    }
    fixture.claim(4).await;
    fixture.ok(complete("q", 1, 1, object(r#"{"loss":1}"#))).await;
    fixture.ok(fail("q", 2, 2)).await;
    let before = fixture.tasks("q").await;
    let fixture = fixture.reopen(storage).await;
    assert_eq!(fixture.tasks("q").await, before);
    let known: Vec<bool> = before.iter().map(|task| task.outcome.last_run.is_some()).collect();
    assert_eq!(known, [true, true, true, false]);
    assert_eq!(fixture.count(filtered("last_run.run_id == None and last_run.worker.slot == 3")).await, 1);
    fixture.claim(5).await;
    assert_eq!(fixture.get(2).await.outcome.last_run, None);
}

pub async fn progress_telemetry_and_output_survive(storage: &impl Storage) {
    let fixture = Fixture::with_queue(storage).await;
    for id in 1..=2 {
        fixture.create_running(id, Definition::default()).await;
        fixture.ok(progress(id, id, r#"{"nul":"\u0000","step":7}"#)).await;
        fixture.ok(print(id, id, 5, "é\0 one ")).await;
        fixture.ok(print(id, id, 50, "two")).await;
    }
    fixture.ok(complete("q", 2, 2, object("{}"))).await;
    fixture.ok(observe("q", 1, "default", WorkerStatus::Busy)).await;
    fixture.ok(measure(1, r#"{"cpu":1.5}"#)).await;
    let query = ObservationQuery { filter: None, limit: 10, after: None };
    let seen = async |fixture: &Fixture| {
        let (mut read, store) = (Vec::new(), &fixture.store);
        for (id, offset) in [(1, 0), (1, 14), (2, 0), (2, 50)] {
            read.push(store.read_output(&queue("q"), task_id(id), offset, 1_000).await.unwrap());
        }
        (read, fixture.tasks("q").await, store.list_workers(&queue("q"), query.clone()).await.unwrap().items)
    };
    let before = seen(&fixture).await;
    let fixture = fixture.reopen(storage).await;
    assert_eq!(seen(&fixture).await, before);
    let elsewhere = fixture.refused(observe("q", 1, "other", WorkerStatus::Idle)).await;
    assert_eq!(elsewhere, Refusal::WorkerRouteConflict { worker_id: worker_id(1) });
    assert!(before.1.iter().all(|task| task.outcome.progress.is_some()) && before.2[0].telemetry.is_some());
    fixture.ok(progress(1, 1, r#"{"step":8}"#)).await;
    fixture.ok(print(1, 1, 13, "filled")).await;
    let read = fixture.store.read_output(&queue("q"), task_id(1), 0, 1_000).await.unwrap();
    assert_eq!((read.start, &*read.text, read.ended), (5, "é\0 one filled", false));
}

pub async fn finished_and_past_runs_survive(storage: &impl Storage) {
    let fixture = Fixture::with_queue(storage).await;
    fixture.create(1, with_budget(9)).await;
    for run in [1, 2, 3] {
        fixture.claim(run).await;
        fixture.ok(fail("q", 1, run)).await;
    }
    let before = fixture.tasks("q").await;
    let mut fixture = fixture;
    for _ in 0..2 {
        fixture = fixture.reopen(storage).await;
        for run in [1, 2, 3] {
            assert_eq!(fixture.refused(claim("q", "default", run)).await, Refusal::StaleRun { run_id: run_id(run) });
        }
        fixture.ok(fail("q", 1, 3)).await;
        assert_eq!(fixture.refused(unclaim("q", 1, 3)).await, Refusal::RunFinalized { end: RunEnd::Fail });
        assert_eq!(fixture.refused(fail("q", 1, 2)).await, Refusal::StaleRun { run_id: run_id(2) });
        assert_eq!(fixture.tasks("q").await, before);
    }
}

pub async fn run_ids_of_deleted_tasks_survive(storage: &impl Storage) {
    let fixture = Fixture::with_queue(storage).await;
    fixture.ok(create_queue("other")).await;
    for (queue, first) in [("q", 1), ("other", 3)] {
        fixture.ok(create(queue, 1, with_budget(9))).await;
        for run in [first, first + 1] {
            fixture.ok(claim(queue, "default", run)).await;
            fixture.ok(fail(queue, 1, run)).await;
        }
    }
    fixture.ok(delete("q", 1)).await;
    // A new task with the id of the deleted one changes nothing.
    fixture.create(1, with_routes(&["other"])).await;
    fixture.ok(delete_queue("other", true)).await;
    let mut fixture = fixture;
    for _ in 0..2 {
        fixture.clock.advance_seconds(40_000);
        fixture = fixture.reopen(storage).await;
        fixture.scan().await;
        for run in 1..=4 {
            assert_eq!(fixture.refused(claim("q", "default", run)).await, Refusal::StaleRun { run_id: run_id(run) });
        }
    }
    fixture.clock.advance_seconds(6_400);
    fixture.scan().await;
    assert_eq!(fixture.claimed(claim("q", "default", 1)).await, None, "forgotten a day after the deletion");
}

pub async fn the_pending_order_survives(storage: &impl Storage) {
    let fixture = Fixture::with_queue(storage).await;
    fixture.create_many(["f", "a", "c", "b", "e", "d"].map(|id| (id, with_routes(&["default", "x"])))).await;
    fixture.ok(update("q", "e", to_priority(1))).await;
    fixture.ok(requeue("q", "a")).await;
    fixture.ok(cancel("q", "b")).await;
    fixture.ok(update("q", "d", to_routes(&["y"]))).await;
    let fixture = fixture.reopen(storage).await;
    fixture.create("g", Definition::default()).await;
    fixture.ok(requeue("q", "b")).await;
    assert_eq!(fixture.claimed(claim("q", "x", 1)).await.unwrap().task.id, task_id("e"));
    assert_eq!(claim_all(&fixture, "default", "r").await, ["f", "c", "a", "g", "b"]);
    assert_eq!(claim_all(&fixture, "y", "y").await, ["d"]);
}

pub async fn cursors_survive(storage: &impl Storage) {
    let fixture = Fixture::with_queue(storage).await;
    fixture.create_many((0..9).map(|id| (id, with_routes(&[["a", "b", "c"][id % 3]])))).await;
    let order = TaskOrder { field: OrderField::Priority, descending: true };
    let page = fixture.page("q", &all(), order, 4, None).await;
    let expected = fixture.page("q", &all(), order, 4, page.next.clone()).await;
    let group = fixture.groups(all(), &[TaskDimension::Routes], 1).await.next.unwrap();
    let fixture = fixture.reopen(storage).await;
    assert_eq!(fixture.page("q", &all(), order, 4, page.next).await, expected);
    let dimensions = vec![TaskDimension::Routes];
    let query = TaskGroupQuery { selection: all(), dimensions, limit: 9, after: Some(Ok(group)) };
    assert_eq!(fixture.store.group_tasks(&queue("q"), query).await.unwrap().groups.len(), 2);
}

pub async fn an_outage_between_two_opens_grants_the_credit(storage: &impl Storage) {
    let fixture = Fixture::with_queue(storage).await;
    fixture.create(1, Definition::default()).await;
    fixture.create(2, Definition::default()).await;
    fixture.scan().await;
    fixture.claim(1).await;
    fixture.pass(10).await;
    // Claimed after the last scan that was written: its own time is the last sign of life.
    fixture.clock.advance_seconds(1);
    fixture.claim(2).await;
    fixture.clock.advance_seconds(3600);
    let fixture = fixture.reopen(storage).await;
    assert_eq!(fixture.scan().await, Scanned { credited_runs: 2, ..Scanned::default() });
    fixture.ok(heartbeat("q", 1, 1)).await;
    assert_eq!(fixture.pass(85).await.expired_runs, 0);
    assert_eq!(fixture.pass(5).await.expired_runs, 1);
    assert_eq!(fixture.status(1).await, Status::Running);
}

pub async fn a_deleted_queue_stays_deleted(storage: &impl Storage) {
    let fixture = Fixture::with_queue(storage).await;
    fixture.ok(create_all(0..20)).await;
    fixture.ok(delete_queue("q", true)).await;
    let fixture = fixture.reopen(storage).await;
    assert_eq!(fixture.store.list_queues().await, Ok(vec![]));
    fixture.ok(create_queue("q")).await;
    assert_eq!(fixture.tasks("q").await, vec![]);
    assert_eq!(fixture.claimed(claim("q", "default", 1)).await, None);
    assert_kept_counts_are_right(&*fixture.store, "q").await;
}

pub async fn time_never_goes_back_over_a_restart(storage: &impl Storage) {
    let fixture = Fixture::with_queue(storage).await;
    fixture.create(1, Definition::default()).await;
    let before = fixture.get(1).await.lifecycle.updated_at;
    fixture.close().await;
    let clock = ManualClock::new(before.plus_seconds(-3600));
    let fixture = Fixture { store: storage.open(clock.clone()).await, clock };
    fixture.create(2, Definition::default()).await;
    assert!(fixture.get(2).await.lifecycle.created_at >= before);
    assert!(fixture.claim(1).await.task.lifecycle.updated_at >= before);
}

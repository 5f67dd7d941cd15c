//! Queues: creation, order, deletion, and that a queue that is made again has nothing of the earlier one (I17, I18, I22).

use super::page_reader;
use super::prelude::*;

pub async fn a_queue_is_created_once(fixture: Fixture) {
    assert!(fixture.ok(create_queue("p")).await);
    assert!(!fixture.ok(create_queue("p")).await);
    assert!(fixture.ok(create_queue("P")).await);
}

pub async fn queues_are_listed_by_code_point(fixture: Fixture) {
    let sorted = ["0", "9", "A", "B", "Z", "a", "a-b", "a.b", "a0", "aB", "a_b", "ab", "b", "q", "z"];
    for name in sorted.iter().rev().chain(&["a"]) {
        fixture.ok(create_queue(name)).await;
    }
    assert_eq!(fixture.store.list_queues().await.unwrap(), sorted.map(queue));
}

pub async fn deleting_a_missing_queue_is_refused(fixture: Fixture) {
    for cascade in [false, true] {
        let missing = Refusal::QueueNotFound { queue: queue("other") };
        assert_eq!(fixture.refused(delete_queue("other", cascade)).await, missing);
    }
    fixture.ok(delete_queue("q", false)).await;
    assert_eq!(fixture.store.list_queues().await, Ok(vec![]));
}

pub async fn a_queue_with_tasks_is_deleted_only_with_cascade(fixture: Fixture) {
    fixture.ok(observe("q", 1, "default", WorkerStatus::Idle)).await;
    fixture.create(1, with_budget(1)).await;
    fixture.create(2, Definition::default()).await;
    fixture.create(3, Definition::default()).await;
    fixture.create(4, Definition::default()).await;
    fixture.claim(1).await;
    fixture.ok(fail("q", 1, 1)).await;
    fixture.claim(2).await;
    fixture.ok(complete("q", 2, 2, object("{}"))).await;
    fixture.ok(cancel("q", 3)).await;
    assert_eq!(fixture.count_by_status().await, [1, 0, 1, 1, 1]);

    let not_empty = Refusal::QueueNotEmpty { queue: queue("q"), tasks: 4 };
    assert_eq!(fixture.refused(delete_queue("q", false)).await, not_empty);
    assert_eq!(fixture.count(all()).await, 4);
    fixture.ok(delete_queue("q", true)).await;
    assert_eq!(fixture.store.list_queues().await, Ok(vec![]));

    fixture.ok(create_queue("w")).await;
    fixture.ok(observe("w", 1, "default", WorkerStatus::Idle)).await;
    // Workers do not count.
    fixture.ok(delete_queue("w", false)).await;
}

pub async fn running_tasks_block_the_deletion_of_their_queue(fixture: Fixture) {
    fixture.ok(create_all(0..3)).await;
    fixture.claim(1).await;
    fixture.claim(2).await;
    let before = fixture.tasks("q").await;
    for cascade in [false, true] {
        let running = Refusal::QueueHasRunningTasks { queue: queue("q"), running: 2 };
        assert_eq!(fixture.refused(delete_queue("q", cascade)).await, running);
    }
    assert_eq!(fixture.tasks("q").await, before);
    fixture.ok(cancel("q", 0)).await;
    fixture.ok(unclaim("q", 1, 2)).await;
    fixture.ok(delete_queue("q", true)).await;
}

pub async fn a_recreated_queue_is_empty(fixture: Fixture) {
    fixture.create_many((0..20).map(|id| (id, with_routes(&["default", "x"])))).await;
    fixture.ok(observe("q", 1, "default", WorkerStatus::Idle)).await;
    fixture.ok(delete_queue("q", true)).await;
    fixture.ok(create_queue("q")).await;

    assert_eq!(fixture.tasks("q").await, vec![]);
    assert_eq!((fixture.count(all()).await, fixture.count(filtered("exists(id)")).await), (0, 0));
    assert_eq!(fixture.store.count_workers(&queue("q"), None).await, Ok(0));
    assert_eq!(fixture.claimed(claim("q", "default", 1)).await, None);
    fixture.create(1, with_priority(5)).await;
    assert_eq!(fixture.tasks("q").await.len(), 1);
    assert_eq!(fixture.count(all()).await, 1);
    assert_eq!(fixture.claim(2).await.task.id, task_id(1));
}

pub async fn cursors_of_an_earlier_queue_of_the_same_name_are_refused(fixture: Fixture) {
    let fill = async || {
        for id in 0..3 {
            fixture.create(id, with_routes(&["a", "b"])).await;
            fixture.ok(observe("q", id, ["a", "b", "c"][id], WorkerStatus::Idle)).await;
        }
    };
    fill().await;
    let order = TaskOrder::default();
    let list = TaskQuery { selection: all(), order, limit: 1, after: None, max_bytes: PAGE_BYTES };
    let groups = TaskGroupQuery { selection: all(), dimensions: vec![TaskDimension::Routes], limit: 1, after: None };
    let workers = ObservationQuery { filter: None, limit: 1, after: None };
    let worker_groups =
        ObservationGroupQuery { selection: None, dimensions: vec![WorkerDimension::Route], limit: 1, after: None };
    let (store, q) = (&fixture.store, queue("q"));
    let after_task = page_reader::list(&**store, &q, list.clone()).await.unwrap().next;
    let after_group = store.group_tasks(&q, groups.clone()).await.unwrap().next;
    let after_worker = store.list_workers(&q, workers.clone()).await.unwrap().next;
    let after_worker_group = store.group_workers(&q, worker_groups.clone()).await.unwrap().next;
    for position in [&after_task, &after_group, &after_worker, &after_worker_group] {
        assert!(position.is_some());
    }
    let list = TaskQuery { after: after_task, ..list };
    assert_eq!(page_reader::list(&**store, &q, list.clone()).await.unwrap().items.len(), 1);

    fixture.ok(delete_queue("q", true)).await;
    fixture.ok(create_queue("q")).await;
    fill().await;
    let invalid = StoreError::Refused(Refusal::InvalidCursor);
    assert_eq!(page_reader::list(&**store, &q, list).await.unwrap_err(), invalid);
    let groups = TaskGroupQuery { after: after_group.map(Ok), ..groups };
    assert_eq!(store.group_tasks(&q, groups).await.unwrap_err(), invalid);
    let workers = ObservationQuery { after: after_worker, ..workers };
    assert_eq!(store.list_workers(&q, workers).await.unwrap_err(), invalid);
    let worker_groups = ObservationGroupQuery { after: after_worker_group.map(Ok), ..worker_groups };
    assert_eq!(store.group_workers(&q, worker_groups).await.unwrap_err(), invalid);
}

pub async fn runs_of_an_earlier_queue_of_the_same_name_are_refused(fixture: Fixture) {
    fixture.create_running(1, Definition::default()).await;
    fixture.ok(fail("q", 1, 1)).await;
    fixture.ok(delete_queue("q", true)).await;
    fixture.ok(create_queue("q")).await;
    assert!(matches!(fixture.refused(fail("q", 1, 1)).await, Refusal::TaskNotFound { .. }));
    fixture.create(1, Definition::default()).await;
    let before = fixture.get(1).await;
    for command in
        commands![fail("q", 1, 1), complete("q", 1, 1, object("{}")), heartbeat("q", 1, 1), unclaim("q", 1, 1)]
    {
        assert_eq!(fixture.refused(command).await, Refusal::StaleRun { run_id: run_id(1) });
    }
    assert_eq!(fixture.get(1).await, before);
}

pub async fn every_command_and_read_of_a_missing_queue_is_refused(fixture: Fixture) {
    fixture.create_running(1, Definition::default()).await;
    let missing = Refusal::QueueNotFound { queue: queue("no") };
    let commands = commands![
        create("no", 1, Definition::default()),
        update("no", 1, to_priority(1)),
        update_all("no", "exists(id)", Update::default()),
        CreateTasks { queue: queue("no"), ..create_all([1, 2]) },
        act_on_all("no", BulkAction::Cancel, "exists(id)"),
        ActOnTasks { dry_run: true, ..act_on_all("no", BulkAction::Delete, "exists(id)") },
        claim("no", "default", 1),
        claim("no", "default", 2),
        ClaimTasks { queue: queue("no"), ..claim_all([1, 2]) },
        ReportRuns { queue: queue("no"), ..report_all([heartbeat("q", 1, 1).into()]) },
        ReportProgress { queue: queue("no"), ..progress(1, 1, "{}") },
        AddOutput { queue: queue("no"), ..print(1, 1, 0, "x") },
        ReportTelemetry { queue: queue("no"), ..measure(1, "{}") },
        change_settings("no", SettingsPatch::default()),
        heartbeat("no", 1, 1),
        complete("no", 1, 1, object("{}")),
        fail("no", 1, 1),
        unclaim("no", 1, 1),
        cancel("no", 1),
        requeue("no", 1),
        delete("no", 1),
        observe("no", 1, "default", WorkerStatus::Idle),
        withdraw("no", 1),
    ];
    for command in commands {
        assert_eq!(fixture.refused(command).await, missing);
    }
    let (store, no, missing) = (&fixture.store, queue("no"), StoreError::Refused(missing));
    let list =
        TaskQuery { selection: all(), order: TaskOrder::default(), limit: 1, after: None, max_bytes: PAGE_BYTES };
    let groups = TaskGroupQuery { selection: all(), dimensions: vec![TaskDimension::Status], limit: 1, after: None };
    let workers = ObservationQuery { filter: None, limit: 1, after: None };
    let worker_groups =
        ObservationGroupQuery { selection: None, dimensions: vec![WorkerDimension::Route], limit: 1, after: None };
    assert_eq!(store.get_task(&no, task_id(1)).await.unwrap_err(), missing);
    assert_eq!(page_reader::list(&**store, &no, list).await.unwrap_err(), missing);
    assert_eq!(store.count_tasks(&no, all()).await.unwrap_err(), missing);
    assert_eq!(store.count_tasks(&no, filtered("priority == 1")).await.unwrap_err(), missing);
    assert_eq!(store.group_tasks(&no, groups).await.unwrap_err(), missing);
    assert_eq!(store.list_workers(&no, workers).await.unwrap_err(), missing);
    assert_eq!(store.count_workers(&no, None).await.unwrap_err(), missing);
    assert_eq!(store.group_workers(&no, worker_groups).await.unwrap_err(), missing);
    assert_eq!(store.read_output(&no, task_id(1), 0, 1_000).await.unwrap_err(), missing);
    assert_eq!(store.list_queues().await.unwrap(), [queue("q")], "nothing made the queue by itself");
}

pub async fn equal_ids_in_two_queues_do_not_touch_each_other(fixture: Fixture) {
    fixture.ok(create_queue("other")).await;
    for name in ["q", "other"] {
        for id in 0..4 {
            fixture.ok(create(name, id, named("same"))).await;
            fixture.ok(observe(name, id, "default", WorkerStatus::Idle)).await;
        }
    }
    let before = fixture.tasks("other").await;
    fixture.claim(1).await;
    fixture.ok(complete("q", 0, 1, object(r#"{"a":1}"#))).await;
    fixture.ok(cancel("q", 1)).await;
    fixture.ok(delete("q", 2)).await;
    fixture.ok(update_all("q", "name == 'same'", to_priority(9))).await;
    fixture.ok(act_on_all("q", BulkAction::Cancel, "name == 'same'")).await;
    fixture.ok(withdraw("q", 1)).await;
    assert_eq!(fixture.tasks("other").await, before);
    fixture.ok(delete_queue("q", true)).await;
    assert_eq!(fixture.tasks("other").await, before);
    assert_eq!(fixture.store.count_workers(&queue("other"), None).await, Ok(4));
    let pending = fixture.store.count_tasks(&queue("other"), of_status(Status::Pending)).await;
    assert_eq!(pending, Ok(4));
    assert_eq!(fixture.claimed(claim("other", "default", 2)).await.unwrap().task.id, task_id(0));
}

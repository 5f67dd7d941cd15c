//! Queues: creation, order, deletion, and that a queue that is made again has nothing of the earlier one (I17, I18, I22).

use taskqueue_core::definition::Definition;
use taskqueue_core::grouping::{ObservationGroupQuery, TaskDimension, TaskGroupQuery, WorkerDimension};
use taskqueue_core::limits::PAGE_BYTES;
use taskqueue_core::observation::WorkerStatus;
use taskqueue_core::refusal::Refusal;
use taskqueue_core::selection::{ObservationQuery, TaskOrder, TaskQuery};
use taskqueue_core::task::Status;
use taskqueue_core::update::Update;

use super::Storage;
use super::bench::Bench;
use super::commands::*;
use super::listed;
use crate::StoreError;
use crate::command::{Answer, Command};

pub async fn a_fresh_store_has_no_queue(storage: &impl Storage) {
    let bench = Bench::open(storage).await;
    assert_eq!(bench.store.list_queues().await, Ok(vec![]));
    assert_eq!(bench.store.check().await, Ok(vec![]));
}

pub async fn a_queue_is_created_once(storage: &impl Storage) {
    let bench = Bench::open(storage).await;
    assert_eq!(bench.ok(create_queue("q")).await, Answer::Created(true));
    assert_eq!(bench.ok(create_queue("q")).await, Answer::Created(false));
    assert_eq!(bench.ok(create_queue("Q")).await, Answer::Created(true));
}

pub async fn queues_are_listed_by_code_point(storage: &impl Storage) {
    let bench = Bench::open(storage).await;
    let sorted = ["0", "9", "A", "B", "Z", "a", "a-b", "a.b", "a0", "aB", "a_b", "ab", "b", "z"];
    for name in sorted.iter().rev().chain(&["a"]) {
        bench.ok(create_queue(name)).await;
    }
    assert_eq!(bench.store.list_queues().await.unwrap(), sorted.map(queue));
}

pub async fn deleting_a_missing_queue_is_refused(storage: &impl Storage) {
    let bench = Bench::with_queue(storage).await;
    for cascade in [false, true] {
        let missing = Refusal::QueueNotFound { queue: queue("other") };
        assert_eq!(bench.refused(delete_queue("other", cascade)).await, missing);
    }
    bench.ok(delete_queue("q", false)).await;
    assert_eq!(bench.store.list_queues().await, Ok(vec![]));
}

pub async fn a_queue_with_tasks_is_deleted_only_with_cascade(storage: &impl Storage) {
    let bench = Bench::with_queue(storage).await;
    bench.ok(observe("q", 1, "default", WorkerStatus::Idle)).await;
    bench.create(1, with_budget(1)).await;
    bench.create(2, Definition::default()).await;
    bench.create(3, Definition::default()).await;
    bench.create(4, Definition::default()).await;
    bench.claim(1).await;
    bench.ok(fail("q", 1, 1)).await;
    bench.claim(2).await;
    bench.ok(complete("q", 2, 2, object("{}"))).await;
    bench.ok(cancel("q", 3)).await;
    assert_eq!(bench.count_by_status().await, [1, 0, 1, 1, 1]);

    let not_empty = Refusal::QueueNotEmpty { queue: queue("q"), tasks: 4 };
    assert_eq!(bench.refused(delete_queue("q", false)).await, not_empty);
    assert_eq!(bench.count(all()).await, 4);
    assert_eq!(bench.ok(delete_queue("q", true)).await, Answer::Done);
    assert_eq!(bench.store.list_queues().await, Ok(vec![]));

    bench.ok(create_queue("w")).await;
    bench.ok(observe("w", 1, "default", WorkerStatus::Idle)).await;
    assert_eq!(bench.ok(delete_queue("w", false)).await, Answer::Done, "workers do not count");
}

pub async fn running_tasks_block_the_deletion_of_their_queue(storage: &impl Storage) {
    let bench = Bench::with_queue(storage).await;
    for id in 0..3 {
        bench.create(id, Definition::default()).await;
    }
    bench.claim(1).await;
    bench.claim(2).await;
    let before = bench.tasks("q").await;
    for cascade in [false, true] {
        let running = Refusal::QueueHasRunningTasks { queue: queue("q"), running: 2 };
        assert_eq!(bench.refused(delete_queue("q", cascade)).await, running);
    }
    assert_eq!(bench.tasks("q").await, before);
    bench.ok(cancel("q", 0)).await;
    bench.ok(unclaim("q", 1, 2)).await;
    bench.ok(delete_queue("q", true)).await;
}

pub async fn a_recreated_queue_is_empty(storage: &impl Storage) {
    let bench = Bench::with_queue(storage).await;
    for id in 0..20 {
        bench.create(id, with_routes(&["default", "x"])).await;
    }
    bench.ok(observe("q", 1, "default", WorkerStatus::Idle)).await;
    bench.ok(delete_queue("q", true)).await;
    bench.ok(create_queue("q")).await;

    assert_eq!(bench.tasks("q").await, vec![]);
    assert_eq!((bench.count(all()).await, bench.count(filtered("exists(id)")).await), (0, 0));
    assert_eq!(bench.store.count_workers(&queue("q"), None).await, Ok(0));
    assert_eq!(bench.claimed(claim("q", "default", 1)).await, None);
    bench.create(1, with_priority(5)).await;
    assert_eq!(bench.tasks("q").await.len(), 1);
    assert_eq!(bench.count(all()).await, 1);
    assert_eq!(bench.claim(2).await.task.id, task_id(1));
}

pub async fn cursors_of_an_earlier_queue_of_the_same_name_are_refused(storage: &impl Storage) {
    let bench = Bench::with_queue(storage).await;
    let fill = async || {
        for id in 0..3 {
            bench.create(id, with_routes(&["a", "b"])).await;
            bench.ok(observe("q", id, ["a", "b", "c"][id], WorkerStatus::Idle)).await;
        }
    };
    fill().await;
    let order = TaskOrder::default();
    let list = TaskQuery { selection: all(), order, limit: 1, after: None, max_bytes: PAGE_BYTES };
    let groups = TaskGroupQuery { selection: all(), dimensions: vec![TaskDimension::Routes], limit: 1, after: None };
    let workers = ObservationQuery { filter: None, limit: 1, after: None };
    let worker_groups =
        ObservationGroupQuery { selection: None, dimensions: vec![WorkerDimension::Route], limit: 1, after: None };
    let (store, q) = (&bench.store, queue("q"));
    let after_task = listed::list(&**store, &q, list.clone()).await.unwrap().next;
    let after_group = store.group_tasks(&q, groups.clone()).await.unwrap().next;
    let after_worker = store.list_workers(&q, workers.clone()).await.unwrap().next;
    let after_worker_group = store.group_workers(&q, worker_groups.clone()).await.unwrap().next;
    for position in [&after_task, &after_group, &after_worker, &after_worker_group] {
        assert!(position.is_some());
    }
    let list = TaskQuery { after: after_task, ..list };
    assert_eq!(listed::list(&**store, &q, list.clone()).await.unwrap().items.len(), 1);

    bench.ok(delete_queue("q", true)).await;
    bench.ok(create_queue("q")).await;
    fill().await;
    let invalid = StoreError::Refused(Refusal::InvalidCursor);
    assert_eq!(listed::list(&**store, &q, list).await.unwrap_err(), invalid);
    let groups = TaskGroupQuery { after: after_group.map(Ok), ..groups };
    assert_eq!(store.group_tasks(&q, groups).await.unwrap_err(), invalid);
    let workers = ObservationQuery { after: after_worker, ..workers };
    assert_eq!(store.list_workers(&q, workers).await.unwrap_err(), invalid);
    let worker_groups = ObservationGroupQuery { after: after_worker_group.map(Ok), ..worker_groups };
    assert_eq!(store.group_workers(&q, worker_groups).await.unwrap_err(), invalid);
}

pub async fn runs_of_an_earlier_queue_of_the_same_name_are_refused(storage: &impl Storage) {
    let bench = Bench::with_queue(storage).await;
    bench.create(1, Definition::default()).await;
    bench.claim(1).await;
    bench.ok(fail("q", 1, 1)).await;
    bench.ok(delete_queue("q", true)).await;
    bench.ok(create_queue("q")).await;
    assert!(matches!(bench.refused(fail("q", 1, 1)).await, Refusal::TaskNotFound { .. }));
    bench.create(1, Definition::default()).await;
    let before = bench.get(1).await;
    for command in [fail("q", 1, 1), complete("q", 1, 1, object("{}")), heartbeat("q", 1, 1), unclaim("q", 1, 1)] {
        assert_eq!(bench.refused(command).await, Refusal::StaleRun { run_id: run_id(1) });
    }
    assert_eq!(bench.get(1).await, before);
}

pub async fn every_command_and_read_of_a_missing_queue_is_refused(storage: &impl Storage) {
    let bench = Bench::with_queue(storage).await;
    bench.create(1, Definition::default()).await;
    bench.claim(1).await;
    let missing = Refusal::QueueNotFound { queue: queue("no") };
    let commands: Vec<Command> = vec![
        create("no", 1, Definition::default()),
        update("no", 1, to_priority(1)),
        update_all("no", "exists(id)", Update::default()),
        claim("no", "default", 1),
        claim("no", "default", 2),
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
        assert_eq!(bench.refused(command).await, missing);
    }
    let (store, no, missing) = (&bench.store, queue("no"), StoreError::Refused(missing));
    let list =
        TaskQuery { selection: all(), order: TaskOrder::default(), limit: 1, after: None, max_bytes: PAGE_BYTES };
    let groups = TaskGroupQuery { selection: all(), dimensions: vec![TaskDimension::Status], limit: 1, after: None };
    let workers = ObservationQuery { filter: None, limit: 1, after: None };
    let worker_groups =
        ObservationGroupQuery { selection: None, dimensions: vec![WorkerDimension::Route], limit: 1, after: None };
    assert_eq!(store.get_task(&no, task_id(1)).await.unwrap_err(), missing);
    assert_eq!(listed::list(&**store, &no, list).await.unwrap_err(), missing);
    assert_eq!(store.count_tasks(&no, all()).await.unwrap_err(), missing);
    assert_eq!(store.count_tasks(&no, filtered("priority == 1")).await.unwrap_err(), missing);
    assert_eq!(store.group_tasks(&no, groups).await.unwrap_err(), missing);
    assert_eq!(store.list_workers(&no, workers).await.unwrap_err(), missing);
    assert_eq!(store.count_workers(&no, None).await.unwrap_err(), missing);
    assert_eq!(store.group_workers(&no, worker_groups).await.unwrap_err(), missing);
    assert_eq!(store.list_queues().await.unwrap(), [queue("q")], "nothing made the queue by itself");
}

pub async fn equal_ids_in_two_queues_do_not_touch_each_other(storage: &impl Storage) {
    let bench = Bench::with_queue(storage).await;
    bench.ok(create_queue("other")).await;
    for name in ["q", "other"] {
        for id in 0..4 {
            bench.ok(create(name, id, named("same"))).await;
            bench.ok(observe(name, id, "default", WorkerStatus::Idle)).await;
        }
    }
    let before = bench.tasks("other").await;
    bench.claim(1).await;
    bench.ok(complete("q", 0, 1, object(r#"{"a":1}"#))).await;
    bench.ok(cancel("q", 1)).await;
    bench.ok(delete("q", 2)).await;
    bench.ok(update_all("q", "name == 'same'", to_priority(9))).await;
    bench.ok(withdraw("q", 1)).await;
    assert_eq!(bench.tasks("other").await, before);
    bench.ok(delete_queue("q", true)).await;
    assert_eq!(bench.tasks("other").await, before);
    assert_eq!(bench.store.count_workers(&queue("other"), None).await, Ok(4));
    let pending = bench.store.count_tasks(&queue("other"), of_status(Status::Pending)).await;
    assert_eq!(pending, Ok(4));
    assert_eq!(bench.claimed(claim("other", "default", 2)).await.unwrap().task.id, task_id(0));
}

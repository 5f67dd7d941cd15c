//! The reads give what `core` says about the same tasks; through the pool, as the store asks them.

use taskqueue_core::grouping::{GroupQuery, Groups};
use taskqueue_core::selection::TaskPosition;
use taskqueue_core::sparse::KEYS_MAX;
use taskqueue_store::conformance::prelude::*;
use taskqueue_store::conformance::{filters, page_reader};
use taskqueue_store::page::TaskPage;
use taskqueue_store::reading::{Answer, TaskRead, WorkerRead};
use taskqueue_test_postgres::{Cluster, Database};

use crate::Concurrency;
use crate::database_tests::{Plain, QUEUE_KEY, insert, migrated, random_task, session};
use crate::long_reader::Snapshot;
use crate::readers::{Lane, Readers};
use crate::reads;
use crate::session::Session;

fn readers(database: &Database) -> Readers {
    Readers::new(Arc::new(Plain { url: database.url() }), Concurrency::default())
}

async fn filled(tasks: usize, seed: u64) -> (Database, Readers, Vec<Task>) {
    let database = migrated(Cluster::shared());
    let mut random = Random::new(seed);
    let tasks: Vec<Task> = (0..tasks).map(|number| random_task(&mut random, number)).collect();
    insert(&session(&database).await, &tasks).await;
    let readers = readers(&database);
    (database, readers, tasks)
}

async fn list(readers: &Readers, query: &TaskQuery) -> Result<Page<Task>, StoreError> {
    let (read, page) = TaskRead::rows(query.clone(), page_reader::row);
    let read = async move |snapshot: &Snapshot<'_>| reads::read_tasks(snapshot, &queue("q"), &read).await;
    readers.read_long("listing", read).await?;
    page.take()
}

async fn read_workers(readers: &Readers, read: WorkerRead, now: Option<Timestamp>) {
    let read = async move |snapshot: &Snapshot<'_>| reads::read_workers(snapshot, &queue("q"), &read, now).await;
    readers.read_long("reading", read).await.unwrap();
}

fn all_workers() -> (WorkerRead, Answer<GroupPage>) {
    WorkerRead::groups(GroupQuery { selection: None, dimensions: Vec::new(), limit: 0, after: None })
}

fn expected(tasks: &[Task], query: &TaskQuery) -> Page<Task> {
    let place = |task: &Task| TaskPosition::of(&task.view(), query.order);
    let order =
        |a: &TaskPosition, b: &TaskPosition| query.order.compare((&a.value, a.id.as_str()), (&b.value, b.id.as_str()));
    let after = query.after.clone().map(|after| TaskPosition::from_position(after).unwrap());
    let mut selected: Vec<Task> = tasks.iter().filter(|task| query.selection.matches(&task.view())).cloned().collect();
    selected.retain(|task| after.as_ref().is_none_or(|after| order(&place(task), after).is_gt()));
    selected.sort_by(|a, b| order(&place(a), &place(b)));
    let (read, listed) = TaskRead::rows(query.clone(), page_reader::row);
    let TaskRead::Page(query, rows) = read else { panic!("a page") };
    let mut page = TaskPage::new(&query, QueueKey(QUEUE_KEY), rows());
    let more = !selected.iter().all(|task| page.push(&task.view()));
    page.finish(more);
    listed.take().unwrap()
}

#[tokio::test]
async fn pages_counts_and_groups_are_those_of_the_rules() {
    let (_database, readers, tasks) = filled(120, 11).await;
    let mut random = Random::new(12);
    for _ in 0..400 {
        let selection = filters::selection(&mut random);
        let limit = random.pick(&[1, 3, 10, 50, 1_000]);
        let mut query = TaskQuery {
            selection: selection.clone(),
            order: filters::order(&mut random),
            limit,
            after: None,
            max_bytes: PAGE_BYTES,
        };
        for _ in 0..4 {
            let page = list(&readers, &query).await.unwrap();
            assert_eq!(page, expected(&tasks, &query), "{query:?}");
            query.after = page.next;
            if query.after.is_none() {
                break;
            }
        }
        count_and_group(&readers, &tasks, selection, &mut random).await;
    }
}

async fn count_and_group(readers: &Readers, tasks: &[Task], selection: TaskSelection, random: &mut Random) {
    use TaskDimension::{Routes, Status as ByStatus};
    let dimensions = random.pick(&[vec![Routes], vec![ByStatus], vec![Routes, ByStatus], vec![ByStatus, Routes]]);
    let query = TaskGroupQuery { selection, dimensions, limit: random.pick(&[1, 3, 100]), after: None };
    let mut groups = Groups::new(query.limit, None);
    for task in tasks.iter().filter(|task| query.selection.matches(&task.view())) {
        groups.add_tasks(&query.dimensions, task.definition.routes.iter(), task.lifecycle.status, 1);
    }
    let expected = groups.into_page(QUEUE_KEY);
    let asked = query.clone();
    let group = async move |snapshot: &Snapshot<'_>| reads::group_tasks(snapshot, &queue("q"), &asked).await;
    assert_eq!(readers.read_long("grouping", group).await.unwrap(), expected, "{query:?}");
    let asked = query.selection.clone();
    let count = async move |snapshot: &Snapshot<'_>| reads::count_tasks(snapshot, &queue("q"), &asked).await;
    assert_eq!(readers.read_long("counting", count).await.unwrap(), expected.count, "{query:?}");
    if query.selection.is_by_status_only() {
        let query = &query;
        let group = |session: Arc<Session>| async move { reads::group_tally(&session, &queue("q"), query).await };
        assert_eq!(readers.read(Lane::Short, "grouping", group).await.unwrap(), expected, "{query:?}");
        let count =
            |session: Arc<Session>| async move { reads::count_tally(&session, &queue("q"), &query.selection).await };
        assert_eq!(readers.read(Lane::Short, "counting", count).await.unwrap(), expected.count, "{query:?}");
    }
}

/// A page in the order of the ids walks over archived tasks: with many of them it takes its turn among the long reads.
#[tokio::test]
async fn a_page_that_may_walk_over_many_archived_tasks_is_a_long_read() {
    let (database, readers, _) = filled(1, 17).await;
    let page = |field, include_archived| TaskQuery {
        selection: TaskSelection { include_archived, ..TaskSelection::default() },
        order: TaskOrder { field, descending: false },
        limit: 10,
        after: None,
        max_bytes: PAGE_BYTES,
    };
    let bounded = async |field, include_archived| {
        reads::is_bounded(&readers, &queue("q"), &page(field, include_archived)).await.unwrap()
    };
    assert!(bounded(OrderField::Id, false).await);
    database.admin(&format!(
        "INSERT INTO taskqueue.tally (queue_key, shard, routes, status, tasks)
        VALUES ({QUEUE_KEY}, -1, '[\"x\"]', 'succeeded', 20001)"
    ));
    assert!(!bounded(OrderField::Id, false).await);
    assert!(bounded(OrderField::Id, true).await && bounded(OrderField::CreatedAt, false).await);
    assert!(!bounded(OrderField::Priority, true).await, "no index has this order");
}

#[tokio::test]
async fn every_task_is_got_whole_and_what_is_missing_is_told_apart() {
    let (_database, readers, tasks) = filled(60, 13).await;
    let get = async |name: &str, number: usize| {
        let queue = &queue(name);
        let get = |session: Arc<Session>| async move { reads::get_task(&session, queue, task_id(number)).await };
        readers.read(Lane::Short, "getting", get).await
    };
    for (number, task) in tasks.iter().enumerate() {
        assert_eq!(get("q", number).await.as_ref(), Ok(task));
    }
    let missing = Refusal::TaskNotFound { queue: queue("q"), task_id: task_id(999) };
    assert_eq!(get("q", 999).await, Err(StoreError::Refused(missing)));
    let missing = Refusal::QueueNotFound { queue: queue("r") };
    assert_eq!(get("r", 0).await, Err(StoreError::Refused(missing)));
}

#[tokio::test]
async fn a_page_of_large_tasks_ends_early_and_the_next_one_goes_on() {
    let database = migrated(Cluster::shared());
    let large = object_of_bytes(900_000);
    let tasks: Vec<Task> = (0..40)
        .map(|number| {
            let mut task = random_task(&mut Random::new(number as u64), number);
            // Half of them are large by their definition, half by their result.
            let args = if number % 2 == 0 { large.clone() } else { JsonObject::empty() };
            task.outcome.result = if number % 2 == 0 { JsonObject::empty() } else { large.clone() };
            task.definition.args = args;
            task.lifecycle.archived = false;
            task
        })
        .collect();
    insert(&session(&database).await, &tasks).await;
    let readers = readers(&database);
    for filter in [None, Some("args.a == 'no' or not (args.a == 'no')")] {
        let filter = filter.map(|text| taskqueue_core::filter::TaskFilter::parse(text).unwrap());
        let selection = TaskSelection { filter, ..TaskSelection::default() };
        let mut query =
            TaskQuery { selection, order: Default::default(), limit: 1_000, after: None, max_bytes: PAGE_BYTES };
        let mut pages = 0;
        loop {
            let page = list(&readers, &query).await.unwrap();
            assert_eq!(page, expected(&tasks, &query));
            let bytes = |task: &Task| task.definition.args.as_str().len() + task.outcome.result.as_str().len();
            assert!(page.items.iter().map(bytes).sum::<usize>() <= PAGE_BYTES);
            pages += 1;
            query.after = page.next;
            if query.after.is_none() {
                break;
            }
        }
        assert_eq!(pages, 3);
    }
}

#[tokio::test]
async fn observations_count_until_the_time_of_the_service_or_of_the_caller() {
    let database = migrated(Cluster::shared());
    let readers = readers(&database);
    let insert = |id: &str, expires_at: &str| {
        database.admin(&format!(
            "INSERT INTO taskqueue.observations (queue_key, last_seen_at, expires_at, id, route, status, metadata)
            SELECT {QUEUE_KEY}, 0, {expires_at}, '{id}', 'a', 'idle', '{{}}' FROM taskqueue.clock"
        ));
    };
    let micros = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
    insert("w_000000000001", "5");
    insert("w_000000000002", &format!("{micros} + 100000000"));
    insert("w_000000000003", &format!("{micros} + 900000000"));
    let seen = async |now: Option<Timestamp>| {
        let query = ObservationQuery { filter: Some(observation_filter("route == 'a'")), limit: 2, after: None };
        let ((read, page), (count, counted)) = (WorkerRead::page(query), all_workers());
        read_workers(&readers, read, now).await;
        read_workers(&readers, count, now).await;
        let page = page.take().unwrap();
        (page.items.len(), page.next.is_some(), counted.take().unwrap().count)
    };
    assert_eq!(seen(Some(Timestamp::from_micros(4))).await, (2, true, 3));
    assert_eq!(seen(None).await, (2, false, 2));
    database.admin("UPDATE taskqueue.clock SET offset_micros = 200000000");
    assert_eq!(seen(None).await, (1, false, 1));
    database.admin(&format!("UPDATE taskqueue.clock SET last_scan_at = {micros} + 950000000"));
    assert_eq!(seen(None).await, (0, false, 0));
}

#[tokio::test]
async fn more_observations_than_a_page_are_all_counted() {
    let database = migrated(Cluster::shared());
    database.admin(&format!(
        "INSERT INTO taskqueue.observations (queue_key, last_seen_at, expires_at, id, route, status, metadata)
        SELECT {QUEUE_KEY}, 0, 9, 'w_' || lpad(n::text, 12, '0'), 'a', 'idle', '{{}}'
        FROM generate_series(1, 2500) AS n"
    ));
    let readers = readers(&database);
    let (count, counted) = all_workers();
    read_workers(&readers, count, Some(Timestamp::from_micros(1))).await;
    assert_eq!(counted.take().unwrap().count, 2_500);
}

#[tokio::test]
async fn a_damaged_row_is_an_error_and_no_panic() {
    let (database, readers, _) = filled(3, 14).await;
    database.admin("UPDATE taskqueue.tasks SET status = 'lost'");
    let query = TaskQuery {
        selection: TaskSelection::default(),
        order: Default::default(),
        limit: 10,
        after: None,
        max_bytes: PAGE_BYTES,
    };
    assert_eq!(list(&readers, &query).await.unwrap_err(), StoreError::Unavailable);
    let running = &of_status(Status::Running);
    let count = |session: Arc<Session>| async move { reads::count_tally(&session, &queue("q"), running).await };
    assert!(readers.read(Lane::Short, "counting", count).await.is_ok());
}

/// The tables beside `tasks` are not asked for more keys than a read may collect. They are gone here, so that asking fails.
#[tokio::test]
async fn more_tasks_than_keys_may_be_collected_are_visited() {
    let (database, readers, _tasks) = filled(0, 1).await;
    let failed = TaskSelection { status: Some(Status::Failed), name: Some("x".to_owned()), ..TaskSelection::default() };
    let count = || {
        let failed = failed.clone();
        let count = async move |snapshot: &Snapshot<'_>| reads::count_tasks(snapshot, &queue("q"), &failed).await;
        readers.read_long("counting", count)
    };
    assert_eq!(count().await, Ok(0));
    database.admin("DROP TABLE taskqueue.unsuccessful");
    for (tasks, expected) in [(KEYS_MAX + 1, Ok(0)), (KEYS_MAX, Err(StoreError::Unavailable))] {
        database.admin(&format!(
            "DELETE FROM taskqueue.tally;
            INSERT INTO taskqueue.tally (queue_key, shard, routes, status, tasks)
            VALUES ({QUEUE_KEY}, 0, '[]', 'failed', {tasks}), ({QUEUE_KEY}, 0, '[]', 'succeeded', 1000000)"
        ));
        assert_eq!(count().await, expected, "{tasks}");
    }
}

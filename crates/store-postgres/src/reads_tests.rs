//! What reads do on PostgreSQL besides what every store promises; through the pool, as the store asks them.

use taskqueue_core::grouping::GroupQuery;
use taskqueue_core::sparse::KEYS_MAX;
use taskqueue_store::conformance::page_reader;
use taskqueue_store::conformance::prelude::*;
use taskqueue_store::reading::{Answer, TaskRead, WorkerRead};
use taskqueue_test_postgres::{Cluster, Database};

use crate::Concurrency;
use crate::changes::archived_shard;
use crate::database_tests::{Plain, QUEUE_KEY, insert, migrated, random_task, session};
use crate::long_reader::Snapshot;
use crate::readers::{Lane, Readers};
use crate::reads;
use crate::session::Session;

fn readers(database: &Database) -> Readers {
    Readers::new(Arc::new(Plain { url: database.url() }), Concurrency::default())
}

async fn filled(tasks: usize, seed: u64) -> (Database, Readers) {
    let database = migrated(Cluster::shared());
    let mut random = Random::new(seed);
    let tasks: Vec<Task> = (0..tasks).map(|number| random_task(&mut random, number)).collect();
    insert(&session(&database).await, &tasks).await;
    let readers = readers(&database);
    (database, readers)
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

/// A page in the order of the ids walks over archived tasks: with many of them it takes its turn among the long reads.
#[tokio::test]
async fn a_page_that_may_walk_over_many_archived_tasks_is_a_long_read() {
    let (database, readers) = filled(1, 17).await;
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

/// In one of them a count may be below zero; archived tasks have their own.
#[tokio::test]
async fn a_tally_adds_up_over_its_shards() {
    let (database, readers) = filled(0, 1).await;
    for (shard, tasks) in [(0, 3), (1, -2), (archived_shard(0), -1), (archived_shard(1), 5)] {
        database.admin(&format!(
            "INSERT INTO taskqueue.tally (queue_key, shard, routes, status, tasks)
                VALUES ({QUEUE_KEY}, {shard}, '[\"a\"]', 'failed', {tasks})"
        ));
    }
    for (include_archived, tasks) in [(false, 1), (true, 5)] {
        let selection = TaskSelection { include_archived, ..TaskSelection::default() };
        let query = &TaskGroupQuery { selection, dimensions: vec![TaskDimension::Routes], limit: 9, after: None };
        let both = |session: Arc<Session>| async move {
            let page = reads::group_tally(&session, &queue("q"), query).await?;
            Ok((page, reads::count_tally(&session, &queue("q"), &query.selection).await?))
        };
        let (page, count) = readers.read(Lane::Short, "counting", both).await.unwrap();
        assert_eq!((page.count, page.groups.len(), page.groups[0].count, count), (tasks, 1, tasks, tasks));
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
    let (database, readers) = filled(3, 14).await;
    database.admin("UPDATE taskqueue.tasks SET status = 'lost'");
    let selection = TaskSelection::default();
    let query = TaskQuery { selection, order: Default::default(), limit: 10, after: None, max_bytes: PAGE_BYTES };
    assert_eq!(list(&readers, &query).await.unwrap_err(), StoreError::Unavailable);
    let running = &of_status(Status::Running);
    let count = |session: Arc<Session>| async move { reads::count_tally(&session, &queue("q"), running).await };
    assert!(readers.read(Lane::Short, "counting", count).await.is_ok());
}

/// The tables beside `tasks` are not asked for more keys than a read may collect. They are gone here, so that asking fails.
#[tokio::test]
async fn more_tasks_than_keys_may_be_collected_are_visited() {
    let (database, readers) = filled(0, 1).await;
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

//! Plans of the statements behind stats, and what they find where a queue is full of priorities or of dead entries.

use std::time::Instant;

use taskqueue_store::conformance::prelude::*;
use taskqueue_test_postgres::{Cluster, Database};
use tokio_postgres::types::Type;

use super::*;
use crate::database_tests::{QUEUE_KEY, REQUIRED_COLUMNS, migrated, plan, session};

const DAY: i64 = 86_400;

/// 100,000 pending tasks of one queue, with one of five priorities each and two routes; and a day of activity of it and 50 others.
async fn filled() -> (Database, Session) {
    let database = migrated(Cluster::shared());
    database.admin(&format!(
        "INSERT INTO taskqueue.activity_since VALUES (1, 1);
        INSERT INTO taskqueue.tasks ({REQUIRED_COLUMNS})
        SELECT n, {QUEUE_KEY}, n, n % 5, n, 0, 3, n, 100, 't_' || lpad(n::text, 12, '0'), 'pending', '[\"a\",\"b\"]'
        FROM generate_series(1, 100000) AS n;
        INSERT INTO taskqueue.ready
        SELECT queue_key, priority, pending_seq, task_key, route FROM taskqueue.tasks, unnest(ARRAY['a', 'b']) AS route;
        INSERT INTO taskqueue.tally (queue_key, shard, routes, status, tasks)
        VALUES ({QUEUE_KEY}, 0, '[\"a\",\"b\"]', 'pending', 100000);
        INSERT INTO taskqueue.queues (queue_key, name) SELECT n, 'other' || n FROM generate_series(100, 149) AS n;
        INSERT INTO taskqueue.activity
        SELECT queue_key, 60, n::bigint * 60000000, 1, '' FROM taskqueue.queues, generate_series(1, 1440) AS n;
        ANALYZE"
    ));
    let session = session(&database).await;
    (database, session)
}

/// The figures of the queue.
async fn figures_of(session: &Session, pending: PendingDetail) -> Read<QueueFigures> {
    let (log, clock) = (ActivityLog::default(), Some(Timestamp::from_micros(1)));
    let reader = StatsReader { session, log: &log, clock };
    let read = reader.figures(&[QueueKey(QUEUE_KEY)], &ALL_ROUTES, pending).await;
    session.execute_text(END).await.unwrap();
    read.map(|read| read.queues.into_iter().next().unwrap().1)
}

/// Since when the oldest tasks of the routes are pending.
async fn oldest(session: &Session) -> Vec<(String, Option<i64>)> {
    let figures = figures_of(session, PendingDetail::Number).await.unwrap();
    let routes = figures.routes();
    routes.map(|(route, figures)| (route.to_owned(), figures.oldest_pending.map(Timestamp::as_micros))).collect()
}

#[tokio::test]
async fn stats_are_found_by_indexes_and_visit_no_task_twice_whatever_the_planner_knows() {
    let (database, session) = filled().await;
    let (keys, routes) = (vec![QUEUE_KEY; 2], vec!["a", "b"]);
    let (unit, from, to) = (60_i64, 60_000_000_i64, 61 * 60_000_000_i64);
    for _ in 0..2 {
        let params: [Param<'_>; 3] =
            [(&keys, Type::INT8_ARRAY), (&routes, Type::TEXT_ARRAY), (&PRIORITY_STEPS, Type::INT8)];
        let oldest = plan(&session, &sql::LIST_OLDEST_PENDING.text, &params).await;
        assert!(oldest.contains("ready_in_order") && oldest.contains("tasks_pkey"), "{oldest}");
        let steps =
            oldest.lines().any(|line| line.contains("Index Cond") && line.contains("priority < before.priority"));
        assert!(steps, "{oldest}");
        let params: [Param<'_>; 4] =
            [(&QUEUE_KEY, Type::INT8), (&unit, Type::INT8), (&from, Type::INT8), (&to, Type::INT8)];
        let activity = plan(&session, &sql::LIST_ACTIVITY.text, &params).await;
        assert!(activity.contains("activity_pkey"), "{activity}");
        for plan in [oldest, activity] {
            assert!(!plan.contains("Seq Scan"), "{plan}");
        }
        database.admin("DELETE FROM pg_statistic WHERE starelid::regclass::text LIKE 'taskqueue.%'");
    }
    let both = |since| vec![("a".to_owned(), Some(since)), ("b".to_owned(), Some(since))];
    assert_eq!(oldest(&session).await, both(1));
    database.admin("DELETE FROM taskqueue.ready WHERE pending_seq <= 3");
    assert_eq!(oldest(&session).await, both(4));
}

/// Claims leave dead entries at the head of the order until it is vacuumed (docs/decisions/0009). The first who comes by marks them.
#[tokio::test]
async fn dead_entries_at_the_head_of_the_order_do_not_make_stats_slow() {
    let (database, session) = filled().await;
    database.admin("ALTER TABLE taskqueue.ready SET (autovacuum_enabled = off)");
    database.admin("DELETE FROM taskqueue.ready WHERE pending_seq <= 99990");
    let since = oldest(&session).await;
    assert_eq!(since, [("a".to_owned(), Some(99_991)), ("b".to_owned(), Some(99_991))]);
    let mut times = Vec::new();
    for _ in 0..5 {
        let begun = Instant::now();
        oldest(&session).await;
        times.push(begun.elapsed());
    }
    // The machine may stop one of them for longer, but not most of them.
    times.sort_unstable();
    assert!(times[2] < Duration::from_millis(500), "{times:?}");
}

/// A priority for each task, which may be its deadline. Not all of them are looked at: 10,000 more than there are routes.
#[tokio::test]
async fn a_queue_of_very_many_priorities_costs_a_bounded_number_of_steps() {
    let (database, session) = filled().await;
    database.admin("TRUNCATE taskqueue.ready");
    database.admin(&format!(
        "INSERT INTO taskqueue.ready SELECT {QUEUE_KEY}, -n, 100001 - n, 100001 - n, 'a' FROM generate_series(1, 100000) AS n"
    ));
    let since = oldest(&session).await;
    // The tally says that there are two routes; one of them has no place in the order.
    assert_eq!(since, [("a".to_owned(), Some(100_001 - (PRIORITY_STEPS + 2))), ("b".to_owned(), None)]);
}

/// How many pending tasks are claimable, delayed, blocked and paused.
async fn by_state(session: &Session) -> Option<[u64; 4]> {
    figures_of(session, PendingDetail::ByState).await.unwrap().pending_by_state()
}

#[tokio::test]
async fn what_pending_tasks_wait_for_is_looked_for_only_if_somebody_asks() {
    let (database, session) = filled().await;
    // Whoever looks there now fails.
    database.admin("ALTER TABLE taskqueue.dependencies RENAME TO hidden");
    assert!(figures_of(&session, PendingDetail::ByState).await.is_err());
    let figures = figures_of(&session, PendingDetail::Number).await.unwrap();
    assert_eq!((figures.tasks(Status::Pending), figures.pending_by_state()), (100_000, None));
}

/// Each kind is counted up to a bound. What is beyond it is the rest, and two that are beyond it are not known.
#[tokio::test]
async fn what_pending_tasks_wait_for_is_found_by_indexes_up_to_a_bound() {
    let (database, session) = filled().await;
    assert_eq!(by_state(&session).await, Some([100_000, 0, 0, 0]));
    database.admin(&format!(
        "INSERT INTO taskqueue.delayed SELECT {QUEUE_KEY}, n, n FROM generate_series(200001, 250000) AS n;
        INSERT INTO taskqueue.dependencies
        SELECT {QUEUE_KEY}, n, 0, 't_' || n FROM generate_series(300001, 350000) AS n;
        ANALYZE"
    ));
    let (keys, micros) = (vec![QUEUE_KEY], 1_i64);
    let params: [Param<'_>; 4] = [
        (&keys, Type::INT8_ARRAY),
        (&micros, Type::INT8),
        (&COUNTED_ENTRIES, Type::INT8),
        (&COUNTED_DEPENDENCIES, Type::INT8),
    ];
    let plan = plan(&session, &sql::LIST_PENDING_PARTS.text, &params).await;
    for index in ["ready_in_order", "delayed_pkey", "dependencies_pkey", "tasks_pkey"] {
        assert!(plan.contains(index), "{index}: {plan}");
    }
    for table in ["ready", "delayed", "dependencies", "tasks"] {
        assert!(!plan.contains(&format!("Seq Scan on {table}")), "{table}: {plan}");
    }
    assert!(!plan.contains("Bitmap") && !plan.contains("Sort"), "{plan}");
    assert_eq!(by_state(&session).await, None, "too many in the order, too many delayed");
    database.admin("DELETE FROM taskqueue.delayed WHERE not_before > 200005");
    assert_eq!(by_state(&session).await, None, "too many in the order, too many dependencies");
    database.admin(&format!(
        "DELETE FROM taskqueue.dependencies;
        UPDATE taskqueue.tasks SET unmet = 1 WHERE task_key IN (5, 6);
        INSERT INTO taskqueue.dependencies
        VALUES ({QUEUE_KEY}, 5, 0, 't_x'), ({QUEUE_KEY}, 6, 0, 't_x'), ({QUEUE_KEY}, 6, 1, 't_y'), ({QUEUE_KEY}, 7, 1, 't_y')"
    ));
    assert_eq!(by_state(&session).await, Some([99_993, 5, 2, 0]));
    database.admin("DELETE FROM taskqueue.ready WHERE pending_seq > 10");
    let expected = Some([10, 5, 99_985, 0]);
    assert_eq!(by_state(&session).await, expected, "what is not in the order and not delayed is blocked");
    database.admin(&format!(
        "INSERT INTO taskqueue.delayed SELECT {QUEUE_KEY}, n, n FROM generate_series(200006, 205000) AS n"
    ));
    assert_eq!(by_state(&session).await, Some([10, 99_988, 2, 0]), "many are delayed, and the order is short");
}

#[tokio::test]
async fn activity_that_cannot_be_read_is_reported_as_damage() {
    let (_database, session) = filled().await;
    let log = ActivityLog::default();
    let clock = Some(Timestamp::from_micros(DAY * 1_000_000));
    let selection = SeriesSelection { unit: Unit::Minute, from: None, to: None };
    let reader = StatsReader { session: &session, log: &log, clock };
    let read = reader.activity_series(&queue("q"), selection).await;
    assert!(matches!(read, Err(crate::readers::ReadError::BrokenOff(_))), "{read:?}");
}

//! Every statement prepares on a migrated database, and the hot ones neither scan nor sort.

use taskqueue_core::cursor::OrderValue;
use taskqueue_core::selection::TaskPosition;
use taskqueue_store::conformance::prelude::*;
use taskqueue_test_postgres::{Cluster, Database, eventually};
use tokio_postgres::types::Type;

use crate::database_tests::{QUEUE_KEY, REQUIRED_COLUMNS, migrated, plan, session};
use crate::dialect;
use crate::dialect::operand::Bound;
use crate::dialect::order;
use crate::prefetch::begin_to_write;
use crate::session::{Param, Session, Sql};
use crate::statements::{
    COUNT_RUNNING, COUNT_TASKS, DELETE_DEPENDENCIES, DELETE_READY, FILES, FIND_READY, GET_OUTPUT, GET_OUTPUT_PIECES,
    GET_TASK, LIST_DEPENDENTS, LIST_KEYS_BY_STATUS, LIST_NAMED_DEPENDENTS, LIST_NOTED, LIST_TASKS,
    LIST_WALKED_DEPENDENTS, LOAD_CLOCK, LOAD_TASKS, LOCK_DEPENDENTS, LOCK_NAMED_DEPENDENTS, LOCK_RUNNING,
    LOCK_STATUSES, LOCK_TASKS, MOVE_DUE, PICK_TASKS, POLL_OUTPUTS, POLL_RUNS, RELEASE_DELAYED, SAVE_NAMES, SCAN_TASKS,
    UNPREPARED, WALK_DEPENDENTS, WRITER,
};

const FIRST_SECOND: i64 = 1_767_225_600_000_000;

/// Two queues of some thousand tasks.
async fn filled() -> (Database, Session) {
    let database = migrated(Cluster::shared());
    database.admin(&format!(
        "INSERT INTO taskqueue.queues (queue_key, name) VALUES (8, 'r');
        INSERT INTO taskqueue.tasks ({REQUIRED_COLUMNS})
        SELECT n, {QUEUE_KEY} + n % 2, {FIRST_SECOND} + n, n % 5, n, 0, 3, 0, 100, 't_' || lpad(n::text, 12, '0'), 'pending', '[\"default\"]'
        FROM generate_series(1, 6000) AS n;
        INSERT INTO taskqueue.definitions SELECT task_key, '', '{{}}', '{{}}' FROM taskqueue.tasks;
        INSERT INTO taskqueue.outcomes (task_key, result) SELECT task_key, '{{}}' FROM taskqueue.tasks WHERE task_key % 3 = 0;
        ANALYZE"
    ));
    let session = session(&database).await;
    (database, session)
}

#[test]
fn every_statement_has_one_text_and_every_text_is_used() {
    let mut used: Vec<&str> = WRITER.iter().chain(UNPREPARED).map(|sql| sql.name).collect();
    used.sort_unstable();
    used.dedup();
    let mut written: Vec<&str> =
        FILES.iter().flat_map(|file| file.lines()).filter_map(|line| line.strip_prefix("-- name: ")).collect();
    written.sort_unstable();
    assert_eq!(written, used);
}

#[tokio::test]
async fn every_statement_prepares() {
    let database = migrated(Cluster::shared());
    let session = session(&database).await;
    for sql in WRITER.iter().chain(UNPREPARED) {
        let Sql { name, text, types, .. } = sql;
        assert!(!text.is_empty(), "{name} is in no file");
        let prepared = session.client().prepare_typed(text, types).await;
        assert_eq!(prepared.unwrap_or_else(|error| panic!("{name}: {error:?}")).params(), **types, "{name}");
    }
}

#[tokio::test]
async fn every_order_can_be_said_with_and_without_a_position() {
    let database = migrated(Cluster::shared());
    let session = session(&database).await;
    for field in OrderField::ALL {
        for descending in [false, true] {
            let order = TaskOrder { field, descending };
            for value in [OrderValue::Null, OrderValue::Int(1), OrderValue::Text("a".into())] {
                let after = TaskPosition { value, id: task_id(1) };
                let condition = dialect::condition(&TaskSelection::default(), 4);
                let Ok(condition) = order::after(condition, 4, order, &after) else { continue };
                let text = order::with_order(&LIST_TASKS.text, &condition.text, order);
                let kinds = condition.bound.iter().map(|bound| bound.param().1);
                let kinds: Vec<Type> = LIST_TASKS.types.iter().cloned().chain(kinds).collect();
                session.client().prepare_typed(&text, &kinds).await.unwrap_or_else(|error| panic!("{text}: {error:?}"));
            }
        }
    }
}

#[tokio::test]
async fn a_task_is_found_by_indexes_alone_whatever_the_planner_knows() {
    let (database, session) = filled().await;
    let generic = async |session: &Session| {
        session.execute_text("SET plan_cache_mode = force_generic_plan").await.unwrap();
        session.execute_text(&format!("PREPARE get (text, text) AS {}", *GET_TASK.text)).await.unwrap();
        let plan = plan(session, "EXECUTE get ('q', 't_000000000042')", &[]).await;
        session.execute_text("DEALLOCATE get").await.unwrap();
        plan
    };
    let known = generic(&session).await;
    for index in ["tasks_by_id", "definitions_pkey", "outcomes_pkey"] {
        assert!(known.contains(index), "{known}");
    }
    database.admin("DELETE FROM pg_statistic WHERE starelid::regclass::text LIKE 'taskqueue.%'");
    for plan in [known, generic(&session).await] {
        // The planner may read the one page of `queues` as a whole.
        let scans = plan.lines().any(|line| line.contains("Seq Scan") && !line.contains("queues"));
        assert!(!scans && !plan.contains("Sort"), "{plan}");
    }
}

#[tokio::test]
async fn watched_runs_are_looked_up_by_key_however_many_there_are() {
    let (database, session) = filled().await;
    database.admin(
        "INSERT INTO taskqueue.runs SELECT 'r_' || lpad(task_key::text, 12, '0'), task_key FROM taskqueue.tasks; ANALYZE",
    );
    database.admin(
        "INSERT INTO taskqueue.outputs
        SELECT task_key, 1, 8, 8, 7, 'r_' || lpad(task_key::text, 12, '0'), '0-8' FROM taskqueue.tasks; ANALYZE",
    );
    let look_up = async |count: usize| {
        let watched: Vec<String> = (0..count).map(|n| run_id(n).to_string()).collect();
        let params: [Param<'_>; 1] = [(&watched, Type::TEXT_ARRAY)];
        [plan(&session, &POLL_RUNS.text, &params).await, plan(&session, &POLL_OUTPUTS.text, &params).await]
    };
    let known = [look_up(1).await, look_up(10_000).await];
    database.admin("DELETE FROM pg_statistic WHERE starelid::regclass::text LIKE 'taskqueue.%'");
    for [runs, outputs] in known.into_iter().chain([look_up(10_000).await]) {
        assert!(outputs.contains("outputs_pkey"), "{outputs}");
        for plan in [runs, outputs] {
            assert!(plan.contains("runs_pkey") && plan.contains("tasks_pkey"), "{plan}");
            assert!(!plan.contains("Seq Scan") && !plan.contains("Hash"), "{plan}");
        }
    }
}

#[tokio::test]
async fn output_is_read_by_indexes_alone_whatever_the_planner_knows() {
    let (database, session) = filled().await;
    database.admin(
        "INSERT INTO taskqueue.outputs SELECT task_key, 1, 8, 8, 7, 'r_000000000001', '0-8' FROM taskqueue.tasks;
        INSERT INTO taskqueue.output_pieces SELECT task_key, n, 'x' FROM taskqueue.tasks, generate_series(0, 7) AS n;
        ANALYZE",
    );
    for _ in 0..2 {
        let (queue, id, key, start, end) = ("q", "t_000000000042", 42_i64, 2_i64, 5_i64);
        let kept = plan(&session, &GET_OUTPUT.text, &[(&queue, Type::TEXT), (&id, Type::TEXT)]).await;
        let run = "r_000000000001";
        let params: [Param<'_>; 4] = [(&key, Type::INT8), (&start, Type::INT8), (&end, Type::INT8), (&run, Type::TEXT)];
        let pieces = plan(&session, &GET_OUTPUT_PIECES.text, &params).await;
        assert!(kept.contains("tasks_by_id") && kept.contains("outputs_pkey"), "{kept}");
        let bounds = pieces.lines().any(|line| line.contains("Index Cond") && line.contains("start >="));
        assert!(bounds && !pieces.contains("Sort"), "{pieces}");
        for plan in [kept, pieces] {
            assert!(!plan.lines().any(|line| line.contains("Seq Scan") && !line.contains("queues")), "{plan}");
        }
        database.admin("DELETE FROM pg_statistic WHERE starelid::regclass::text LIKE 'taskqueue.%'");
    }
}

#[tokio::test]
async fn lists_in_an_indexed_order_walk_their_index_from_the_cursor_on() {
    let (_database, session) = filled().await;
    for (field, index) in [(OrderField::CreatedAt, "tasks_by_creation"), (OrderField::Id, "tasks_by_id")] {
        for descending in [false, true] {
            let order = TaskOrder { field, descending };
            let after = TaskPosition { value: OrderValue::Int(FIRST_SECOND + 3_000), id: task_id(3_000) };
            let first = dialect::condition(&TaskSelection::default(), 4);
            let next = order::after(first.clone(), 4, order, &after).unwrap();
            for (condition, cond) in [(first, "(queue_key = "), (next, if descending { "<" } else { ">" })] {
                let text = order::with_order(&LIST_TASKS.text, &condition.text, order);
                let fixed: [Param<'_>; 3] =
                    [(&QUEUE_KEY, Type::INT8), (&101_i64, Type::INT8), (&16_777_216_i64, Type::INT8)];
                let params: Vec<Param<'_>> =
                    fixed.into_iter().chain(condition.bound.iter().map(Bound::param)).collect();
                let plan = plan(&session, &text, &params).await;
                let walk = plan.lines().find(|line| line.contains("Index Cond") && line.contains("queue_key"));
                assert!(plan.contains(index) && walk.is_some_and(|walk| walk.contains(cond)), "{text}\n{plan}");
                assert!(!plan.contains("Seq Scan") && !plan.contains("Sort"), "{text}\n{plan}");
            }
        }
    }
}

/// However many of the newest tasks are archived: a page walks over none of them, and one with them is merged from two walks.
#[tokio::test]
async fn a_page_walks_over_no_archived_task_and_one_with_them_over_both_kinds() {
    let (database, session) = filled().await;
    database.admin(
        "UPDATE taskqueue.tasks SET archived = true, status = 'succeeded' WHERE task_key > 40; ANALYZE taskqueue.tasks",
    );
    let fixed: [Param<'_>; 3] = [(&QUEUE_KEY, Type::INT8), (&11_i64, Type::INT8), (&16_777_216_i64, Type::INT8)];
    for descending in [false, true] {
        let order = TaskOrder { field: OrderField::CreatedAt, descending };
        let living = dialect::condition(&TaskSelection::default(), 4);
        let text = order::with_order(&LIST_TASKS.text, &living.text, order);
        let plan_of_living = plan(&session, &text, &fixed).await;
        assert!(plan_of_living.contains("tasks_by_creation") && !plan_of_living.contains("Sort"), "{plan_of_living}");
        for filtered in ["Rows Removed", "Filter: (archived"] {
            assert!(!plan_of_living.contains(filtered), "{plan_of_living}");
        }
        let every = TaskSelection { include_archived: true, ..TaskSelection::default() };
        let condition = dialect::condition(&every, 4);
        let text = order::over_archive(&order::with_order(&LIST_TASKS.text, &condition.text, order), order);
        let plan_of_all = plan(&session, &text, &fixed).await;
        for word in ["tasks_by_creation", "archived_by_creation"] {
            assert!(plan_of_all.contains(word), "{word}\n{plan_of_all}");
        }
        assert!(!plan_of_all.contains("Bitmap") && !plan_of_all.contains("Seq Scan"), "{plan_of_all}");
        assert_eq!(plan_of_all.matches("Limit ").count(), 5, "each walk ends at the size of the page: {plan_of_all}");
        let found = session.client().query_typed(&text, &fixed).await.unwrap();
        assert_eq!(found.len(), 11);
    }
}

#[tokio::test]
async fn joins_that_nobody_asked_for_are_not_done() {
    let (_database, session) = filled().await;
    let count = plan(&session, &COUNT_TASKS.text, &[(&QUEUE_KEY, Type::INT8)]).await;
    let no: Param<'_> = (&false, Type::BOOL);
    let scan = plan(&session, &SCAN_TASKS.text, &[(&QUEUE_KEY, Type::INT8), no.clone(), no]).await;
    for plan in [count, scan] {
        assert!(!plan.contains("definitions") && !plan.contains("outcomes"), "{plan}");
    }
}

#[tokio::test]
async fn tasks_of_a_state_that_few_have_are_looked_up_by_their_key() {
    let (database, session) = filled().await;
    database.admin(&format!(
        "UPDATE taskqueue.tasks SET status = 'succeeded';
        UPDATE taskqueue.tasks SET status = 'failed' WHERE task_key % 1000 = 0;
        INSERT INTO taskqueue.unsuccessful
        SELECT task_key, queue_key, status FROM taskqueue.tasks WHERE status = 'failed' AND queue_key = {QUEUE_KEY}"
    ));
    let found_by_key = |plan: &str| plan.contains("tasks_pkey") && !plan.contains("Seq Scan on tasks");
    for _ in 0..2 {
        for statuses in [vec!["failed"], vec!["pending", "running"], vec!["cancelled", "failed", "running"]] {
            let params: [Param<'_>; 2] = [(&QUEUE_KEY, Type::INT8), (&statuses, Type::TEXT_ARRAY)];
            let plan = plan(&session, &LIST_KEYS_BY_STATUS.text, &params).await;
            assert!(found_by_key(&plan), "{statuses:?}\n{plan}");
        }
        let keys = dialect::among(dialect::condition(&TaskSelection::default(), 2), &[2000, 4000, 6000], 2);
        let text = order::with_condition(&COUNT_TASKS.text, &keys.text);
        let params: Vec<Param<'_>> =
            [(&QUEUE_KEY as _, Type::INT8)].into_iter().chain(keys.bound.iter().map(Bound::param)).collect();
        let plan = plan(&session, &text, &params).await;
        assert!(found_by_key(&plan), "{plan}");
        database.admin("ANALYZE");
    }
}

/// The generic plan of a statement inside a writer's transaction.
async fn writers_plan(session: &Session, sql: &Sql) -> String {
    begin_to_write(session).await.unwrap();
    let types: Vec<&str> = sql.types.iter().map(Type::name).collect();
    let types = if types.is_empty() { String::new() } else { format!("({})", types.join(", ")) };
    session.execute_text(&format!("PREPARE it {types} AS {}", *sql.text)).await.unwrap();
    let nulls = vec!["NULL"; sql.types.len()].join(", ");
    let arguments = if nulls.is_empty() { nulls } else { format!("({nulls})") };
    let plan = plan(session, &format!("EXECUTE it {arguments}"), &[]).await;
    session.execute_text("DEALLOCATE it; ROLLBACK").await.unwrap();
    plan
}

/// Statements that look at a whole small table on purpose, or that run once in a while.
const MAY_SCAN: &str = "BRING_TIME_BACK DELETE_EXPIRED_OBSERVATIONS LOCK_OUTPUT_PURGES LOCK_PURGE LOCK_RUNNING \
     MERGE_TALLY RAISE_CLOCK TAKE_NUMBERS";

#[tokio::test]
async fn a_writer_finds_everything_by_indexes_whatever_the_planner_knows() {
    let (database, session) = filled().await;
    database.admin(
        "INSERT INTO taskqueue.ready
        SELECT queue_key, priority, pending_seq, task_key, 'default' FROM taskqueue.tasks; ANALYZE taskqueue.ready",
    );
    for _ in 0..2 {
        for sql in WRITER.iter().filter(|sql| !MAY_SCAN.split(' ').any(|name| name == sql.name)) {
            let plan = writers_plan(&session, sql).await;
            for word in ["Seq Scan", "Hash Join", "Merge Join"] {
                assert!(!plan.contains(word), "{}:\n{plan}", sql.name);
            }
        }
        let pick = writers_plan(&session, &PICK_TASKS).await;
        assert!(pick.contains("ready_in_order") && !pick.contains("Sort"), "{pick}");
        database.admin("DELETE FROM pg_statistic WHERE starelid::regclass::text LIKE 'taskqueue.%'");
    }
}

/// Empty tables, of which the planner knows that they are. To their indexes it still looks as if there was something.
async fn emptied() -> (Database, Session) {
    let (database, session) = filled().await;
    database.admin(
        "INSERT INTO taskqueue.ready
        SELECT queue_key, priority, pending_seq, task_key, 'default' FROM taskqueue.tasks;
        INSERT INTO taskqueue.running (task_key) SELECT task_key FROM taskqueue.tasks",
    );
    for table in ["tasks", "definitions", "outcomes", "ready", "running"] {
        database.admin(&format!("ALTER TABLE taskqueue.{table} SET (autovacuum_enabled = off)"));
        database.admin(&format!("DELETE FROM taskqueue.{table}"));
        database.admin(&format!("VACUUM (ANALYZE) taskqueue.{table}"));
    }
    (database, session)
}

/// Whether the plan finds the rows of a table by a condition of an index wherever it looks for them.
fn looks_up(plan: &str, table: &str) -> bool {
    let lines: Vec<&str> = plan.lines().collect();
    let scans = |line: &str| line.contains(" using ") && line.contains(&format!(" on {table} "));
    lines.windows(2).all(|lines| !scans(lines[0]) || lines[1].contains(" Cond: "))
}

#[tokio::test]
async fn ends_of_leases_and_entries_of_the_order_are_looked_up_also_after_everything_was_done() {
    let (_database, session) = emptied().await;
    for (sql, table) in [(&LOCK_RUNNING, "tasks"), (&COUNT_RUNNING, "tasks"), (&DELETE_READY, "ready")] {
        let plan = writers_plan(&session, sql).await;
        assert!(looks_up(&plan, table) && !plan.contains("Sort"), "{}:\n{plan}", sql.name);
    }
}

/// A plan is kept while nothing is analyzed, however much is added.
#[tokio::test]
async fn a_writer_plans_anew_when_tables_that_were_empty_have_filled() {
    let (database, session) = emptied().await;
    let plan_of_saving = async || {
        session.plan_age().unwrap().look_next();
        begin_to_write(&session).await.unwrap();
        let nulls = vec!["NULL"; SAVE_NAMES.types.len()].join(", ");
        let plan = plan(&session, &format!("EXECUTE it ({nulls})"), &[]).await;
        session.execute_text("COMMIT").await.unwrap();
        plan
    };
    let types: Vec<&str> = SAVE_NAMES.types.iter().map(Type::name).collect();
    session.execute_text(&format!("PREPARE it ({}) AS {}", types.join(", "), *SAVE_NAMES.text)).await.unwrap();
    assert!(!looks_up(&plan_of_saving().await, "tasks"), "there is nothing to look up");
    database.admin(&format!(
        "INSERT INTO taskqueue.tasks ({REQUIRED_COLUMNS})
        SELECT n, {QUEUE_KEY}, {FIRST_SECOND} + n, 0, n, 0, 3, 0, 100, 't_' || lpad(n::text, 12, '0'), 'pending', '[\"default\"]'
        FROM generate_series(1, 6000) AS n"
    ));
    plan_of_saving().await;
    let plan = plan_of_saving().await;
    assert!(looks_up(&plan, "tasks"), "{plan}");
}

/// Every transaction reads it, and entries of deleted dependencies stay for as long as an old snapshot holds them.
#[tokio::test]
async fn the_clock_is_read_without_a_walk_over_dependencies() {
    let (_database, session) = filled().await;
    let plan = writers_plan(&session, &LOAD_CLOCK).await;
    assert!(!plan.contains("on dependencies"), "{plan}");
}

/// Whatever else is in these tables, and also if nothing is.
#[tokio::test]
async fn what_waits_is_found_by_the_keys_of_its_tables() {
    let (database, session) = filled().await;
    database.admin(
        "INSERT INTO taskqueue.delayed SELECT queue_key, created_at, task_key FROM taskqueue.tasks;
        INSERT INTO taskqueue.dependencies SELECT queue_key, task_key, 0, id FROM taskqueue.tasks; ANALYZE",
    );
    let by_index: [(&Sql, &[&str]); 8] = [
        (&MOVE_DUE, &["delayed_pkey", "tasks_pkey"]),
        (&RELEASE_DELAYED, &["delayed_by_time", "tasks_pkey"]),
        (&LOAD_CLOCK, &["delayed_by_time"]),
        (&FIND_READY, &["ready_in_order", "delayed_pkey"]),
        (&LOCK_NAMED_DEPENDENTS, &["dependencies_pkey", "tasks_pkey"]),
        (&LOCK_DEPENDENTS, &["dependencies_pkey", "tasks_pkey"]),
        (&LIST_DEPENDENTS, &["dependencies_pkey"]),
        (&LOCK_STATUSES, &["tasks_by_id"]),
    ];
    for _ in 0..2 {
        for (sql, indexes) in by_index {
            let plan = writers_plan(&session, sql).await;
            for index in indexes {
                assert!(plan.contains(index), "{} by {index}:\n{plan}", sql.name);
            }
        }
        database.admin("TRUNCATE taskqueue.delayed, taskqueue.dependencies");
        database.admin("DELETE FROM pg_statistic WHERE starelid::regclass::text LIKE 'taskqueue.%'");
    }
}

/// A list of a thousand keys is not searched once for each of a thousand entries.
#[tokio::test]
async fn the_keys_of_a_transaction_are_hashed_to_find_what_others_hold() {
    let (_database, session) = filled().await;
    let plan = writers_plan(&session, &FIND_READY).await;
    assert!(plan.contains("ready_in_order") && plan.contains("NOT (hashed SubPlan"), "{plan}");
}

#[tokio::test]
async fn a_writer_finds_tasks_by_their_id_also_in_a_database_that_was_just_made() {
    let database = migrated(Cluster::shared());
    let session = session(&database).await;
    for sql in [&LOCK_TASKS, &LOAD_TASKS] {
        let plan = writers_plan(&session, sql).await;
        let found = plan.lines().any(|line| line.contains("Index Cond") && line.contains("id >= named.id"));
        assert!(plan.contains("tasks_by_id") && found && !plan.contains("tasks_by_creation"), "{}:\n{plan}", sql.name);
    }
}

/// Thousands may wait for one task, and the planner may take that for what is usual: what waits for others is still found by key.
#[tokio::test]
async fn dependents_are_found_by_what_they_wait_for_whatever_the_planner_knows() {
    let (database, session) = filled().await;
    let statements = [
        &LIST_NAMED_DEPENDENTS,
        &LOCK_NAMED_DEPENDENTS,
        &LIST_DEPENDENTS,
        &LOCK_DEPENDENTS,
        &WALK_DEPENDENTS,
        &LIST_WALKED_DEPENDENTS,
        &LIST_NOTED,
        &DELETE_DEPENDENCIES,
    ];
    let steps = [
        "INSERT INTO taskqueue.dependencies (queue_key, task_key, state, dependency)
        SELECT queue_key, task_key, 0, 't_000000000001' FROM taskqueue.tasks",
        "ANALYZE taskqueue.dependencies",
        "DELETE FROM pg_statistic WHERE starelid::regclass::text LIKE 'taskqueue.%'",
    ];
    for step in steps {
        database.admin(step);
        for sql in statements {
            let plan = writers_plan(&session, sql).await;
            let found = plan.lines().any(|line| line.contains("Index Cond") && line.contains("(dependency "));
            assert!(plan.contains("dependencies_pkey") && found, "{}:\n{plan}", sql.name);
            for word in ["Seq Scan on dep", "Seq Scan on tasks", "Hash", "hashed", "Merge", "Sort"] {
                assert!(!plan.contains(word), "{}:\n{plan}", sql.name);
            }
        }
    }
}

/// A pick that has begun and not held anything yet, while somebody changes the task.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_was_changed_before_it_was_held_is_picked_without_its_heavy_part() {
    let (database, session) = filled().await;
    let other = crate::database_tests::session(&database).await;
    database.admin(&format!("INSERT INTO taskqueue.ready VALUES ({QUEUE_KEY}, 0, 2, 2, 'default')"));
    let condition = "tasks.status = 'pending'";
    let text = PICK_TASKS.text.replace(condition, &format!("{condition} AND pg_advisory_lock_shared(1) IS NOT NULL"));
    let (queues, routes, counts) = (vec!["q"], vec!["default"], vec![1_i64]);
    let params: [Param<'_>; 5] = [
        (&queues, Type::TEXT_ARRAY),
        (&routes, Type::TEXT_ARRAY),
        (&counts, Type::INT8_ARRAY),
        (&false, Type::BOOL),
        (&None::<i64>, Type::INT8),
    ];
    let pick = async || {
        let rows = session.client().query_typed(&text, &params).await.unwrap();
        (rows.len(), rows[0].get::<_, i64>("priority"), rows[0].get::<_, Option<String>>("args"))
    };
    assert_eq!(pick().await, (1, 2, Some("{}".to_owned())), "whole, if nobody is in between");

    session.execute_text("SELECT pg_advisory_unlock_all()").await.unwrap();
    other.execute_text("SELECT pg_advisory_lock(1)").await.unwrap();
    let change = async {
        let waits = "SELECT count(*)::text FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
        eventually("the pick has begun", || database.rows(waits)[0][0].as_deref() == Some("1"));
        let changed = "UPDATE taskqueue.tasks SET priority = 9 WHERE task_key = 2;
            UPDATE taskqueue.definitions SET args = '{\"new\":1}' WHERE task_key = 2";
        other.execute_text(changed).await.unwrap();
        other.execute_text("SELECT pg_advisory_unlock_all()").await.unwrap();
    };
    let (picked, ()) = tokio::join!(pick(), change);
    assert_eq!(picked, (1, 9, None), "the head is the new one, and what is older than it is not there");
}

//! The condition of a filter holds for every task that `core` selects, and for no other when it says so.

use std::collections::BTreeSet;

use futures_util::TryStreamExt;
use taskqueue_core::filter::TaskFilter;
use taskqueue_store::conformance::filters;
use taskqueue_store::conformance::prelude::*;
use taskqueue_test_postgres::Cluster;
use tokio_postgres::types::Type;

use crate::database_tests::{QUEUE_KEY, insert, migrated, random_task, session};
use crate::dialect;
use crate::dialect::operand::Bound;
use crate::dialect::order;
use crate::rows;
use crate::session::{Param, Session};
use crate::statements::{COUNT_TASKS, SCAN_TASKS};

/// The ids of the tasks that the condition of a selection lets through, and whether it says that it is exact.
async fn narrowed(session: &Session, selection: &TaskSelection) -> (BTreeSet<String>, bool) {
    let condition = dialect::condition(selection, 4);
    let text = order::with_condition(&SCAN_TASKS.text, &condition.text);
    let fixed: [Param<'_>; 3] = [(&QUEUE_KEY, Type::INT8), (&false, Type::BOOL), (&false, Type::BOOL)];
    let params: Vec<Param<'_>> = fixed.into_iter().chain(condition.bound.iter().map(Bound::param)).collect();
    let found = session.stream(&text, &params).await.unwrap();
    let rows: Vec<_> = found.try_collect().await.unwrap_or_else(|error| panic!("{text}: {error:?}"));
    (rows.iter().map(|row| rows::id(row).unwrap().to_string()).collect(), condition.exact)
}

fn selected(tasks: &[Task], selection: &TaskSelection) -> BTreeSet<String> {
    tasks.iter().filter(|task| selection.matches(&task.view())).map(|task| task.id.to_string()).collect()
}

fn by(filter: &str) -> TaskSelection {
    let filter = TaskFilter::parse(filter).unwrap_or_else(|error| panic!("{filter}: {error}"));
    TaskSelection { filter: Some(filter), ..TaskSelection::default() }
}

/// Compares a condition with the evaluator and says whether it is exact.
async fn agrees(session: &Session, tasks: &[Task], selection: &TaskSelection) -> bool {
    let (narrowed, exact) = narrowed(session, selection).await;
    let selected = selected(tasks, selection);
    assert!(narrowed.is_superset(&selected), "{selection:?} lost {:?}", selected.difference(&narrowed));
    assert!(!exact || narrowed == selected, "{selection:?} has {:?} too many", narrowed.difference(&selected));
    exact
}

async fn filled(tasks: usize, seed: u64) -> (taskqueue_test_postgres::Database, Session, Vec<Task>) {
    let database = migrated(Cluster::shared());
    let session = session(&database).await;
    let mut random = Random::new(seed);
    let tasks: Vec<Task> = (0..tasks).map(|number| random_task(&mut random, number)).collect();
    insert(&session, &tasks).await;
    (database, session, tasks)
}

#[tokio::test]
async fn a_condition_never_loses_a_selected_task_and_is_exact_when_it_says_so() {
    let (_database, session, tasks) = filled(150, 1).await;
    let mut random = Random::new(2);
    let mut exact = 0;
    for _ in 0..2_000 {
        let mut selection = filters::selection(&mut random);
        selection.filter = Some(TaskFilter::parse(&filters::filter_text(&mut random, 3)).unwrap());
        exact += usize::from(agrees(&session, &tasks, &selection).await);
    }
    assert!(exact > 200, "hardly any filter is exact: {exact}");
}

#[tokio::test]
async fn plain_fields_are_said_exactly() {
    let (_database, session, tasks) = filled(150, 3).await;
    let filters = "status == 'failed'; status not in ['failed', 'pending'] and status < 'running'; \
         id > 't_000000000050' and id not in ['t_000000000060']; name == None or name > 'a'; name != 'a'; \
         not (name < 'b'); name not in ['a', None]; name not in []; name in []; name == 'a\\u0000'; \
         name not in ['a\\u0000', 'b']; last_route != 'a' and not (last_route == None); \
         priority == 1.0 or priority == 1.5 or priority == 9007199254740992.0; priority < 1.5 and priority >= -0.5; \
         not (priority <= 1.5); priority < 1e300 and priority > -1e300; \
         priority >= 9223372036854775808.0 or priority <= -9223372036854775808.0; attempt in [1, 2.0, 2.5, 1e300]; \
         max_attempts not in [3]; created_at >= '2026-01-01T00:10:00Z' and updated_at != '2026-01-01T00:10:00Z'; \
         started_at not in ['2026-01-01T00:10:00Z'] and not (finished_at < '2026-01-01T00:10:00Z'); 'a' in routes; \
         'b' not in routes and not ('a.b' in routes); \
         'a\\\",\\\"b' in routes or 'a\\u0000' in routes or '' in routes; '%' not in routes; \
         exists(name) and not missing(routes); missing(last_error.type); exists(last_error.traceback); \
         last_error.attempt == 1; last_error.attempt != 1; not (last_error.attempt != 1); \
         last_error.attempt not in []; not (last_error.attempt not in []); last_error.attempt < 1e300; \
         not (last_error.attempt < 1e300); not (last_error.occurred_at > '2026-01-01T00:10:00Z'); \
         last_error.run_id in ['r_000000000001', 'r_000000000002']";
    for filter in filters.split("; ") {
        assert!(agrees(&session, &tasks, &by(filter)).await, "{filter} is not exact");
    }
}

#[tokio::test]
async fn what_lies_inside_json_is_narrowed_by_its_text() {
    let (_database, session, tasks) = filled(150, 4).await;
    let filters = ["args.a == 'a'", "exists(metadata.b)", "'k' in result", "'a' in args.b", "last_error.type == 'é'"];
    for filter in filters {
        assert!(!agrees(&session, &tasks, &by(filter)).await, "{filter} cannot be exact");
        assert!(narrowed(&session, &by(filter)).await.0.len() < tasks.len() / 2, "{filter} narrows nothing");
    }
    for filter in ["args.a == '\\u0000'", "missing(args.a)", "name < 'a\\u0000b'", "'x' not in args"] {
        agrees(&session, &tasks, &by(filter)).await;
        agrees(&session, &tasks, &by(&format!("not ({filter})"))).await;
    }
}

#[tokio::test]
async fn the_largest_and_deepest_filters_are_answered() {
    let (_database, session, tasks) = filled(50, 5).await;
    let chain = |term: &str, join: &str, times: usize| vec![term; times].join(join);
    let mut deep = "priority==1".to_owned();
    for level in 0..200 {
        deep = format!("({}{deep})", ["id=='x' or ", "attempt<9 and "][level % 2]);
    }
    let filters = [
        chain("priority==1", " or ", 500),
        chain("args.a=='x'", " and ", 500),
        format!("priority in [{}]", chain("1", ",", 4_000)),
        format!("name not in [{}]", chain("'a'", ",", 2_000)),
        format!("{}priority==1", "not ".repeat(200)),
        format!("{}priority==1{}", "not(".repeat(100), ")".repeat(100)),
        deep,
    ];
    for filter in filters {
        agrees(&session, &tasks, &by(&filter)).await;
    }
    // Each level turns AND into OR and back.
    let mut turning = "priority==1".to_owned();
    for _ in 0..50 {
        turning = format!("not(attempt<9 and not(id=='x'or {turning}))");
    }
    agrees(&session, &tasks, &by(&turning)).await;
}

#[tokio::test]
async fn a_literal_is_never_part_of_the_text() {
    let secret = "x'); DROP TABLE tasks; --";
    let filter = format!(
        "name == \"{secret}\" or id in [\"{secret}\", 'a'] or \"{secret}\" in routes or args.a == \"{secret}\" \
         or last_error.message == \"{secret}\" or \"{secret}\" in metadata or priority == 424242"
    );
    let condition = dialect::condition(&by(&filter), 2);
    assert!(!condition.text.contains("DROP") && !condition.text.contains("424242"), "{}", condition.text);
    assert!(order::with_condition(&COUNT_TASKS.text, &condition.text).contains(&condition.text));
}

#[test]
fn the_database_searches_a_text_a_few_times_at_most() {
    let searches = |filter: &str| dialect::condition(&by(filter), 1).text.matches("strpos").count();
    assert_eq!(searches("args.a == 'x' and 'r' in routes"), 2);
    for predicate in ["args.k{}==1", "exists(result.k{})", "last_error.message=='{}'", "'r{}' in routes"] {
        for word in [" or ", " and "] {
            let parts: Vec<String> = (0..200).map(|number| predicate.replace("{}", &number.to_string())).collect();
            let found = searches(&parts.join(word));
            assert!(found <= 8, "{found} searches for {predicate}");
        }
    }
}

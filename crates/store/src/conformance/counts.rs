//! Counts and groups: those that are kept must equal those that are counted, whatever happened before (I9, I31).

use taskqueue_core::cursor::InvalidCursor;
use taskqueue_core::grouping::Group;

use super::prelude::*;

/// The four ways to group tasks.
pub const DIMENSIONS: [&[TaskDimension]; 4] = [
    &[TaskDimension::Routes],
    &[TaskDimension::Status],
    &[TaskDimension::Routes, TaskDimension::Status],
    &[TaskDimension::Status, TaskDimension::Routes],
];

/// Counts and groups that may come from kept numbers against those that look at every task. Storms and random histories ask this after
/// every kind of action.
pub async fn assert_kept_counts_are_right(store: &dyn Store, in_queue: &str) {
    let in_queue = queue(in_queue);
    let counted = |status| TaskSelection { filter: Some(task_filter("exists(id)")), status, ..all() };
    for status in Status::ALL.map(Some).into_iter().chain([None]) {
        let kept = TaskSelection { status, ..all() };
        let by_name = TaskSelection { status, ..fuzzy(" ") };
        let expected = store.count_tasks(&in_queue, counted(status)).await.unwrap();
        assert_eq!(store.count_tasks(&in_queue, kept.clone()).await.unwrap(), expected, "{status:?}");
        assert_eq!(store.count_tasks(&in_queue, by_name).await.unwrap(), expected, "{status:?}");
        for dimensions in DIMENSIONS {
            let query =
                |selection| TaskGroupQuery { selection, dimensions: dimensions.to_vec(), limit: 1000, after: None };
            let kept = store.group_tasks(&in_queue, query(kept.clone())).await.unwrap();
            assert_eq!(kept, store.group_tasks(&in_queue, query(counted(status))).await.unwrap());
            assert_eq!(kept.count, expected);
        }
    }
}

async fn populate(fixture: &Fixture) {
    for id in 0..12 {
        let routes: &[&str] = [&["a"][..], &["a", "b"], &["B", "a", "c"]][id % 3];
        fixture.create(id, with_routes(routes)).await;
    }
    for run in 0..3 {
        fixture.claimed(claim("q", "b", run)).await.unwrap();
    }
    fixture.ok(cancel("q", 0)).await;
}

pub async fn groups_are_sorted_and_counted_in_every_dimension(fixture: Fixture) {
    populate(&fixture).await;
    let expected: [&[(&[&str], u64)]; 4] = [
        &[(&["B"], 4), (&["a"], 12), (&["b"], 4), (&["c"], 4)],
        &[(&["cancelled"], 1), (&["pending"], 8), (&["running"], 3)],
        &[
            (&["B", "pending"], 4),
            (&["a", "cancelled"], 1),
            (&["a", "pending"], 8),
            (&["a", "running"], 3),
            (&["b", "pending"], 1),
            (&["b", "running"], 3),
            (&["c", "pending"], 4),
        ],
        &[
            (&["cancelled", "a"], 1),
            (&["pending", "B"], 4),
            (&["pending", "a"], 8),
            (&["pending", "b"], 1),
            (&["pending", "c"], 4),
            (&["running", "a"], 3),
            (&["running", "b"], 3),
        ],
    ];
    for (dimensions, expected) in DIMENSIONS.into_iter().zip(expected) {
        let group =
            |(key, count): &(&[&str], u64)| Group { key: key.iter().map(|v| (*v).to_owned()).collect(), count: *count };
        let expected: Vec<Group> = expected.iter().map(group).collect();
        for selection in [all(), filtered("exists(id)")] {
            let page = fixture.groups(selection, dimensions, 1000).await;
            assert_eq!((page.count, &page.groups, page.next), (12, &expected, None));
        }
    }
}

pub async fn pages_of_groups_join_without_gap(fixture: Fixture) {
    populate(&fixture).await;
    for dimensions in DIMENSIONS {
        for selection in [all(), of_status(Status::Pending), filtered("'a' in routes")] {
            let whole = fixture.groups(selection.clone(), dimensions, 1000).await;
            for limit in [1, 2, 3, 4, 7] {
                let (mut groups, mut after) = (Vec::new(), None);
                loop {
                    let dimensions = dimensions.to_vec();
                    let query = TaskGroupQuery { selection: selection.clone(), dimensions, limit, after };
                    let page = fixture.store.group_tasks(&queue("q"), query).await.unwrap();
                    assert_eq!(page.count, whole.count, "the total is on every page");
                    assert!(page.groups.len() <= usize::from(limit));
                    groups.extend(page.groups);
                    match page.next {
                        Some(next) => after = Some(Ok(next)),
                        None => break,
                    }
                }
                assert_eq!(groups, whole.groups);
            }
        }
    }
}

pub async fn an_invalid_group_cursor_is_noticed_after_the_queue(fixture: Fixture) {
    fixture.create(1, Definition::default()).await;
    let dimensions = vec![TaskDimension::Status];
    let query = TaskGroupQuery { selection: all(), dimensions, limit: 1, after: Some(Err(InvalidCursor)) };
    let refused = async |in_queue: &str| fixture.store.group_tasks(&queue(in_queue), query.clone()).await.unwrap_err();
    assert_eq!(refused("q").await, StoreError::Refused(Refusal::InvalidCursor));
    assert!(matches!(refused("no").await, StoreError::Refused(Refusal::QueueNotFound { .. })));
}

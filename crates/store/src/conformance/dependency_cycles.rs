//! Tasks that wait for themselves: who is told so.

use super::prelude::*;
use crate::dependency_cycle::{self, find_cycle};

/// How long a search may take on a busy machine.
const LONG: Duration = Duration::from_secs(60);

pub async fn a_task_that_waits_for_itself_is_told_so(fixture: Fixture) {
    for (id, waits) in [(1, vec![1]), (2, vec![4]), (3, vec![2]), (4, vec![9, 3]), (5, vec![4])] {
        fixture.create(id, waits_for(&waits)).await;
    }
    let cases = [(1, Some(vec![])), (2, Some(vec![4, 3])), (3, Some(vec![2, 4])), (4, Some(vec![3, 2])), (5, None)];
    for (id, expected) in cases {
        let expected = expected.map(|ids: Vec<usize>| ids.into_iter().map(task_id).collect::<Vec<_>>());
        let (store, queue) = (&*fixture.store, queue("q"));
        let named = fixture.get(id).await.definition.scheduling.dependencies.clone();
        assert_eq!(find_cycle(store, &queue, task_id(id), named.as_slice(), LONG).await, expected, "{id}");
        let reasons = dependency_cycle::explain(store, &queue, task_id(id), LONG).await.unwrap().reasons;
        let codes: Vec<&str> = reasons.iter().map(Reason::code).collect();
        let told = if expected.is_some() { &["dependency_cycle", "dependencies"][..] } else { &["dependencies"] };
        assert!(codes.starts_with(told), "{id}: {codes:?}");
    }
    fixture.ok(cancel("q", 3)).await;
    let open = find_cycle(&*fixture.store, &queue("q"), task_id(2), &[task_id(4)], LONG).await;
    assert_eq!(open, None, "the circle is open");
}

/// Only the oldest of them are looked at.
pub async fn a_task_that_names_itself_is_told_so_however_many_wait_for_it(fixture: Fixture) {
    fixture.create_many((2..=102).map(|id| (id, waits_for(&[1])))).await;
    fixture.create(1, waits_for(&[1])).await;
    let reasons = dependency_cycle::explain(&*fixture.store, &queue("q"), task_id(1), LONG).await.unwrap().reasons;
    assert_eq!(reasons[0], Reason::DependencyCycle { tasks: vec![] });
}

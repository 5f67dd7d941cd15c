//! The tasks around a task, as people look at them.

use super::delays::next;
use super::prelude::*;
use crate::related::{Related, RelatedTask, RelatedTasks};

fn around(id: usize, dependencies: &[usize], most_dependents: u16) -> Related {
    Related { id: task_id(id), dependencies: dependencies.iter().map(task_id).collect(), most_dependents }
}

async fn related(fixture: &Fixture, sought: Related) -> RelatedTasks {
    fixture.store.related_tasks(&queue("q"), sought).await.unwrap()
}

fn ids(tasks: &[RelatedTask]) -> Vec<String> {
    tasks.iter().map(|task| task.id.to_string()).collect()
}

pub async fn a_task_shows_what_it_waits_for_and_what_waits_for_it(fixture: Fixture) {
    fixture.ok(create_queue("other")).await;
    fixture.ok(create("other", 3, named("of another queue"))).await;
    fixture.create(1, named("first")).await;
    assert_eq!(next(&fixture, 1).await, Some(1));
    fixture.ok(complete("q", 1, 1, object("{}"))).await;
    fixture.create(2, Definition { name: Some("in the middle".into()), ..waits_for(&[1, 3]) }).await;
    fixture.create(5, waits_for(&[2])).await;
    fixture.create(4, waits_for(&[2, 9])).await;
    let found = related(&fixture, around(2, &[3, 1], 10)).await;
    let first = RelatedTask { id: task_id(1), status: Status::Succeeded, name: Some("first".into()) };
    assert_eq!(found.dependencies, [None, Some(first)], "in the order of the question; of another queue is of none");
    assert_eq!(ids(&found.dependents), [task_id(5).to_string(), task_id(4).to_string()], "the oldest first");
    assert_eq!((found.dependents[0].status, &found.dependents[0].name), (Status::Pending, &None));
    // Who waits for a task that does not exist is known, too.
    assert_eq!(ids(&related(&fixture, around(9, &[], 10)).await.dependents), [task_id(4).to_string()]);
    // A task that has ended is shown as before.
    fixture.ok(cancel("q", 5)).await;
    assert_eq!(related(&fixture, around(2, &[], 10)).await.dependents[0].status, Status::Cancelled);
    assert_eq!(related(&fixture, around(5, &[], 10)).await, RelatedTasks::default());
    let missing = fixture.store.related_tasks(&queue("missing"), around(2, &[], 10)).await;
    assert_eq!(missing, Err(StoreError::Refused(Refusal::QueueNotFound { queue: queue("missing") })));
}

pub async fn no_more_dependents_are_read_than_are_wanted_and_a_deleted_one_is_none(fixture: Fixture) {
    fixture.create_many((2..=9).map(|id| (id, waits_for(&[1])))).await;
    let shown = |ids: std::ops::RangeInclusive<usize>| ids.map(|id| task_id(id).to_string()).collect::<Vec<_>>();
    assert_eq!(ids(&related(&fixture, around(1, &[], 3)).await.dependents), shown(2..=4));
    fixture.ok(delete("q", 2)).await;
    fixture.ok(update("q", 3, to_none())).await;
    assert_eq!(ids(&related(&fixture, around(1, &[], 100)).await.dependents), shown(4..=9));
}

fn to_none() -> Update {
    Update { dependencies: Some(dependencies(&[])), ..Default::default() }
}

pub async fn a_list_says_how_many_dependencies_of_a_task_are_unmet(fixture: Fixture) {
    fixture.create(1, Definition::default()).await;
    fixture.create(2, waits_for(&[1, 8, 9])).await;
    assert_eq!(next(&fixture, 1).await, Some(1));
    fixture.ok(complete("q", 1, 1, object("{}"))).await;
    let order = TaskOrder { field: OrderField::Id, descending: false };
    let query = TaskQuery { selection: TaskSelection::default(), order, limit: 10, after: None, max_bytes: PAGE_BYTES };
    let write = |out: &mut Vec<u8>, task: &TaskView<'_>| {
        out.extend_from_slice(format!("{} ", task.unmet).as_bytes());
    };
    let page = fixture.store.list_tasks(&queue("q"), query, Arc::new(write)).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&page.bytes), "0 2 ");
}

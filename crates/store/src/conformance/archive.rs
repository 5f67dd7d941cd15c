//! Archived tasks: out of sight unless they are asked for.

use super::prelude::*;

fn with_archived(selection: TaskSelection) -> TaskSelection {
    TaskSelection { include_archived: true, ..selection }
}

/// Tasks 1 to 6 have been cancelled; the even ones are archived.
async fn half_archived(fixture: Fixture) -> Fixture {
    for id in 1..=6 {
        fixture.create(id, named(&format!("task {id}"))).await;
        fixture.ok(cancel("q", id)).await;
        if id % 2 == 0 {
            assert!(fixture.task_of(update("q", id, to_archived(true))).await.lifecycle.archived);
        }
    }
    fixture
}

async fn listed(fixture: &Fixture, selection: TaskSelection, order: TaskOrder) -> Vec<String> {
    let tasks = fixture.walk("q", &selection, order, 2).await;
    tasks.into_iter().map(|task| task.id.as_str()[13..].to_owned()).collect()
}

pub async fn lists_and_counts_leave_archived_tasks_out_unless_they_are_included(fixture: Fixture) {
    let fixture = half_archived(fixture).await;
    let by_creation = TaskOrder { field: OrderField::CreatedAt, descending: false };
    let by_name = TaskOrder { field: OrderField::Name, descending: false };
    for order in [BY_ID, by_creation, by_name] {
        let selections = [all(), of_status(Status::Cancelled), filtered("attempt == 0"), fuzzy("task")];
        for selection in selections {
            assert_eq!(listed(&fixture, selection.clone(), order).await, ["1", "3", "5"], "{selection:?} {order:?}");
            let every = listed(&fixture, with_archived(selection.clone()), order).await;
            assert_eq!(every, ["1", "2", "3", "4", "5", "6"], "{selection:?} {order:?}");
            assert_eq!(fixture.count(selection.clone()).await, 3, "{selection:?}");
            assert_eq!(fixture.count(with_archived(selection.clone())).await, 6, "{selection:?}");
            for dimensions in [&[TaskDimension::Status][..], &[TaskDimension::Routes]] {
                assert_eq!(fixture.groups(selection.clone(), dimensions, 10).await.count, 3);
                assert_eq!(fixture.groups(with_archived(selection.clone()), dimensions, 10).await.count, 6);
            }
        }
    }
    assert_eq!(listed(&fixture, with_archived(filtered("archived == true")), BY_ID).await, ["2", "4", "6"]);
    assert_eq!(listed(&fixture, with_archived(filtered("archived != true")), BY_ID).await, ["1", "3", "5"]);
    assert_eq!(listed(&fixture, filtered("archived == true"), BY_ID).await, [""; 0]);
    assert!(fixture.get(2).await.lifecycle.archived, "by its id it is there");
}

pub async fn bulk_updates_and_actions_leave_archived_tasks_out_unless_they_are_included(fixture: Fixture) {
    let fixture = half_archived(fixture).await;
    let mut bulk = update_all("q", "status == 'cancelled'", to_priority(7));
    let updated = fixture.ok(bulk.clone()).await;
    assert_eq!((updated.matched, updated.updated), (3, 3));
    bulk.selection.include_archived = true;
    let updated = fixture.ok(bulk).await;
    assert_eq!((updated.matched, updated.updated), (6, 3));
    let mut act = act_on_all("q", BulkAction::Requeue, "status == 'cancelled'");
    assert_eq!(fixture.ok(act.clone()).await.matched, 3);
    act.selection.include_archived = true;
    assert_eq!(fixture.ok(act).await.changed, 3);
    assert_eq!(fixture.count(all()).await, 6, "a requeue takes them out");
}

pub async fn a_bulk_update_archives_all_or_nothing(fixture: Fixture) {
    fixture.ok(create_all(1..=3)).await;
    fixture.ok(cancel("q", 1)).await;
    fixture.ok(cancel("q", 2)).await;
    let refused = fixture.refused(update_all("q", "priority == 0", to_archived(true))).await;
    assert!(matches!(refused, Refusal::NotArchivable { .. }), "{refused:?}");
    assert_eq!(fixture.count(all()).await, 3);
    fixture.ok(update_all("q", "status == 'cancelled'", to_archived(true))).await;
    assert_eq!((fixture.count(all()).await, fixture.count_by_status().await), (1, [1, 0, 0, 0, 0]));
    let mut back = update_all("q", "archived == true", to_archived(false));
    back.selection.include_archived = true;
    assert_eq!(fixture.ok(back).await.updated, 2);
    assert_eq!(fixture.count_by_status().await, [1, 0, 0, 0, 2]);
}

pub async fn archived_tasks_keep_their_queue_from_being_empty(fixture: Fixture) {
    fixture.create(1, Definition::default()).await;
    fixture.ok(cancel("q", 1)).await;
    fixture.ok(update("q", 1, to_archived(true))).await;
    assert_eq!(fixture.count(all()).await, 0);
    let refused = fixture.refused(delete_queue("q", false)).await;
    assert_eq!(refused, Refusal::QueueNotEmpty { queue: queue("q"), tasks: 1 });
    fixture.ok(delete_queue("q", true)).await;
}

pub async fn an_archived_task_that_has_succeeded_is_a_dependency_like_any_other(fixture: Fixture) {
    fixture.create_running(1, Definition::default()).await;
    fixture.ok(complete("q", 1, 1, object("{}"))).await;
    fixture.ok(update("q", 1, to_archived(true))).await;
    fixture.create(2, waits_for(&[1])).await;
    assert_eq!(fixture.claim(2).await.task.id, task_id(2));
}

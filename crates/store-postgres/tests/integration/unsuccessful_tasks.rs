//! The list of tasks that ended without success makes reads quick. What they give does not depend on it: the counts tell if a row
//! is missing, and the tasks themselves if one should not be there.
use taskqueue_store::conformance::prelude::*;

use crate::storage::tables::assert_tables_are_consistent;
use crate::storage::{Fresh, fresh};

/// A queue in which few tasks have any state but pending.
async fn filled(storage: &Fresh) -> Fixture {
    let fixture = Fixture::with_queue(storage).await;
    fixture.create_many((1..=20).map(|id| (id, with_budget(1)))).await;
    fixture.scan().await;
    fixture
}

/// Adds rows of tasks that have not ended so.
fn add_rows(storage: &Fresh, status: Status, ids: &[u8]) {
    for id in ids {
        storage.database.admin(&format!(
            "INSERT INTO taskqueue.unsuccessful (task_key, queue_key, status)
            SELECT task_key, queue_key, '{}' FROM taskqueue.tasks WHERE id = '{}'",
            status.as_str(),
            task_id(id)
        ));
    }
}

/// Pages and counts by status are those of the tasks themselves.
async fn assert_statuses(fixture: &Fixture, expected: [u64; 5]) {
    let everything = fixture.tasks("q").await;
    assert_eq!(fixture.count_by_status().await, expected);
    for (status, expected) in Status::ALL.into_iter().zip(expected) {
        let chosen: Vec<_> =
            everything.iter().filter(|task| task.lifecycle.status == status).map(|task| task.id).collect();
        assert_eq!(chosen.len() as u64, expected, "{status:?}");
        for field in [OrderField::CreatedAt, OrderField::Id, OrderField::Priority] {
            let order = TaskOrder { field, descending: false };
            let listed: Vec<Task> = fixture.walk("q", &of_status(status), order, 2).await;
            assert!(listed.iter().all(|task| task.lifecycle.status == status), "{status:?}: {listed:?}");
            let mut ids: Vec<_> = listed.into_iter().map(|task| task.id).collect();
            ids.sort_by(|a, b| a.as_str().cmp(b.as_str()));
            assert_eq!(ids, chosen, "{status:?} {field:?}");
        }
        let further = filtered(&format!("status == '{}' and priority < 1", status.as_str()));
        assert_eq!(fixture.count(further).await, expected, "{status:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_should_not_be_there_stops_nothing_and_shows_nothing() {
    let storage = fresh();
    let fixture = filled(&storage).await;
    add_rows(&storage, Status::Failed, &[3, 4]);
    add_rows(&storage, Status::Cancelled, &[1, 2]);
    assert_statuses(&fixture, [20, 0, 0, 0, 0]).await;
    fixture.claim(1).await;
    fixture.claim(2).await;
    assert_statuses(&fixture, [18, 2, 0, 0, 0]).await;

    fixture.ok(fail_for_good("q", 1, 1)).await;
    fixture.ok(cancel("q", 3)).await;
    assert_statuses(&fixture, [17, 1, 0, 1, 1]).await;
    assert_eq!(fixture.pass(300).await.expired_runs, 1);
    assert_statuses(&fixture, [17, 0, 0, 2, 1]).await;

    fixture.ok(cancel("q", 4)).await;
    fixture.ok(requeue("q", 4)).await;
    assert_statuses(&fixture, [17, 0, 0, 2, 1]).await;
    fixture.store.close().await;
    assert_tables_are_consistent(&storage.database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_whose_rows_are_missing_are_found() {
    let storage = fresh();
    let fixture = filled(&storage).await;
    for id in [3, 4, 5] {
        fixture.ok(cancel("q", id)).await;
    }
    fixture.claim(1).await;
    fixture.ok(fail_for_good("q", 1, 1)).await;
    storage.database.admin("DELETE FROM taskqueue.unsuccessful");
    assert_statuses(&fixture, [16, 0, 0, 1, 3]).await;
    add_rows(&storage, Status::Failed, &[3]);
    assert_statuses(&fixture, [16, 0, 0, 1, 3]).await;

    for id in [1, 3, 4, 5] {
        fixture.ok(requeue("q", id)).await;
    }
    fixture.create(21, Definition::default()).await;
    fixture.ok(cancel("q", 4)).await;
    assert_statuses(&fixture, [20, 0, 0, 0, 1]).await;
    fixture.store.close().await;
    assert_tables_are_consistent(&storage.database).await;
}

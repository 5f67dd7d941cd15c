//! A server that was started before the table `unsuccessful` was there goes on until it is stopped, on the same database, and
//! does not write to that table (docs/decisions/0004). The same is so for progress and output (docs/decisions/0048). The
//! others answer and write correctly all the same.

use taskqueue_core::definition::Definition;
use taskqueue_core::selection::{OrderField, TaskOrder};
use taskqueue_core::task::{Status, Task};
use taskqueue_store::activity::save_activity;
use taskqueue_store::conformance::commands::*;
use taskqueue_store::conformance::fixture::Fixture;
use taskqueue_test_postgres::eventually;

use crate::storage::tables::assert_tables_are_consistent;
use crate::storage::{Fresh, fresh};

/// A queue in which few tasks have any state but pending.
async fn filled(storage: &Fresh) -> Fixture {
    let fixture = Fixture::with_queue(storage).await;
    for id in 1..=20 {
        fixture.create(id, with_budget(1)).await;
    }
    fixture.scan().await;
    fixture
}

/// What an older server leaves that requeues tasks after they were failed or cancelled.
fn leave_rows(storage: &Fresh, status: Status, ids: &[u8]) {
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
async fn a_row_that_an_older_server_left_stops_nothing_and_shows_nothing() {
    let storage = fresh();
    let fixture = filled(&storage).await;
    leave_rows(&storage, Status::Failed, &[3, 4]);
    leave_rows(&storage, Status::Cancelled, &[1, 2]);
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
    assert_tables_are_consistent(&storage.database);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_that_an_older_server_ended_are_not_missed() {
    let storage = fresh();
    let fixture = filled(&storage).await;
    for id in [3, 4, 5] {
        fixture.ok(cancel("q", id)).await;
    }
    fixture.claim(1).await;
    fixture.ok(fail_for_good("q", 1, 1)).await;
    storage.database.admin("DELETE FROM taskqueue.unsuccessful");
    assert_statuses(&fixture, [16, 0, 0, 1, 3]).await;
    leave_rows(&storage, Status::Failed, &[3]);
    assert_statuses(&fixture, [16, 0, 0, 1, 3]).await;

    for id in [1, 3, 4, 5] {
        fixture.ok(requeue("q", id)).await;
    }
    fixture.create(21, Definition::default()).await;
    fixture.ok(cancel("q", 4)).await;
    assert_statuses(&fixture, [20, 0, 0, 0, 1]).await;
    fixture.store.close().await;
    assert_tables_are_consistent(&storage.database);
}

/// An older server knows nothing of progress, so its claim leaves that of the run before, which says of which attempt it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn progress_that_a_claim_at_an_older_server_left_lasts_until_the_next_one() {
    let storage = fresh();
    let fixture = Fixture::with_queue(&storage).await;
    fixture.create(1, with_budget(3)).await;
    fixture.claim(1).await;
    fixture.ok(progress(1, 1, r#"{"step":7}"#)).await;
    fixture.ok(fail("q", 1, 1)).await;
    fixture.claim(2).await;
    let older =
        "UPDATE taskqueue.outcomes SET progress = '{\"step\":7}', progress_updated_at = 1, progress_attempt = 1;
        UPDATE taskqueue.tasks SET progress_bytes = 10";
    storage.database.admin(older);
    let task = fixture.get(1).await;
    let left = task.outcome.progress.unwrap();
    assert_eq!((left.attempt, task.lifecycle.attempt), (1, 2), "one sees that it is an older one");
    fixture.ok(progress(1, 2, r#"{"step":1}"#)).await;
    let progress = fixture.get(1).await.outcome.progress.unwrap();
    assert_eq!((progress.attempt, progress.value.as_str()), (2, r#"{"step":1}"#));
    storage.database.admin(older);
    fixture.ok(fail("q", 1, 2)).await;
    assert_eq!(fixture.claim(3).await.task.outcome.progress, None);
    fixture.store.close().await;
    assert_tables_are_consistent(&storage.database);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_of_tasks_that_an_older_server_deleted_is_removed_by_the_next_server_that_starts() {
    let storage = fresh();
    let fixture = Fixture::with_queue(&storage).await;
    for id in 1..=3 {
        fixture.create(id, Definition::default()).await;
        fixture.claim(id).await;
        fixture.ok(print(id, id, 0, "text")).await;
        fixture.ok(complete("q", id, id, object("{}"))).await;
    }
    let [kept, gone, last] = [1, 2, 3].map(task_id);
    let keys = storage.database.rows("SELECT task_key FROM taskqueue.outputs ORDER BY task_key");
    fixture.ok(delete("q", 2)).await;
    fixture.ok(delete("q", 3)).await;
    // What an older server leaves.
    let [_, second, third] = &keys[..] else { panic!("{keys:?}") };
    for key in [second, third].map(|row| row[0].clone().unwrap()) {
        storage.database.admin(&format!(
            "DELETE FROM taskqueue.output_purges WHERE task_key = {key};
            INSERT INTO taskqueue.output_pieces VALUES ({key}, 0, 'text') ON CONFLICT DO NOTHING;
            INSERT INTO taskqueue.outputs VALUES ({key}, 1, 4, 4, 0, '{}', '0-4')",
            run_id(2)
        ));
    }
    let name = queue("q");
    for id in [gone, last] {
        assert!(fixture.store.read_output(&name, id, 0, 1_000).await.is_err());
    }
    let fixture = fixture.reopen(&storage).await;
    for table in ["outputs", "output_pieces"] {
        let count = format!("SELECT count(*) FROM taskqueue.{table}");
        eventually("only one is left", || storage.database.rows(&count) == [[Some("1".to_owned())]]);
    }
    assert_eq!(fixture.store.read_output(&name, kept, 0, 1_000).await.unwrap().text, "text");
    fixture.store.close().await;
    assert_tables_are_consistent(&storage.database);
}

/// It does not know the table of activity, and what it deletes a queue with does not name it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_activity_of_a_queue_that_an_older_server_deletes_goes_with_it() {
    let storage = fresh();
    let fixture = filled(&storage).await;
    save_activity(&*fixture.store).await.unwrap();
    let rows = || storage.database.rows("SELECT 1 FROM taskqueue.activity").len();
    assert_eq!(rows(), 2);
    storage.database.admin(
        "WITH
            deleted_observations AS (DELETE FROM taskqueue.observations),
            deleted_tally AS (DELETE FROM taskqueue.tally),
            noted AS (INSERT INTO taskqueue.purges (queue_key, kept_until) SELECT queue_key, 0 FROM taskqueue.queues)
        DELETE FROM taskqueue.queues",
    );
    assert_eq!(rows(), 0);
    // What this server had counted belongs to nobody any more.
    fixture.clock.advance_seconds(60);
    save_activity(&*fixture.store).await.unwrap();
    assert_eq!(rows(), 0);
    fixture.store.close().await;
    assert_tables_are_consistent(&storage.database);
}

//! Tasks that wait for other tasks.

use super::delays::next;
use super::prelude::*;
use super::waiting::{got, resting, waiter};

/// Claims a task and completes it. It must be the next one.
async fn succeed(fixture: &Fixture, id: usize, run: usize) {
    assert_eq!(next(fixture, run).await, Some(id));
    fixture.ok(complete("q", id, run, object("{}"))).await;
}

async fn error_of(fixture: &Fixture, id: usize) -> String {
    let error = fixture.get(id).await.outcome.last_error.expect("an error");
    assert_eq!((&*error.failure.kind, error.run_id), ("DependencyFailed", None));
    error.failure.message.to_string()
}

fn to_dependencies(ids: &[usize]) -> Update {
    Update { dependencies: Some(dependencies(ids)), ..Update::default() }
}

pub async fn a_task_is_claimed_when_the_last_of_its_dependencies_has_succeeded(fixture: Fixture) {
    fixture.create(3, waits_for(&[2, 1, 2])).await;
    fixture.create(1, Definition::default()).await;
    fixture.create(2, Definition::default()).await;
    assert_eq!(fixture.get(3).await.definition.scheduling.dependencies, dependencies(&[1, 2]));
    succeed(&fixture, 1, 1).await;
    assert_eq!(next(&fixture, 2).await, Some(2));
    assert_eq!(next(&fixture, 3).await, None);
    fixture.ok(complete("q", 2, 2, object("{}"))).await;
    assert_eq!(next(&fixture, 4).await, Some(3), "in the same transaction");
}

pub async fn a_missing_dependency_is_waited_for_until_it_was_created_and_has_succeeded(fixture: Fixture) {
    fixture.create(2, cancelled_with(&[1])).await;
    fixture.upkeep().await;
    assert_eq!((fixture.status(2).await, next(&fixture, 1).await), (Status::Pending, None));
    fixture.create(1, Definition::default()).await;
    succeed(&fixture, 1, 2).await;
    assert_eq!(next(&fixture, 3).await, Some(2));
}

pub async fn a_task_of_another_queue_is_not_the_one_that_is_waited_for(fixture: Fixture) {
    fixture.ok(create_queue("other")).await;
    fixture.ok(create("other", 1, Definition::default())).await;
    fixture.create(2, waits_for(&[1])).await;
    fixture.claimed(claim("other", "default", 1)).await.expect("a task");
    fixture.ok(complete("other", 1, 1, object("{}"))).await;
    assert_eq!(next(&fixture, 2).await, None);
}

pub async fn a_task_that_waits_for_itself_waits_after_a_requeue_too(fixture: Fixture) {
    fixture.create(1, cancelled_with(&[1])).await;
    fixture.ok(cancel("q", 1)).await;
    fixture.ok(requeue("q", 1)).await;
    assert_eq!((fixture.status(1).await, next(&fixture, 1).await), (Status::Pending, None));
}

pub async fn a_deleted_dependency_is_missing_again(fixture: Fixture) {
    fixture.create(1, Definition::default()).await;
    succeed(&fixture, 1, 1).await;
    fixture.create(2, waits_for(&[1])).await;
    fixture.ok(delete("q", 1)).await;
    assert_eq!(next(&fixture, 2).await, None);
    fixture.create(1, Definition::default()).await;
    succeed(&fixture, 1, 3).await;
    assert_eq!(next(&fixture, 4).await, Some(2));
}

pub async fn a_chain_and_a_diamond_run_in_their_order(fixture: Fixture) {
    let tasks = [(6, &[5][..]), (5, &[3, 4]), (4, &[2]), (3, &[2]), (2, &[1]), (1, &[])];
    for (id, waits) in tasks {
        fixture.create(id, waits_for(waits)).await;
    }
    // 4 was created before 3.
    for (run, id) in [1, 2, 4, 3, 5, 6].into_iter().enumerate() {
        succeed(&fixture, id, run).await;
    }
    assert_eq!(next(&fixture, 99).await, None);
}

pub async fn a_circle_and_a_task_that_waits_for_itself_wait(fixture: Fixture) {
    fixture.create(1, waits_for(&[1])).await;
    fixture.create(2, waits_for(&[3])).await;
    fixture.create(3, waits_for(&[2])).await;
    fixture.upkeep().await;
    assert_eq!(next(&fixture, 1).await, None);
    fixture.ok(update("q", 1, to_dependencies(&[]))).await;
    succeed(&fixture, 1, 2).await;
    fixture.ok(update("q", 2, to_dependencies(&[1]))).await;
    succeed(&fixture, 2, 3).await;
    succeed(&fixture, 3, 4).await;
}

pub async fn a_circle_whose_task_is_cancelled_is_cancelled(fixture: Fixture) {
    for (id, waits) in [(1, 3), (2, 1), (3, 2)] {
        fixture.create(id, cancelled_with(&[waits])).await;
    }
    fixture.ok(cancel("q", 1)).await;
    fixture.upkeep().await;
    assert_eq!(fixture.count_by_status().await, [0, 0, 0, 0, 3]);
}

pub async fn a_time_and_dependencies_must_both_be_over(fixture: Fixture) {
    let at = fixture.now().plus_seconds(10);
    fixture.create(1, Definition::default()).await;
    fixture.ok(create_later(2, waits_for(&[1]), at)).await;
    fixture.ok(create_later(3, waits_for(&[1]), at)).await;
    succeed(&fixture, 1, 1).await;
    assert_eq!(next(&fixture, 2).await, None);
    fixture.ok(update("q", 3, to_dependencies(&[9]))).await;
    fixture.clock.advance_seconds(10);
    assert_eq!([next(&fixture, 3).await, next(&fixture, 4).await], [Some(2), None]);
    fixture.create(9, with_priority(1)).await;
    succeed(&fixture, 9, 5).await;
    assert_eq!(next(&fixture, 6).await, Some(3), "its time was over before");
}

pub async fn by_default_a_failed_dependency_is_waited_for_until_it_succeeds(fixture: Fixture) {
    fixture.create(1, with_budget(1)).await;
    fixture.create(2, waits_for(&[1])).await;
    fixture.claim(1).await;
    fixture.ok(fail("q", 1, 1)).await;
    assert_eq!((fixture.status(2).await, next(&fixture, 2).await), (Status::Pending, None));
    fixture.ok(requeue("q", 1)).await;
    succeed(&fixture, 1, 3).await;
    assert_eq!(next(&fixture, 4).await, Some(2));
}

pub async fn a_dependency_that_cannot_succeed_cancels_who_asked_for_it_down_the_chain(fixture: Fixture) {
    for (n, cause) in ["fail", "cancel", "delete", "expiry"].into_iter().enumerate() {
        let [parent, child, grandchild, patient] = [10 * n + 1, 10 * n + 2, 10 * n + 3, 10 * n + 4];
        fixture.create(parent, with_budget(1)).await;
        fixture.create(child, cancelled_with(&[parent])).await;
        fixture.create(grandchild, cancelled_with(&[child])).await;
        fixture.create(patient, waits_for(&[child])).await;
        if cause == "fail" || cause == "expiry" {
            assert_eq!(next(&fixture, n).await, Some(parent));
        }
        match cause {
            "fail" => fixture.ok(fail("q", parent, n)).await,
            "cancel" => drop(fixture.ok(cancel("q", parent)).await),
            "delete" => fixture.ok(delete("q", parent)).await,
            _ => assert_eq!(fixture.pass(305).await.expired_runs, 1),
        }
        fixture.upkeep().await;
        let statuses = [fixture.status(child).await, fixture.status(grandchild).await, fixture.status(patient).await];
        assert_eq!(statuses, [Status::Cancelled, Status::Cancelled, Status::Pending], "{cause}");
        assert!(error_of(&fixture, child).await.contains(task_id(parent).as_str()), "{cause}");
        assert!(error_of(&fixture, grandchild).await.contains(task_id(child).as_str()), "{cause}");
    }
}

pub async fn a_dependency_that_failed_before_cancels_at_creation_update_and_requeue(fixture: Fixture) {
    fixture.create(1, Definition::default()).await;
    fixture.ok(cancel("q", 1)).await;
    let created = fixture.create(2, cancelled_with(&[1])).await;
    assert_eq!(created.lifecycle.status, Status::Cancelled);
    fixture.create(3, waits_for(&[1])).await;
    let cancels = Update { on_dependency_failure: Some(OnDependencyFailure::Cancel), ..Update::default() };
    assert_eq!(fixture.task_of(update("q", 3, cancels.clone())).await.lifecycle.status, Status::Cancelled);
    let requeued = fixture.task_of(requeue("q", 3)).await;
    assert_eq!(requeued.lifecycle.status, Status::Cancelled, "it is so again");
    assert!(error_of(&fixture, 3).await.contains(task_id(1).as_str()));
    fixture.create(4, waits_for(&[1])).await;
    fixture.create(5, waits_for(&[4])).await;
    fixture.ok(update_all("q", "status == 'pending'", cancels)).await;
    fixture.upkeep().await;
    assert_eq!(fixture.count_by_status().await, [0, 0, 0, 0, 5]);
    fixture.ok(requeue("q", 1)).await;
    let requeued = fixture.ok(act_on_all("q", BulkAction::Requeue, "status == 'cancelled'")).await;
    assert_eq!((requeued.changed, fixture.status(3).await), (4, Status::Pending), "now it may still succeed");
}

pub async fn a_bulk_requeue_leaves_what_would_be_cancelled_again(fixture: Fixture) {
    for id in 1..=2 {
        fixture.create(id, Definition::default()).await;
        fixture.ok(cancel("q", id)).await;
    }
    fixture.create(3, cancelled_with(&[1])).await;
    fixture.create(4, cancelled_with(&[3])).await;
    fixture.create(5, cancelled_with(&[2, 5])).await;
    // These two wait for each other.
    fixture.create(6, cancelled_with(&[7])).await;
    fixture.create(7, cancelled_with(&[6])).await;
    fixture.ok(cancel("q", 6)).await;
    let before = fixture.get(3).await;
    let others = format!("id != '{}'", task_id(1));
    let requeued = fixture.ok(act_on_all("q", BulkAction::Requeue, &others)).await;
    assert_eq!((requeued.matched, requeued.changed), (6, 2), "2, and then 5, which waits for itself too");
    assert_eq!(fixture.get(3).await, before);
    let statuses = [fixture.status(2).await, fixture.status(4).await, fixture.status(5).await];
    assert_eq!(statuses, [Status::Pending, Status::Cancelled, Status::Pending]);
    assert_eq!(fixture.ok(act_on_all("q", BulkAction::Requeue, &others)).await.changed, 0);
}

pub async fn who_saw_a_dependency_deleted_remembers_it_at_a_requeue(fixture: Fixture) {
    fixture.create(1, Definition::default()).await;
    fixture.create(2, cancelled_with(&[1])).await;
    fixture.ok(delete("q", 1)).await;
    fixture.upkeep().await;
    assert_eq!(fixture.task_of(requeue("q", 2)).await.lifecycle.status, Status::Cancelled);
    fixture.create(3, cancelled_with(&[1])).await;
    assert_eq!(fixture.status(3).await, Status::Pending, "for this one it was never there");
    fixture.create(1, Definition::default()).await;
    assert_eq!(fixture.task_of(requeue("q", 2)).await.lifecycle.status, Status::Pending);
}

pub async fn a_dependency_that_failed_during_a_run_cancels_the_task_that_comes_back(fixture: Fixture) {
    fixture.create(1, Definition::default()).await;
    succeed(&fixture, 1, 1).await;
    for id in 2..=4 {
        fixture.create(id, Definition { max_attempts: 3, ..cancelled_with(&[1]) }).await;
        assert_eq!(next(&fixture, id).await, Some(id));
    }
    fixture.create(5, cancelled_with(&[2])).await;
    fixture.ok(delete("q", 1)).await;
    fixture.upkeep().await;
    assert_eq!(fixture.status(2).await, Status::Running, "a run goes on");
    fixture.ok(fail("q", 2, 2)).await;
    fixture.ok(unclaim("q", 3, 3)).await;
    fixture.pass(301).await;
    for id in 2..=4 {
        assert_eq!(fixture.status(id).await, Status::Cancelled, "{id}");
        let expected = format!("the task {} that this one waits for was deleted", task_id(1));
        assert_eq!(error_of(&fixture, id).await, expected);
    }
    assert_eq!(fixture.status(5).await, Status::Cancelled, "and so on down the chain");
}

pub async fn an_update_replaces_what_a_task_waits_for(fixture: Fixture) {
    fixture.create_many((1..=2).map(|id| (id, with_routes(&["parents"])))).await;
    fixture.create(3, waits_for(&[1])).await;
    let parent = |id: usize, run: usize| {
        let fixture = &fixture;
        async move {
            fixture.claimed(claim("q", "parents", run)).await.expect("a task");
            fixture.ok(complete("q", id, run, object("{}"))).await;
        }
    };
    fixture.ok(update("q", 3, to_dependencies(&[2]))).await;
    parent(1, 1).await;
    assert_eq!(next(&fixture, 2).await, None);
    fixture.ok(update("q", 3, to_dependencies(&[1]))).await;
    assert_eq!(next(&fixture, 3).await, Some(3));
    fixture.ok(unclaim("q", 3, 3)).await;
    fixture.ok(update_all("q", &format!("id == '{}'", task_id(3)), to_dependencies(&[1, 2]))).await;
    assert_eq!(next(&fixture, 4).await, None);
    parent(2, 5).await;
    assert_eq!(next(&fixture, 6).await, Some(3));
}

pub async fn a_deleted_task_waits_for_nothing_any_more(fixture: Fixture) {
    fixture.create(1, Definition::default()).await;
    fixture.create(2, waits_for(&[1])).await;
    fixture.ok(delete("q", 2)).await;
    fixture.create(2, Definition::default()).await;
    succeed(&fixture, 1, 1).await;
    fixture.upkeep().await;
    assert_eq!([next(&fixture, 2).await, next(&fixture, 3).await], [Some(2), None]);
}

pub async fn tasks_of_one_request_may_wait_for_each_other(fixture: Fixture) {
    let new = |id: usize, definition: Definition| (task_id(id), Box::new(definition.into()));
    let tasks = [new(2, waits_for(&[1])), new(1, Definition::default()), new(3, waits_for(&[1, 2]))];
    let items = fixture.ok(CreateTasks { queue: queue("q"), tasks: tasks.into_iter().collect() }).await;
    assert!(items.iter().all(|item| *item == Ok(true)));
    for (run, id) in [1, 2, 3].into_iter().enumerate() {
        succeed(&fixture, id, run).await;
    }
}

pub async fn a_task_with_1000_dependencies_waits_for_the_last_one(fixture: Fixture) {
    const MANY: usize = 1_000;
    fixture.ok(create_all(0..MANY)).await;
    let ids = Dependencies::new((0..MANY).map(task_id).collect()).unwrap();
    fixture.create(MANY, waits_for(&(0..MANY).collect::<Vec<_>>())).await;
    assert_eq!(fixture.get(MANY).await.definition.scheduling.dependencies, ids);
    // With it more tasks come first than an explanation counts.
    fixture.create(MANY + 1, with_priority(1)).await;
    let explained = fixture.store.explain(&queue("q"), task_id(MANY)).await.unwrap();
    let unmet = (0..100).map(|id| (task_id(id), Some(Status::Pending))).collect();
    let no_worker = Reason::NoWorker { routes: vec![route("default")] };
    let expected = [Reason::Dependencies { unmet }, no_worker, Reason::WaitingTurn { ahead: 1_000 }];
    assert_eq!(explained.reasons, expected);
    fixture.ok(delete("q", MANY + 1)).await;
    fixture.ok(claim_all(0..MANY)).await;
    let done = (0..MANY - 1).map(|id| complete("q", id, id, object("{}")).into());
    assert!(fixture.ok(report_all(done)).await.iter().all(Result::is_ok));
    assert_eq!(next(&fixture, 5_000).await, None);
    fixture.ok(complete("q", MANY - 1, MANY - 1, object("{}"))).await;
    assert_eq!(next(&fixture, 5_001).await, Some(MANY));
}

pub async fn more_dependents_than_one_transaction_settles_are_all_settled(fixture: Fixture) {
    const MANY: usize = 1_300;
    fixture.create(0, with_priority(1)).await;
    fixture.create_many((1..=MANY).map(|id| (id, waits_for(&[0])))).await;
    succeed(&fixture, 0, 0).await;
    let last = fixture.store.explain(&queue("q"), task_id(MANY)).await.unwrap();
    assert!(!last.claimable, "it has not followed yet: {last:?}");
    fixture.upkeep().await;
    assert!(fixture.store.explain(&queue("q"), task_id(MANY)).await.unwrap().claimable);
    let mut claimed = 0;
    for portion in (1..=MANY + 100).collect::<Vec<_>>().chunks(500) {
        let items = fixture.ok(claim_all(portion.iter().map(|run| run + 10_000))).await;
        claimed += items.iter().flatten().flatten().count();
    }
    assert_eq!(claimed, MANY);
}

/// So long that it is left twice, and the other one is found in between.
const LONG_CHAIN: usize = 2_100;

/// A chain whose tasks have these ids fails at its beginning, while another task succeeds that one waits for.
async fn fail_a_long_chain_beside_another(fixture: Fixture, id_at: impl Fn(usize) -> usize) {
    let (other, waiting) = (LONG_CHAIN, LONG_CHAIN + 1);
    fixture.ok(create_all([id_at(0), other])).await;
    fixture.create(waiting, waits_for(&[other])).await;
    fixture.create_many((1..LONG_CHAIN).map(|place| (id_at(place), cancelled_with(&[id_at(place - 1)])))).await;
    assert_eq!((next(&fixture, 0).await, next(&fixture, 1).await), (Some(id_at(0)), Some(other)));
    let reports = [fail_for_good("q", id_at(0), 0), complete("q", other, 1, object("{}"))];
    fixture.ok(report_all(reports.map(Into::into))).await;
    let left = fixture.store.explain(&queue("q"), task_id(waiting)).await.unwrap();
    assert!(!left.claimable, "it has not followed yet: {left:?}");
    fixture.upkeep().await;
    assert_eq!(next(&fixture, 3).await, Some(waiting));
    assert_eq!(fixture.count_by_status().await, [0, 1, 1, 1, LONG_CHAIN as u64 - 1]);
}

pub async fn what_is_left_beside_a_long_chain_is_settled_too(fixture: Fixture) {
    fail_a_long_chain_beside_another(fixture, |place| place).await;
}

pub async fn a_long_chain_against_the_order_of_ids_is_settled_beside_another(fixture: Fixture) {
    fail_a_long_chain_beside_another(fixture, |place| LONG_CHAIN - 1 - place).await;
}

pub async fn a_dependency_that_succeeds_wakes_a_waiting_claim(fixture: Fixture) {
    fixture.create(1, with_routes(&["parents"])).await;
    fixture.create(2, waits_for(&[1])).await;
    let waiting = waiter(&fixture, "default", 2);
    resting(&fixture, 1).await;
    fixture.claimed(claim("q", "parents", 1)).await.expect("a task");
    fixture.ok(complete("q", 1, 1, object("{}"))).await;
    assert_eq!(got(waiting).await, task_id(2).to_string());
}

pub async fn a_replay_of_the_creation_is_one_whatever_became_of_the_dependencies(fixture: Fixture) {
    fixture.create(1, waits_for(&[3, 2])).await;
    fixture.ok(update("q", 1, to_dependencies(&[]))).await;
    assert!(!fixture.ok(create("q", 1, waits_for(&[2, 3, 2]))).await.created);
    let task: Task = fixture.get(1).await;
    assert!(task.definition.scheduling.dependencies.is_empty());
    fixture.refused(create("q", 1, waits_for(&[2]))).await;
    fixture.refused(create("q", 1, Definition::default())).await;
}

pub async fn a_bulk_action_sees_what_it_has_done_to_tasks_that_wait(fixture: Fixture) {
    fixture.create(1, Definition::default()).await;
    fixture.create(2, cancelled_with(&[1])).await;
    fixture.create(3, Definition::default()).await;
    let acted = fixture.ok(act_on_all("q", BulkAction::Delete, "status == 'pending'")).await;
    assert_eq!((acted.matched, acted.changed), (3, 2), "what was cancelled meanwhile is not selected any more");
    assert_eq!((fixture.status(2).await, fixture.count_by_status().await), (Status::Cancelled, [0, 0, 0, 0, 1]));
    fixture.create(4, Definition::default()).await;
    fixture.create(5, cancelled_with(&[4])).await;
    let acted = fixture.ok(act_on_all("q", BulkAction::Cancel, "priority == 0")).await;
    assert_eq!((acted.matched, acted.changed), (2, 1));
    assert_eq!(fixture.count_by_status().await, [0, 0, 0, 0, 3]);
}

pub async fn a_bulk_update_that_cancels_a_task_cancels_those_that_wait_for_it(fixture: Fixture) {
    fixture.create(1, Definition::default()).await;
    fixture.ok(cancel("q", 1)).await;
    fixture.create_many((2..=4).map(|id| (id, waits_for(&[id - 1])))).await;
    let cancels = Update { on_dependency_failure: Some(OnDependencyFailure::Cancel), ..to_priority(7) };
    let updated = fixture.ok(update_all("q", "status == 'pending'", cancels)).await;
    assert_eq!((updated.matched, updated.updated), (3, 3));
    assert_eq!(fixture.count_by_status().await, [0, 0, 0, 0, 4]);
    for id in 2..=4 {
        let task = fixture.get(id).await;
        assert_eq!((task.lifecycle.status, task.definition.priority), (Status::Cancelled, 7));
    }
}

pub async fn a_bulk_update_with_more_dependencies_than_a_transaction_takes_is_refused_and_changes_nothing(
    fixture: Fixture,
) {
    fixture.ok(create_all(0..33)).await;
    let many: Vec<usize> = (1_000..2_000).collect();
    let update = to_dependencies(&many);
    let refused = fixture.refused(update_all("q", "exists(id)", update.clone())).await;
    let expected = Refusal::BulkUpdateTooLarge { tasks: 33, dependencies: 33_000, routes: 0, most_tasks: 32 };
    assert_eq!(refused, expected);
    assert!(fixture.get(1).await.definition.scheduling.dependencies.is_empty());
    let updated = fixture.ok(update_all("q", "id == \"t_000000000001\"", update)).await;
    assert_eq!(updated.updated, 1, "fewer at once");
}

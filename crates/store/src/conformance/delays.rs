//! Tasks that wait for a time, and runs that may be active for some time only.

use super::prelude::*;
use super::waiting::{got, resting, waiter};

/// The number of the task that a claim gets, if any.
pub(super) async fn next(fixture: &Fixture, run: usize) -> Option<usize> {
    let claimed = fixture.claimed(claim("q", "default", run)).await;
    claimed.map(|claimed| claimed.task.id.as_str()[2..].parse().unwrap())
}

fn retried_after(seconds: f64) -> Definition {
    scheduled(SchedulingFields { retry_delay: RetryDelay::new(seconds, None, None), ..SchedulingFields::default() })
}

fn limited_to(seconds: i64) -> Definition {
    scheduled(SchedulingFields { timeout_seconds: Some(seconds), ..SchedulingFields::default() })
}

pub async fn a_delayed_task_is_claimed_from_its_time_on_and_not_before(fixture: Fixture) {
    let at = fixture.now().plus_seconds(10);
    let created = fixture.ok(create_later(1, Definition::default(), at)).await;
    assert_eq!(created.task.lifecycle.not_before, Some(at));
    assert_eq!(fixture.count_by_status().await, [1, 0, 0, 0, 0], "it is pending all the same");
    assert_eq!(next(&fixture, 1).await, None);
    fixture.clock.advance_micros(9_999_999);
    assert_eq!(next(&fixture, 2).await, None);
    fixture.clock.advance_micros(1);
    assert_eq!(next(&fixture, 3).await, Some(1), "without anybody's help");
    assert_eq!(fixture.get(1).await.lifecycle.not_before, None, "the claim has cleared it");
}

pub async fn a_delayed_task_has_the_place_that_it_got_at_its_creation(fixture: Fixture) {
    let at = fixture.now().plus_seconds(10);
    fixture.create(1, Definition::default()).await;
    fixture.ok(create_later(2, Definition::default(), at)).await;
    fixture.create(3, Definition::default()).await;
    fixture.ok(create_later(4, with_priority(5), at)).await;
    fixture.create(5, with_priority(5)).await;
    assert_eq!([next(&fixture, 1).await, next(&fixture, 2).await], [Some(5), Some(1)]);
    fixture.clock.advance_seconds(10);
    fixture.upkeep().await;
    let order = [next(&fixture, 3).await, next(&fixture, 4).await, next(&fixture, 5).await, next(&fixture, 6).await];
    assert_eq!(order, [Some(4), Some(2), Some(3), None]);
}

pub async fn many_tasks_of_one_time_are_all_there_when_it_comes(fixture: Fixture) {
    const MANY: usize = 700;
    let at = fixture.now().plus_seconds(60);
    let new = |id: usize| (task_id(id), Box::new(NewTask::new(with_priority((id % 3) as i64), Some(at))));
    fixture.ok(CreateTasks { queue: queue("q"), tasks: (0..MANY).map(new).collect() }).await;
    assert_eq!(next(&fixture, 0).await, None);
    fixture.clock.advance_seconds(60);
    let claimed = fixture.ok(claim_all(1..=MANY + 1)).await;
    let ids: Vec<_> = claimed.iter().flatten().flatten().map(|claimed| claimed.task.id).collect();
    let mut expected: Vec<usize> = (0..MANY).collect();
    expected.sort_by_key(|id| (std::cmp::Reverse(id % 3), *id));
    assert_eq!(ids, expected.into_iter().map(task_id).collect::<Vec<_>>());
}

pub async fn a_failed_attempt_waits_before_the_next_one(fixture: Fixture) {
    fixture.create(1, retried_after(10.0)).await;
    assert_eq!(next(&fixture, 1).await, Some(1));
    fixture.ok(fail("q", 1, 1)).await;
    assert_eq!(fixture.get(1).await.lifecycle.not_before, Some(fixture.now().plus_seconds(10)));
    assert_eq!(next(&fixture, 2).await, None);
    fixture.clock.advance_seconds(10);
    assert_eq!(next(&fixture, 3).await, Some(1));
    fixture.pass(305).await;
    let waits = fixture.get(1).await.lifecycle;
    assert_eq!(waits.not_before, Some(waits.updated_at.plus_seconds(20)), "an expired lease is a failed attempt");
    fixture.pass(20).await;
    assert_eq!(next(&fixture, 4).await, Some(1));
    fixture.ok(fail("q", 1, 4)).await;
    assert_eq!(fixture.get(1).await.lifecycle.not_before, None, "there is no next attempt");
}

pub async fn a_worker_says_how_long_the_next_attempt_waits(fixture: Fixture) {
    let report = |run: usize, report| ReportRun { queue: queue("q"), id: task_id(1), run_id: run_id(run), report };
    fixture.create_running(1, retried_after(10.0)).await;
    let retry_after = Some(Duration::from_millis(1_500));
    fixture.ok(report(1, RunReport::Fail { failure: failure("no"), retry: true, retry_after })).await;
    fixture.clock.advance_micros(1_499_999);
    assert_eq!(next(&fixture, 2).await, None);
    fixture.clock.advance_micros(1);
    assert_eq!(next(&fixture, 3).await, Some(1));
    fixture.ok(report(3, RunReport::Unclaim { delay: Some(Duration::from_secs(5)) })).await;
    fixture.ok(report(3, RunReport::Unclaim { delay: Some(Duration::from_secs(500)) })).await;
    fixture.clock.advance_seconds(5);
    assert_eq!(next(&fixture, 4).await, Some(1), "the repetition changed nothing");
}

pub async fn an_update_moves_a_task_between_the_delay_and_the_order(fixture: Fixture) {
    let to = |at| Update { not_before: Some(at), ..Update::default() };
    let later = Some(fixture.now().plus_seconds(100));
    fixture.ok(create_all(1..=3)).await;
    fixture.ok(update("q", 1, to(later))).await;
    fixture.ok(update_all("q", &format!("id == '{}'", task_id(2)), to(later))).await;
    assert_eq!([next(&fixture, 1).await, next(&fixture, 2).await], [Some(3), None]);
    fixture.ok(update("q", 2, to(Some(fixture.now())))).await;
    assert_eq!([next(&fixture, 3).await, next(&fixture, 4).await], [Some(2), None]);
    fixture.ok(update_all("q", "status == 'pending'", to(None))).await;
    assert_eq!([next(&fixture, 5).await, next(&fixture, 6).await], [Some(1), None]);
}

pub async fn cancel_delete_and_requeue_of_a_delayed_task_leave_nothing_behind(fixture: Fixture) {
    let at = fixture.now().plus_seconds(10);
    for id in 1..=3 {
        fixture.ok(create_later(id, Definition::default(), at)).await;
    }
    fixture.ok(cancel("q", 1)).await;
    fixture.ok(delete("q", 2)).await;
    fixture.ok(requeue("q", 3)).await;
    assert_eq!([next(&fixture, 1).await, next(&fixture, 2).await], [Some(3), None], "a requeue clears the time");
    fixture.clock.advance_seconds(20);
    fixture.upkeep().await;
    assert_eq!(next(&fixture, 3).await, None);
    fixture.ok(requeue("q", 1)).await;
    assert_eq!(next(&fixture, 4).await, Some(1));
}

pub async fn a_time_that_comes_wakes_a_waiting_claim(fixture: Fixture) {
    let waiting = waiter(&fixture, "default", 1);
    resting(&fixture, 1).await;
    fixture.ok(create_later(1, Definition::default(), fixture.now().plus_seconds(10))).await;
    fixture.clock.advance_seconds(10);
    fixture.upkeep().await;
    assert_eq!(got(waiting).await, task_id(1).to_string());
}

pub async fn a_run_that_is_active_for_too_long_is_ended_by_the_scan(fixture: Fixture) {
    fixture.create_running(1, limited_to(20)).await;
    fixture.pass(15).await;
    fixture.ok(heartbeat("q", 1, 1)).await;
    assert_eq!(fixture.pass(4).await.expired_runs, 0);
    assert_eq!(fixture.pass(1).await.expired_runs, 1, "heartbeats or not");
    let task = fixture.get(1).await;
    assert_eq!((task.lifecycle.status, task.lifecycle.attempt), (Status::Pending, 1));
    assert_eq!(&*task.outcome.last_error.unwrap().failure.kind, "ExecutionTimeout");
    let refusal = Refusal::RunFinalized { end: RunEnd::Timeout };
    assert_eq!(fixture.refused(complete("q", 1, 1, object("{}"))).await, refusal);
}

pub async fn a_run_that_is_active_for_too_long_is_ended_by_its_next_call(fixture: Fixture) {
    let refusal = Refusal::RunFinalized { end: RunEnd::Timeout };
    for id in 1..=2 {
        fixture.create_running(id, limited_to(4)).await;
    }
    fixture.clock.advance_seconds(4);
    assert_eq!(fixture.refused(heartbeat("q", 1, 1)).await, refusal);
    assert_eq!(fixture.refused(complete("q", 2, 2, object("{}"))).await, refusal);
    assert_eq!(fixture.count_by_status().await, [2, 0, 0, 0, 0]);
    assert_eq!(fixture.refused(heartbeat("q", 1, 1)).await, refusal, "and it stays so");
}

pub async fn an_outage_is_not_held_against_the_time_of_a_run(fixture: Fixture) {
    fixture.create_running(1, limited_to(60)).await;
    fixture.scan().await;
    fixture.clock.advance_seconds(600);
    assert_eq!(fixture.scan().await.credited_runs, 1);
    fixture.pass(85).await;
    fixture.ok(complete("q", 1, 1, object(r#"{"done":true}"#))).await;
    assert_eq!(fixture.status(1).await, Status::Succeeded);
}

pub async fn a_replayed_claim_of_a_run_that_took_too_long_is_refused(fixture: Fixture) {
    fixture.create_running(1, limited_to(4)).await;
    fixture.clock.advance_seconds(3);
    fixture.claim(1).await;
    fixture.clock.advance_seconds(1);
    assert_eq!(fixture.refused(claim("q", "default", 1)).await, Refusal::StaleRun { run_id: run_id(1) });
}

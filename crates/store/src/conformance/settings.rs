//! The settings of a queue: pause, limits, retention; and explanations, which name them.

use std::collections::BTreeMap;

use super::delays::next;
use super::prelude::*;
use super::waiting::{got, resting, resting_at, waiter, waiter_at};

fn paused(paused: bool) -> SettingsPatch {
    SettingsPatch { paused: Some(paused), ..SettingsPatch::default() }
}

fn at_most(max_running: Option<u64>) -> SettingsPatch {
    SettingsPatch { max_running: Some(max_running), ..SettingsPatch::default() }
}

fn limits(limits: &[(&str, Option<u64>)]) -> SettingsPatch {
    let limits = limits.iter().map(|(name, limit)| (route(name), *limit)).collect();
    SettingsPatch { route_limits: RouteLimitsPatch::Merge(limits), ..SettingsPatch::default() }
}

fn kept(succeeded: Option<u64>, failed: Option<u64>, cancelled: Option<u64>) -> SettingsPatch {
    let [succeeded_seconds, failed_seconds, cancelled_seconds] = [succeeded, failed, cancelled].map(Some);
    let retention = RetentionPatch { succeeded_seconds, failed_seconds, cancelled_seconds };
    SettingsPatch { retention, ..SettingsPatch::default() }
}

async fn settings(fixture: &Fixture) -> QueueSettings {
    fixture.store.queue_settings(&queue("q")).await.unwrap()
}

pub async fn settings_are_the_default_until_they_are_changed_and_go_with_their_queue(fixture: Fixture) {
    assert_eq!(settings(&fixture).await, QueueSettings::default());
    let changed = fixture.ok(change_settings("q", at_most(Some(3)))).await;
    assert_eq!((changed.max_running, settings(&fixture).await), (Some(3), changed));
    fixture.ok(change_settings("q", paused(true))).await;
    let both = settings(&fixture).await;
    assert_eq!((both.paused, both.max_running), (true, Some(3)), "what is not named stays");
    fixture.ok(delete_queue("q", false)).await;
    let missing = Refusal::QueueNotFound { queue: queue("q") };
    assert_eq!(fixture.refused(change_settings("q", paused(true))).await, missing);
    assert_eq!(fixture.store.queue_settings(&queue("q")).await, Err(StoreError::Refused(missing)));
    fixture.ok(create_queue("q")).await;
    assert_eq!(settings(&fixture).await, QueueSettings::default());
}

pub async fn a_new_queue_keeps_ended_tasks_as_it_is_told_and_one_that_is_there_as_before(fixture: Fixture) {
    let retention = Retention { succeeded_seconds: Some(7), ..Retention::default() };
    let create = |name: &str| CreateQueue { queue: queue(name), retention };
    assert!(!fixture.ok(create("q")).await);
    assert_eq!(settings(&fixture).await, QueueSettings::default(), "it was there");
    assert!(fixture.ok(create("new")).await);
    let expected = QueueSettings { retention, ..QueueSettings::default() };
    assert_eq!(fixture.store.queue_settings(&queue("new")).await, Ok(expected));
}

pub async fn more_limits_of_routes_than_there_may_be_are_refused(fixture: Fixture) {
    let numbered = |count: usize| {
        let limits: BTreeMap<_, _> = (0..count).map(|n| (route(&format!("r{n}")), Some(1))).collect();
        SettingsPatch { route_limits: RouteLimitsPatch::Merge(limits), ..SettingsPatch::default() }
    };
    fixture.ok(change_settings("q", numbered(256))).await;
    let refused = fixture.refused(change_settings("q", limits(&[("other", Some(1))]))).await;
    assert_eq!(refused, Refusal::TooManyRouteLimits);
    assert_eq!(settings(&fixture).await.route_limits.len(), 256);
}

pub async fn a_paused_queue_gives_no_task_and_lets_runs_go_on(fixture: Fixture) {
    fixture.ok(create_all(1..=3)).await;
    fixture.claim(1).await;
    fixture.ok(change_settings("q", paused(true))).await;
    assert_eq!(next(&fixture, 2).await, None);
    assert!(fixture.ok(claim_all([3, 4])).await.iter().all(|item| matches!(item, Ok(None))));
    assert_eq!(fixture.claim(1).await.task.id, task_id(1), "a repeated claim gets its task");
    fixture.ok(heartbeat("q", 1, 1)).await;
    fixture.ok(complete("q", 1, 1, object("{}"))).await;
    fixture.ok(change_settings("q", paused(false))).await;
    assert_eq!([next(&fixture, 5).await, next(&fixture, 6).await], [Some(2), Some(3)]);
}

pub async fn a_queue_never_has_more_running_tasks_than_its_limit(fixture: Fixture) {
    fixture.ok(create_all(1..=6)).await;
    fixture.ok(change_settings("q", at_most(Some(2)))).await;
    let claimed = fixture.ok(claim_all([1, 2, 3])).await;
    assert_eq!(claimed.iter().map(|item| matches!(item, Ok(Some(_)))).collect::<Vec<_>>(), [true, true, false]);
    assert_eq!(next(&fixture, 4).await, None);
    assert_eq!(fixture.claim(1).await.task.id, task_id(1), "a repeated claim gets its task");
    fixture.ok(complete("q", 1, 1, object("{}"))).await;
    assert_eq!([next(&fixture, 5).await, next(&fixture, 6).await], [Some(3), None]);
    fixture.ok(cancel("q", 2)).await;
    assert_eq!([next(&fixture, 7).await, next(&fixture, 8).await], [Some(4), None]);
    fixture.pass(305).await;
    assert_eq!(fixture.count_by_status().await[1], 0);
    assert_eq!([next(&fixture, 9).await, next(&fixture, 10).await, next(&fixture, 11).await], [Some(5), Some(6), None]);
    fixture.ok(change_settings("q", at_most(Some(0)))).await;
    fixture.ok(unclaim("q", 5, 9)).await;
    assert_eq!(next(&fixture, 12).await, None, "lowering a limit ends no run, and gives none");
    fixture.ok(change_settings("q", at_most(None))).await;
    assert!(next(&fixture, 13).await.is_some());
}

pub async fn a_route_never_has_more_running_tasks_than_its_limit(fixture: Fixture) {
    fixture.create_many((1..=4).map(|id| (id, with_routes(&["cpu", "gpu"])))).await;
    fixture.ok(change_settings("q", limits(&[("gpu", Some(1))]))).await;
    let gpu = |run: usize| fixture.claimed(claim("q", "gpu", run));
    assert!(gpu(1).await.is_some());
    assert!(gpu(2).await.is_none());
    assert!(fixture.claimed(claim("q", "cpu", 3)).await.is_some(), "what counts is the route of the claim");
    assert!(gpu(4).await.is_none());
    fixture.ok(unclaim("q", 1, 1)).await;
    assert!(gpu(5).await.is_some());
    fixture.ok(change_settings("q", limits(&[("gpu", None)]))).await;
    assert!(gpu(6).await.is_some());
}

pub async fn a_resume_a_free_place_and_a_raised_limit_wake_waiting_claims(fixture: Fixture) {
    whatever_opens_wakes_claims_at(&fixture, &fixture.store).await;
}

/// Claims wait at a store, and everything that opens the queue is written to that of the fixture.
pub async fn whatever_opens_wakes_claims_at(fixture: &Fixture, store: &Arc<dyn Store>) {
    fixture.ok(create_all(1..=4)).await;
    fixture.ok(change_settings("q", paused(true))).await;
    let first = waiter_at(store, "default", 1);
    resting_at(store, 1).await;
    fixture.ok(change_settings("q", SettingsPatch { max_running: Some(Some(1)), ..paused(false) })).await;
    assert_eq!(got(first).await, task_id(1).to_string());
    let (second, third) = (waiter_at(store, "default", 2), waiter_at(store, "default", 3));
    resting_at(store, 2).await;
    fixture.ok(complete("q", 1, 1, object("{}"))).await;
    resting_at(store, 1).await;
    fixture.ok(change_settings("q", at_most(Some(2)))).await;
    let mut ids = [got(second).await, got(third).await];
    ids.sort();
    assert_eq!(ids, [2, 3].map(|id| task_id(id).to_string()));
    assert_eq!(next(fixture, 4).await, None);
}

/// The older waiter is woken first, and cannot take it.
pub async fn a_task_of_several_routes_wakes_a_claim_whose_route_is_not_at_its_limit(fixture: Fixture) {
    fixture.ok(change_settings("q", limits(&[("gpu", Some(0))]))).await;
    let gpu = waiter(&fixture, "gpu", 1);
    resting(&fixture, 1).await;
    let cpu = waiter(&fixture, "cpu", 2);
    resting(&fixture, 2).await;
    fixture.create(1, with_routes(&["cpu", "gpu"])).await;
    assert_eq!(got(cpu).await, task_id(1).to_string());
    gpu.abort();
}

pub async fn ended_tasks_are_deleted_when_their_time_is_over(fixture: Fixture) {
    fixture.create_many((1..=5).map(|id| (id, with_budget(1)))).await;
    fixture.claim(1).await;
    fixture.ok(complete("q", 1, 1, object("{}"))).await;
    fixture.claim(2).await;
    fixture.ok(fail("q", 2, 2)).await;
    fixture.ok(cancel("q", 3)).await;
    fixture.ok(update("q", 3, to_archived(true))).await;
    fixture.claim(4).await;
    fixture.clock.advance_seconds(2);
    fixture.ok(change_settings("q", kept(Some(10), Some(20), Some(3)))).await;
    fixture.upkeep().await;
    let every = || filtered_all(&fixture);
    assert_eq!(every().await, [1, 2, 3, 4, 5], "those that ended before the retention was set have their time, too");
    fixture.clock.advance_seconds(1);
    fixture.upkeep().await;
    assert_eq!(every().await, [1, 2, 4, 5], "archived ones are deleted as well");
    fixture.clock.advance_seconds(7);
    fixture.upkeep().await;
    assert_eq!(every().await, [2, 4, 5]);
    fixture.ok(requeue("q", 2)).await;
    fixture.pass(15).await;
    fixture.upkeep().await;
    assert_eq!(every().await, [2, 4, 5], "it has not ended any more");
    fixture.ok(complete("q", 4, 4, object("{}"))).await;
    fixture.ok(change_settings("q", kept(None, None, None))).await;
    fixture.clock.advance_seconds(100);
    fixture.upkeep().await;
    assert_eq!(every().await, [2, 4, 5], "without a retention nothing is deleted");
}

async fn filtered_all(fixture: &Fixture) -> Vec<usize> {
    let mut selection = all();
    selection.include_archived = true;
    let tasks = fixture.walk("q", &selection, BY_ID, 100).await;
    tasks.into_iter().map(|task| task.id.as_str()[2..].parse().unwrap()).collect()
}

pub async fn many_ended_tasks_are_deleted_some_at_a_time(fixture: Fixture) {
    const MANY: usize = 900;
    fixture.ok(create_all(0..MANY)).await;
    fixture.ok(claim_all(0..MANY)).await;
    let done = |ids: std::ops::Range<usize>| report_all(ids.map(|id| complete("q", id, id, object("{}")).into()));
    // Half of them end before there is a retention, half of them after.
    fixture.ok(done(0..MANY / 2)).await;
    fixture.ok(change_settings("q", kept(Some(60), None, None))).await;
    fixture.ok(done(MANY / 2..MANY)).await;
    fixture.clock.advance_seconds(59);
    fixture.upkeep().await;
    assert_eq!(fixture.count(all()).await, MANY as u64);
    fixture.clock.advance_seconds(1);
    let first = fixture.ok(Upkeep).await;
    assert!(first.more && (1..MANY as u64).contains(&first.deleted), "{first:?}");
    fixture.upkeep().await;
    assert_eq!((fixture.count(all()).await, fixture.count_by_status().await), (0, [0; 5]));
}

pub async fn a_task_that_retention_deletes_is_deleted_for_those_that_wait_for_it(fixture: Fixture) {
    fixture.create(1, Definition::default()).await;
    fixture.create(2, cancelled_with(&[1, 9])).await;
    fixture.claim(1).await;
    fixture.ok(complete("q", 1, 1, object("{}"))).await;
    fixture.ok(change_settings("q", kept(Some(5), None, None))).await;
    fixture.clock.advance_seconds(5);
    fixture.upkeep().await;
    assert_eq!(fixture.status(2).await, Status::Cancelled);
}

async fn explained(fixture: &Fixture, id: usize) -> Explanation {
    fixture.store.explain(&queue("q"), task_id(id)).await.unwrap()
}

fn reasons(explanation: &Explanation) -> Vec<&'static str> {
    explanation.reasons.iter().map(Reason::code).collect()
}

pub async fn an_explanation_says_why_a_task_is_not_claimed(fixture: Fixture) {
    fixture.create(1, Definition::default()).await;
    let alone = explained(&fixture, 1).await;
    assert_eq!((alone.claimable, reasons(&alone)), (true, vec!["no_worker"]));
    fixture.ok(observe("q", 1, "default", WorkerStatus::Idle)).await;
    assert_eq!(reasons(&explained(&fixture, 1).await), [""; 0], "it is next");
    let at = fixture.now().plus_seconds(60);
    fixture.ok(create_later(2, waits_for(&[1, 9]), at)).await;
    let waits = explained(&fixture, 2).await;
    assert_eq!((waits.claimable, reasons(&waits)), (false, vec!["dependencies", "not_before", "waiting_turn"]));
    let unmet = vec![(task_id(1), Some(Status::Pending)), (task_id(9), None)];
    assert_eq!(waits.reasons[0], Reason::Dependencies { unmet });
    assert_eq!(waits.reasons[1], Reason::NotBefore { until: at });
    assert_eq!(waits.reasons[2], Reason::WaitingTurn { ahead: 1 });
    fixture.ok(change_settings("q", SettingsPatch { paused: Some(true), ..limits(&[("default", Some(0))]) })).await;
    let closed = explained(&fixture, 1).await;
    assert_eq!((closed.claimable, reasons(&closed)), (false, vec!["queue_paused", "route_at_limit"]));
    fixture.ok(change_settings("q", SettingsPatch { max_running: Some(Some(1)), ..paused(false) })).await;
    fixture.ok(change_settings("q", limits(&[("default", None)]))).await;
    fixture.claim(1).await;
    let running = explained(&fixture, 1).await;
    let last_heard_at = Some(fixture.clock.now());
    assert_eq!(running.reasons, [Reason::NotPending { status: Status::Running, last_heard_at }]);
    fixture.create(3, Definition::default()).await;
    assert_eq!(explained(&fixture, 3).await.reasons, [Reason::QueueAtLimit { max_running: 1 }]);
    let missing = fixture.store.explain(&queue("q"), task_id(99)).await;
    assert!(matches!(missing, Err(StoreError::Refused(Refusal::TaskNotFound { .. }))));
}

pub async fn an_explanation_counts_who_comes_first_on_the_best_route(fixture: Fixture) {
    for route in ["cpu", "gpu"] {
        fixture.ok(observe("q", route, route, WorkerStatus::Busy)).await;
    }
    fixture.create_many((0..10).map(|id| (id, with_routes(&["cpu"])))).await;
    fixture.create_many((10..13).map(|id| (id, Definition { routes: routes(&["gpu"]), ..with_priority(1) }))).await;
    fixture.create(20, with_routes(&["cpu", "gpu"])).await;
    fixture.create(21, with_routes(&["cpu", "gpu"])).await;
    assert_eq!(explained(&fixture, 20).await.reasons, [Reason::WaitingTurn { ahead: 3 }]);
    assert_eq!(explained(&fixture, 21).await.reasons, [Reason::WaitingTurn { ahead: 4 }]);
    assert_eq!(explained(&fixture, 10).await.reasons, []);
    let not_before = Some(Some(fixture.now().plus_seconds(9)));
    fixture.ok(update("q", 10, taskqueue_core::update::Update { not_before, ..Default::default() })).await;
    assert_eq!(explained(&fixture, 20).await.reasons, [Reason::WaitingTurn { ahead: 2 }], "not what cannot be claimed");
    fixture.ok(change_settings("q", limits(&[("gpu", Some(0))]))).await;
    let expected = [Reason::WaitingTurn { ahead: 10 }];
    assert_eq!(explained(&fixture, 20).await.reasons, expected, "not on a route that is full");
}

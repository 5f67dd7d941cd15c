//! How far a run is: who may say it, what it changes, and how long it is kept.

use super::prelude::*;

/// A store with task 1, which run 1 has claimed.
async fn running(fixture: Fixture, definition: Definition) -> Fixture {
    fixture.scan().await;
    fixture.create_running(1, definition).await;
    fixture
}

/// What task 1 shows as its progress.
async fn shown(fixture: &Fixture) -> Option<Progress> {
    fixture.get(1).await.outcome.progress
}

fn heartbeat_with(run: u32, value: JsonObject) -> Heartbeat {
    Heartbeat { progress: Some(value), ..heartbeat("q", 1, run) }
}

pub async fn progress_is_shown_and_nothing_else_changes(fixture: Fixture) {
    let fixture = running(fixture, Definition::default()).await;
    let before = fixture.get(1).await;
    // Also of the same size as the one before, and smaller ones.
    for value in [r#"{"step":1}"#, r#"{"step":2}"#, r#"{"loss":0.25,"nul":"\u0000","step":10}"#, "{}"] {
        fixture.clock.advance_seconds(1);
        fixture.ok(progress(1, 1, value)).await;
        let said = Progress { value: object(value), updated_at: fixture.now(), attempt: 1 };
        let expected = Task { outcome: Outcome { progress: Some(said), ..Outcome::empty() }, ..before.clone() };
        assert_eq!(fixture.get(1).await, expected);
        let listed = fixture.walk("q", &all(), BY_ID, 10).await;
        assert_eq!(listed[0].outcome, expected.outcome, "in a list");
    }
}

pub async fn only_the_active_run_says_how_far_it_is(fixture: Fixture) {
    let missing_task = Refusal::TaskNotFound { queue: queue("q"), task_id: task_id(1) };
    assert_eq!(fixture.refused(progress(1, 1, "{}")).await, missing_task);
    fixture.create(1, with_budget(9)).await;
    let stale = |run: u32| Refusal::StaleRun { run_id: run_id(run) };
    assert_eq!(fixture.refused(progress(1, 1, "{}")).await, stale(1), "nobody has claimed it");
    fixture.claim(1).await;
    assert_eq!(fixture.refused(progress(1, 2, "{}")).await, stale(2), "somebody else has");
    fixture.ok(progress(1, 1, r#"{"step":1}"#)).await;
    fixture.ok(fail("q", 1, 1)).await;
    let ended = fixture.get(1).await;
    assert_eq!(fixture.refused(progress(1, 1, "{}")).await, Refusal::RunFinalized { end: RunEnd::Fail });
    fixture.claim(2).await;
    assert_eq!(fixture.refused(progress(1, 1, "{}")).await, Refusal::RunFinalized { end: RunEnd::Fail });
    assert_eq!(shown(&fixture).await, None, "the claim has cleared it");
    assert!(ended.outcome.progress.is_some());
}

pub async fn progress_renews_no_lease_but_a_heartbeat_with_it_does(fixture: Fixture) {
    let fixture = running(fixture, Definition::default()).await;
    fixture.pass(200).await;
    let renewed = fixture.now().plus_seconds(300);
    assert_eq!(fixture.ok(heartbeat_with(1, object(r#"{"step":2}"#))).await, renewed);
    let said = Progress { value: object(r#"{"step":2}"#), updated_at: fixture.now(), attempt: 1 };
    assert_eq!(shown(&fixture).await, Some(said.clone()));
    fixture.pass(200).await;
    fixture.ok(progress(1, 1, r#"{"step":3}"#)).await;
    assert_eq!(fixture.get(1).await.lifecycle.run.unwrap().lease_expires_at, renewed);
    fixture.ok(progress(1, 1, r#"{"step":4}"#)).await;
    assert_eq!(fixture.pass(95).await.expired_runs, 0);
    assert_eq!(fixture.pass(5).await.expired_runs, 1);
    assert_eq!(shown(&fixture).await.unwrap().value, object(r#"{"step":4}"#), "what it said last is kept");
}

pub async fn every_end_of_a_run_keeps_its_progress_and_the_next_claim_clears_it(fixture: Fixture) {
    fixture.create(1, with_budget(20)).await;
    let ends = [
        commands![fail("q", 1, 1)],
        commands![unclaim("q", 1, 2)],
        commands![cancel("q", 1), update("q", 1, to_priority(3)), requeue("q", 1)],
        commands![fail_for_good("q", 1, 4), update("q", 1, to_priority(4)), requeue("q", 1)],
    ];
    for (run, steps) in (1..).zip(ends) {
        let claimed = fixture.claim(run).await.task;
        assert_eq!((claimed.outcome.progress, shown(&fixture).await), (None, None));
        fixture.ok(progress(1, run, &format!(r#"{{"run":{run}}}"#))).await;
        let said = shown(&fixture).await.unwrap();
        assert_eq!(said.attempt, claimed.lifecycle.attempt);
        for step in steps {
            fixture.clock.advance_seconds(1);
            fixture.ok(step.clone()).await;
            assert_eq!(shown(&fixture).await.as_ref(), Some(&said), "{step:?}");
        }
    }
    let replayed = fixture.claim(9).await;
    fixture.ok(progress(1, 9, r#"{"step":9}"#)).await;
    let said = shown(&fixture).await;
    assert_eq!(fixture.claim(9).await.task.outcome.progress, said, "a repeated claim clears nothing");
    assert_eq!(replayed.task.outcome.progress, None);
    fixture.ok(complete("q", 1, 9, object(r#"{"r":1}"#))).await;
    fixture.ok(update("q", 1, Update { result: Some(object("{}")), ..Update::default() })).await;
    assert_eq!(shown(&fixture).await, said);
}

/// A task that has room for that many bytes of progress.
fn with_room(bytes: usize) -> Definition {
    let others = Definition::default().stored_bytes() + r#","progress":"#.len();
    let args = object_of_bytes(TASK_DATA_BYTES - others - bytes);
    Definition { args, ..Definition::default() }
}

pub async fn progress_counts_towards_the_stored_size(fixture: Fixture) {
    let fixture = running(fixture, with_room(100)).await;
    let sized = |bytes: usize| ReportProgress { progress: object_of_bytes(bytes), ..progress(1, 1, "{}") };
    fixture.ok(sized(100)).await;
    let before = fixture.get(1).await;
    fixture.clock.advance_seconds(1);
    let too_much =
        commands![sized(101), heartbeat_with(1, object_of_bytes(101)), complete("q", 1, 1, object_of_bytes(8))];
    for command in too_much {
        assert_eq!(fixture.refused(command).await, Refusal::TaskDataTooLarge);
        assert_eq!(fixture.get(1).await, before, "nothing has changed, and the lease is as it was");
    }
    let of_another = ReportProgress { run_id: run_id(7), ..sized(101) };
    assert_eq!(fixture.refused(of_another).await, Refusal::StaleRun { run_id: run_id(7) }, "the run comes first");
    // Six bytes less of progress make room for six more of the result.
    fixture.ok(sized(94)).await;
    assert_eq!(fixture.refused(complete("q", 1, 1, object_of_bytes(9))).await, Refusal::TaskDataTooLarge);
    fixture.ok(complete("q", 1, 1, object_of_bytes(8))).await;
    let result = |bytes: usize| Update { result: Some(object_of_bytes(bytes)), ..Update::default() };
    assert_eq!(fixture.refused(update("q", 1, result(9))).await, Refusal::TaskDataTooLarge);
    assert_eq!(fixture.refused(update_all("q", "priority == 0", result(9))).await, Refusal::TaskDataTooLarge);
}

pub async fn a_claim_makes_room_by_clearing_progress(fixture: Fixture) {
    let fixture = running(fixture, with_room(100)).await;
    fixture.ok(ReportProgress { progress: object_of_bytes(100), ..progress(1, 1, "{}") }).await;
    fixture.ok(fail("q", 1, 1)).await;
    let args = |bytes: usize| {
        let args = Some(object_of_bytes(with_room(100).args.as_str().len() + bytes));
        Update { args, ..Update::default() }
    };
    assert_eq!(fixture.refused(update("q", 1, args(1))).await, Refusal::TaskDataTooLarge);
    fixture.claim(2).await;
    fixture.ok(complete("q", 1, 2, object_of_bytes(102))).await;
}

pub async fn a_result_that_is_there_leaves_less_room_for_progress(fixture: Fixture) {
    fixture.create(1, with_room(100)).await;
    fixture.ok(update("q", 1, Update { result: Some(object_of_bytes(52)), ..Update::default() })).await;
    fixture.claim(1).await;
    // An empty result takes two bytes.
    let sized = |bytes: usize| ReportProgress { progress: object_of_bytes(bytes), ..progress(1, 1, "{}") };
    assert_eq!(fixture.refused(sized(51)).await, Refusal::TaskDataTooLarge);
    fixture.ok(sized(50)).await;
    fixture.ok(complete("q", 1, 1, object_of_bytes(52))).await;
}

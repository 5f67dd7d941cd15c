//! Reports of runs: what they change, and who may still make them (I5, I6, I11).

use super::prelude::*;

fn stale(run: u32) -> Refusal {
    Refusal::StaleRun { run_id: run_id(run) }
}

fn finalized(end: RunEnd) -> Refusal {
    Refusal::RunFinalized { end }
}

/// Every report that ends a run, with its end.
fn ends(id: u32, run: u32) -> [(RunEnd, ReportRun); 3] {
    [
        (RunEnd::Complete, complete("q", id, run, object(r#"{"other":1}"#))),
        (RunEnd::Fail, fail_with("q", id, run, failure("another"))),
        (RunEnd::Unclaim, unclaim("q", id, run)),
    ]
}

/// Every report of a run, with what it would end.
fn reports(id: u32, run: u32) -> Vec<(Option<RunEnd>, AnyCommand)> {
    let ends = ends(id, run).into_iter().map(|(end, report)| (Some(end), report.into()));
    std::iter::once((None, heartbeat("q", id, run).into())).chain(ends).collect()
}

pub async fn complete_stores_the_result_and_keeps_the_last_error(fixture: Fixture) {
    fixture.create_running(1, Definition::default()).await;
    fixture.ok(fail("q", 1, 1)).await;
    let error = fixture.get(1).await.outcome.last_error;
    assert!(error.is_some());
    fixture.claim(2).await;
    fixture.clock.advance_seconds(1);
    fixture.ok(complete("q", 1, 2, object(r#"{"a":[1.0]}"#))).await;
    let task = fixture.get(1).await;
    assert_eq!((task.lifecycle.status, task.lifecycle.attempt), (Status::Succeeded, 2));
    assert_eq!((task.outcome.result, task.outcome.last_error), (object(r#"{"a":[1.0]}"#), error));
    assert_eq!((task.lifecycle.finished_at, task.lifecycle.updated_at), (Some(fixture.now()), fixture.now()));
    assert_eq!(task.lifecycle.run, None);
    assert_eq!(task.lifecycle.finished_run, Some(FinishedRun { run_id: run_id(2), end: RunEnd::Complete }));
}

pub async fn fail_without_retry_ends_below_the_budget_and_its_repetition_is_one(fixture: Fixture) {
    fixture.create_running(1, with_budget(5)).await;
    fixture.clock.advance_seconds(1);
    fixture.ok(fail_for_good("q", 1, 1)).await;
    let failed = fixture.get(1).await;
    assert_eq!((failed.lifecycle.status, failed.lifecycle.attempt), (Status::Failed, 1));
    assert_eq!((failed.lifecycle.finished_at, failed.lifecycle.updated_at), (Some(fixture.now()), fixture.now()));
    assert_eq!(failed.outcome.last_error.as_ref().map(|error| error.attempt), Some(1));
    fixture.clock.advance_seconds(1);
    fixture.ok(fail_for_good("q", 1, 1)).await;
    fixture.ok(fail("q", 1, 1)).await;
    assert_eq!(fixture.get(1).await, failed);
    assert_eq!(fixture.claimed(claim("q", "default", 2)).await, None);
    fixture.ok(requeue("q", 1)).await;
    // The other way round: what was tried again stays so.
    fixture.claim(3).await;
    fixture.ok(fail("q", 1, 3)).await;
    let retried = fixture.get(1).await;
    fixture.ok(fail_for_good("q", 1, 3)).await;
    assert_eq!(fixture.get(1).await, retried);
    assert_eq!(retried.lifecycle.status, Status::Pending);
}

pub async fn fail_retries_below_the_budget_and_ends_at_it(fixture: Fixture) {
    fixture.create(1, with_budget(2)).await;
    for (attempt, status) in [(1, Status::Pending), (2, Status::Failed)] {
        fixture.claim(attempt).await;
        fixture.clock.advance_seconds(1);
        let failure = failure(&format!("attempt {attempt}"));
        fixture.ok(fail_with("q", 1, attempt, failure.clone())).await;
        let task = fixture.get(1).await;
        assert_eq!((task.lifecycle.status, task.lifecycle.attempt), (status, attempt));
        let error = LastError { failure, occurred_at: fixture.now(), attempt, run_id: Some(run_id(attempt)) };
        assert_eq!(task.outcome.last_error, Some(error));
        assert_eq!((task.lifecycle.finished_at, task.lifecycle.updated_at), (Some(fixture.now()), fixture.now()));
    }
    assert_eq!(fixture.claimed(claim("q", "default", 3)).await, None);
}

pub async fn unclaim_gives_the_attempt_back(fixture: Fixture) {
    fixture.create(1, with_budget(1)).await;
    for run in 0..3 {
        assert_eq!(fixture.claim(run).await.task.lifecycle.attempt, 1);
        fixture.clock.advance_seconds(1);
        fixture.ok(unclaim("q", 1, run)).await;
        let task = fixture.get(1).await;
        assert_eq!((task.lifecycle.status, task.lifecycle.attempt), (Status::Pending, 0));
        assert_eq!((task.lifecycle.finished_at, task.outcome.last_error), (Some(fixture.now()), None));
    }
}

pub async fn a_heartbeat_renews_the_lease_and_nothing_else(fixture: Fixture) {
    let before = fixture.create_running(1, Definition::default()).await.task;
    fixture.pass(100).await;
    let renewed = fixture.now().plus_seconds(300);
    assert_eq!(fixture.ok(heartbeat("q", 1, 1)).await, renewed);
    let after = fixture.get(1).await;
    assert_eq!(visible(&after), visible(&before));
    assert_eq!(after.lifecycle.run.unwrap().lease_expires_at, renewed);
}

pub async fn a_repeated_end_changes_nothing(fixture: Fixture) {
    let large = object_of_bytes(TASK_DATA_BYTES);
    for (id, end, different) in [
        (1, RunEnd::Complete, complete("q", 1, 1, large)),
        (2, RunEnd::Fail, fail_with("q", 2, 2, failure("different"))),
        (3, RunEnd::Unclaim, unclaim("q", 3, 3)),
    ] {
        fixture.create_running(id, with_priority(i64::from(id))).await;
        fixture.ok(report_that(end, id)).await;
        fixture.clock.advance_seconds(1);
        let before = fixture.get(id).await;
        for again in [report_that(end, id), different] {
            fixture.ok(again).await;
            assert_eq!(fixture.get(id).await, before);
        }
        fixture.ok(delete("q", id)).await;
    }
}

/// The report by which run `id` ends task `id` in this way.
fn report_that(end: RunEnd, id: u32) -> ReportRun {
    ends(id, id).into_iter().find(|(would, _)| *would == end).unwrap().1
}

pub async fn a_contradictory_report_is_refused_with_what_ended_the_run(fixture: Fixture) {
    let ends = [RunEnd::Complete, RunEnd::Fail, RunEnd::Unclaim, RunEnd::Cancel];
    for (id, end) in (1..).zip(ends) {
        fixture.create_running(id, with_priority(i64::from(id))).await;
        match end {
            RunEnd::Cancel => drop(fixture.ok(cancel("q", id)).await),
            _ => fixture.ok(report_that(end, id)).await,
        }
        let before = fixture.get(id).await;
        for (would, command) in reports(id, id) {
            if would != Some(end) {
                assert_eq!(fixture.refused(command).await, finalized(end));
            }
        }
        assert_eq!(fixture.get(id).await, before);
        if before.lifecycle.status == Status::Pending {
            fixture.ok(cancel("q", id)).await;
        }
    }
}

pub async fn stale_run_cannot_touch_a_newer_claim(fixture: Fixture) {
    fixture.create_running(1, with_budget(9)).await;
    fixture.ok(fail("q", 1, 1)).await;
    fixture.claim(2).await;
    fixture.ok(unclaim("q", 1, 2)).await;
    fixture.claim(3).await;
    fixture.clock.advance_seconds(1);
    let before = fixture.get(1).await;
    for (_, command) in reports(1, 1) {
        assert_eq!(fixture.refused(command).await, stale(1));
    }
    for (_, command) in reports(1, 7) {
        assert_eq!(fixture.refused(command).await, stale(7));
    }
    for (would, command) in reports(1, 2) {
        match would {
            Some(RunEnd::Unclaim) => assert_eq!(fixture.ok(command).await, AnyAnswer::Done),
            _ => assert_eq!(fixture.refused(command).await, finalized(RunEnd::Unclaim)),
        }
    }
    assert_eq!(fixture.get(1).await, before);
}

pub async fn the_finished_run_is_known_after_requeue(fixture: Fixture) {
    fixture.create_running(1, with_budget(1)).await;
    fixture.ok(fail("q", 1, 1)).await;
    for action in [requeue("q", 1), cancel("q", 1)] {
        fixture.ok(action).await;
        let before = fixture.get(1).await;
        fixture.ok(fail("q", 1, 1)).await;
        assert_eq!(fixture.refused(complete("q", 1, 1, object("{}"))).await, finalized(RunEnd::Fail));
        assert_eq!(fixture.get(1).await, before);
    }
}

pub async fn an_oversized_completion_is_refused_and_leaves_the_run_active(fixture: Fixture) {
    fixture.create_running(1, Definition::default()).await;
    let before = fixture.get(1).await;
    let beyond = |more| args_beyond_the_limit(more);
    assert_eq!(fixture.refused(complete("q", 1, 1, beyond(1))).await, Refusal::TaskDataTooLarge);
    assert_eq!(fixture.refused(complete("q", 1, 2, beyond(1))).await, stale(2));
    assert_eq!(fixture.get(1).await, before);
    fixture.ok(complete("q", 1, 1, beyond(0))).await;
    assert_eq!(fixture.get(1).await.outcome.result, beyond(0));
    fixture.create_running(2, Definition::default()).await;
    fixture.ok(fail("q", 2, 2)).await;
    assert_eq!(fixture.refused(complete("q", 2, 2, beyond(1))).await, finalized(RunEnd::Fail));
}

pub async fn error_texts_read_back(fixture: Fixture) {
    fixture.create(1, with_budget(99)).await;
    let texts = ["", "\0", "a\0b", "é\u{301}", "😀", "\"\\\n\u{2028}", "NULL"];
    for (run, text) in texts.into_iter().enumerate() {
        for (suffix, traceback) in [("a", None), ("b", Some(text.into()))] {
            let failure = Failure { kind: text.into(), message: text.into(), traceback };
            let run = format!("{run}{suffix}");
            fixture.claim(&run).await;
            fixture.ok(fail_with("q", 1, &run, failure.clone())).await;
            assert_eq!(fixture.get(1).await.outcome.last_error.unwrap().failure, failure);
        }
    }
}

pub async fn reports_of_missing_tasks_and_other_queues_are_refused(fixture: Fixture) {
    fixture.ok(create_queue("other")).await;
    fixture.create(1, Definition::default()).await;
    fixture.ok(create("other", 1, Definition::default())).await;
    fixture.claim(1).await;
    let before = fixture.tasks("other").await;
    assert_eq!(fixture.refused(complete("other", 1, 1, object("{}"))).await, stale(1));
    assert_eq!(fixture.tasks("other").await, before);
    assert_eq!(fixture.status(1).await, Status::Running);
    for (_, command) in reports(2, 1) {
        let missing = Refusal::TaskNotFound { queue: queue("q"), task_id: task_id(2) };
        assert_eq!(fixture.refused(command).await, missing);
    }
}

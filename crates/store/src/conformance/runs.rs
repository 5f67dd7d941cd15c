//! Reports of runs: who may not make them (I5), what they may hold, and what is stored of it. What they change is in `actions.rs`.

use super::prelude::*;

fn stale(run: u32) -> Refusal {
    Refusal::StaleRun { run_id: run_id(run) }
}

fn finalized(end: RunEnd) -> Refusal {
    Refusal::RunFinalized { end }
}

/// Every report of a run, with what it would end.
fn reports(id: u32, run: u32) -> Vec<(Option<RunEnd>, AnyCommand)> {
    vec![
        (None, heartbeat("q", id, run).into()),
        (Some(RunEnd::Complete), complete("q", id, run, object(r#"{"other":1}"#)).into()),
        (Some(RunEnd::Fail), fail("q", id, run).into()),
        (Some(RunEnd::Unclaim), unclaim("q", id, run).into()),
    ]
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

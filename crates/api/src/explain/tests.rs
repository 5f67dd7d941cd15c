//! The exact text of each reason, and that explanations read back as they were written.

use taskqueue_core::json;
use taskqueue_core::time::Timestamp;

use super::*;
use crate::tests::{check, text};

fn reasons() -> Vec<(Reason, &'static str)> {
    let id = TaskId::parse("t_abcdefghijkl").unwrap();
    let routes = || vec![Route::parse("cpu").unwrap(), Route::parse("gpu").unwrap()];
    let unmet = vec![(id, None), (id, Some(Status::Running))];
    let until = Timestamp::parse("2026-01-31T12:00:00Z").unwrap();
    vec![
        (
            Reason::NotPending { status: Status::Failed, last_heard_at: None },
            r#"{"code":"not_pending","message":"the task is failed","status":"failed"}"#,
        ),
        (
            Reason::NotPending { status: Status::Running, last_heard_at: Some(until) },
            r#"{"code":"not_pending","message":"the task is running; its run was last heard of at 2026-01-31T12:00:00.000000Z","status":"running","last_heard_at":"2026-01-31T12:00:00.000000Z"}"#,
        ),
        (Reason::QueuePaused, r#"{"code":"queue_paused","message":"the queue is paused"}"#),
        (
            Reason::QueueAtLimit { max_running: 2 },
            r#"{"code":"queue_at_limit","message":"as many tasks of the queue are running as may be: 2","max_running":2}"#,
        ),
        (
            Reason::RouteAtLimit { routes: routes() },
            r#"{"code":"route_at_limit","message":"as many tasks are running as may be claimed for cpu, gpu","routes":["cpu","gpu"]}"#,
        ),
        (
            Reason::DependencyCycle { tasks: vec![] },
            r#"{"code":"dependency_cycle","message":"it waits for itself, so for ever","tasks":[]}"#,
        ),
        (
            Reason::DependencyCycle { tasks: vec![id, id] },
            r#"{"code":"dependency_cycle","message":"it waits for itself, so for ever: by way of t_abcdefghijkl, t_abcdefghijkl","tasks":["t_abcdefghijkl","t_abcdefghijkl"]}"#,
        ),
        (
            Reason::Dependencies { unmet },
            r#"{"code":"dependencies","message":"it waits for tasks that have not succeeded","unmet":[{"id":"t_abcdefghijkl","status":"missing"},{"id":"t_abcdefghijkl","status":"running"}]}"#,
        ),
        (
            Reason::Dependencies { unmet: vec![(id, None)] },
            r#"{"code":"dependencies","message":"it waits for the task t_abcdefghijkl, which is missing","unmet":[{"id":"t_abcdefghijkl","status":"missing"}]}"#,
        ),
        (
            Reason::NotBefore { until },
            r#"{"code":"not_before","message":"it cannot be claimed before 2026-01-31T12:00:00.000000Z","until":"2026-01-31T12:00:00.000000Z"}"#,
        ),
        (
            Reason::NoWorker { routes: routes() },
            r#"{"code":"no_worker","message":"no worker was seen lately for cpu, gpu","routes":["cpu","gpu"]}"#,
        ),
        (Reason::WaitingTurn { ahead: 1 }, r#"{"code":"waiting_turn","message":"1 task comes first","ahead":1}"#),
        (
            Reason::WaitingTurn { ahead: 1_000 },
            r#"{"code":"waiting_turn","message":"1000 tasks or more come first","ahead":1000}"#,
        ),
    ]
}

#[test]
fn every_reason_has_a_code_a_sentence_and_its_own_fields() {
    for (reason, expected) in reasons() {
        let explanation = explain::Explanation { claimable: false, reasons: vec![reason.clone()] };
        let json = text(|out| write_explanation(out, &explanation));
        assert_eq!(json, format!(r#"{{"claimable":false,"reasons":[{expected}]}}"#));
        check::<ExplanationSchema>(&json);
        let read = Explanation::read(&json::parse(json.as_bytes()).unwrap()).unwrap();
        let shown = ExplainedReason { code: reason.code().into(), message: reason.message(), reason: Some(reason) };
        assert_eq!(read, Explanation { claimable: false, reasons: vec![shown] });
    }
    let none = text(|out| write_explanation(out, &explain::Explanation { claimable: true, reasons: vec![] }));
    assert_eq!(none, r#"{"claimable":true,"reasons":[]}"#);
}

#[test]
fn a_reason_of_a_newer_server_is_shown_by_its_code_and_its_sentence() {
    let read = |text: &str| Explanation::read(&json::parse(text.as_bytes()).unwrap());
    let newer = read(r#"{"claimable":false,"reasons":[{"code":"moon","message":"it is full","phase":1}]}"#).unwrap();
    assert_eq!((&*newer.reasons[0].code, &*newer.reasons[0].message), ("moon", "it is full"));
    assert_eq!(newer.reasons[0].reason, None);
    for broken in [
        "{}",
        r#"{"claimable":false}"#,
        r#"{"claimable":1,"reasons":[]}"#,
        r#"{"claimable":false,"reasons":[{"code":"queue_paused"}]}"#,
        r#"{"claimable":false,"reasons":[{"code":"waiting_turn","message":"m","ahead":-1}]}"#,
        r#"{"claimable":false,"reasons":[{"code":"dependencies","message":"m","unmet":[{"id":"x","status":"missing"}]}]}"#,
    ] {
        assert!(read(broken).is_err(), "{broken}");
    }
}

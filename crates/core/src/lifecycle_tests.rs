//! The rule table of the state machine (every status x every action), and what late reports and a wrong clock do not change. What each
//! action writes is in the conformance suite of the stores; random sequences of actions are in
//! `tests/integration/lifecycle_properties.rs`.

#[path = "../tests/integration/any_action.rs"]
mod any_action;

use any_action::{Action, Decision};

use super::*;
use crate::definition::{Definition, Routes};
use crate::samples::{at, new_task, object, route, run};
use crate::task::Task;

/// The next place in the pending order.
const NEXT: i64 = 99;
/// When the actions of the table come: in the middle of the lease.
const NOW: i64 = 200;

fn failure() -> Failure {
    Failure { kind: "ValueError".into(), message: "no".into(), traceback: Some("line 1".into()) }
}

/// A task after some history, attempt 1 of 3 used up, ended by a run `before` in the way that its status implies. While
/// it is running, attempt 2 is under way with the run `active`, claimed at 130 s.
fn task(status: Status) -> TaskHead {
    let end = match status {
        Status::Pending | Status::Running => RunEnd::Fail,
        Status::Succeeded => RunEnd::Complete,
        Status::Failed => RunEnd::HeartbeatExpired,
        Status::Cancelled => RunEnd::Cancel,
    };
    let lifecycle = Lifecycle {
        status,
        attempt: 1,
        last_route: Some(route("old")),
        started_at: Some(at(110)),
        finished_at: Some(at(120)),
        updated_at: at(120),
        finished_run: Some(FinishedRun { run_id: run("before"), end }),
        ..Lifecycle::created(at(100), 7)
    };
    let active = ActiveRun { run_id: run("active"), lease_expires_at: at(430), times_out_at: None };
    let claimed = Lifecycle {
        attempt: 2,
        started_at: Some(at(130)),
        finished_at: None,
        updated_at: at(130),
        run: Some(active),
        ..lifecycle.clone()
    };
    let definition = Definition { routes: Routes::new(vec![route("new")]).unwrap(), ..Definition::default() };
    let lifecycle = if status == Status::Running { claimed } else { lifecycle };
    Task { definition, lifecycle, ..new_task() }.head()
}

fn claim(by: &str) -> Action {
    Action::Claim { route: route("new"), run_id: run(by) }
}
fn heartbeat(by: &str) -> Action {
    Action::Heartbeat { run_id: run(by), progress: None }
}
fn progress_value() -> JsonObject {
    object(r#"{"step":3}"#)
}
fn heartbeat_with_progress(by: &str) -> Action {
    Action::Heartbeat { run_id: run(by), progress: Some(progress_value()) }
}
fn progress(by: &str) -> Action {
    Action::Progress { run_id: run(by), value: progress_value() }
}
fn report(by: &str, report: RunReport) -> Action {
    Action::Report { run_id: run(by), report }
}
fn complete(by: &str) -> Action {
    report(by, RunReport::Complete { result: object(r#"{"a":1}"#) })
}
fn fail(by: &str) -> Action {
    report(by, RunReport::Fail { failure: failure(), retry: true, retry_after: None })
}
fn fail_for_good(by: &str) -> Action {
    report(by, RunReport::Fail { failure: failure(), retry: false, retry_after: None })
}
fn unclaim(by: &str) -> Action {
    report(by, RunReport::Unclaim { delay: None })
}

/// What is decided for a task that came to nothing so far.
fn decide(task: &TaskHead, action: &Action, now: Timestamp, seq: i64) -> Decision {
    any_action::decide(task, &Outcome::empty(), action, now, seq)
}

/// A decision in a few words: the new status and attempt, whether the task goes to the back of the pending order, what
/// happens to result, error and progress; or the refusal.
fn words(decision: &Decision) -> String {
    let change = |change: &Change| {
        let back = if change.lifecycle.pending_seq == NEXT { ", back" } else { "" };
        let result = if change.result.is_some() { ", result" } else { "" };
        let error = match change.last_error {
            ErrorChange::Keep => "",
            ErrorChange::Clear => ", no error",
            ErrorChange::Set(_) => ", error",
        };
        let progress = match change.progress {
            ProgressChange::Keep => "",
            ProgressChange::Clear => ", no progress",
            ProgressChange::Set(_) => ", progress",
        };
        format!("{} {}{back}{result}{error}{progress}", change.lifecycle.status.as_str(), change.lifecycle.attempt)
    };
    let refusal = |refusal: &Refusal| match refusal {
        Refusal::StaleRun { .. } => "stale".to_owned(),
        Refusal::RunFinalized { end } => format!("finalized by {}", end.as_str()),
        Refusal::TaskRunning { .. } => "task running".to_owned(),
        Refusal::TaskStateConflict { status, .. } => format!("conflict with {}", status.as_str()),
        other => format!("{other:?}"),
    };
    match decision {
        Decision::Change(changed) => change(changed),
        Decision::Unchanged => "unchanged".to_owned(),
        Decision::Delete => "deleted".to_owned(),
        Decision::Refuse(refused) => refusal(refused),
        Decision::Expire(expired, refused) => format!("{}; {}", change(expired), refusal(refused)),
    }
}

#[test]
fn every_status_and_every_action() {
    use Action::{Cancel, Delete, Expire, Requeue};
    let ends = ["fail", "fail", "complete", "heartbeat_expired", "cancel"].map(|end| format!("finalized by {end}"));
    let finalized = ends.each_ref().map(String::as_str);
    let conflicts = Status::ALL.map(|status| format!("conflict with {}", status.as_str()));
    let [_, running, succeeded, failed, cancelled] = conflicts.each_ref().map(String::as_str);
    let requeued = "pending 0, back, no error";
    let stale = ["stale"; 5];
    // For each action what is decided in the order of `Status::ALL`.
    let table = [
        (claim("fresh"), ["running 2", running, succeeded, failed, cancelled]),
        (heartbeat("before"), finalized),
        (heartbeat("other"), stale),
        (heartbeat_with_progress("before"), finalized),
        (heartbeat_with_progress("other"), stale),
        (progress("before"), finalized),
        (progress("other"), stale),
        (complete("before"), [finalized[0], finalized[1], "unchanged", finalized[3], finalized[4]]),
        (complete("other"), stale),
        (fail("before"), ["unchanged", "unchanged", finalized[2], finalized[3], finalized[4]]),
        (fail("other"), stale),
        (fail_for_good("before"), ["unchanged", "unchanged", finalized[2], finalized[3], finalized[4]]),
        (fail_for_good("other"), stale),
        (unclaim("before"), finalized),
        (unclaim("other"), stale),
        (Expire, ["unchanged"; 5]),
        (Cancel, ["cancelled 1", "cancelled 2", succeeded, failed, "unchanged"]),
        (Requeue, [requeued, running, succeeded, requeued, requeued]),
        (Delete, ["deleted", "task running", "deleted", "deleted", "deleted"]),
        (heartbeat("active"), ["stale", "running 2", "stale", "stale", "stale"]),
        (heartbeat_with_progress("active"), ["stale", "running 2, progress", "stale", "stale", "stale"]),
        (progress("active"), ["stale", "running 2, progress", "stale", "stale", "stale"]),
        (complete("active"), ["stale", "succeeded 2, result", "stale", "stale", "stale"]),
        (fail("active"), ["stale", "pending 2, back, error", "stale", "stale", "stale"]),
        (fail_for_good("active"), ["stale", "failed 2, error", "stale", "stale", "stale"]),
        (unclaim("active"), ["stale", "pending 1, back", "stale", "stale", "stale"]),
    ];
    for (action, expected) in table {
        for (status, expected) in Status::ALL.into_iter().zip(expected) {
            let decision = decide(&task(status), &action, at(NOW), NEXT);
            assert_eq!(words(&decision), expected, "{status:?} {action:?}");
        }
    }
}

fn changed_at(task: &TaskHead, action: &Action, now: i64) -> Change {
    match decide(task, action, at(now), NEXT) {
        Decision::Change(change) => change,
        other => panic!("{action:?} gave {other:?}"),
    }
}

/// The task after `action`.
fn after(task: &TaskHead, action: &Action, now: i64) -> TaskHead {
    TaskHead { lifecycle: changed_at(task, action, now).lifecycle, ..task.clone() }
}

#[test]
fn timestamps_never_decrease_when_the_clock_goes_back() {
    // The last change of a running task was at 130 s, of the others at 120 s; the clock says 50 s.
    let actions = [
        (Status::Pending, claim("fresh"), 120),
        (Status::Pending, Action::Cancel, 120),
        (Status::Pending, Action::Requeue, 120),
        (Status::Running, complete("active"), 130),
        (Status::Running, fail("active"), 130),
        (Status::Running, unclaim("active"), 130),
        (Status::Running, Action::Cancel, 130),
    ];
    for (status, action, expected) in actions {
        let change = changed_at(&task(status), &action, 50);
        assert_eq!(change.lifecycle.updated_at, at(expected), "{action:?}");
        assert!(change.lifecycle.started_at >= Some(change.lifecycle.created_at));
        if let ErrorChange::Set(error) = change.last_error {
            assert_eq!(error.occurred_at, at(expected));
        }
        if status == Status::Running {
            assert_eq!(change.lifecycle.finished_at, Some(at(expected)));
        }
    }
}

#[test]
fn a_clock_that_goes_back_neither_ends_nor_shortens_a_lease() {
    let claimed = after(&task(Status::Pending), &claim("fresh"), 120 - 15);
    assert_eq!(claimed.lifecycle.run.unwrap().lease_expires_at, at(120 + 300));
    for now in [130 - 15, 50] {
        let renewed = after(&task(Status::Running), &heartbeat("active"), now);
        assert_eq!(renewed.lifecycle.run.unwrap().lease_expires_at, at(430));
    }
}

#[test]
fn progress_is_never_older_than_the_last_change_of_the_task() {
    for action in [progress("active"), heartbeat_with_progress("active")] {
        let ProgressChange::Set(progress) = changed_at(&task(Status::Running), &action, 50).progress else {
            panic!("no progress was recorded")
        };
        assert_eq!(progress.updated_at, at(130));
    }
}

#[test]
fn a_lease_is_over_exactly_at_its_end() {
    let task = task(Status::Running);
    let just_before = Timestamp::from_micros(at(430).as_micros() - 1);
    assert_eq!(decide(&task, &Action::Expire, just_before, NEXT), Decision::Unchanged);
    assert_eq!(words(&decide(&task, &complete("active"), just_before, NEXT)), "succeeded 2, result");
    assert_eq!(words(&decide(&task, &Action::Expire, at(430), NEXT)), "pending 2, back, error");
}

#[test]
fn a_report_of_another_run_does_not_expire_the_active_one() {
    let task = task(Status::Running);
    let cases = [
        (fail("other"), "stale"),
        (fail("before"), "unchanged"),
        (heartbeat("before"), "finalized by fail"),
        (progress("before"), "finalized by fail"),
        (progress("other"), "stale"),
    ];
    for (action, expected) in cases {
        assert_eq!(words(&decide(&task, &action, at(500), NEXT)), expected);
    }
}

#[test]
fn a_claim_clears_only_what_is_there() {
    let progress = Some(Progress { value: progress_value(), updated_at: at(120), attempt: 1 });
    let last_run = Some(LastRun { attempt: 1, worker: progress_value() });
    let said = Outcome { progress, last_run, ..Outcome::empty() };
    let cases = [
        (Outcome::empty(), ProgressChange::Keep, LastRunChange::Keep),
        (said, ProgressChange::Clear, LastRunChange::Clear),
    ];
    for (outcome, progress, last_run) in cases {
        let decided = any_action::decide(&task(Status::Pending), &outcome, &claim("fresh"), at(NOW), NEXT);
        let Decision::Change(change) = decided else { panic!("{decided:?}") };
        assert_eq!((change.progress, change.last_run), (progress, last_run));
    }
}

/// A clock that was wrong for a while left a task behind whose last change lies far ahead.
#[test]
fn a_lease_goes_by_the_time_as_it_is_whatever_the_task_says() {
    let mut pending = task(Status::Pending);
    pending.lifecycle.updated_at = at(1_000_000);
    let claim = Action::Claim { route: route("new"), run_id: run("next") };
    let Decision::Change(claimed) = decide(&pending, &claim, at(NOW), NEXT) else { panic!("refused") };
    assert_eq!(claimed.lifecycle.updated_at, at(1_000_000), "timestamps of a task are monotone");
    assert_eq!(claimed.lifecycle.run.unwrap().lease_expires_at, at(NOW + 300));
    let running = TaskHead { lifecycle: claimed.lifecycle, ..pending };
    let Decision::Change(renewed) =
        decide(&running, &Action::Heartbeat { run_id: run("next"), progress: None }, at(NOW + 10), NEXT)
    else {
        panic!("refused")
    };
    assert_eq!(renewed.lifecycle.run.unwrap().lease_expires_at, at(NOW + 310));
    assert_eq!(decide(&running, &Action::Expire, at(NOW + 299), NEXT), Decision::Unchanged);
    assert!(matches!(decide(&running, &Action::Expire, at(NOW + 300), NEXT), Decision::Change(_)));
}

//! The rule table of the state machine (every status x every action), then one test for each sentence of
//! docs/reference/task-life.md that the state machine decides. Random sequences of actions are in
//! `tests/integration/lifecycle_properties.rs`.

#[path = "../tests/integration/any_action.rs"]
mod any_action;

use any_action::{Action, Decision};

use super::*;
use crate::definition::{Definition, Routes};
use crate::limits::TASK_DATA_BYTES;
use crate::samples::{at, new_task, object, route, run};
use crate::task::Task;

/// The next place in the pending order.
const NEXT: i64 = 99;
/// When the actions of the table come: in the middle of the lease.
const NOW: i64 = 200;

fn oversized() -> JsonObject {
    object(&format!(r#"{{"a":"{}"}}"#, "x".repeat(TASK_DATA_BYTES)))
}

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

/// What is decided for a task that came to nothing so far. Those that have progress are in `tests/integration/progress.rs`.
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
    let finalized = [
        "finalized by fail",
        "finalized by fail",
        "finalized by complete",
        "finalized by heartbeat_expired",
        "finalized by cancel",
    ];
    let stale = ["stale"; 5];
    // For each action what is decided in the order of `Status::ALL`.
    let table = [
        (
            claim("fresh"),
            [
                "running 2",
                "conflict with running",
                "conflict with succeeded",
                "conflict with failed",
                "conflict with cancelled",
            ],
        ),
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
        (Cancel, ["cancelled 1", "cancelled 2", "conflict with succeeded", "conflict with failed", "unchanged"]),
        (
            Requeue,
            [
                "pending 0, back, no error",
                "conflict with running",
                "conflict with succeeded",
                "pending 0, back, no error",
                "pending 0, back, no error",
            ],
        ),
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

/// The change that `action` makes now.
fn changed(task: &TaskHead, action: &Action) -> Change {
    changed_at(task, action, NOW)
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

fn running() -> Lifecycle {
    task(Status::Running).lifecycle
}

#[test]
fn progress_is_recorded_and_changes_nothing_else_and_a_heartbeat_with_it_does_both() {
    let recorded = Progress { value: progress_value(), updated_at: at(NOW), attempt: 2 };
    let set = |change: Change| Change { progress: ProgressChange::Set(recorded.clone()), ..change };
    let change = changed(&task(Status::Running), &progress("active"));
    assert_eq!(change, set(Change::of_lifecycle(running())));
    let renewed = changed(&task(Status::Running), &heartbeat("active"));
    assert_eq!(changed(&task(Status::Running), &heartbeat_with_progress("active")), set(renewed));
}

#[test]
fn a_heartbeat_never_shortens_a_lease() {
    let mut task = task(Status::Running);
    task.lifecycle.run = Some(ActiveRun { run_id: run("active"), lease_expires_at: at(NOW + 400), times_out_at: None });
    let change = changed(&task, &heartbeat("active"));
    assert_eq!(change.lifecycle.run.unwrap().lease_expires_at, at(NOW + 400));
}

/// What the end of the active run leaves behind in every case.
fn ended(end: RunEnd) -> Lifecycle {
    let finished_run = Some(FinishedRun { run_id: run("active"), end });
    Lifecycle { run: None, finished_run, finished_at: Some(at(NOW)), updated_at: at(NOW), ..running() }
}

#[test]
fn each_action_changes_exactly_this() {
    let (before, of) = (task(Status::Pending).lifecycle, Change::of_lifecycle);
    let leased = |by| Some(ActiveRun { run_id: run(by), lease_expires_at: at(NOW + 300), times_out_at: None });
    let claimed = Lifecycle {
        status: Status::Running,
        attempt: 2,
        last_route: Some(route("new")),
        started_at: Some(at(NOW)),
        updated_at: at(NOW),
        finished_at: None,
        run: leased("fresh"),
        ..before.clone()
    };
    let succeeded = of(Lifecycle { status: Status::Succeeded, ..ended(RunEnd::Complete) });
    let unclaimed = Lifecycle { status: Status::Pending, attempt: 1, pending_seq: NEXT, ..ended(RunEnd::Unclaim) };
    let last_chance = TaskHead { max_attempts: 2, ..task(Status::Running) };
    let cancelled = Lifecycle { status: Status::Cancelled, ..ended(RunEnd::Cancel) };
    let (pending, active) = (|| task(Status::Pending), || task(Status::Running));
    let cases = [
        ("owner, route, times and attempt", pending(), claim("fresh"), of(claimed)),
        ("the lease", active(), heartbeat("active"), of(Lifecycle { run: leased("active"), ..running() })),
        ("the result", active(), complete("active"), Change { result: Some(object(r#"{"a":1}"#)), ..succeeded }),
        ("the attempt is given back", active(), unclaim("active"), of(unclaimed.clone())),
        ("also the last one", last_chance, unclaim("active"), of(unclaimed)),
        ("the run ends", active(), Action::Cancel, of(cancelled)),
        (
            "status and updated_at",
            pending(),
            Action::Cancel,
            of(Lifecycle { status: Status::Cancelled, updated_at: at(NOW), ..before }),
        ),
    ];
    for (what, task, action, expected) in cases {
        assert_eq!(changed(&task, &action), expected, "{action:?}: {what}");
    }
}

#[test]
fn fail_below_the_budget_retries_at_the_back_and_at_the_budget_is_final() {
    let error = LastError { failure: failure(), occurred_at: at(NOW), attempt: 2, run_id: Some(run("active")) };
    for (max_attempts, status, pending_seq) in
        [(3, Status::Pending, NEXT), (2, Status::Failed, 7), (1, Status::Failed, 7), (i64::MAX, Status::Pending, NEXT)]
    {
        let task = TaskHead { max_attempts, ..task(Status::Running) };
        let lifecycle = Lifecycle { status, pending_seq, ..ended(RunEnd::Fail) };
        let expected = Change { last_error: ErrorChange::Set(error.clone()), ..Change::of_lifecycle(lifecycle) };
        assert_eq!(changed(&task, &fail("active")), expected, "{max_attempts}");
    }
}

#[test]
fn fail_without_retry_is_final_whatever_is_left_of_the_budget() {
    let error = LastError { failure: failure(), occurred_at: at(NOW), attempt: 2, run_id: Some(run("active")) };
    for max_attempts in [2, 3, i64::MAX] {
        let task = TaskHead { max_attempts, ..task(Status::Running) };
        let lifecycle = Lifecycle { status: Status::Failed, ..ended(RunEnd::Fail) };
        let expected = Change { last_error: ErrorChange::Set(error.clone()), ..Change::of_lifecycle(lifecycle) };
        assert_eq!(changed(&task, &fail_for_good("active")), expected, "{max_attempts}");
        // The repetition of a fail is one, whatever it says about another try.
        let failed = after(&task, &fail_for_good("active"), NOW);
        assert_eq!(words(&decide(&failed, &fail("active"), at(NOW), NEXT)), "unchanged");
        let requeued = after(&failed, &Action::Requeue, NOW);
        assert_eq!((requeued.lifecycle.status, requeued.lifecycle.attempt), (Status::Pending, 0));
    }
}

#[test]
fn requeue_starts_over_and_keeps_result_route_times_and_the_finished_run() {
    for status in [Status::Pending, Status::Failed, Status::Cancelled] {
        let before = task(status);
        let lifecycle = Lifecycle {
            status: Status::Pending,
            attempt: 0,
            pending_seq: NEXT,
            updated_at: at(NOW),
            ..before.lifecycle.clone()
        };
        let expected = Change { last_error: ErrorChange::Clear, ..Change::of_lifecycle(lifecycle) };
        assert_eq!(changed(&before, &Action::Requeue), expected, "{status:?}");
    }
}

#[test]
fn repeating_the_end_of_the_latest_run_is_accepted_without_effect_even_if_oversized_or_different() {
    let again = report("before", RunReport::Complete { result: oversized() });
    assert_eq!(decide(&task(Status::Succeeded), &again, at(NOW), NEXT), Decision::Unchanged);
    let other = Failure { kind: "Other".into(), message: "different".into(), traceback: None };
    let again = report("before", RunReport::Fail { failure: other, retry: false, retry_after: None });
    for status in [Status::Pending, Status::Running] {
        assert_eq!(decide(&task(status), &again, at(NOW), NEXT), Decision::Unchanged, "{status:?}");
    }
}

#[test]
fn an_older_run_is_stale_once_the_newer_one_has_finished() {
    let retried = after(&task(Status::Running), &fail("active"), NOW);
    assert_eq!(words(&decide(&retried, &fail("before"), at(NOW), NEXT)), "stale");
    assert_eq!(words(&decide(&retried, &fail("active"), at(NOW), NEXT)), "unchanged");
}

#[test]
fn the_finished_run_is_known_after_requeue_and_cancel_of_the_pending_task() {
    let requeued = after(&task(Status::Pending), &Action::Requeue, NOW);
    let cancelled = after(&requeued, &Action::Cancel, NOW);
    for task in [&requeued, &cancelled] {
        assert_eq!(words(&decide(task, &fail("before"), at(NOW), NEXT)), "unchanged");
        assert_eq!(words(&decide(task, &complete("before"), at(NOW), NEXT)), "finalized by fail");
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
fn expiry_by_scan_charges_the_attempt_records_the_timeout_and_is_final_at_the_budget() {
    for (max_attempts, status, pending_seq) in [(3, Status::Pending, NEXT), (2, Status::Failed, 7)] {
        let task = TaskHead { max_attempts, ..task(Status::Running) };
        let change = changed_at(&task, &Action::Expire, 430);
        let end = at(430);
        let ended = ended(RunEnd::HeartbeatExpired);
        let expected = Lifecycle { status, pending_seq, finished_at: Some(end), updated_at: end, ..ended };
        assert_eq!(change.lifecycle, expected);
        let ErrorChange::Set(error) = change.last_error else { panic!("no error was recorded") };
        assert_eq!((&*error.failure.kind, &error.failure.traceback), ("HeartbeatTimeout", &None));
        assert_eq!((error.occurred_at, error.attempt, error.run_id), (end, 2, Some(run("active"))));
    }
}

#[test]
fn a_report_of_an_expired_run_performs_the_expiry_that_a_scan_would_and_is_refused() {
    let task = task(Status::Running);
    let by_scan = changed_at(&task, &Action::Expire, 431);
    let too_large = report("active", RunReport::Complete { result: oversized() });
    let too_far = Action::Progress { run_id: run("active"), value: oversized() };
    let reports = [heartbeat("active"), complete("active"), too_large, fail("active"), unclaim("active")];
    let progress = [progress("active"), heartbeat_with_progress("active"), too_far];
    for action in reports.into_iter().chain(progress) {
        let refusal = Refusal::RunFinalized { end: RunEnd::HeartbeatExpired };
        assert_eq!(decide(&task, &action, at(431), NEXT), Decision::Expire(by_scan.clone(), refusal));
    }
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
fn requeue_deletion_and_cancel_do_not_expire_a_lease_that_is_over() {
    let task = task(Status::Running);
    for (action, expected) in
        [(Action::Requeue, "conflict with running"), (Action::Delete, "task running"), (Action::Cancel, "cancelled 2")]
    {
        assert_eq!(words(&decide(&task, &action, at(500), NEXT)), expected);
    }
}

#[test]
fn an_oversized_completion_is_refused_after_the_run_was_checked() {
    let room = TASK_DATA_BYTES - task(Status::Running).definition_bytes;
    let sized = |bytes: usize| object(&format!(r#"{{"a":"{}"}}"#, "x".repeat(bytes - r#"{"a":""}"#.len())));
    let complete = |by, bytes| report(by, RunReport::Complete { result: sized(bytes) });
    let decided = |action| words(&decide(&task(Status::Running), &action, at(NOW), NEXT));
    assert_eq!(decided(complete("active", room)), "succeeded 2, result");
    assert_eq!(decided(complete("active", room + 1)), "TaskDataTooLarge");
    assert_eq!(decided(complete("other", room + 1)), "stale");
    assert_eq!(decided(complete("before", room + 1)), "finalized by fail");
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
fn progress_is_never_older_than_the_last_change_of_the_task() {
    for action in [progress("active"), heartbeat_with_progress("active")] {
        let ProgressChange::Set(progress) = changed_at(&task(Status::Running), &action, 50).progress else {
            panic!("no progress was recorded")
        };
        assert_eq!(progress.updated_at, at(130));
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

//! What updates and dependencies make of tasks in every status, for which time failed attempts wait, and who is archived. How long a
//! task may run is in the conformance suite of the stores, and in random histories in `lifecycle_properties.rs`.

use std::time::Duration;

use taskqueue_core::dependency::{DependencyState, FailedDependency};
use taskqueue_core::lifecycle::settle_dependencies;
use taskqueue_core::scheduling::{Dependencies, OnDependencyFailure, RetryDelay};
use taskqueue_core::task::{LastError, TaskHead};

use crate::any_action::{Action, Decision, decide};
use crate::prelude::*;
use crate::samples::{run, task_in};

/// When the actions come.
const NOW: i64 = 200;

fn id(name: &str) -> TaskId {
    TaskId::parse(&format!("t_{name:_<12}")).unwrap()
}

fn task(status: Status, scheduling: SchedulingFields) -> Task {
    let task = task_in(status);
    Task { definition: Definition { scheduling: scheduling.into(), ..Definition::default() }, ..task }
}

/// The change, which must be one.
fn changed(task: &Task, action: &Action) -> Change {
    match decide(&task.head(), &task.outcome, action, at(NOW), 99) {
        Decision::Change(change) => change,
        other => panic!("{action:?}: {other:?}"),
    }
}

#[test]
fn a_task_waits_as_the_worker_says_or_else_as_the_task_says_and_a_cancel_keeps_the_time() {
    let own = || SchedulingFields { retry_delay: RetryDelay::new(10.0, None, None), ..SchedulingFields::default() };
    let none = SchedulingFields::default;
    let seconds = |seconds: Option<u64>| seconds.map(Duration::from_secs);
    let fail = |retry, after| RunReport::Fail { failure: failure(), retry, retry_after: seconds(after) };
    let unclaim = |delay| RunReport::Unclaim { delay: seconds(delay) };
    let cases = [
        (own(), fail(true, Some(0)), Status::Pending, None),
        (none(), fail(true, Some(60)), Status::Pending, Some(NOW + 60)),
        (own(), fail(false, Some(60)), Status::Failed, None),
        (own(), unclaim(None), Status::Pending, None),
        (none(), unclaim(Some(0)), Status::Pending, None),
    ];
    for (scheduling, report, status, not_before) in cases {
        let action = Action::Report { run_id: run("active"), report };
        let after = changed(&task(Status::Running, scheduling), &action).lifecycle;
        assert_eq!((after.status, after.not_before), (status, not_before.map(at)), "{action:?}");
    }
    let mut waiting = task_in(Status::Pending);
    waiting.lifecycle.not_before = Some(at(500));
    assert_eq!(changed(&waiting, &Action::Cancel).lifecycle.not_before, Some(at(500)));
}

#[test]
fn a_time_beyond_the_year_9999_is_the_end_of_that_year() {
    let seconds = SchedulingFields { retry_delay: RetryDelay::new(1e300, None, Some(1e300)), ..Default::default() };
    let report = RunReport::Fail { failure: failure(), retry: true, retry_after: None };
    let change = changed(&task(Status::Running, seconds), &Action::Report { run_id: run("active"), report });
    assert_eq!(change.lifecycle.not_before.unwrap().to_string(), "9999-12-31T23:59:59.999999Z");
}

#[test]
fn only_tasks_that_have_ended_are_archived_and_a_requeue_takes_them_out() {
    let archive = |archived| Update { archived: Some(archived), ..Update::default() };
    for status in Status::ALL {
        for archived in [true, false] {
            let answer = archive(archived).apply(&task_in(status), at(NOW));
            match status {
                Status::Running => assert!(matches!(answer, Err(Refusal::TaskRunning { .. }))),
                Status::Pending if archived => assert!(matches!(answer, Err(Refusal::NotArchivable { .. }))),
                _ => assert_eq!(answer.unwrap().is_some_and(|task| task.lifecycle.archived), archived, "{status:?}"),
            }
        }
    }
    for status in [Status::Failed, Status::Cancelled] {
        let mut archived = task_in(status);
        archived.lifecycle.archived = true;
        assert!(!changed(&archived, &Action::Requeue).lifecycle.archived, "{status:?}");
        assert_eq!(archive(true).apply(&archived, at(NOW)), Ok(None), "it is so already");
    }
}

#[test]
fn an_update_sets_and_clears_what_a_task_waits_for() {
    let before = task_in(Status::Pending);
    let dependencies = Dependencies::new(vec![id("a"), id("b")]).unwrap();
    let update = Update {
        not_before: Some(Some(at(900))),
        retry_delay: Some(RetryDelay::new(1.0, None, None)),
        timeout_seconds: Some(Some(60)),
        dependencies: Some(dependencies.clone()),
        on_dependency_failure: Some(OnDependencyFailure::Cancel),
        ..Update::default()
    };
    let after = update.apply(&before, at(NOW)).unwrap().unwrap();
    assert_eq!((after.lifecycle.not_before, after.lifecycle.pending_seq), (Some(at(900)), 7), "it keeps its place");
    assert_eq!(after.definition.scheduling.dependencies, dependencies);
    assert_eq!(update.apply(&after, at(NOW)), Ok(None));
    let clear = Update {
        not_before: Some(None),
        retry_delay: Some(None),
        timeout_seconds: Some(None),
        dependencies: Some(Dependencies::default()),
        on_dependency_failure: Some(OnDependencyFailure::Wait),
        ..Update::default()
    };
    let cleared = clear.apply(&after, at(NOW)).unwrap().unwrap();
    assert_eq!(cleared.definition, before.definition);
    assert_eq!(cleared.lifecycle.not_before, None);
    for (update, task) in [(&update, &before), (&clear, &after)] {
        let effect = update.effect(task).unwrap().unwrap();
        let applied = update.apply(task, at(NOW)).unwrap().unwrap();
        assert_eq!(update.updated_head(&task.head(), effect, at(NOW)), applied.head());
    }
}

fn waiting(status: Status, on_dependency_failure: OnDependencyFailure) -> TaskHead {
    let dependencies = Dependencies::new(vec![id("a"), id("b")]).unwrap();
    let mut task = task(status, SchedulingFields { dependencies, on_dependency_failure, ..Default::default() });
    task.lifecycle.unmet = 2;
    task.head()
}

#[test]
fn a_failed_dependency_cancels_a_pending_task_that_asked_for_it_and_no_other() {
    use OnDependencyFailure::{Cancel, Wait};
    for state in DependencyState::ALL {
        let failed = FailedDependency::of(id("a"), state);
        assert_eq!(failed.is_some(), state.has_failed());
        for (status, choice) in Status::ALL.into_iter().flat_map(|status| [(status, Wait), (status, Cancel)]) {
            let task = waiting(status, choice);
            let change = settle_dependencies(&task, 1, failed, at(NOW)).unwrap();
            let cancels = status == Status::Pending && choice == Cancel && failed.is_some();
            let after = if cancels { Status::Cancelled } else { status };
            let expected = (after, 1);
            assert_eq!((change.lifecycle.status, change.lifecycle.unmet), expected, "{state:?} {status:?} {choice:?}");
            let updated_at = if cancels { at(NOW) } else { task.lifecycle.updated_at };
            assert_eq!(change.lifecycle.updated_at, updated_at, "{state:?} {status:?}");
            let mut error: Option<LastError> = None;
            change.last_error.apply(&mut error);
            assert_eq!(error.is_some(), cancels);
            if let Some(error) = error {
                assert_eq!((&*error.failure.kind, error.run_id), ("DependencyFailed", None));
                assert!(error.failure.message.contains(id("a").as_str()), "{}", error.failure.message);
            }
        }
    }
    assert_eq!(settle_dependencies(&waiting(Status::Pending, Wait), 2, None, at(NOW)), None, "nothing changes");
}

#[test]
fn what_is_used_is_part_of_the_identity_and_of_the_size_and_what_is_not_used_is_not() {
    let plain = Definition::default();
    let used = |fields: SchedulingFields| Definition { scheduling: Scheduling::from(fields), ..plain.clone() };
    assert_eq!(used(SchedulingFields::default()).identity(None), plain.identity(None));
    assert_eq!(used(SchedulingFields::default()).stored_bytes(), plain.stored_bytes());
    let cases = [
        used(SchedulingFields { timeout_seconds: Some(1), ..Default::default() }),
        used(SchedulingFields { retry_delay: RetryDelay::new(0.0, None, None), ..Default::default() }),
        used(SchedulingFields { on_dependency_failure: OnDependencyFailure::Cancel, ..Default::default() }),
        used(SchedulingFields { dependencies: Dependencies::new(vec![id("a")]).unwrap(), ..Default::default() }),
    ];
    let mut identities: Vec<_> = cases.iter().map(|definition| definition.identity(None)).collect();
    identities.extend([plain.identity(None), plain.identity(Some(at(1))), plain.identity(Some(at(2)))]);
    let count = identities.len();
    identities.sort_unstable();
    identities.dedup();
    assert_eq!(identities.len(), count);
    for definition in cases {
        let members = definition.scheduling.as_json().unwrap().len() - "{}".len();
        assert_eq!(definition.stored_bytes(), plain.stored_bytes() + ",".len() + members);
    }
}

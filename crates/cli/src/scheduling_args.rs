//! What the flags say of when a task may run, for how long, and behind which others: for a new task, and as a part of an update.

use taskqueue_client::{Dependencies, Scheduling, SchedulingFields, TaskId, Timestamp, Update};
use taskqueue_core::limits::DEPENDENCIES_MAX;

use crate::args::{SchedulingArgs, SchedulingChangeArgs};
use crate::failure::Failure;

/// From when on a task can be claimed, if that is not at once.
pub(crate) fn not_before(given: &SchedulingArgs, now: Timestamp) -> Option<Timestamp> {
    let delayed = given.delay.filter(|delay| !delay.is_zero()).map(|delay| now.plus(delay));
    delayed.or(given.not_before)
}

/// `after` are the tasks that `--after` and `--after-batch` name.
pub(crate) fn scheduling(given: &SchedulingArgs, after: Vec<TaskId>) -> Result<Scheduling, Failure> {
    let fields = SchedulingFields {
        retry_delay: given.retry_delay,
        timeout_seconds: given.timeout,
        dependencies: dependencies(after)?,
        on_dependency_failure: given.on_dependency_failure.unwrap_or_default(),
    };
    Ok(fields.into())
}

/// The update with what the flags change besides.
pub(crate) fn change(
    update: Update,
    given: &SchedulingChangeArgs,
    after: Vec<TaskId>,
    now: Timestamp,
) -> Result<Update, Failure> {
    let SchedulingChangeArgs { new, no_delay, no_retry_delay, no_timeout, no_after } = given;
    let is_at_once = *no_delay || new.delay.is_some_and(|delay| delay.is_zero());
    let after = dependencies(after)?;
    Ok(Update {
        not_before: if is_at_once { Some(None) } else { not_before(new, now).map(Some) },
        retry_delay: if *no_retry_delay { Some(None) } else { new.retry_delay.map(Some) },
        timeout_seconds: if *no_timeout { Some(None) } else { new.timeout.map(Some) },
        dependencies: (*no_after || !after.is_empty()).then_some(after),
        on_dependency_failure: new.on_dependency_failure,
        ..update
    })
}

fn dependencies(after: Vec<TaskId>) -> Result<Dependencies, Failure> {
    Dependencies::new(after).ok_or_else(too_many)
}

/// What to do instead is the same however they were named.
pub(crate) fn too_many() -> Failure {
    Failure::Usage(format!(
        "a task can wait for at most {DEPENDENCIES_MAX} others; wait for them here with taskqueue task wait, or let tasks \
         in between wait for parts of them"
    ))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use taskqueue_client::OnDependencyFailure;

    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);

    fn id(n: usize) -> TaskId {
        TaskId::parse(&format!("t_{n:0>12}")).unwrap()
    }

    fn delayed(seconds: u64) -> SchedulingArgs {
        SchedulingArgs { delay: Some(Duration::from_secs(seconds)), ..SchedulingArgs::default() }
    }

    #[test]
    fn a_delay_is_a_time_from_now_on_and_none_is_at_once() {
        assert_eq!(not_before(&delayed(600), NOW), Some(NOW.plus_seconds(600)));
        assert_eq!(not_before(&delayed(0), NOW), None);
        assert_eq!(not_before(&SchedulingArgs::default(), NOW), None);
        let at = SchedulingArgs { not_before: Some(NOW), ..SchedulingArgs::default() };
        assert_eq!(not_before(&at, NOW.plus_seconds(5)), Some(NOW));
        let latest = not_before(&delayed(u64::MAX), NOW).unwrap();
        assert!(latest.to_string().starts_with("9999-12-31T"), "{latest}");
    }

    #[test]
    fn a_task_is_waited_for_once_however_often_it_is_named() {
        let given = SchedulingArgs::default();
        let scheduling = scheduling(&given, vec![id(2), id(1), id(3), id(1)]).unwrap();
        assert_eq!(scheduling.dependencies.as_slice(), [id(1), id(2), id(3)]);
        let refused = super::scheduling(&given, (0..1001).map(id).collect());
        assert!(matches!(refused, Err(Failure::Usage(message)) if message.contains("at most 1000 others; wait")));
    }

    #[test]
    fn an_update_changes_what_is_named_and_takes_away_what_is_not_wanted() {
        let change_after = |given: &SchedulingChangeArgs, after| change(Update::default(), given, after, NOW).unwrap();
        let change = |given: &SchedulingChangeArgs| change_after(given, Vec::new());
        assert_eq!(change(&SchedulingChangeArgs::default()), Update::default());
        let none = SchedulingChangeArgs {
            no_delay: true,
            no_retry_delay: true,
            no_timeout: true,
            no_after: true,
            ..SchedulingChangeArgs::default()
        };
        let cleared = Update {
            not_before: Some(None),
            retry_delay: Some(None),
            timeout_seconds: Some(None),
            dependencies: Some(Dependencies::default()),
            ..Update::default()
        };
        assert_eq!(change(&none), cleared);
        let new = SchedulingArgs {
            timeout: Some(60),
            on_dependency_failure: Some(OnDependencyFailure::Cancel),
            ..delayed(10)
        };
        let changed = Update {
            not_before: Some(Some(NOW.plus_seconds(10))),
            timeout_seconds: Some(Some(60)),
            dependencies: Dependencies::new(vec![id(1)]),
            on_dependency_failure: Some(OnDependencyFailure::Cancel),
            ..Update::default()
        };
        let given = SchedulingChangeArgs { new, ..SchedulingChangeArgs::default() };
        assert_eq!(change_after(&given, vec![id(1)]), changed);
        let at_once = SchedulingChangeArgs { new: delayed(0), ..SchedulingChangeArgs::default() };
        assert_eq!(change(&at_once).not_before, Some(None));
    }
}

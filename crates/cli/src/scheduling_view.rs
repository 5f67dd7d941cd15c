//! When a task may run, for how long, and behind which others, as people read it: in a note beside its status, and in full.

use taskqueue_client::{OnDependencyFailure, RetryDelay, Scheduling, Status, Task, Timestamp};
use taskqueue_core::words::{self, Units, exact_duration};

/// Why a task waits as far as it says that itself, or that it is archived: `from in 9m, after 3 tasks`. Nothing for most tasks.
/// Whether those that it comes after have succeeded is not known here; `task explain` tells.
pub(crate) fn note(task: &Task, now: Timestamp) -> Option<String> {
    let is_pending = task.status == Status::Pending;
    let until = task.not_before.filter(|not_before| is_pending && *not_before > now);
    let after = Some(task.scheduling.dependencies.len()).filter(|count| is_pending && *count > 0);
    let notes = [
        until.map(|until| format!("delayed, {}", words::age(until, now))),
        after.map(|count| format!("after {}", words::count(count as u64, "task"))),
        task.archived.then(|| "archived".to_owned()),
    ];
    let notes: Vec<String> = notes.into_iter().flatten().collect();
    (!notes.is_empty()).then(|| notes.join("; "))
}

/// Each field that is used, with its value in words.
pub(crate) fn details(
    not_before: Option<Timestamp>,
    scheduling: &Scheduling,
    now: Timestamp,
) -> Vec<(&'static str, String)> {
    let dependencies = scheduling.dependencies.as_slice();
    let ids = || dependencies.iter().map(|id| id.as_str()).collect::<Vec<_>>().join(", ");
    let choice = scheduling.on_dependency_failure;
    let fields = [
        ("not_before", not_before.map(|time| format!("{time} ({})", words::age(time, now)))),
        ("retry_delay", scheduling.retry_delay.as_ref().map(retry_delay)),
        ("timeout_seconds", scheduling.timeout_seconds.map(timeout)),
        ("dependencies", (!dependencies.is_empty()).then(ids)),
        ("on_dependency_failure", (choice != OnDependencyFailure::Wait).then(|| choice.as_str().to_owned())),
    ];
    fields.into_iter().filter_map(|(name, words)| Some((name, words?))).collect()
}

/// `10s, 2 times as long each time, at most 1h`.
fn retry_delay(delay: &RetryDelay) -> String {
    let (first, longest) =
        (exact_duration(delay.seconds(), Units::Typed), exact_duration(delay.max_seconds(), Units::Typed));
    if delay.seconds() >= delay.max_seconds() || delay.factor() <= 1.0 {
        return if delay.seconds() <= delay.max_seconds() { first } else { longest };
    }
    format!("{first}, {} times as long each time, at most {longest}", delay.factor())
}

/// `7200 (2h)`.
fn timeout(seconds: i64) -> String {
    let words = exact_duration(seconds as f64, Units::Typed);
    if words == format!("{seconds}s") { words } else { format!("{seconds} ({words})") }
}

/// About how long something is kept or allowed, with its exact number of seconds where that says more.
pub(crate) fn seconds_in_words(seconds: u64) -> String {
    let (exact, about) = (exact_duration(seconds as f64, Units::Typed), words::span(seconds));
    if exact.ends_with('s') && about != exact { format!("{exact} (about {about})") } else { exact }
}

#[cfg(test)]
mod tests {
    use taskqueue_client::{Dependencies, SchedulingFields, TaskId};

    use super::*;
    use crate::live::testing::{TEST_TIME, task};

    fn ids(count: usize) -> Dependencies {
        Dependencies::new((0..count).map(|n| TaskId::parse(&format!("t_{n:0>12}")).unwrap()).collect()).unwrap()
    }

    #[test]
    fn a_note_says_what_a_task_waits_for_and_only_while_it_waits() {
        let plain = || task(1);
        let delayed = |seconds| Task { not_before: Some(TEST_TIME.plus_seconds(seconds)), ..plain() };
        let after = |count| Task {
            scheduling: SchedulingFields { dependencies: ids(count), ..SchedulingFields::default() }.into(),
            ..delayed(600)
        };
        let cases = [
            (plain(), None),
            (delayed(600), Some("delayed, in 10m")),
            (delayed(-600), None),
            (after(1), Some("delayed, in 10m; after 1 task")),
            (Task { not_before: None, ..after(3) }, Some("after 3 tasks")),
            (Task { status: Status::Succeeded, ..after(3) }, None),
            (Task { status: Status::Failed, archived: true, ..plain() }, Some("archived")),
        ];
        for (task, expected) in cases {
            assert_eq!(note(&task, TEST_TIME).as_deref(), expected);
        }
    }

    #[test]
    fn what_is_used_is_shown_with_its_times() {
        let fields = SchedulingFields {
            retry_delay: RetryDelay::new(10.0, None, Some(3600.0)),
            timeout_seconds: Some(7200),
            dependencies: ids(2),
            on_dependency_failure: OnDependencyFailure::Cancel,
        };
        let shown = details(Some(TEST_TIME.plus_seconds(600)), &fields.into(), TEST_TIME);
        let expected = [
            ("not_before", "2027-01-15T08:10:00.000000Z (in 10m)"),
            ("retry_delay", "10s, 2 times as long each time, at most 1h"),
            ("timeout_seconds", "7200 (2h)"),
            ("dependencies", "t_000000000000, t_000000000001"),
            ("on_dependency_failure", "cancel"),
        ];
        assert_eq!(shown, expected.map(|(name, words)| (name, words.to_owned())));
        assert_eq!(details(None, &Scheduling::default(), TEST_TIME), []);
    }

    #[test]
    fn durations_are_shown_as_they_were_typed() {
        assert_eq!(seconds_in_words(604_800), "7d");
        assert_eq!(seconds_in_words(100_000), "100000s (about 27h)");
        let constant = RetryDelay::new(10.0, Some(1.0), None).unwrap();
        assert_eq!(retry_delay(&constant), "10s");
    }
}

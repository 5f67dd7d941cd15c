//! When a task may run, for how long, and behind which others, as people read it: in a note beside its status, and in full.

use taskqueue_client::{Status, Task, Timestamp};
use taskqueue_core::fields::{TaskField, optional_defined_fields};
use taskqueue_core::task_view::TaskView;
use taskqueue_core::words::{self, Units, exact_duration};

/// Returns why a task waits as far as it says that itself, or that it is archived: `from in 9m, after 3 tasks`. Nothing for most tasks.
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

/// Each optional field of its definition that a task uses, with its value in words.
pub(crate) fn details(task: &TaskView<'_>, now: Timestamp) -> Vec<(&'static str, String)> {
    let words = |field: &TaskField| Some((field.path, field.value(task)?.words(field.kind, now)));
    optional_defined_fields().filter_map(words).collect()
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
    fn durations_are_shown_as_they_were_typed() {
        assert_eq!(seconds_in_words(604_800), "7d");
        assert_eq!(seconds_in_words(100_000), "100000s (about 27h)");
    }
}

//! How far a task is, written for people. What its numbers mean is decided in `core`.

use std::time::Duration;

use taskqueue_core::progress::{Estimate, Reported};
use taskqueue_core::task::{Status, Task};
use taskqueue_core::time::Timestamp;
use taskqueue_core::words::{Units, step_rate};

use super::cut;
use crate::show::{self, Moment, duration, number};

/// Members besides the measures that are shown.
const OTHERS: usize = 24;
const OTHER_CHARS: usize = 120;

/// The progress of a task.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ProgressView {
    /// In percent with one decimal, as the width of the bar; nothing without a part that is done.
    pub(super) width: Option<String>,
    pub(super) percent: Option<u64>,
    pub(super) steps: Option<String>,
    pub(super) rate: Option<String>,
    pub(super) left: Option<String>,
    pub(super) reported: Moment,
    pub(super) is_old: bool,
    /// Of which attempt, if that is not the current one.
    pub(super) attempt: Option<i64>,
    pub(super) others: Vec<(String, String)>,
    pub(super) is_running: bool,
}

impl ProgressView {
    /// Nothing if the task said nothing.
    pub(super) fn of(task: &Task, now: Timestamp) -> Option<Self> {
        let progress = task.outcome.progress.as_ref()?;
        let lifecycle = &task.lifecycle;
        let is_running = lifecycle.status == Status::Running;
        let reported = Reported {
            value: &progress.value,
            updated_at: progress.updated_at,
            started_at: lifecycle.started_at,
            is_running,
        };
        let estimate = Estimate::of(reported, now);
        let members = cut::members(progress.value.as_str(), OTHERS + estimate.used.len(), OTHER_CHARS);
        Some(Self {
            width: estimate.done.map(|done| format!("{:.1}", done * 100.0)),
            percent: estimate.percent(),
            rate: estimate.step_seconds.and_then(|seconds| step_rate(seconds, Units::Full)),
            left: estimate.seconds_left.map(|seconds| duration(Duration::from_secs(seconds))),
            reported: Moment::new(progress.updated_at, now),
            is_old: estimate.is_old,
            attempt: Some(progress.attempt).filter(|attempt| *attempt != lifecycle.attempt),
            others: members.into_iter().filter(|(key, _)| !estimate.used.contains(&key.as_str())).collect(),
            steps: estimate.steps.map(|(step, total)| format!("step {} of {}", grouped(&step), grouped(&total))),
            is_running,
        })
    }
}

/// Digits in groups, if there is nothing else.
fn grouped(text: &str) -> String {
    text.parse::<u64>().map_or_else(|_| show::cut(text, 40).into_owned(), number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_grouped_if_there_is_nothing_else() {
        assert_eq!(
            (grouped("10000").as_str(), grouped("0.5").as_str(), grouped("-3").as_str()),
            ("10,000", "0.5", "-3")
        );
    }
}

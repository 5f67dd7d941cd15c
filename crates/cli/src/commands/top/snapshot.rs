//! The result of one refresh, and the rates of a queue, computed from the counts of consecutive ones. Between two refreshes the counts
//! are taken to change linearly, so that neither the interval nor a pause changes the rates. Pure: time is an argument.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use taskqueue_client::{Health, Observation, QueueName, Status, Task, TaskId, Version, WorkerStatus};
use taskqueue_core::status::Statuses;

use crate::commands::status_counts::StatusCounts;

#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    pub(super) health: Health,
    pub(super) version: Option<Version>,
    /// Sorted by name.
    pub(super) queues: Vec<QueueCounts>,
    /// The number of queues that were not counted.
    pub(super) queues_left_out: usize,
    /// The open pane of the selected queue; none if no queue is selected yet or it was deleted.
    pub(super) detail: Option<Detail>,
    /// The output that is shown instead.
    pub(super) output: Option<TaskOutput>,
}

/// The latest lines that a task printed.
#[derive(Clone, Debug)]
pub(super) struct TaskOutput {
    pub(super) id: TaskId,
    /// None if it was deleted.
    pub(super) task: Option<Task>,
    /// Oldest first; none if nothing is kept.
    pub(super) lines: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct QueueCounts {
    pub(super) name: QueueName,
    pub(super) counts: StatusCounts,
    /// True if a worker has reported lately; asked only where something is pending.
    pub(super) has_workers: bool,
    /// Pause and limits in a few words, if there are any.
    pub(super) settings: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Pane {
    #[default]
    Routes,
    Running,
    Workers,
    Failed,
}

impl Pane {
    pub(super) const ALL: [Self; 4] = [Self::Routes, Self::Running, Self::Workers, Self::Failed];

    /// The pane `places` further, cyclically.
    pub(super) fn step(self, places: usize) -> Self {
        Self::ALL[(self as usize + places) % Self::ALL.len()]
    }
}

#[derive(Clone, Debug)]
pub(super) struct Detail {
    pub(super) queue: QueueName,
    pub(super) rows: Rows,
}

#[derive(Clone, Debug)]
pub(super) enum Rows {
    /// Each route with the counts of its tasks.
    Routes(Vec<(String, StatusCounts)>),
    /// Running tasks, the longest running first.
    Running(Vec<Task>),
    Workers(Vec<Observation>),
    /// Failed tasks, the latest first.
    Failed(Vec<Task>),
}

impl Rows {
    pub(super) fn pane(&self) -> Pane {
        match self {
            Self::Routes(_) => Pane::Routes,
            Self::Running(_) => Pane::Running,
            Self::Workers(_) => Pane::Workers,
            Self::Failed(_) => Pane::Failed,
        }
    }

    /// The task of each row, in the order in which the rows are shown.
    pub(super) fn tasks(&self) -> Vec<Option<TaskId>> {
        match self {
            Self::Routes(rows) => vec![None; rows.len()],
            Self::Running(rows) | Self::Failed(rows) => rows.iter().map(|task| Some(task.id)).collect(),
            Self::Workers(rows) => busy_first(rows).iter().map(|worker| worker.report.task_id).collect(),
        }
    }
}

/// The server sorts by id, which means little to people.
pub(super) fn busy_first(workers: &[Observation]) -> Vec<&Observation> {
    let mut workers: Vec<&Observation> = workers.iter().collect();
    workers.sort_by_key(|worker| worker.report.status == WorkerStatus::Idle);
    workers
}

/// The time over which rates are averaged: long enough to be steady, short enough to follow changes.
const WINDOW: Duration = Duration::from_secs(60);
/// Over shorter times a single task would look like a high rate.
const WINDOW_MIN: Duration = Duration::from_secs(1);
/// The time that the bar chart covers.
const BARS: Duration = Duration::from_secs(300);

#[derive(Clone, Debug, Default)]
pub(super) struct History {
    samples: VecDeque<Sample>,
    latest: StatusCounts,
}

/// Tasks that were created and that ended since the history began. Deletions and requeues between two refreshes make the
/// counts smaller; that is not counted as work.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Instant,
    created: u64,
    finished: u64,
}

/// Tasks per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rates {
    pub(super) created: f64,
    pub(super) finished: f64,
}

impl Rates {
    /// The seconds until the pending tasks have ended at this rate.
    pub(super) fn seconds_left(&self, counts: &StatusCounts) -> Option<f64> {
        let pending = counts.get(Status::Pending);
        (pending > 0 && self.finished > 0.0).then(|| pending as f64 / self.finished)
    }
}

impl History {
    pub(super) fn record(&mut self, counts: StatusCounts, at: Instant) {
        let sample = match self.samples.back() {
            None => Sample { at, created: 0, finished: 0 },
            Some(last) => Sample {
                at,
                created: last.created + counts.total().saturating_sub(self.latest.total()),
                finished: last.finished
                    + counts.among(Statuses::ENDED).saturating_sub(self.latest.among(Statuses::ENDED)),
            },
        };
        self.latest = counts;
        self.samples.push_back(sample);
        // The sample before the first bar is the start of that bar.
        while self.samples.get(1).is_some_and(|second| at.saturating_duration_since(second.at) >= BARS) {
            self.samples.pop_front();
        }
    }

    /// The rates up to the latest refresh; none until there are enough samples.
    pub(super) fn rates(&self) -> Option<Rates> {
        let (first, last) = (self.samples.front()?, self.samples.back()?);
        let window = last.at.duration_since(first.at).min(WINDOW);
        if window < WINDOW_MIN {
            return None;
        }
        let since = last.at.checked_sub(window)?;
        let per_second =
            |count: fn(&Sample) -> u64| (count(last) as f64 - self.interpolate(since, count)) / window.as_secs_f64();
        Some(Rates { created: per_second(|sample| sample.created), finished: per_second(|sample| sample.finished) })
    }

    /// Tasks that ended in each of `count` equal parts of the last minutes, oldest first, in thousandths so that the bars
    /// of slow queues are not flat.
    pub(super) fn bars(&self, count: usize) -> Vec<u64> {
        let Some(last) = self.samples.back() else { return Vec::new() };
        let part = BARS / u32::try_from(count.max(1)).unwrap_or(u32::MAX);
        let level = |parts_ago: usize| {
            let ago = part.saturating_mul(u32::try_from(parts_ago).unwrap_or(u32::MAX));
            last.at.checked_sub(ago).map_or(0.0, |at| self.interpolate(at, |sample| sample.finished))
        };
        (0..count).rev().map(|ago| ((level(ago) - level(ago + 1)) * 1000.0).max(0.0).round() as u64).collect()
    }

    /// A count at this time, interpolated linearly between two samples.
    fn interpolate(&self, at: Instant, count: fn(&Sample) -> u64) -> f64 {
        let later = self.samples.partition_point(|sample| sample.at <= at);
        let (Some(before), after) =
            (later.checked_sub(1).and_then(|index| self.samples.get(index)), self.samples.get(later))
        else {
            return self.samples.front().map_or(0.0, |first| count(first) as f64);
        };
        let Some(after) = after else { return count(before) as f64 };
        let part = at.duration_since(before.at).as_secs_f64() / after.at.duration_since(before.at).as_secs_f64();
        count(before) as f64 + part * (count(after) as f64 - count(before) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panes_follow_each_other_cyclically() {
        assert_eq!(Pane::Routes.step(1), Pane::Running);
        assert_eq!(Pane::Failed.step(1), Pane::Routes);
        assert_eq!(Pane::Routes.step(3), Pane::Failed);
    }

    /// Counts of pending and succeeded tasks.
    fn counts(pending: u64, succeeded: u64) -> StatusCounts {
        StatusCounts([pending, 0, succeeded, 0, 0])
    }

    /// A history of refreshes: seconds since the first, pending, succeeded.
    fn history(refreshes: &[(u64, u64, u64)]) -> History {
        let start = Instant::now();
        let mut history = History::default();
        for (second, pending, succeeded) in refreshes {
            history.record(counts(*pending, *succeeded), start + Duration::from_secs(*second));
        }
        history
    }

    #[test]
    fn one_refresh_gives_no_rate() {
        assert_eq!(history(&[]).rates(), None);
        assert_eq!(history(&[(0, 5, 5)]).rates(), None);
        assert_eq!(history(&[(0, 5, 5), (0, 4, 6)]).rates(), None, "nor do two at once");
        assert_eq!(history(&[(0, 5, 5)]).bars(3), [0, 0, 0]);
    }

    #[test]
    fn rates_are_changes_of_counts_over_time() {
        let rates = history(&[(0, 100, 0), (2, 96, 4), (4, 102, 8)]).rates().unwrap();
        assert_eq!(rates, Rates { created: 2.5, finished: 2.0 });
        assert_eq!(rates.seconds_left(&counts(102, 8)), Some(51.0));
        assert_eq!(rates.seconds_left(&counts(0, 8)), None);
    }

    #[test]
    fn a_queue_that_stands_still_has_no_end_in_sight() {
        let rates = history(&[(0, 100, 0), (2, 100, 0)]).rates().unwrap();
        assert_eq!((rates.finished, rates.seconds_left(&counts(100, 0))), (0.0, None));
    }

    #[test]
    fn only_the_last_minute_counts_also_where_refreshes_are_rare() {
        let busy_then_idle = history(&[(0, 0, 0), (10, 0, 1000), (70, 0, 1000)]);
        assert_eq!(busy_then_idle.rates().unwrap().finished, 0.0);
        let rare = history(&[(0, 0, 0), (120, 0, 1200)]);
        assert_eq!(rare.rates().unwrap().finished, 10.0);
    }

    #[test]
    fn deleted_and_requeued_tasks_are_no_work_and_no_debt() {
        let rates = history(&[(0, 0, 100), (1, 100, 0), (2, 80, 20), (3, 0, 0), (4, 0, 20)]).rates().unwrap();
        assert_eq!(rates, Rates { created: 5.0, finished: 10.0 });
    }

    #[test]
    fn bars_are_equal_parts_of_five_minutes_whatever_the_interval() {
        let history = history(&[(0, 0, 0), (100, 0, 100), (250, 0, 100), (300, 0, 200)]);
        assert_eq!(history.bars(3), [100_000, 0, 100_000]);
        assert_eq!(history.bars(6), [50_000, 50_000, 0, 0, 0, 100_000]);
    }

    #[test]
    fn what_is_older_than_the_bars_is_forgotten() {
        let refreshes: Vec<(u64, u64, u64)> = (0..2000).map(|second| (second, 0, second)).collect();
        let history = history(&refreshes);
        assert_eq!(history.samples.len(), 301);
        assert_eq!(history.bars(5), [60_000; 5]);
    }
}

//! The result of one refresh. Rates, which need several refreshes, are in `rates.rs`.

use taskqueue_client::{Group, Health, Observation, QueueName, Status, Task, TaskId, Version, WorkerStatus};

#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    pub(super) health: Health,
    pub(super) version: Option<Version>,
    /// Sorted by name.
    pub(super) queues: Vec<QueueCounts>,
    /// How many queues were not counted.
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
    pub(super) counts: Counts,
    /// Whether a worker has reported lately; asked only where something is pending.
    pub(super) has_workers: bool,
    /// Pause and limits in a few words, if there are any.
    pub(super) settings: Option<String>,
}

/// The number of tasks of each status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts([u64; Status::ALL.len()]);

impl Counts {
    /// Sums groups whose keys end with a status.
    pub(super) fn of<'g>(groups: impl IntoIterator<Item = &'g Group>) -> Self {
        let mut counts = Self::default();
        for group in groups {
            let status = group.key.last().and_then(|word| Status::parse(word));
            if let Some(status) = status {
                counts.0[status as usize] += group.count;
            }
        }
        counts
    }

    pub(super) fn get(&self, status: Status) -> u64 {
        self.0[status as usize]
    }

    pub(super) fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Tasks that have ended.
    pub(super) fn finished(&self) -> u64 {
        self.total() - self.get(Status::Pending) - self.get(Status::Running)
    }
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

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Routes => "Routes",
            Self::Running => "Running",
            Self::Workers => "Workers",
            Self::Failed => "Failed",
        }
    }

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
    Routes(Vec<(String, Counts)>),
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

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Routes(rows) => rows.len(),
            Self::Running(rows) | Self::Failed(rows) => rows.len(),
            Self::Workers(rows) => rows.len(),
        }
    }
}

/// The server sorts by id, which means little to people.
pub(super) fn busy_first(workers: &[Observation]) -> Vec<&Observation> {
    let mut workers: Vec<&Observation> = workers.iter().collect();
    workers.sort_by_key(|worker| worker.report.status == WorkerStatus::Idle);
    workers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_from_groups_and_unknown_words_are_no_status() {
        let group = |key: &[&str], count| Group { key: key.iter().map(|&word| word.to_owned()).collect(), count };
        let counts = Counts::of(&[
            group(&["cancelled"], 1),
            group(&["gpu", "failed"], 2),
            group(&["pending"], 4),
            group(&["running"], 8),
            group(&["succeeded"], 16),
            group(&["paused"], 32),
            group(&[], 64),
        ]);
        assert_eq!((counts.get(Status::Failed), counts.total(), counts.finished()), (2, 31, 19));
    }

    #[test]
    fn panes_follow_each_other_cyclically() {
        assert_eq!(Pane::Routes.step(1), Pane::Running);
        assert_eq!(Pane::Failed.step(1), Pane::Routes);
        assert_eq!(Pane::Routes.step(3), Pane::Failed);
    }
}

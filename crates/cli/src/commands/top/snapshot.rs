//! What one round of requests tells of a server. Nothing here knows earlier rounds; see `rates.rs`.

use taskqueue_client::{Group, Health, Observation, QueueName, Status, Task, Version};

/// The state of a server.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    pub(super) health: Health,
    /// The version that it names.
    pub(super) version: Option<Version>,
    /// The queues that are shown, sorted by name.
    pub(super) queues: Vec<QueueCounts>,
    /// How many more there are.
    pub(super) queues_left_out: usize,
    /// What was asked for of one queue; nothing when no queue was chosen yet or it is gone.
    pub(super) detail: Option<Detail>,
}

/// A queue and its tasks by status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct QueueCounts {
    pub(super) name: QueueName,
    pub(super) counts: Counts,
}

/// How many tasks there are of each status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts([u64; Status::ALL.len()]);

impl Counts {
    /// The counts in groups whose keys end with a status.
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

/// What can be seen of the selected queue.
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

    /// The pane so many places further, round and round.
    pub(super) fn step(self, places: usize) -> Self {
        Self::ALL[(self as usize + places) % Self::ALL.len()]
    }
}

/// What a pane shows of a queue.
#[derive(Clone, Debug)]
pub(super) struct Detail {
    pub(super) queue: QueueName,
    pub(super) rows: Rows,
}

/// The rows of a pane.
#[derive(Clone, Debug)]
pub(super) enum Rows {
    /// Routes with the counts of the tasks that name them.
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

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Routes(rows) => rows.len(),
            Self::Running(rows) | Self::Failed(rows) => rows.len(),
            Self::Workers(rows) => rows.len(),
        }
    }
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
    fn panes_follow_each_other_round_and_round() {
        assert_eq!(Pane::Routes.step(1), Pane::Running);
        assert_eq!(Pane::Failed.step(1), Pane::Routes);
        assert_eq!(Pane::Routes.step(3), Pane::Failed);
    }
}

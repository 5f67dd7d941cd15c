//! How many of the selected tasks are in which state: what bulk commands ask before they start, `queue list` of each queue, and
//! `task wait` again and again.

use taskqueue_client::{Client, Error, Group, GroupQuery, QueueName, Status, TaskDimension, TaskSelection};
use taskqueue_core::status::Statuses;

/// Counts of one moment, in the order of `Status::ALL`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StatusCounts(pub(super) [u64; 5]);

impl StatusCounts {
    pub(super) async fn of(client: &Client, queue: &QueueName, selection: TaskSelection) -> Result<Self, Error> {
        // There are five groups at most: one page, which is one moment.
        let page = client.page(queue, &GroupQuery::by([TaskDimension::Status], selection)).await?;
        Ok(Self::of_groups(&page.items))
    }

    /// The sums of groups whose keys end with a status.
    pub(super) fn of_groups(groups: &[Group]) -> Self {
        let mut counts = Self::default();
        for group in groups {
            if let Some(status) = group.key.last().and_then(|word| Status::parse(word)) {
                counts.0[status as usize] += group.count;
            }
        }
        counts
    }

    pub(super) fn add(&mut self, status: Status) {
        self.0[status as usize] += 1;
    }

    pub(super) fn get(&self, status: Status) -> u64 {
        self.0[status as usize]
    }

    pub(super) fn total(&self) -> u64 {
        self.among(Statuses::ALL)
    }

    /// Returns how many are in one of these states.
    pub(super) fn among(&self, statuses: Statuses) -> u64 {
        statuses.iter().map(|status| self.get(status)).sum()
    }

    /// The counts as words, such as `2 failed, 1 cancelled`, of the states that `is_meant` names.
    pub(super) fn words(&self, is_meant: impl Fn(Status) -> bool) -> String {
        let meant = Status::ALL.into_iter().filter(|status| is_meant(*status) && self.get(*status) > 0);
        let words: Vec<String> = meant.map(|status| format!("{} {}", self.get(status), status.as_str())).collect();
        words.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_from_groups_and_unknown_words_are_no_status() {
        let group = |key: &[&str], count| Group { key: key.iter().map(|&word| word.to_owned()).collect(), count };
        let counts = StatusCounts::of_groups(&[
            group(&["cancelled"], 1),
            group(&["gpu", "failed"], 2),
            group(&["pending"], 4),
            group(&["running"], 8),
            group(&["succeeded"], 16),
            group(&["paused"], 32),
            group(&[], 64),
        ]);
        assert_eq!((counts.get(Status::Failed), counts.total(), counts.among(Statuses::ENDED)), (2, 31, 19));
    }

    #[test]
    fn counts_are_summed_and_named_by_state() {
        let counts = StatusCounts([1, 0, 0, 2, 0]);
        assert_eq!(counts.total(), 3);
        assert_eq!(counts.among(Statuses::ENDED), 2);
        assert_eq!(counts.words(|_| true), "1 pending, 2 failed");
        assert_eq!(counts.words(|status| status == Status::Running), "");
    }
}

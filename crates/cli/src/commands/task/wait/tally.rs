//! What became so far of the tasks that are waited for.

use taskqueue_core::words;

use crate::commands::status_counts::StatusCounts;
use crate::output::Summary;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) counts: StatusCounts,
    /// Named tasks that do not exist, or no longer.
    pub(super) missing: u64,
}

impl Tally {
    pub(super) fn unfinished(&self) -> u64 {
        self.counts.pending + self.counts.running
    }

    pub(super) fn total(&self) -> u64 {
        self.counts.total() + self.missing
    }

    /// Those that ended otherwise than well.
    pub(super) fn unsuccessful(&self) -> u64 {
        self.counts.failed + self.counts.cancelled
    }

    pub(super) fn summary(&self) -> Summary {
        let counts = vec![
            ("succeeded", self.counts.succeeded),
            ("failed", self.counts.failed),
            ("cancelled", self.counts.cancelled),
            ("missing", self.missing),
            ("unfinished", self.unfinished()),
        ];
        Summary { counts }
    }

    /// What went wrong, such as `2 tasks failed, 1 was cancelled`.
    pub(super) fn problems(&self) -> String {
        let mut parts = Vec::new();
        if self.counts.failed > 0 {
            parts.push(format!("{} failed", words::count(self.counts.failed, "task")));
        }
        if self.counts.cancelled > 0 {
            let verb = if self.counts.cancelled == 1 { "was" } else { "were" };
            parts.push(format!("{} {verb} cancelled", words::count(self.counts.cancelled, "task")));
        }
        if self.missing > 0 {
            let verb = if self.missing == 1 { "does" } else { "do" };
            parts.push(format!("{} {verb} not exist", words::count(self.missing, "task")));
        }
        parts.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_counted_and_what_is_well_is_not_named() {
        let counts = StatusCounts { succeeded: 7, failed: 2, cancelled: 1, ..StatusCounts::default() };
        assert_eq!(Tally { counts, missing: 0 }.problems(), "2 tasks failed, 1 task was cancelled");
        let missing = Tally { missing: 1, ..Tally::default() };
        assert_eq!((missing.problems().as_str(), missing.total()), ("1 task does not exist", 1));
        assert_eq!(Tally::default().problems(), "");
    }
}

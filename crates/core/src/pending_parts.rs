//! What the pending tasks of a queue wait for: a claim, a time, other tasks, or the end of a pause (docs/decisions/0060). Which of
//! them a task waits for is decided in `delta.rs` (`PendingPlace`).

use crate::status::word_enum;

/// How many pending tasks of a queue are in which place. Together they are all pending tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PendingParts {
    /// In the pending order. While the queue is paused, no claim takes them.
    pub claimable: u64,
    /// Their dependencies are met, and their time is to come.
    pub delayed: u64,
    /// A dependency has not succeeded.
    pub blocked: u64,
}

/// As much of the parts as was counted. A storage counts each up to a bound, so that the cost does not grow with the backlog.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CountedParts {
    pub claimable: Option<u64>,
    pub delayed: Option<u64>,
    pub blocked: Option<u64>,
}

impl CountedParts {
    /// The parts of so many pending tasks: one that was not counted is the rest. Nothing if more than one was not.
    pub fn of_pending(self, pending: u64) -> Option<PendingParts> {
        let rest = |one: u64, other: u64| pending.saturating_sub(one).saturating_sub(other);
        let (claimable, delayed, blocked) = match (self.claimable, self.delayed, self.blocked) {
            (Some(claimable), Some(delayed), Some(blocked)) => (claimable, delayed, blocked),
            (None, Some(delayed), Some(blocked)) => (rest(delayed, blocked), delayed, blocked),
            (Some(claimable), None, Some(blocked)) => (claimable, rest(claimable, blocked), blocked),
            (Some(claimable), Some(delayed), None) => (claimable, delayed, rest(claimable, delayed)),
            _ => return None,
        };
        Some(PendingParts { claimable, delayed, blocked })
    }
}

word_enum! {
    /// The reason for which a pending task waits.
    pub enum PendingState {
        Claimable = "claimable",
        Delayed = "delayed",
        Blocked = "blocked",
        /// Nothing but the end of the pause of its queue.
        Paused = "paused",
    }
}

impl PendingParts {
    /// How many tasks wait for what, in the order of [`PendingState::ALL`].
    pub fn by_state(self, is_paused: bool) -> [u64; PendingState::ALL.len()] {
        let Self { claimable, delayed, blocked } = self;
        if is_paused { [0, delayed, blocked, claimable] } else { [claimable, delayed, blocked, 0] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_was_not_counted_is_the_rest() {
        let parts = |claimable, delayed, blocked| Some(PendingParts { claimable, delayed, blocked });
        let cases = [
            (Some(5), Some(3), Some(2), parts(5, 3, 2)),
            (None, Some(3), Some(2), parts(5, 3, 2)),
            (Some(5), None, Some(2), parts(5, 3, 2)),
            (Some(5), Some(3), None, parts(5, 3, 2)),
            // Counted a moment later than all pending tasks.
            (None, Some(9), Some(2), parts(0, 9, 2)),
            (None, None, Some(2), None),
            (Some(5), None, None, None),
            (None, Some(3), None, None),
            (None, None, None, None),
        ];
        for (claimable, delayed, blocked, expected) in cases {
            let counted = CountedParts { claimable, delayed, blocked };
            assert_eq!(counted.of_pending(10), expected, "{counted:?}");
        }
    }

    #[test]
    fn in_a_paused_queue_tasks_that_could_be_claimed_wait_for_the_end_of_the_pause() {
        let parts = PendingParts { claimable: 5, delayed: 3, blocked: 2 };
        assert_eq!(PendingState::ALL.map(PendingState::as_str), ["claimable", "delayed", "blocked", "paused"]);
        assert_eq!((parts.by_state(false), parts.by_state(true)), ([5, 3, 2, 0], [0, 3, 2, 5]));
    }
}

//! Whether a read looks at the tasks of a few states only, or at the tasks of its queue one after the other
//! (docs/decisions/0004). What both give is the same; this decides what it costs.

use crate::status::{Status, Statuses};

/// How many tasks a queue has in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatusCounts([u64; 5]);

impl StatusCounts {
    pub fn add(&mut self, status: Status, tasks: u64) {
        self.0[status as usize] += tasks;
    }

    /// How many tasks have one of these states.
    pub fn of(&self, statuses: Statuses) -> u64 {
        statuses.iter().map(|status| self.0[status as usize]).sum()
    }

    pub fn total(&self) -> u64 {
        self.of(Statuses::ALL)
    }

    /// Those of these states that some task has.
    #[must_use]
    pub fn present(&self, statuses: Statuses) -> Statuses {
        statuses.iter().filter(|status| self.0[*status as usize] > 0).collect()
    }
}

/// The need of a read of the tasks that it selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// All of them: a count, a group, or an order that no index has.
    All,
    /// The first ones in an order that an index has.
    Page { limit: u16 },
}

/// A task that is looked up costs about as much as two that are visited one after the other.
const LOOKUP_COST: u64 = 2;

/// So many keys a read collects in memory at most. With more tasks than that it visits them one after the other.
pub const KEYS_MAX: usize = 100_000;

/// Returns whether it is cheaper to look up the `matching` tasks of some states than to visit up to `visited` tasks.
///
/// A page in the order of an index may be full after a few visits, if the matching tasks are spread evenly or come first, or
/// only after all, if they come last. Nobody knows, so a page looks up as many tasks as would be visited if they were spread
/// evenly, and twice as many: then neither way is ever much worse than the other would have been.
pub fn is_sparse(matching: u64, visited: u64, need: Need) -> bool {
    let few = matching.saturating_mul(LOOKUP_COST) < visited;
    match need {
        Need::All => few,
        Need::Page { limit } => {
            let (matching, visited) = (u128::from(matching), u128::from(visited));
            few && matching * matching <= 4 * (u128::from(limit) + 1) * visited
        }
    }
}

/// Returns whether it is cheaper where the keys of all `matching` tasks are collected before the first is looked up.
pub fn is_sparse_by_keys(matching: u64, visited: u64, need: Need) -> bool {
    matching <= KEYS_MAX as u64 && is_sparse(matching, visited, need)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_tasks_are_looked_up_and_many_are_visited() {
        let page = Need::Page { limit: 100 };
        let cases = [
            (0, 3_000_000, true, true),
            (12, 3_000_000, true, true),
            (30_000, 3_000_000, true, true),
            // A page of these is soon full, wherever they are.
            (300_000, 3_000_000, true, false),
            (1_499_999, 3_000_000, true, false),
            (1_500_000, 3_000_000, false, false),
            (3_000_000, 3_000_000, false, false),
            (4, 9, true, true),
            (5, 9, false, false),
            (0, 0, false, false),
            (u64::MAX, u64::MAX, false, false),
        ];
        for (matching, visited, all, first) in cases {
            assert_eq!(is_sparse(matching, visited, Need::All), all, "{matching} of {visited}");
            assert_eq!(is_sparse(matching, visited, page), first, "a page of {matching} of {visited}");
        }
        assert!(is_sparse(100_000, 3_000_000, Need::Page { limit: 1000 }), "a large page may cost more");
    }

    #[test]
    fn keys_are_collected_up_to_a_limit_only() {
        let (most, many) = (KEYS_MAX as u64, 1_000_000_000);
        for need in [Need::All, Need::Page { limit: 1000 }] {
            assert!(is_sparse_by_keys(most, many, need));
            assert!(is_sparse(most + 1, many, need) && !is_sparse_by_keys(most + 1, many, need));
            assert!(!is_sparse_by_keys(most, most, need));
        }
    }

    #[test]
    fn counts_tell_which_states_there_are() {
        let mut counts = StatusCounts::default();
        for (status, tasks) in [(Status::Failed, 2), (Status::Pending, 5), (Status::Failed, 1)] {
            counts.add(status, tasks);
        }
        assert_eq!((counts.total(), counts.of(Statuses::UNSUCCESSFUL), counts.of(Statuses::LIVING)), (8, 3, 5));
        assert_eq!(counts.present(Statuses::ALL).words(), ["pending", "failed"]);
    }
}

//! What the state of a task alone tells about a filter, so that a read need not look at tasks of other states.

use super::ast::{Expression, TaskPredicate};
use crate::status::Status;

impl Expression<TaskPredicate> {
    /// Whether this holds for every task (or for none) that has the status; nothing if that depends on more. A filter has no
    /// third value: what is not true is false, so `not` of what is decided is decided, too.
    pub(super) fn decided_by(&self, status: Status) -> Option<bool> {
        match self {
            Self::All(parts) => chain(parts, status, false),
            Self::Any(parts) => chain(parts, status, true),
            Self::Not(part) => part.decided_by(status).map(|holds| !holds),
            Self::Is(predicate) => predicate.holds_for(status),
        }
    }
}

/// One part that is `decisive` decides; otherwise all must be decided.
fn chain(parts: &[Expression<TaskPredicate>], status: Status, decisive: bool) -> Option<bool> {
    let mut undecided = false;
    for part in parts {
        match part.decided_by(status) {
            Some(holds) if holds == decisive => return Some(decisive),
            Some(_) => {}
            None => undecided = true,
        }
    }
    (!undecided).then_some(!decisive)
}

#[cfg(test)]
mod tests {
    use super::super::TaskFilter;

    #[test]
    fn a_filter_tells_the_states_of_what_it_selects() {
        let cases = [
            ("status == 'failed'", "failed", true),
            ("status in ['failed', 'cancelled']", "failed cancelled", true),
            ("status not in ['failed', 'cancelled']", "pending running succeeded", true),
            ("status != 'succeeded' and status != 'pending'", "running failed cancelled", true),
            ("not (status == 'succeeded')", "pending running failed cancelled", true),
            ("status < 'pending'", "failed cancelled", true),
            ("status == 'failed' and status == 'running'", "", true),
            ("status == 'failed' and exists(name)", "failed", true),
            ("status == 'failed' and args.x > 1", "failed", false),
            ("args.x > 1 and not (status != 'running' or priority > 3)", "running", false),
            ("status == 'failed' or args.x > 1", "pending running succeeded failed cancelled", false),
            ("(status == 'failed' or status == 'running') and args.x > 1", "running failed", false),
            ("(status == 'failed' and args.x == 1) or (status == 'running' and args.x == 2)", "running failed", false),
            ("not (status == 'failed' and args.x == 1)", "pending running succeeded failed cancelled", false),
            ("not (status == 'failed' or args.x == 1)", "pending running succeeded cancelled", false),
            ("args.x > 1", "pending running succeeded failed cancelled", false),
        ];
        for (text, statuses, only) in cases {
            let filter = TaskFilter::parse(text).unwrap();
            assert_eq!(filter.statuses().words().join(" "), statuses, "{text}");
            assert_eq!(filter.is_by_status_only(), only, "{text}");
        }
    }
}

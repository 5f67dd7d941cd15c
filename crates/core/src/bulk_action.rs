//! What can be done to all tasks that match a filter, in portions, and to which tasks each of these actions applies. What an
//! action does to one task is in `lifecycle.rs`.

use crate::filter::TaskFilter;
use crate::selection::TaskSelection;
use crate::status::{Statuses, word_enum};

word_enum! {
    /// An action on many tasks.
    pub enum BulkAction {
        Cancel = "cancel",
        Requeue = "requeue",
        Delete = "delete",
    }
}

impl BulkAction {
    /// The states of the tasks that it applies to. Other tasks are left alone, whatever the filter says.
    pub const fn applies_to(self) -> Statuses {
        match self {
            Self::Cancel => Statuses::LIVING,
            // Not pending: it would only lose its place.
            Self::Requeue => Statuses::UNSUCCESSFUL,
            Self::Delete => Statuses::NOT_RUNNING,
        }
    }

    /// Returns what it is done to, of the tasks that match a filter.
    pub fn selection(self, filter: TaskFilter, include_archived: bool) -> TaskSelection {
        TaskSelection::among(self.applies_to(), filter, include_archived)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_action_applies_to_the_tasks_that_it_changes() {
        let table = [
            (BulkAction::Cancel, &["pending", "running"][..]),
            (BulkAction::Requeue, &["failed", "cancelled"]),
            (BulkAction::Delete, &["pending", "succeeded", "failed", "cancelled"]),
        ];
        assert_eq!(table.map(|(action, _)| action), BulkAction::ALL);
        for (action, states) in table {
            assert_eq!(action.applies_to().words(), states, "{}", action.as_str());
        }
    }
}

//! What every change of selected tasks has in common: which states it applies to, the question before it, and the reasons
//! why tasks are left out.

use taskqueue_client::Status;
use taskqueue_core::bulk_action::BulkAction;
use taskqueue_core::status::Statuses;
use taskqueue_core::words;

use crate::args::ConfirmArgs;
use crate::client_context::ClientContext;
use crate::commands::status_counts::StatusCounts;
use crate::confirm::confirm;
use crate::failure::Failure;
use crate::output;

/// A change of tasks, as people name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Cancel,
    Requeue,
    Delete,
    Update,
    Rerun,
    Archive,
    Unarchive,
}

impl Change {
    /// The states of the selected tasks that are changed. A pending task can be requeued by id.
    pub(super) const fn applies_to(self) -> Statuses {
        match self {
            Self::Cancel => BulkAction::Cancel.applies_to(),
            Self::Requeue => BulkAction::Requeue.applies_to(),
            Self::Delete => BulkAction::Delete.applies_to(),
            Self::Update => Statuses::NOT_RUNNING,
            Self::Rerun | Self::Archive | Self::Unarchive => Statuses::ENDED,
        }
    }

    /// `Cancel`
    fn imperative(self) -> &'static str {
        match self {
            Self::Cancel => "Cancel",
            Self::Requeue => "Requeue",
            Self::Delete => "Delete",
            Self::Update => "Update",
            Self::Rerun => "Rerun",
            Self::Archive => "Archive",
            Self::Unarchive => "Unarchive",
        }
    }

    /// Why tasks in a state to which it does not apply are left out, and what helps.
    pub(super) fn reason(self, status: Status) -> &'static str {
        match (self, status) {
            (Self::Cancel, Status::Cancelled) => "nothing is left to cancel",
            (Self::Cancel, _) => "what has ended cannot be cancelled",
            (Self::Requeue, Status::Pending) => "already waiting; requeue by id resets the attempts",
            (Self::Requeue, Status::Succeeded) => "taskqueue task rerun submits such tasks again as new ones",
            (Self::Rerun, Status::Pending) => "not run yet",
            (Self::Archive | Self::Unarchive, Status::Pending) => "only what has ended can be archived",
            _ => "wait for the end, or cancel first with taskqueue task cancel",
        }
    }

    /// `3 are running: ...; 1 succeeded, 2 failed: ...`. What several states have in common is said once.
    pub(super) fn reasons(self, counts: &StatusCounts) -> String {
        let left_out =
            Status::ALL.into_iter().filter(|status| !self.applies_to().contains(*status) && counts.get(*status) > 0);
        let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
        for status in left_out {
            let (reason, words) = (self.reason(status), in_state(counts.get(status), status));
            match reasons.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, states)) => states.push(words),
                None => reasons.push((reason, vec![words])),
            }
        }
        let said = reasons.into_iter().map(|(reason, states)| format!("{}: {reason}", states.join(", ")));
        said.collect::<Vec<_>>().join("; ")
    }

    /// Asks before the tasks are changed; the question counts only those to which the change applies.
    pub(super) fn confirm(
        self,
        context: &ClientContext,
        counts: &StatusCounts,
        args: ConfirmArgs,
    ) -> Result<(), Failure> {
        let tasks = words::count(counts.among(self.applies_to()), "task");
        let left_out = counts.words(|status| !self.applies_to().contains(status));
        let left_out = if left_out.is_empty() { left_out } else { format!(" ({left_out} left out)") };
        let end = if self == Self::Rerun { " as new tasks" } else { "" };
        confirm(&format!("{} {tasks} of queue {}{end}{left_out}?", self.imperative(), context.queue), args)
    }

    /// Why a task was left as it was although the change applies to its state.
    pub(super) fn reason_missed(self) -> &'static str {
        match self {
            Self::Requeue => {
                "would be cancelled again because of what it waits for (taskqueue task explain ID), or changed meanwhile"
            }
            _ => "changed meanwhile",
        }
    }

    /// The error of a command that changed nothing although tasks match.
    pub(super) fn nothing_changed(self, counts: &StatusCounts) -> Failure {
        let reasons = self.reasons(counts);
        let reasons = if reasons.is_empty() { format!("each task {}", self.reason_missed()) } else { reasons };
        Failure::Refused(format!("nothing was changed: {reasons}"))
    }
}

/// `3 are running`, `1 succeeded`.
fn in_state(count: u64, status: Status) -> String {
    let verb = match (status, count) {
        (Status::Failed | Status::Succeeded, _) => "",
        (_, 1) => "is ",
        _ => "are ",
    };
    format!("{count} {verb}{}", status.as_str())
}

pub(super) fn note_no_match(context: &ClientContext) {
    output::note(&format!("no task of queue {} matches", context.queue));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_is_either_changed_or_has_a_reason() {
        let one_each = StatusCounts { pending: 1, running: 1, succeeded: 1, failed: 1, cancelled: 1 };
        let cases = [
            (Change::Cancel, "1 succeeded, 1 failed: what has ended cannot be cancelled; 1 is cancelled: ", 2),
            (Change::Requeue, "1 is running: wait for the end", 2),
            (Change::Delete, "1 is running: wait for the end", 4),
            (Change::Update, "1 is running: wait for the end", 4),
            (Change::Rerun, "1 is pending: not run yet", 3),
            (Change::Archive, "1 is pending: only what has ended", 3),
            (Change::Unarchive, "1 is running: wait for the end", 3),
        ];
        for (change, expected, applicable) in cases {
            let reasons = change.reasons(&one_each);
            assert!(reasons.contains(expected), "{change:?}: {reasons}");
            assert_eq!(one_each.among(change.applies_to()), applicable, "{change:?}");
            assert_eq!(reasons.matches("1 ").count() as u64, 5 - applicable, "{change:?}: {reasons}");
        }
        let many = StatusCounts { running: 3, ..StatusCounts::default() };
        assert!(Change::Delete.reasons(&many).starts_with("3 are running: "));
    }
}

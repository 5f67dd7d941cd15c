//! What every change of tasks has in common: its words, which states it applies to, the question before it, and the reasons why selected
//! tasks are left out.

use taskqueue_client::{Status, TaskSelection};
use taskqueue_core::bulk_action::BulkAction;
use taskqueue_core::status::Statuses;
use taskqueue_core::words;

use crate::args::ConfirmArgs;
use crate::client_context::ClientContext;
use crate::commands::status_counts::StatusCounts;
use crate::failure::{CommandError, Failure};
use crate::output::{self, Summary, confirm};

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

/// The words for a change.
pub(super) struct ChangeWords {
    imperative: &'static str,
    pub(super) done: &'static str,
    pub(super) doing: &'static str,
}

impl Change {
    /// Returns the states of the selected tasks that are changed. A pending task can be requeued by id.
    pub(super) const fn applies_to(self) -> Statuses {
        match (self.bulk(), self) {
            (Some(action), _) => action.applies_to(),
            (None, Self::Update) => Statuses::NOT_RUNNING,
            (None, _) => Statuses::ENDED,
        }
    }

    /// Returns the action on all tasks that match, if there is one.
    pub(super) const fn bulk(self) -> Option<BulkAction> {
        match self {
            Self::Cancel => Some(BulkAction::Cancel),
            Self::Requeue => Some(BulkAction::Requeue),
            Self::Delete => Some(BulkAction::Delete),
            Self::Update | Self::Rerun | Self::Archive | Self::Unarchive => None,
        }
    }

    /// Returns its words for messages.
    pub(super) const fn words(self) -> ChangeWords {
        let (imperative, done, doing) = match self {
            Self::Cancel => ("Cancel", "cancelled", "cancelling"),
            Self::Requeue => ("Requeue", "requeued", "requeueing"),
            Self::Delete => ("Delete", "deleted", "deleting"),
            Self::Update => ("Update", "updated", "updating"),
            Self::Rerun => ("Rerun", "submitted", "submitting"),
            Self::Archive => ("Archive", "archived", "archiving"),
            Self::Unarchive => ("Unarchive", "unarchived", "unarchiving"),
        };
        ChangeWords { imperative, done, doing }
    }

    /// Returns why tasks in a state to which it does not apply are left out, and what helps.
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

    /// Returns `3 are running: ...` and `1 succeeded, 2 failed: ...`. What several states have in common is said once.
    fn reasons(self, counts: &StatusCounts) -> Vec<String> {
        let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
        for status in Status::ALL {
            let (count, reason) = (counts.get(status), self.reason(status));
            if self.applies_to().contains(status) || count == 0 {
                continue;
            }
            match reasons.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, states)) => states.push(in_state(count, status)),
                None => reasons.push((reason, vec![in_state(count, status)])),
            }
        }
        reasons.into_iter().map(|(reason, states)| format!("{}: {reason}", states.join(", "))).collect()
    }

    /// Counts the selected tasks by their state and, if the change applies to some of them, asks before they are changed.
    pub(super) async fn count(
        self,
        context: &ClientContext,
        selection: TaskSelection,
        args: ConfirmArgs,
    ) -> Result<StatusCounts, CommandError> {
        let counts = StatusCounts::of(&context.client, &context.queue, selection).await?;
        let (queue, applicable) = (&context.queue, counts.among(self.applies_to()));
        if applicable > 0 {
            let (imperative, tasks) = (self.words().imperative, words::count(applicable, "task"));
            let left_out = counts.words(|status| !self.applies_to().contains(status));
            let left_out = if left_out.is_empty() { left_out } else { format!(" ({left_out} left out)") };
            let end = if self == Self::Rerun { " as new tasks" } else { "" };
            confirm(&format!("{imperative} {tasks} of queue {queue}{end}{left_out}?"), args)?;
        } else if counts.total() == 0 {
            output::note(&format!("no task of queue {queue} matches"));
        }
        Ok(counts)
    }

    /// Says why tasks were left out. Fails if tasks match and none of them was changed.
    pub(super) fn conclude(self, counts: &StatusCounts, outcome: ChangeOutcome) -> Result<(), CommandError> {
        let (by_state, ChangeOutcome { changed, equal, missed }) = (self.reasons(counts), outcome);
        if changed > 0 {
            let missed = (missed > 0).then(|| format!("{missed}: each {}", self.reason_missed()));
            let left_out: Vec<String> = by_state.into_iter().chain(missed).collect();
            if !left_out.is_empty() {
                output::note(&format!("left out: {}", left_out.join("; ")));
            }
            return Ok(());
        }
        if counts.total() == 0 {
            return Ok(());
        }
        let have = if equal == 1 { "has" } else { "have" };
        let equal = (equal > 0).then(|| format!("{equal} {have} these values already"));
        let mut reasons: Vec<String> = equal.into_iter().chain(by_state).collect();
        if reasons.is_empty() {
            reasons.push(format!("each task {}", self.reason_missed()));
        }
        Err(Failure::Refused(format!("nothing was changed: {}", reasons.join("; "))).into())
    }

    /// Returns why a task was left as it was although the change applies to its state.
    fn reason_missed(self) -> &'static str {
        match self {
            Self::Requeue => {
                "would be cancelled again because of what it waits for (taskqueue task explain ID), or changed meanwhile"
            }
            _ => "changed meanwhile",
        }
    }
}

/// The outcome for the selected tasks to which a change applies.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ChangeOutcome {
    pub(super) changed: u64,
    /// Those that had the new values already.
    pub(super) equal: u64,
    /// Those that the server left as they are.
    pub(super) missed: u64,
}

/// Prints how many tasks were changed, created or not.
pub(super) fn print_summary(context: &ClientContext, summary: &Summary) -> Result<(), Failure> {
    context.printer.done(summary, &summary.sentence())
}

/// Returns `3 are running` or `1 succeeded`.
fn in_state(count: u64, status: Status) -> String {
    let verb = match (status, count) {
        (Status::Failed | Status::Succeeded, _) => "",
        (_, 1) => "is ",
        _ => "are ",
    };
    format!("{count} {verb}{}", status.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_is_either_changed_or_has_a_reason() {
        let one_each = StatusCounts([1; 5]);
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
            let reasons = change.reasons(&one_each).join("; ");
            assert!(reasons.contains(expected), "{change:?}: {reasons}");
            assert_eq!(one_each.among(change.applies_to()), applicable, "{change:?}");
            assert_eq!(reasons.matches("1 ").count() as u64, 5 - applicable, "{change:?}: {reasons}");
        }
        let many = StatusCounts([0, 3, 0, 0, 0]);
        assert!(Change::Delete.reasons(&many)[0].starts_with("3 are running: "));
    }
}

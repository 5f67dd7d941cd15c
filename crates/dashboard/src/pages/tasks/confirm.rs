//! The question before an action on many tasks: how many, and exactly what will happen to them. The address has all of it but the
//! number; the form that is sent from here carries the number that was agreed to.

use askama::Template;
use axum::http::StatusCode;
use taskqueue_core::task::Lifecycle;
use taskqueue_core::{BulkAction, QueueName, Scope, Status, Statuses, Task, TaskSelection};

use super::view::View;
use crate::address::Query;
use crate::layout::{self, PageResult, Section, Shell};
use crate::problem::Problem;
use crate::selected::{Selectors, Target, Unreadable, and, count_by_status, find_task};
use crate::show;
use crate::state::Dashboard;
use crate::visit::Visit;

/// What can be done to many tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Bulk(BulkAction),
    Priority,
    Routes,
    Args,
    Archive,
    Unarchive,
}

impl Action {
    pub(super) fn read(word: Option<&str>) -> Result<Self, Problem> {
        let action = match word {
            Some("priority") => Some(Self::Priority),
            Some("routes") => Some(Self::Routes),
            Some("args") => Some(Self::Args),
            Some("archive") => Some(Self::Archive),
            Some("unarchive") => Some(Self::Unarchive),
            word => BulkAction::ALL.into_iter().find(|action| Some(action.as_str()) == word).map(Self::Bulk),
        };
        action.ok_or_else(|| Problem::invalid("There is no such action", "Go back to the list and use its buttons."))
    }

    pub(super) const fn applies_to(self) -> Statuses {
        match self {
            Self::Bulk(action) => action.applies_to(),
            Self::Priority | Self::Routes | Self::Args => Statuses::NOT_RUNNING,
            Self::Archive | Self::Unarchive => Statuses::ENDED,
        }
    }

    /// Returns whether a task must be archived for it, or must not be.
    pub(super) const fn needs_archived(self) -> Option<bool> {
        match self {
            Self::Archive => Some(false),
            Self::Unarchive => Some(true),
            Self::Bulk(_) | Self::Priority | Self::Routes | Self::Args => None,
        }
    }

    /// Returns what matches and is not done already.
    pub(super) fn narrow(self, selection: TaskSelection) -> Result<TaskSelection, Unreadable> {
        let Some(archived) = self.needs_archived() else { return Ok(selection) };
        and(selection, &format!("archived == {archived}"))
    }

    const fn imperative(self) -> &'static str {
        match self {
            Self::Bulk(BulkAction::Cancel) => "Cancel",
            Self::Bulk(BulkAction::Requeue) => "Requeue",
            Self::Bulk(BulkAction::Delete) => "Delete",
            Self::Priority => "Change the priority of",
            Self::Routes => "Change the routes of",
            Self::Args => "Change the args of",
            Self::Archive => "Archive",
            Self::Unarchive => "Unarchive",
        }
    }

    /// Returns why tasks in a state to which it does not apply are left out.
    const fn reason(self, status: Status) -> &'static str {
        match (self, status) {
            (Self::Bulk(BulkAction::Cancel), _) => "what has ended cannot be cancelled",
            (Self::Bulk(BulkAction::Requeue), Status::Pending) => "they already wait",
            (Self::Bulk(BulkAction::Requeue), Status::Succeeded) => {
                "what has succeeded is submitted again as a new task"
            }
            (Self::Archive | Self::Unarchive, _) => "only what has ended can be archived",
            (Self::Bulk(BulkAction::Requeue), _) => "wait for their end, or cancel them first",
            _ => "they cannot be changed while they run: wait for their end, or cancel them first",
        }
    }
}

/// How many of the tasks of a target are in each state.
#[derive(Default)]
struct TargetCounts {
    by_status: [u64; 5],
    /// How many chosen ones are archived already, or are not.
    done_before: u64,
}

impl TargetCounts {
    fn of(&self, statuses: Statuses) -> u64 {
        statuses.iter().map(|status| self.by_status[status as usize]).sum()
    }
}

async fn count_target(
    dashboard: &Dashboard,
    queue: &QueueName,
    action: Action,
    target: &Target,
) -> Result<TargetCounts, Problem> {
    let ids = match target {
        Target::Tasks(ids) => ids,
        Target::Matching(selectors) => {
            let read = move |selectors: Selectors| action.narrow(selectors.selection()?);
            let selection = selectors.in_turn(dashboard, read).await??;
            let by_status = count_by_status(dashboard.store(), queue, selection).await?;
            return Ok(TargetCounts { by_status, done_before: 0 });
        }
    };
    let mut counts = TargetCounts::default();
    // Much quicker than to look for them among a million.
    for id in ids {
        match find_task(dashboard.store(), queue, *id).await? {
            Some(task) if is_done(action, &task) => counts.done_before += 1,
            Some(task) => counts.by_status[task.lifecycle.status as usize] += 1,
            None => {}
        }
    }
    Ok(counts)
}

/// Returns whether an ended task is archived already, or is not, as the action would make it.
fn is_done(action: Action, task: &Task) -> bool {
    let Lifecycle { status, archived, .. } = task.lifecycle;
    status.is_ended() && action.needs_archived().is_some_and(|needed| needed != archived)
}

#[derive(Template)]
#[template(path = "tasks_confirm.html")]
struct ConfirmPage {
    shell: Shell,
    action: Action,
    queue: QueueName,
    target: Target,
    left_out: Vec<String>,
    again: AskedAgain,
    number: u64,
    address: String,
    back: String,
}

/// Why the question is asked again.
#[derive(Default)]
pub(super) struct AskedAgain {
    /// The number that was agreed to, and is another one by now.
    pub(super) agreed: Option<u64>,
    /// The new value, which is not lost.
    pub(super) value: String,
    pub(super) wrong: Option<String>,
}

/// Asks.
pub(crate) async fn confirm(visit: Visit) -> PageResult {
    ask(&visit, AskedAgain::default()).await
}

/// Returns what the action is for. Nothing chosen is nothing to do, and not everything.
pub(super) fn target(query: &Query) -> Result<Target, Problem> {
    let nothing = || Problem::invalid("No task is selected", "Go back to the list, and select tasks first.");
    Target::read(query).ok_or_else(nothing)
}

/// Asks, perhaps again.
pub(super) async fn ask(visit: &Visit, again: AskedAgain) -> PageResult {
    let queue = visit.queue_for(Scope::Submit)?;
    let action = Action::read(visit.query.get("action"))?;
    let target = target(&visit.query)?;
    let counts = count_target(&visit.dashboard, &queue, action, &target).await?;
    let number = counts.of(action.applies_to());
    let title = format!("{} {}?", action.imperative(), show::count(number, "task"));
    let status = match (&again.agreed, &again.wrong) {
        (Some(_), _) => StatusCode::CONFLICT,
        (None, Some(_)) => StatusCode::UNPROCESSABLE_ENTITY,
        (None, None) => StatusCode::OK,
    };
    let page = ConfirmPage {
        left_out: left_out(action, &counts),
        address: visit.query.at(&visit.path),
        back: View::read(&queue, &visit.query).address(),
        shell: Shell::new(visit, title, Section::Tasks, Some(&queue)).await?,
        queue,
        target,
        action,
        again,
        number,
    };
    layout::page_with(visit, status, &page)
}

fn left_out(action: Action, counts: &TargetCounts) -> Vec<String> {
    let others = Status::ALL.into_iter().filter(|status| !action.applies_to().contains(*status));
    let line = |status: Status| {
        let count = counts.of(Statuses::NONE.with(status));
        (count > 0).then(|| format!("{} {} left out: {}.", show::number(count), status.as_str(), action.reason(status)))
    };
    let before = (counts.done_before > 0).then(|| {
        let already = if action == Action::Archive { "archived already" } else { "not archived" };
        format!("{} left out: {already}.", show::number(counts.done_before))
    });
    others.filter_map(line).chain(before).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_is_either_counted_or_told_as_left_out() {
        let counts = TargetCounts { by_status: [1; 5], done_before: 0 };
        let actions = ["cancel", "requeue", "delete", "priority", "routes", "args", "archive", "unarchive"];
        for (word, applies) in actions.into_iter().zip([2, 2, 4, 4, 4, 4, 3, 3]) {
            let action = Action::read(Some(word)).expect(word);
            assert_eq!(
                (counts.of(action.applies_to()), left_out(action, &counts).len() as u64),
                (applies, 5 - applies),
                "{word}"
            );
        }
        let counts = TargetCounts { by_status: [0; 5], done_before: 2 };
        assert_eq!(left_out(Action::Archive, &counts), ["2 left out: archived already."]);
        assert!(Action::read(Some("what")).is_err() && Action::read(None).is_err());
    }
}

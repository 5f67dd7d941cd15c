//! What a task is to those that wait for it, and what that means for them (docs/decisions/0063). Which tasks wait for which is
//! kept by the stores; a task is claimable only while each of its dependencies exists and has succeeded.

use crate::ids::TaskId;
use crate::status::Status;
use crate::task::Failure;

/// The type of the last error of a task that was cancelled because of something that it waits for.
pub const DEPENDENCY_FAILED: &str = "DependencyFailed";

/// The state of a dependency for a task that waits for it, as it was noted last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DependencyState {
    /// It may still succeed, or does not exist and may still be created.
    Waiting,
    Succeeded,
    /// It failed for good, or was cancelled. A requeue of it makes it wait again.
    Failed,
    Cancelled,
    /// It was deleted while the task waited for it. One that is created with the same id is waited for again.
    Deleted,
}

impl DependencyState {
    /// All of them. Files hold the places in this list: it only grows at its end.
    pub const ALL: [Self; 5] = [Self::Waiting, Self::Succeeded, Self::Failed, Self::Cancelled, Self::Deleted];

    /// Returns what an existing task is to those that wait for it.
    pub const fn of(status: Status) -> Self {
        match status {
            Status::Pending | Status::Running => Self::Waiting,
            Status::Succeeded => Self::Succeeded,
            Status::Failed => Self::Failed,
            Status::Cancelled => Self::Cancelled,
        }
    }

    /// Returns what a task is for one that begins to wait for it, or that waited for it before and looks again. A missing one was
    /// deleted only if the waiting task has seen that.
    pub fn looked_up(status: Option<Status>, noted: Option<Self>) -> Self {
        match (status, noted) {
            (Some(status), _) => Self::of(status),
            (None, Some(Self::Deleted)) => Self::Deleted,
            (None, _) => Self::Waiting,
        }
    }

    pub const fn is_met(self) -> bool {
        matches!(self, Self::Succeeded)
    }

    /// Returns whether it cannot succeed any more unless somebody does something about it.
    pub const fn has_failed(self) -> bool {
        matches!(self, Self::Failed | Self::Cancelled | Self::Deleted)
    }
}

/// A dependency because of which a task is cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailedDependency {
    pub id: TaskId,
    pub state: DependencyState,
}

impl FailedDependency {
    /// If it has failed.
    pub fn of(id: TaskId, state: DependencyState) -> Option<Self> {
        state.has_failed().then_some(Self { id, state })
    }

    /// The first of these that has failed.
    pub fn among(dependencies: &[(TaskId, DependencyState)]) -> Option<Self> {
        dependencies.iter().find_map(|(id, state)| Self::of(*id, *state))
    }

    pub(crate) fn failure(self) -> Failure {
        let what = match self.state {
            DependencyState::Cancelled => "was cancelled",
            DependencyState::Deleted => "was deleted",
            DependencyState::Waiting | DependencyState::Succeeded | DependencyState::Failed => "failed",
        };
        let message = format!("the task {} that this one waits for {what}", self.id);
        Failure { kind: DEPENDENCY_FAILED.into(), message: message.into(), traceback: None }
    }
}

/// How many of these are unmet.
pub fn unmet(dependencies: &[(TaskId, DependencyState)]) -> u32 {
    let unmet = dependencies.iter().filter(|(_, state)| !state.is_met()).count();
    u32::try_from(unmet).unwrap_or(u32::MAX)
}

/// How many are unmet after one of them has become something else.
pub fn unmet_after(unmet: u32, before: DependencyState, after: DependencyState) -> u32 {
    match (before.is_met(), after.is_met()) {
        (false, true) => unmet.saturating_sub(1),
        (true, false) => unmet.saturating_add(1),
        (true, true) | (false, false) => unmet,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dependency_is_met_exactly_while_it_has_succeeded() {
        use DependencyState::{Cancelled, Deleted, Failed, Succeeded, Waiting};
        let cases = [
            (Some(Status::Pending), None, Waiting),
            (Some(Status::Running), Some(Succeeded), Waiting),
            (Some(Status::Succeeded), Some(Waiting), Succeeded),
            (Some(Status::Failed), None, Failed),
            (Some(Status::Cancelled), Some(Deleted), Cancelled),
            // It may be created later.
            (None, None, Waiting),
            (None, Some(Waiting), Waiting),
            (None, Some(Deleted), Deleted),
            (Some(Status::Pending), Some(Deleted), Waiting),
        ];
        for (status, noted, expected) in cases {
            let state = DependencyState::looked_up(status, noted);
            assert_eq!(state, expected, "{status:?} {noted:?}");
            assert_eq!(state.is_met(), status == Some(Status::Succeeded), "{status:?}");
        }
        assert_eq!(DependencyState::ALL.map(|state| state.has_failed()), [false, false, true, true, true]);
        assert_eq!(DependencyState::ALL.map(|state| state as usize), [0, 1, 2, 3, 4], "files hold these numbers");
    }

    #[test]
    fn the_number_of_unmet_dependencies_follows_each_of_them() {
        use DependencyState::{Deleted, Failed, Succeeded, Waiting};
        let cases = [
            (2, Waiting, Succeeded, 1),
            (1, Succeeded, Deleted, 2),
            (1, Waiting, Failed, 1),
            (1, Failed, Waiting, 1),
            (1, Failed, Succeeded, 0),
            (0, Succeeded, Succeeded, 0),
        ];
        for (before, from, to, after) in cases {
            assert_eq!(unmet_after(before, from, to), after, "{before} {from:?} {to:?}");
        }
    }
}

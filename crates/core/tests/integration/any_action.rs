//! Every action on a task as one type, so that tables and random histories can mix them. Compiled into the unit tests and
//! into the tests beside this file.

use crate::ids::{Route, RunId};
use crate::json::JsonObject;
use crate::lifecycle::{self, Change, Claimant, LeaseChange, NewProgress, RunRefusal, RunReport, TaskAction};
use crate::refusal::Refusal;
use crate::task::{Outcome, TaskHead};
use crate::time::Timestamp;

/// Everything that can happen to a task.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    Claim { route: Route, run_id: RunId },
    Heartbeat { run_id: RunId, progress: Option<JsonObject> },
    Progress { run_id: RunId, value: JsonObject },
    Report { run_id: RunId, report: RunReport },
    Expire,
    Cancel,
    Requeue,
    Delete,
}

/// What the rule for an action decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Change(Change),
    Unchanged,
    Delete,
    Refuse(Refusal),
    Expire(Change, Refusal),
}

impl From<Option<Change>> for Decision {
    fn from(change: Option<Change>) -> Self {
        change.map_or(Self::Unchanged, Self::Change)
    }
}

impl From<RunRefusal> for Decision {
    fn from(RunRefusal { refusal, expiry }: RunRefusal) -> Self {
        match expiry {
            Some(expiry) => Self::Expire(*expiry, refusal),
            None => Self::Refuse(refusal),
        }
    }
}

fn leased(leased: LeaseChange) -> Decision {
    let run = leased.change.lifecycle.run.map(|run| run.lease_expires_at);
    assert_eq!(run, Some(leased.lease_expires_at), "the lease that is answered is the one that is written");
    Decision::Change(leased.change)
}

pub(crate) fn decide(task: &TaskHead, outcome: &Outcome, action: &Action, now: Timestamp, seq: i64) -> Decision {
    let result_bytes = outcome.result.as_str().len();
    let new = |value| NewProgress { value, result_bytes };
    match action {
        Action::Claim { route, run_id } => {
            let claimant = Claimant { route, run_id: *run_id, worker: None };
            lifecycle::claim(task, outcome, claimant, now).map_or_else(Decision::Refuse, leased)
        }
        Action::Heartbeat { run_id, progress } => {
            let progress = progress.as_ref().map(new);
            lifecycle::heartbeat(task, *run_id, progress, now, seq).map_or_else(Decision::from, leased)
        }
        Action::Progress { run_id, value } => lifecycle::report_progress(task, *run_id, new(value), now, seq)
            .map_or_else(Decision::from, Decision::Change),
        Action::Report { run_id, report } => {
            lifecycle::report_run(task, *run_id, report, now, seq).map_or_else(Decision::from, Decision::from)
        }
        Action::Expire => lifecycle::expire(task, now, seq).into(),
        Action::Cancel => {
            lifecycle::act(task, TaskAction::Cancel, now, seq).map_or_else(Decision::Refuse, Decision::from)
        }
        Action::Requeue => {
            lifecycle::act(task, TaskAction::Requeue, now, seq).map_or_else(Decision::Refuse, Decision::from)
        }
        Action::Delete => lifecycle::check_deletion(task).map_or_else(Decision::Refuse, |()| Decision::Delete),
    }
}

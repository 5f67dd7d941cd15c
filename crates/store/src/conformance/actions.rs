//! What every action makes of a task in every state: all that is stored of it (I5, I6, I11, I24). What is decided is also in the table of
//! `lifecycle_tests.rs` of core.

use taskqueue_core::refusal::Transition;

use super::prelude::*;

/// Brings a task of `q` into a state, by a run of the same number where one is needed, with a failure behind it. The one that comes
/// last has the highest priority.
pub(super) async fn bring_to(fixture: &Fixture, id: u32, status: Status) -> Task {
    bring_to_with(fixture, id, status, 3).await
}

async fn bring_to_with(fixture: &Fixture, id: u32, status: Status, budget: i64) -> Task {
    let budget = if status == Status::Failed { 2 } else { budget };
    fixture.create(id, Definition { priority: i64::from(id), ..with_budget(budget) }).await;
    fixture.claim(format!("f{id}")).await;
    fixture.ok(fail_with("q", id, format!("f{id}"), failure("first"))).await;
    match status {
        Status::Pending => {}
        Status::Running => drop(fixture.claim(id).await),
        Status::Succeeded => {
            fixture.claim(id).await;
            fixture.ok(complete("q", id, id, object(r#"{"done":1}"#))).await;
        }
        Status::Failed => {
            fixture.claim(id).await;
            fixture.ok(fail("q", id, id)).await;
        }
        Status::Cancelled => drop(fixture.ok(cancel("q", id)).await),
    }
    let task = fixture.get(id).await;
    assert_eq!(task.lifecycle.status, status);
    fixture.clock.advance_seconds(1);
    task
}

/// What can be done to a task.
#[derive(Clone, Copy, Debug)]
enum Action {
    Cancel,
    Requeue,
    Delete,
    Heartbeat,
    Complete,
    Fail { retry: bool },
    Unclaim,
}

impl Action {
    const ALL: [Self; 8] = [
        Self::Cancel,
        Self::Requeue,
        Self::Delete,
        Self::Heartbeat,
        Self::Complete,
        Self::Fail { retry: true },
        Self::Fail { retry: false },
        Self::Unclaim,
    ];

    fn is_report(self) -> bool {
        !matches!(self, Self::Cancel | Self::Requeue | Self::Delete)
    }

    /// How it ends the run that reports it.
    fn end(self) -> Option<RunEnd> {
        match self {
            Self::Complete => Some(RunEnd::Complete),
            Self::Fail { .. } => Some(RunEnd::Fail),
            Self::Unclaim => Some(RunEnd::Unclaim),
            _ => None,
        }
    }

    /// The command for a task, by a run if it is a report. Only the result of an active run fits.
    fn command(self, id: u32, run: &str, is_active: bool) -> AnyCommand {
        let result = if is_active { object(r#"{"a":[1.0]}"#) } else { args_beyond_the_limit(1) };
        match self {
            Self::Cancel => cancel("q", id).into(),
            Self::Requeue => requeue("q", id).into(),
            Self::Delete => delete("q", id).into(),
            Self::Heartbeat => heartbeat("q", id, run).into(),
            Self::Complete => complete("q", id, run, result).into(),
            Self::Fail { retry: true } => fail("q", id, run).into(),
            Self::Fail { retry: false } => fail_for_good("q", id, run).into(),
            Self::Unclaim => unclaim("q", id, run).into(),
        }
    }

    /// What it makes of a task at a time: another task, none, or a refusal.
    fn applied_to(self, before: &Task, by: RunId, now: Timestamp) -> Result<Option<Task>, Refusal> {
        let (was, mut task) = (&before.lifecycle, before.clone());
        let conflict =
            |transition| Err(Refusal::TaskStateConflict { task_id: before.id, status: was.status, transition });
        let is_active = was.run.is_some_and(|run| run.run_id == by);
        if self.is_report() && !is_active {
            return match was.finished_run.filter(|run| run.run_id == by) {
                Some(FinishedRun { end, .. }) if Some(end) == self.end() => Ok(Some(task)),
                Some(FinishedRun { end, .. }) => Err(Refusal::RunFinalized { end }),
                None => Err(Refusal::StaleRun { run_id: by }),
            };
        }
        let after = &mut task.lifecycle;
        let ended = |after: &mut Lifecycle, status, end| {
            let finished_run = was.run.map(|run| FinishedRun { run_id: run.run_id, end });
            *after =
                Lifecycle { status, finished_at: Some(now), updated_at: now, run: None, finished_run, ..was.clone() };
        };
        match (self, was.status) {
            (Self::Cancel, Status::Pending) => (after.status, after.updated_at) = (Status::Cancelled, now),
            (Self::Cancel, Status::Running) => ended(after, Status::Cancelled, RunEnd::Cancel),
            (Self::Cancel, Status::Cancelled) => {}
            (Self::Cancel, _) => return conflict(Transition::Cancel),
            (Self::Requeue, Status::Running | Status::Succeeded) => return conflict(Transition::Requeue),
            (Self::Requeue, _) => {
                (after.status, after.attempt, after.updated_at) = (Status::Pending, 0, now);
                task.outcome.last_error = None;
            }
            (Self::Delete, Status::Running) => return Err(Refusal::TaskRunning { task_id: before.id }),
            (Self::Delete, _) => return Ok(None),
            (Self::Heartbeat, _) => {
                after.run.iter_mut().for_each(|run| run.lease_expires_at = now.plus_seconds(LEASE_SECONDS));
            }
            (Self::Complete, _) => {
                ended(after, Status::Succeeded, RunEnd::Complete);
                task.outcome.result = object(r#"{"a":[1.0]}"#);
            }
            (Self::Fail { retry }, _) => {
                let again = retry && was.attempt < before.definition.max_attempts;
                ended(after, if again { Status::Pending } else { Status::Failed }, RunEnd::Fail);
                let (failure, attempt, run_id) = (failure("no"), was.attempt, Some(by));
                task.outcome.last_error = Some(LastError { failure, occurred_at: now, attempt, run_id });
            }
            (Self::Unclaim, _) => {
                ended(after, Status::Pending, RunEnd::Unclaim);
                after.attempt -= 1;
            }
        }
        Ok(Some(task))
    }
}

/// Does it, compares everything that is stored of the task and the answer, and gives the task if it is there.
async fn check(fixture: &Fixture, before: &Task, action: Action, id: u32, run: &str) -> Option<Task> {
    let said = format!("{:?} {action:?} by {run}", before.lifecycle.status);
    let expected = action.applied_to(before, run_id(run), fixture.now());
    let is_active = before.lifecycle.run.is_some_and(|active| active.run_id == run_id(run));
    let answer = fixture.write(action.command(id, run, is_active)).await;
    let after = fixture.store.get_task(&queue("q"), task_id(id)).await.ok();
    match &expected {
        Ok(Some(task)) if task == before => assert_eq!(after.as_ref(), Some(before), "{said}: everything is as it was"),
        Ok(task) => assert_eq!(after.clone().map(without_seq), task.clone().map(without_seq), "{said}"),
        Err(_) => assert_eq!(after.as_ref(), Some(before), "{said}"),
    }
    let expected = expected.map(|_| match (action, &after) {
        (Action::Cancel | Action::Requeue, Some(after)) => AnyAnswer::Task(Box::new(after.clone())),
        (Action::Heartbeat, _) => AnyAnswer::Lease(fixture.now().plus_seconds(LEASE_SECONDS)),
        _ => AnyAnswer::Done,
    });
    assert_eq!(answer, expected.map_err(StoreError::Refused), "{said}");
    after
}

/// By the run of the task, by the one before it, and by one that never had it. Then everything is reported again: a repeated end
/// changes nothing, whatever it says, and a contradictory one is told what ended the run.
pub async fn every_action_in_every_state_whoever_reports_it_and_its_repetition(fixture: Fixture) {
    let mut id = 0;
    for (status, budget) in Status::ALL.map(|status| (status, 3)).into_iter().chain([(Status::Running, 2)]) {
        id += 1;
        let mut before = bring_to_with(&fixture, id, status, budget).await;
        for (action, runs) in Action::ALL.map(|action| (action, if action.is_report() { 3 } else { 1 })) {
            for run in 0..runs {
                let reporter = [id.to_string(), format!("f{id}"), "stranger".to_owned()][run].clone();
                let after = check(&fixture, &before, action, id, &reporter).await;
                if after.as_ref() == Some(&before) {
                    continue;
                }
                if let Some(after) = after {
                    fixture.clock.advance_seconds(1);
                    let is_over = after.lifecycle.run.is_none();
                    for report in Action::ALL.into_iter().filter(|action| is_over && action.is_report()) {
                        check(&fixture, &after, report, id, &id.to_string()).await;
                    }
                }
                id += 1;
                before = bring_to_with(&fixture, id, status, budget).await;
            }
        }
        assert_kept_counts_are_right(&*fixture.store, "q").await;
    }
    // What is pending now is there to be claimed, and nothing else.
    let pending = fixture.count(of_status(Status::Pending)).await;
    let claimed = fixture.ok(claim_all(1_000..1_500)).await;
    assert_eq!(claimed.iter().flatten().flatten().count() as u64, pending);
}

pub async fn deleting_a_missing_task_is_done_already(fixture: Fixture) {
    fixture.ok(delete("q", 1)).await;
    fixture.create(1, Definition::default()).await;
    for _ in 0..2 {
        fixture.ok(delete("q", 1)).await;
    }
    assert_eq!(fixture.claimed(claim("q", "default", 1)).await, None);
}
